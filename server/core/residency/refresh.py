"""Which prefixes the engine is asked to touch, so that it does not drop them first.

A least-recently-used pool fills up with what ended episodes and old state snapshots left behind;
in a replay of the study's fleet prefixes were lost while living contexts took 0.6 of the pool. What
got lost was what had not been used for long: after a long answer, or a long way of the arm. A
request of one token on such a prefix costs the engine about one decode step and makes it the
youngest of the pool.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

#: So many at most begin in this time. In the replay one for three turns is enough; without a bound
#: a fleet that needs more than the pool would refresh without end.
INTERVAL_S = 1.0
MOST_PER_INTERVAL = 2
#: Where there was nothing to touch (a prompt may still be being computed) it is tried again
#: after this time.
_AGAIN_S = 3.0
#: So many lost ones in a row say that prefixes are being lost, also while all robots stand still
#: and no turn says so; for so long.
_MOST_LOST_IN_A_ROW = 4
_LOSING_S = 60.0


@dataclass(frozen=True)
class RefreshedPrefix:
    """A refresh that has ended.

    Attributes:
        needed_blocks: A pool of this size would just have kept it until then.
        found: The whole prefix was still there; False: it had to be computed anew.
    """

    episode_id: str
    needed_blocks: int
    found: bool
    ended_s: float


class PrefixRefresher:
    """Chooses what is touched next: whatever is closest to being dropped. Pure."""

    def __init__(self) -> None:
        self._running: dict[str, int] = {}
        self._not_before_s: dict[str, float] = {}
        self._next_s: float | None = None
        self._lost_in_a_row = 0
        self._losing_until_s: float | None = None

    def is_due(self, now_s: float) -> bool:
        """Whether it is time to choose again."""
        return self._next_s is None or now_s >= self._next_s

    def is_losing(self, now_s: float) -> bool:
        """Whether what was touched of late had been lost."""
        return self._losing_until_s is not None and now_s < self._losing_until_s

    def put_off(self, now_s: float) -> None:
        """Nothing is to be touched now; it is due again after the usual time."""
        self._next_s = now_s + INTERVAL_S

    def choose(
        self, needed_blocks: Mapping[str, int], limit_blocks: int, now_s: float
    ) -> list[str]:
        """Episodes whose refresh begins now.

        Args:
            needed_blocks: By episode, what a pool must hold to have its prefix still.
            limit_blocks: Beyond this a prefix is refreshed.
            now_s: Server's clock.
        """
        self.put_off(now_s)
        self._not_before_s = {
            episode_id: at_s for episode_id, at_s in self._not_before_s.items() if at_s > now_s
        }
        room = MOST_PER_INTERVAL - len(self._running)
        at_risk = sorted(
            (-blocks, episode_id)
            for episode_id, blocks in needed_blocks.items()
            if blocks > limit_blocks
            and episode_id not in self._running
            and episode_id not in self._not_before_s
        )
        chosen = [episode_id for _, episode_id in at_risk[: max(room, 0)]]
        for episode_id in chosen:
            self._running[episode_id] = needed_blocks[episode_id]
        return chosen

    def done(self, episode_id: str, found: bool | None, now_s: float) -> RefreshedPrefix | None:
        """A refresh has ended; None: it was not on, or nothing was touched."""
        needed_blocks = self._running.pop(episode_id, None)
        if needed_blocks is None:
            return None
        if found is None:
            self._not_before_s[episode_id] = now_s + _AGAIN_S
            return None
        self._lost_in_a_row = 0 if found else self._lost_in_a_row + 1
        if self._lost_in_a_row >= _MOST_LOST_IN_A_ROW:
            self._losing_until_s = now_s + _LOSING_S
        return RefreshedPrefix(episode_id, needed_blocks, found, now_s)
