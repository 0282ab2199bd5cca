"""How much of the pool was in the way of one episode's prefix between two of its turns."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from dataclasses import dataclass
from itertools import accumulate

#: Blocks of ended episodes and stale copies that are remembered one by one.
_MOST_LEFT = 4096


@dataclass
class _Conversation:
    """One living episode; the numbers are places in the order of all events.

    Attributes:
        blocks: Of the whole conversation after its last turn.
        begun: When its last turn began; None: it had none.
        ended: When its last turn ended.
        is_running: A turn has begun and not ended: the engine holds its blocks.
        refresh_begun: When the refresh that is on began; None: none is.
    """

    blocks: int = 0
    begun: int | None = None
    ended: int = 0
    is_running: bool = False
    refresh_begun: int | None = None

    @property
    def touched(self) -> int:
        """When its blocks were used last, by a turn or by a refresh."""
        return max(self.ended, self.begun or 0)


class ReuseDistances:
    """Blocks that others held or touched since an episode's last turn *began*.

    Since it began, not since it ended: an engine with a recurrent state keeps the snapshot that the
    next turn goes on from only as long as nobody needs its place, and lets go of it when the prompt
    is computed, while the turn still generates. So a turn with a long answer ages its own prefix,
    and in a replay of the study's fleet nearly every first miss of a run followed such a turn.

    In the way are, each counted once: the conversations that have a turn running, and so hold their
    blocks; those that began or ended one since; and what ended episodes and lost prefixes left
    behind since. Under a least-recently-used pool a prefix survives as long as this and its own
    blocks fit together. Blocks that several episodes share (the same constant text in front) are
    counted for each of them, and what an engine allocates besides the conversations (states) is
    not: the capacity that is learned from distances is smaller by that much.

    A refresh, in which the engine touches a prefix between two turns, counts as such a beginning.

    A turn costs the number of living episodes and of those that ended since its last one.
    """

    def __init__(self) -> None:
        self._conversations: dict[str, _Conversation] = {}
        self._left: deque[tuple[int, int]] = deque(maxlen=_MOST_LEFT)
        self._now = 0

    def __len__(self) -> int:
        return len(self._conversations)

    @property
    def num_left(self) -> int:
        """Memory in use for what is no more, for tests of its bound."""
        return len(self._left)

    @property
    def held_blocks(self) -> int:
        """Blocks of the conversations that have a turn running."""
        return sum(c.blocks for c in self._conversations.values() if c.is_running)

    def begin_turn(self, episode_id: str) -> int | None:
        """A turn of an episode begins; the engine looks for its prefix now.

        Returns:
            Blocks in the way; None at its first turn.
        """
        self._now += 1
        own = self._conversations.setdefault(episode_id, _Conversation())
        distance = self._distance(own)
        own.begun = self._now
        own.is_running = True
        return distance

    def end_turn(self, episode_id: str, blocks: int, left_blocks: int = 0) -> None:
        """A turn has ended.

        Args:
            episode_id: Of an episode with a turn begun.
            blocks: Of the whole conversation after it.
            left_blocks: Of the blocks after the turn before, how many this one did not use: all of
                them after a lost prefix, which was computed anew into other blocks; what was
                dropped at a rebuild. They stay in the others' way.
        """
        own = self._conversations[episode_id]
        if left_blocks > 0:
            self._leave(own.ended, left_blocks)
        self._now += 1
        own.blocks = blocks
        own.ended = self._now
        own.is_running = False

    def abandon_turn(self, episode_id: str) -> None:
        """A turn that has begun came to nothing: the engine holds its blocks no longer.

        They were touched when it began, as far as anybody knows. Without effect if none is on.
        """
        own = self._conversations.get(episode_id)
        if own is not None:
            own.is_running = False

    def needed_blocks(self) -> dict[str, int]:
        """For each episode that had a turn begin: what is in its prefix's way by now, and itself.

        The prefix of a first turn that is on counts 0, its size is not known. Episodes whose
        refresh is on are left out. Costs one sort of the living and of what is left, for all.
        """
        others = self._conversations.values()
        in_order = sorted(
            [
                *((self._now + 1 if c.is_running else c.touched, c.blocks) for c in others),
                *self._left,
            ]
        )
        places = [at for at, _ in in_order]
        up_to = [0, *accumulate(blocks for _, blocks in in_order)]
        needed = {}
        for episode_id, own in self._conversations.items():
            if own.begun is None or own.refresh_begun is not None:
                continue
            in_the_way = up_to[-1] - up_to[bisect_right(places, own.begun)]
            counts_itself = own.is_running or own.touched > own.begun
            needed[episode_id] = in_the_way + (0 if counts_itself else own.blocks)
        return needed

    def begin_refresh(self, episode_id: str) -> None:
        """The engine is asked to touch an episode's prefix."""
        self._now += 1
        self._conversations[episode_id].refresh_begun = self._now

    def end_refresh(self, episode_id: str, found: bool | None) -> None:
        """The engine has touched it. Without effect if the episode is no more.

        Args:
            episode_id: Of a refresh that was begun.
            found: False: it was lost and has been computed anew, into other blocks. None: nothing
                was touched.
        """
        own = self._conversations.get(episode_id)
        if own is None or own.refresh_begun is None:
            return
        begun, own.refresh_begun = own.refresh_begun, None
        if found is None:
            return
        if found is False:
            self._leave(own.ended, own.blocks)
        own.begun = max(begun, own.begun or 0)

    def forget(self, episode_id: str) -> None:
        """The episode is no more. What it touched stays touched."""
        own = self._conversations.pop(episode_id, None)
        if own is not None and own.blocks:
            self._leave(self._now if own.is_running else own.touched, own.blocks)

    def _distance(self, own: _Conversation) -> int | None:
        """Blocks in the way of a conversation; None before its first turn."""
        if own.begun is None:
            return None
        since = own.begun
        return sum(blocks for at, blocks in self._left if at > since) + sum(
            other.blocks
            for other in self._conversations.values()
            if other is not own and (other.is_running or other.touched > since)
        )

    def _leave(self, at: int, blocks: int) -> None:
        if len(self._left) > 2 * len(self._conversations) + 64:
            # Nobody can ask for what was left before the oldest of the living's last turns began.
            oldest = min((c.begun or 0 for c in self._conversations.values()), default=self._now)
            kept = [entry for entry in self._left if entry[0] > oldest]
            self._left.clear()
            self._left.extend(kept)
        self._left.append((at, blocks))
