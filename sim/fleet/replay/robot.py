"""A virtual robot: it asks at the door, takes its turns, waits between them, and asks again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

from robot_sdk.messages import TokenUsage
from server.capacity.engine import SessionBlocks, Turn
from server.core.leases import Attachment, EndCause, EpisodeInfo
from server.core.residency import EngineGauges, full_prefix_boundary
from sim.fleet.brain.brain_tier import BrainTurn
from sim.fleet.event_loop import EventLoop
from sim.fleet.replay.door import HEARTBEAT_S, VirtualDoor
from sim.fleet.replay.tally import EpisodeRecord, Tally
from sim.fleet.workload.trace import EpisodeTrace, TurnTrace


class Brain(Protocol):
    """What a replay needs of the brain tier; see sim.fleet.brain.brain_tier.BrainTier."""

    def submit(self, turn: Turn, on_done: Callable[[BrainTurn], None]) -> None:
        """A turn has arrived at the engine."""

    def is_past_prompt(self, name: str) -> bool:
        """Whether a turn that is at the engine generates by now."""

    @property
    def gauges(self) -> EngineGauges:
        """What the engine says of itself."""


class RobotTime(Protocol):
    """The robot's own time between two turns."""

    def pass_interval(
        self, robot: int, trace: EpisodeTrace, turn_index: int, on_done: Callable[[], None]
    ) -> None:
        """Call `on_done` from the event loop once what follows the turn has been done."""


@dataclass(frozen=True)
class FleetParts:
    """What all robots of a run share.

    Attributes:
        traces: Endless; the next episode's at each `next`.
        one_way_s: Network time of a message between robot and server.
        episodes_per_robot: A robot leaves after so many; None: it never does.
    """

    loop: EventLoop
    door: VirtualDoor
    brain: Brain
    robot_time: RobotTime
    tally: Tally
    traces: Iterator[EpisodeTrace]
    block_tokens: int
    one_way_s: float = 0.0
    episodes_per_robot: int | None = None


@dataclass
class _Episode:
    name: str
    trace: EpisodeTrace
    attachment: Attachment
    blocks: SessionBlocks
    seen_blocks: SessionBlocks
    asked_s: float
    record: EpisodeRecord | None = None
    turn_index: int = 0
    context_tokens: int = 0
    prompt_tokens: int = 0
    running: Turn | None = None
    num_refreshes: int = 0
    turn_asked_s: float = 0.0
    is_in_turn: bool = False
    is_cut_off: bool = False


