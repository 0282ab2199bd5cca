"""Admission by what the episodes inside will need of the engine's pool. There is nothing to tune.

Everything that it decides on is learned while it runs; server/README.md tells how each part was
found in replays.

- **What will be needed.** Each episode is priced by its course (`server.core.residency.Course`):
  how much each turn adds and when such conversations end, by family and number of turns. The sum
  over all inside is looked at up to 40 turns ahead, since those who came in young grow up together,
  and its highest point counts, with a standard deviation on top: by chance few end for a while.
- **What goes on top.** Between two turns of an episode the dead leave their blocks, and the turn
  itself ages its own prefix. `ReuseDistances` counts that exactly for every turn. The part beyond
  the living contexts, per episode inside, is the reserve: as much as is passed by `TOLERATED` of
  the turns. It grows with the number inside, because turns take longer then.
- **What is kept warm.** A prefix that came close to being dropped is touched by the engine
  (`server.core.residency.refresh`), so that what the dead left is dropped before it. Then only what
  a turn needs beyond that limit, or beyond the living if they are more, goes into the reserve.
- **What there is.** 0.85 of the pool, the study's rule, and less as soon as a prefix was lost at a
  shorter distance. Nobody is believed about the pool's size: the engine's KV usage is the blocks of
  running turns over it, so both together measure it (`LedgerSnapshot.measured_pool_blocks`). Of an
  engine without that gauge only little more is handed out than was seen to survive.
- **How fast.** Before anything has ended, no more than a share of the room is planned with. Later
  a part of those inside at most may be young, since their long prompts delay everybody. After each
  lost prefix the door stays closed for a while, and as long as the hit rate is low.

Limits: text that episodes share in front is priced for each of them; episodes inside are never
asked to wait; an engine that tells neither what it found in its cache nor its pool gets a handful
of episodes and no more.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass

import numpy as np

from robot_sdk.plain_text import counted
from server.core.admission.interface import (
    ActiveEpisode,
    AdmissionDecision,
    AdmissionPolicy,
    AdmissionReport,
    FleetView,
)
from server.core.residency import (
    HEALTHY_HIT,
    HORIZON_TURNS,
    MIN_COUNTED,
    CountedTurn,
    FloatArray,
    LedgerSnapshot,
    PrefixOutcome,
    RefreshedPrefix,
    refresh_limit_blocks,
    room_blocks,
)

#: Share of turns that may find their prefix lost. A lost prefix costs 25 turns' work, and one more
#: episode inside gives 1% more turns: between 0.2% and 0.6% the replay's throughput is flat.
TOLERATED = 0.003
#: While the living take more than this of the room, those who have had fewest turns are parked: the
#: others come to their end first. Their prefixes are kept warm, so that it costs them time alone.
PARKING_SHARE = 1.0
_GOING_ON_SHARE = 0.5
_PARKING_LOOK_S = 2.0
#: The tail of what goes on top is fitted to the highest tenth of this many turns, of this long.
_TAIL = 0.1
_NUM_TURNS = 2048
_TURNS_S = 600.0
_FEW_TURNS = 48
#: Bounds of the reserve of an episode, as shares of the mean context: what it is taken to be before
#: enough have ended, and the most it counts, so that a bad time is not held against all later ones.
_FIRST_RESERVE = 0.3
_FIRST_RESERVE_REFRESHED = 0.1
_MOST_RESERVE = 0.6
_FEW_ENDED = 16
#: Before so many have ended the end of a course is unknown: only so many turns beyond the furthest
#: episode's are looked at, and only this share of the room is planned with.
_START_ENDED = 4
_START_TURNS = 8
_START_SHARE = 0.6
#: Turns in which a conversation grows fast, and how many inside may be in them.
_YOUNG_TURNS = 5
_YOUNG_SHARE = 0.4
_MOST_YOUNG_OF_FEW = 8
#: The door stays closed for so long after a lost prefix: about the time between two turns of one
#: episode, in which it shows whether others were lost along with it.
_BACK_OFF_S = 15.0

#: Standard deviations above the mean that are planned with: by chance few end for a while, and what
#: was let in too much cannot be sent out again. At 0 one run of a fleet that turns from short to
#: long tasks tipped over.
_CAUTION = 1.0

_HORIZON = np.array(HORIZON_TURNS)


@dataclass(frozen=True)
class WorkingSetSettings:
    """What may be set, and need not be.

    Attributes:
        pool_share: Share of the pool to hand out, whatever was learned; None: as learned.
        slow_start_episodes: Inside at once while nothing is known of any conversation.
        refresh: Whether prefixes are kept warm, if the engine can do it.
    """

    pool_share: float | None = None
    slow_start_episodes: int = 8
    refresh: bool = True


@dataclass
class _Outlook:
    """What those inside will need; one more is added as it comes in.

    Attributes:
        mean, variance: Shape (len(HORIZON_TURNS),). Blocks at each of the horizon's turns.
        furthest_turns: Turns of the episode that has had most.
    """

    mean: FloatArray
    variance: FloatArray
    num_inside: int
    num_young: int
    furthest_turns: int

    @property
    def blocks(self) -> FloatArray:
        """What is planned with."""
        blocks: FloatArray = self.mean + _CAUTION * np.sqrt(self.variance)
        return blocks

    def with_one_more(self, mean: FloatArray, variance: FloatArray) -> _Outlook:
        """One that has had no turn so far comes in."""
        return _Outlook(
            self.mean + mean,
            self.variance + variance,
            self.num_inside + 1,
            self.num_young + 1,
            self.furthest_turns,
        )


class WorkingSetAdmission(AdmissionPolicy):
    """Admits while what all inside will need stays within what there is. See the module.

    One episode is always let in, however large: it may be the only one that anybody wants.
    Episodes without a brain cost nothing here.
    """

    name = "working-set"
    holds_turns = True

    def __init__(self, settings: WorkingSetSettings | None = None) -> None:
        self._settings = settings or WorkingSetSettings()
        self._beyond_living: deque[tuple[float, float]] = deque(maxlen=_NUM_TURNS)
        self._tail_blocks: float | None = None
        self._lost_s: float | None = None

    def on_turn(self, turn: CountedTurn) -> None:
        now_s = turn.footprint.committed_s
        if turn.outcome is PrefixOutcome.MISS:
            self._lost_s = now_s
        if turn.needed_blocks is None:
            return
        expected = max(turn.live_blocks, turn.refresh_limit_blocks or 0)
        beyond = (turn.needed_blocks - expected) / max(turn.num_live, 1)
        self._beyond_living.append((now_s, beyond))
        while self._beyond_living[0][0] < now_s - _TURNS_S:
            self._beyond_living.popleft()
        self._tail_blocks = None

    def refresh_limit_blocks(self, ledger: LedgerSnapshot) -> int | None:
        return refresh_limit_blocks(self._room_blocks(ledger)) if self._settings.refresh else None

    def on_refresh(self, refreshed: RefreshedPrefix) -> None:
        if not refreshed.found:
            self._lost_s = refreshed.ended_s

    def turn_hold_s(self, episode_id: str, view: FleetView) -> float:
        room = self._room_blocks(view.ledger)
        live = view.ledger.working_set_blocks
        if room is None or live is None or live <= PARKING_SHARE * room:
            return 0.0
        inside = [episode for episode in view.active if episode.uses_brain]
        by_age = sorted(inside, key=lambda episode: (-episode.num_turns, episode.episode_id))
        going_on = by_age[: math.ceil(_GOING_ON_SHARE * len(by_age))]
        return 0.0 if any(e.episode_id == episode_id for e in going_on) else _PARKING_LOOK_S

    def decide(self, view: FleetView) -> AdmissionDecision:
        ledger = view.ledger
        room = self._room_blocks(ledger)
        reserve = self._reserve_blocks(view)
        outlook = self._outlook(view, reserve)
        for place, episode in enumerate(view.waiting):
            if not episode.uses_brain:
                continue
            more = outlook.with_one_more(
                *_course_blocks(episode.task_family, (0,), (0,), ledger, reserve)
            )
            if outlook.num_inside:
                reason = self._refusal(view, outlook, more, room)
                if reason:
                    return AdmissionDecision(place, reason)
            outlook = more
        return AdmissionDecision(len(view.waiting))

    def report(self, view: FleetView) -> AdmissionReport:
        outlook = self._outlook(view, self._reserve_blocks(view))
        knows_blocks = view.ledger.block_tokens is not None
        room = self._room_blocks(view.ledger)
        if self._knows_nothing(view.ledger, room):
            at_once = counted(self._settings.slow_start_episodes, "episode")
            detail = f"slow start: {at_once} at once, {_missing(room)}"
        else:
            detail = f"forecast from {view.ledger.forecasts.num_ended} ended episodes"
        return AdmissionReport(
            forecast_blocks=math.ceil(outlook.blocks.max()) if knows_blocks else None,
            capacity_blocks=room if knows_blocks else None,
            detail=detail,
        )

    def _refusal(self, view: FleetView, outlook: _Outlook, more: _Outlook, room: int | None) -> str:
        """Why one more may not come in; empty if it may."""
        ledger, inside = view.ledger, counted(outlook.num_inside, "episode")
        if ledger.window.hit_is_below(HEALTHY_HIT, MIN_COUNTED):
            hit = ledger.window.full_prefix_hit
            return f"working set: prefixes of {inside} inside are being lost (hit {hit:.2f})"
        if self._knows_nothing(ledger, room):
            if outlook.num_inside < self._settings.slow_start_episodes:
                return ""
            return f"working set, slow start: {inside} inside, {_missing(room)}"
        assert room is not None
        if self._lost_s is not None and view.now_s - self._lost_s < _BACK_OFF_S:
            return f"working set: a prefix of {inside} inside was lost just now"
        if ledger.forecasts.num_ended < _START_ENDED:
            known = outlook.furthest_turns + _START_TURNS >= _HORIZON
            planned, room = float(more.blocks[known].max()), int(_START_SHARE * room)
        elif outlook.num_young >= max(_MOST_YOUNG_OF_FEW, _YOUNG_SHARE * outlook.num_inside):
            return f"working set: {outlook.num_young} of {inside} inside have only just begun"
        else:
            planned = float(more.blocks.max())
        if planned <= room:
            return ""
        return (
            f"working set: {inside} inside and the next one are forecast to need {planned:.0f} "
            f"of {room} blocks"
        )

    def _knows_nothing(self, ledger: LedgerSnapshot, room: int | None) -> bool:
        """Of conversations (a second turn of any) or of the room."""
        return room is None or len(ledger.forecasts.newcomer.course.tokens) <= 2

    def _room_blocks(self, ledger: LedgerSnapshot) -> int | None:
        """What there is to hand out. None: nothing speaks for any size."""
        told = ledger.pool_blocks
        if self._settings.pool_share is not None and told is not None:
            return int(self._settings.pool_share * told)
        return room_blocks(ledger)

    def _reserve_blocks(self, view: FleetView) -> float:
        """For each episode inside, on top of its context."""
        contexts = [episode.context_tokens for episode in view.active if episode.uses_brain]
        if not contexts:
            return 0.0
        mean = sum(contexts) / len(contexts) / view.ledger.counting_block_tokens
        reserve = min(self._tail(), _MOST_RESERVE * mean)
        few = view.ledger.forecasts.num_ended < _FEW_ENDED or len(self._beyond_living) < _FEW_TURNS
        is_refreshed = self._settings.refresh and view.engine.can_refresh
        first = _FIRST_RESERVE_REFRESHED if is_refreshed else _FIRST_RESERVE
        return max(reserve, first * mean) if few else reserve

    def _tail(self) -> float:
        """What is passed by `TOLERATED` of the turns, if the highest tenth falls off evenly."""
        if self._tail_blocks is None:
            blocks = np.sort(np.array([beyond for _, beyond in self._beyond_living]))
            if not len(blocks):
                return 0.0
            place = math.ceil((1.0 - _TAIL) * len(blocks)) - 1
            highest = blocks[place + 1 :] - blocks[place]
            mean_excess = float(highest.mean()) if len(highest) else 0.0
            tail = float(blocks[place]) + mean_excess * math.log(_TAIL / TOLERATED)
            self._tail_blocks = max(tail, 0.0)
        return self._tail_blocks

    def _outlook(self, view: FleetView, reserve: float) -> _Outlook:
        inside = [episode for episode in view.active if episode.uses_brain]
        by_family: dict[str, list[ActiveEpisode]] = {}
        for episode in inside:
            by_family.setdefault(episode.task_family, []).append(episode)
        mean, variance = np.zeros(len(HORIZON_TURNS)), np.zeros(len(HORIZON_TURNS))
        for family, episodes in by_family.items():
            own_mean, own_variance = _course_blocks(
                family,
                [episode.num_turns for episode in episodes],
                [episode.context_tokens for episode in episodes],
                view.ledger,
                reserve,
            )
            mean += own_mean
            variance += own_variance
        return _Outlook(
            mean,
            variance,
            len(inside),
            sum(episode.num_turns < _YOUNG_TURNS for episode in inside),
            max((episode.num_turns for episode in inside), default=0),
        )


def _course_blocks(
    family: str,
    num_turns: tuple[int, ...] | list[int],
    context_tokens: tuple[int, ...] | list[int],
    ledger: LedgerSnapshot,
    reserve: float,
) -> tuple[FloatArray, FloatArray]:
    """What conversations of one family will need at each of the horizon's turns, together.

    The variance is that of whether they have ended.
    """
    course = ledger.forecasts.of(family).course
    tokens, alive = course.expected_tokens(num_turns, context_tokens)
    # `tokens` are counted with the share that is alive, so their square over it is the mean square.
    blocks = tokens / ledger.counting_block_tokens + reserve * alive
    squares = np.divide(blocks * blocks, alive, out=np.zeros_like(blocks), where=alive > 0)
    return blocks.sum(axis=0), (squares - blocks * blocks).sum(axis=0)


def _missing(room: int | None) -> str:
    if room is None:
        return (
            "the pool's size is unknown (admission.pool_blocks, admission.block_tokens) and no "
            "prefix was seen to survive so far"
        )
    return "no conversation has had a second turn so far"
