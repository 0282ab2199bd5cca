"""What the robots of a live run share: the next trace, the counts, and whether it goes on."""

from __future__ import annotations

import threading
from collections.abc import Iterator

from robot_sdk.clock import Clock
from robot_sdk.messages import TurnResult
from server.core.residency import EngineGauges, PrefixLedger
from sim.fleet.live.lengths import LengthReport, WordLengths
from sim.fleet.live.view import Look
from sim.fleet.replay.tally import EpisodeRecord, Tally
from sim.fleet.workload.trace import EpisodeTrace


class Books:
    """Thread-safe. Times are seconds since `start`.

    Turns are counted by the server's own ledger class from what the robots are told, so that a hit
    is what it is to the server.

    Attributes:
        heard_s: When the server last answered.

    Args:
        traces: Endless; the next one is taken by whoever asks at the door.
        lengths: See LengthReport.
        warm_up_s: See Tally.
    """

    def __init__(
        self,
        traces: Iterator[EpisodeTrace],
        lengths: WordLengths | None,
        warm_up_s: float,
        clock: Clock,
    ) -> None:
        self.changed = threading.Condition()
        self.tally = Tally(warm_up_s)
        self.report = LengthReport(lengths)
        self.broken: list[str] = []
        self.error: Exception | None = None
        self.heard_s = 0.0
        self._traces = traces
        self._ledger = PrefixLedger()
        self._clock = clock
        self._started_s = clock.now_s()
        self._is_over = False

    def start(self) -> None:
        """The run begins now."""
        self._started_s = self._clock.now_s()

    def now_s(self) -> float:
        """Since the start."""
        return self._clock.now_s() - self._started_s

    @property
    def is_over(self) -> bool:
        """Nothing is counted any more, and every robot goes home."""
        return self._is_over

    def stop(self, error: Exception | None = None) -> None:
        """End the run; the first word counts.

        Args:
            error: Why it cannot go on. None: it has been long enough, or somebody wants it.
        """
        with self.changed:
            if not self._is_over:
                self._is_over, self.error = True, error
            self.changed.notify_all()

    def pause(self, duration_s: float) -> bool:
        """Let time pass. Returns False, at once, when the run is over."""
        until_s = self._clock.now_s() + duration_s
        with self.changed:
            while not self._is_over:
                remaining_s = until_s - self._clock.now_s()
                if remaining_s <= 0:
                    return True
                self._clock.wait(self.changed, remaining_s)
        return False

    def set_pool(self, gauges: EngineGauges) -> None:
        """What a hit is at this engine."""
        with self.changed:
            self._ledger.set_pool(
                gauges.pool_blocks, gauges.block_tokens, gauges.snapshot_interval_tokens
            )

    def look(self, look: Look) -> None:
        """The server said how it is."""
        with self.changed:
            self.heard_s = self.now_s()
            self.tally.look(
                self.heard_s,
                look.gauges,
                num_active=look.num_active,
                num_at_door=look.num_at_door,
                working_set_share=look.working_set_share,
                cap=look.cap,
            )

    def join(self, robot: int) -> None:
        """A robot takes part from now on."""
        with self.changed:
            self.tally.join(robot)

    def next_trace(self) -> EpisodeTrace:
        """For the robot that asks at the door now."""
        with self.changed:
            return next(self._traces)

    def came_in(self, episode_id: str, task_family: str, asked_s: float) -> EpisodeRecord:
        """An episode was admitted."""
        with self.changed:
            self._ledger.begin_episode(episode_id, task_family)
            return self.tally.came_in(task_family, asked_s, self.now_s())

    def turn_begins(self, episode_id: str) -> None:
        """A turn is sent."""
        with self.changed:
            self._ledger.begin_turn(episode_id)

    def turn_ended(
        self,
        episode_id: str,
        record: EpisodeRecord,
        turn: TurnResult,
        trace_prompt_tokens: int,
        trace_output_tokens: int,
    ) -> None:
        """A robot has the answer. After the run's end it does not count."""
        with self.changed:
            if self._is_over:
                return
            now_s = self.heard_s = self.now_s()
            counted = self._ledger.record_turn(episode_id, turn.usage, now_s)
            self.tally.committed(now_s, turn.usage, counted)
            self.report = self.report.with_turn(
                trace_prompt_tokens, trace_output_tokens, turn.usage
            )
            record.latencies_s.append(turn.latency_s)

    def ended(self, robot: int, episode_id: str, record: EpisodeRecord, is_complete: bool) -> None:
        """An episode is over, at its end or before."""
        with self.changed:
            self._ledger.end_episode(episode_id, is_complete)
            if is_complete and not self._is_over:
                record.is_complete = True
                self.tally.completed(robot, self.now_s())

    def broke(self, why: str) -> None:
        """An episode did not come to its end."""
        with self.changed:
            self.broken.append(why)