class VirtualRobot:
    """One robot of a fleet.

    Attributes:
        has_left: It wants no further episode and has none.
    """

    def __init__(self, number: int, parts: FleetParts) -> None:
        self._number = number
        self._parts = parts
        self._loop = parts.loop
        self._wants_work = False
        self._num_opened = 0
        self._num_done = 0
        self._episode: _Episode | None = None

    @property
    def has_left(self) -> bool:
        return self._episode is None and not self._goes_on

    @property
    def _goes_on(self) -> bool:
        most = self._parts.episodes_per_robot
        return self._wants_work and (most is None or self._num_done < most)

    @property
    def episode_id(self) -> str | None:
        """At the server; None: it has no episode."""
        return None if self._episode is None else self._episode.attachment.episode_id

    def refresh(self, on_done: Callable[[bool | None], None]) -> None:
        """Let the engine touch what it has of this robot's conversation, as a server does.

        Args:
            on_done: Told whether all of it was still there; None: there is nothing to touch.
        """
        episode, brain = self._episode, self._parts.brain
        if episode is None:
            on_done(None)
            return
        prompt_tokens, context_tokens = episode.prompt_tokens, episode.context_tokens
        # A turn that rebuilds the conversation has branched off; the engine has not seen that yet.
        blocks, running = episode.seen_blocks, episode.running
        if running is not None and brain.is_past_prompt(running.name):
            prompt_tokens = context_tokens = running.num_prompt_tokens
            blocks = running.blocks
        boundary = full_prefix_boundary(
            context_tokens,
            self._parts.block_tokens,
            prompt_tokens=prompt_tokens,
            snapshot_interval_tokens=brain.gauges.snapshot_interval_tokens,
        )
        if not boundary:
            on_done(None)
            return
        episode.num_refreshes += 1
        name = f"{episode.name}-refresh-{episode.num_refreshes}"

        def touched(done: BrainTurn) -> None:
            cached_tokens = done.finished.cached_tokens
            computed_tokens = boundary + 1 - cached_tokens
            self._parts.tally.refreshed(self._loop.clock.now_s(), computed_tokens)
            on_done(cached_tokens >= boundary)

        brain.submit(Turn(name, boundary + 1, 1, blocks), touched)

    def set_wants_work(self, wants_work: bool, cuts_off: bool = False) -> None:
        """Join the fleet or leave it: at once if at the door, else when the episode has ended.

        Args:
            wants_work: Whether it is to work.
            cuts_off: The episode ends after the turn that is on.
        """
        self._wants_work = wants_work
        episode = self._episode
        if episode is None:
            self._open()
        elif not wants_work and episode.record is None:
            self._episode = None
            self._parts.door.end(episode.attachment)
        elif not wants_work and cuts_off:
            episode.is_cut_off = True
            if not episode.is_in_turn:
                self._break_off(episode)

    def _break_off(self, episode: _Episode) -> None:
        self._episode = None
        self._parts.door.end(episode.attachment, EndCause.ENDED_BY_OPERATOR)
        self._open()

    def _open(self) -> None:
        if not self._goes_on:
            return
        parts = self._parts
        trace = next(parts.traces)
        name = f"{self._number}-{self._num_opened}"
        self._num_opened += 1
        info = EpisodeInfo(
            open_id=name,
            robot_id=f"robot-{self._number}",
            task=trace.task,
            task_family=trace.task_family,
            control_hz=trace.control_hz,
            uses_brain=True,
        )
        now_s = self._loop.clock.now_s()
        blocks = SessionBlocks(name, parts.block_tokens)
        attachment = parts.door.open(info, lambda: self._come_in(name))
        self._episode = _Episode(name, trace, attachment, blocks, blocks, now_s)
        self._loop.at(now_s + HEARTBEAT_S, lambda: self._beat(attachment))

    def _beat(self, attachment: Attachment) -> None:
        if self._episode is None or self._episode.attachment != attachment:
            return
        self._parts.door.heartbeat(attachment)
        self._loop.at(self._loop.clock.now_s() + HEARTBEAT_S, lambda: self._beat(attachment))

    def _come_in(self, name: str) -> None:
        episode = self._episode
        if episode is None or episode.name != name:
            return  # it was withdrawn in the same moment
        episode.record = self._parts.tally.came_in(
            episode.trace.task_family, episode.asked_s, self._loop.clock.now_s()
        )
        self._ask(episode)

    def _ask(self, episode: _Episode) -> None:
        """The robot sends a turn."""
        if self._episode is not episode:
            return  # it was cut off meanwhile
        episode.is_in_turn = True
        episode.turn_asked_s = self._loop.clock.now_s()
        self._later(lambda: self._arrive(episode))

    def _arrive(self, episode: _Episode) -> None:
        """The turn is at the server, which may let it wait."""
        now_s = self._loop.clock.now_s()
        hold_s = self._parts.door.registry.turn_hold_s(episode.attachment.episode_id, now_s)
        if hold_s > 0:
            self._parts.tally.held_turns.add((episode.name, episode.turn_index))
            self._loop.at(now_s + hold_s, lambda: self._arrive(episode))
            return
        trace, index = episode.trace, episode.turn_index
        turn = trace.turns[index]
        kept_tokens = _kept_tokens(turn, episode.context_tokens)
        if kept_tokens < episode.context_tokens:
            name = f"{episode.name}-from-{index}"
            episode.blocks = episode.blocks.branch(name, kept_tokens)
        episode.running = Turn(
            name=f"{episode.name}-{index}",
            num_prompt_tokens=kept_tokens + turn.new_tokens,
            num_output_tokens=turn.output_tokens,
            blocks=episode.blocks,
        )
        self._parts.brain.submit(
            episode.running, lambda done: self._decided(episode, kept_tokens, done)
        )

    def _decided(self, episode: _Episode, kept_tokens: int, done: BrainTurn) -> None:
        """The turn is committed at the server."""
        finished = done.finished
        usage = TokenUsage(
            input_tokens=finished.num_prompt_tokens,
            cached_tokens=finished.cached_tokens,
            computed_tokens=finished.num_prompt_tokens - finished.cached_tokens,
            output_tokens=finished.num_output_tokens,
            new_tokens=finished.num_prompt_tokens - kept_tokens,
        )
        is_rebuild = kept_tokens < episode.context_tokens
        episode.running = None
        episode.seen_blocks = episode.blocks
        episode.prompt_tokens = finished.num_prompt_tokens
        episode.context_tokens = finished.num_prompt_tokens + finished.num_output_tokens
        counted = self._parts.door.registry.record_turn(
            episode.attachment.episode_id, usage, self._loop.clock.now_s(), is_rebuild
        )
        self._parts.tally.committed(self._loop.clock.now_s(), usage, counted)
        self._later(lambda: self._answered(episode))

    def _answered(self, episode: _Episode) -> None:
        """The robot has the answer."""
        assert episode.record is not None
        episode.record.latencies_s.append(self._loop.clock.now_s() - episode.turn_asked_s)
        index = episode.turn_index
        episode.turn_index += 1
        episode.is_in_turn = False
        if episode.is_cut_off:
            self._break_off(episode)
            return
        if episode.turn_index == len(episode.trace.turns):
            self._end(episode)
            return
        self._parts.robot_time.pass_interval(
            self._number, episode.trace, index, lambda: self._ask(episode)
        )

    def _end(self, episode: _Episode) -> None:
        self._episode = None
        self._num_done += 1
        assert episode.record is not None
        episode.record.is_complete = True
        self._parts.tally.completed(self._number, self._loop.clock.now_s())
        self._parts.door.end(episode.attachment)
        self._open()

    def _later(self, event: Callable[[], None]) -> None:
        """After a message's way; at once without a network."""
        one_way_s = self._parts.one_way_s
        if one_way_s:
            self._loop.at(self._loop.clock.now_s() + one_way_s, event)
        else:
            event()


class TraceTime:
    """The interval as it was recorded.

    Args:
        uses_wall: The recorded wall clock, where a trace has one; else control steps over the
            control rate.
    """

    def __init__(self, loop: EventLoop, uses_wall: bool) -> None:
        self._loop = loop
        self._uses_wall = uses_wall

    def pass_interval(
        self, robot: int, trace: EpisodeTrace, turn_index: int, on_done: Callable[[], None]
    ) -> None:
        """See `RobotTime`."""
        del robot
        gap_s = trace.gap_s(turn_index, self._uses_wall)
        self._loop.at(self._loop.clock.now_s() + gap_s, on_done)


def _kept_tokens(turn: TurnTrace, context_tokens: int) -> int:
    if turn.kept_tokens is None:
        return context_tokens
    return min(turn.kept_tokens, context_tokens)
