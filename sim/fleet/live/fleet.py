"""One live run: a fleet of robots without bodies against a running server."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

from robot_sdk.channel import TlsConfig
from robot_sdk.client import Client, connect
from robot_sdk.clock import SYSTEM_CLOCK, Clock
from robot_sdk.errors import (
    DeadlineExceededError,
    RobotSdkError,
    ServerUnavailableError,
    UnsupportedError,
)
from robot_sdk.operator_access import Fleet, connect_fleet
from robot_sdk.server_info import ServerInfo
from server.core.residency.ledger import ASSUMED_BLOCK_TOKENS
from sim.fleet.live.books import Books
from sim.fleet.live.lengths import LengthReport, WordLengths
from sim.fleet.live.probe import probe
from sim.fleet.live.robot import LiveRobot
from sim.fleet.live.scaling import check_sendable, scaled
from sim.fleet.live.settings import LiveSettings, check_live
from sim.fleet.live.view import Look, look
from sim.fleet.replay.replay import warnings_of
from sim.fleet.replay.result import ReplayResult
from sim.fleet.replay.settings import ReplaySettings
from sim.fleet.replay.summary import summarise
from sim.fleet.workload import mixes
from sim.fleet.workload.trace import EpisodeTrace

_LOOK_S = 1.0
#: A server that has not said how it is for so long has gone.
_GONE_AFTER_S = 10.0
#: A server that has only just started has not looked at its engine yet.
_POOL_TIMEOUT_S = 5.0
_MOST_ENDING_AT_ONCE = 32
_CLOSE_TIMEOUT_S = 20.0
#: Differences of lengths beyond which a run is no longer of these traces.
_PROMPT_TOLERANCE = 0.02
_OUTPUT_TOLERANCE = 0.1


@dataclass(frozen=True)
class LiveRun:
    """One run.

    Attributes:
        result: As of a virtual replay. `engine_version` names server, engine and model; `controls`
            are not known.
        lengths: How well the traces' lengths were kept.
        seen: The server at the end of the run.
        num_broken: Episodes that broke.
        ended_by: Why the run ended before its time; None: it did not, or was interrupted.
    """

    result: ReplayResult
    lengths: LengthReport
    seen: Look
    num_broken: int
    ended_by: str | None

    def to_json(self) -> dict[str, Any]:
        """What the result does not hold, as plain values."""
        gauges = self.seen.gauges
        return {
            "lengths": self.lengths.to_json(),
            "policy": self.seen.policy,
            "pool_blocks": gauges.pool_blocks,
            "block_tokens": gauges.block_tokens,
            "snapshot_interval_tokens": gauges.snapshot_interval_tokens,
            "num_broken": self.num_broken,
            "ended_by": self.ended_by,
        }


@dataclass(frozen=True)
class LiveProgress:
    """How far a run is. `elapsed_s`: since the first robot asked."""

    elapsed_s: float
    duration_s: float
    turns: int
    num_active: int
    num_at_door: int

    def __str__(self) -> str:
        return (
            f"{self.elapsed_s:.0f} of {self.duration_s:.0f} s, {self.turns} turns, "
            f"{self.num_active} episodes inside, {self.num_at_door} at the door"
        )


def run(
    settings: ReplaySettings,
    live: LiveSettings,
    seed: int,
    *,
    traces: Sequence[EpisodeTrace] | None = None,
    token: str | None = None,
    tls: TlsConfig | None = None,
    clock: Clock = SYSTEM_CLOCK,
    on_progress: Callable[[LiveProgress], None] = lambda _: None,
) -> LiveRun:
    """Run to the end of the duration, or of a finite batch, in real time.

    Args:
        settings: Fleet, workload and duration; the rest is the server's.
        live: Which server, and how the traces are scaled.
        seed: Of the order of the traces. What the robots say is new in every run.
        traces: Handed out in this order, again and again, instead of the settings' workload.
        token: As for `robot_sdk.connect`.
        tls: As for `robot_sdk.connect`.
        clock: Real time.
        on_progress: Told every second.

    Returns:
        What happened until then, marked as partial, if it is interrupted (KeyboardInterrupt) or
        cannot go on.

    Raises:
        InvalidArgumentError: A setting or a trace is out of range.
        RobotSdkError: The server cannot be reached, has no brain, or fails before the first robot
            has asked.
    """
    check_live(live, settings, seed)
    if traces is None:
        traces = mixes.members(settings.workload.mix, seed)
        order = mixes.episodes(settings.workload, seed)
    else:
        order = itertools.cycle(traces)
    with (
        connect(live.address, token=token, tls=tls, clock=clock) as client,
        connect_fleet(live.address, tls, token) as fleet,
    ):
        brain = client.server_info.brain
        if brain is None:
            raise UnsupportedError(
                "this server has no brain, and a replay asks nothing but brain turns",
                field="--live",
                value=live.address,
            )
        check_sendable(traces, brain.max_context_tokens, live.token_scale)
        sent = list(scaled_traces(traces, live))
        live_fleet = LiveFleet(settings, live, client, fleet, scaled_traces(order, live), clock)
        is_partial = live_fleet.run(on_progress)
        ended = live_fleet.result(seed, is_partial)
        warnings = (*ended.result.warnings, *warnings_of(settings, sent, ended.result))
        return replace(ended, result=replace(ended.result, warnings=warnings))


def scaled_traces(
    traces: Sequence[EpisodeTrace] | Iterator[EpisodeTrace], live: LiveSettings
) -> Iterator[EpisodeTrace]:
    """The traces as they are sent."""
    return (scaled(trace, live.token_scale, live.time_scale) for trace in traces)


class LiveFleet:
    """The robots of one run and what joins them.

    Args:
        traces: Endless, scaled.

    Raises:
        RobotSdkError: The server fails at once.
    """

    def __init__(
        self,
        settings: ReplaySettings,
        live: LiveSettings,
        client: Client,
        fleet: Fleet,
        traces: Iterator[EpisodeTrace],
        clock: Clock,
    ) -> None:
        self._settings = settings
        self._live = live
        self._client = client
        self._fleet = fleet
        self._clock = clock
        self._run_id = f"replay-{uuid.uuid4().hex}"
        self._seen = self._first_look()
        lengths = probe(client, self._run_id, live.turn_timeout_s)
        self._lengths = lengths or WordLengths()
        self._books = Books(traces, lengths, settings.warm_up_s, clock)
        self._books.set_pool(self._seen.gauges)
        self._robots: list[LiveRobot] = []
        self._num_wanted = 0
        self._points = list(settings.fleet)
        self._elapsed_s = 0.0

    def run(self, on_progress: Callable[[LiveProgress], None]) -> bool:
        """To the end. Returns whether it ended before its time."""
        books = self._books
        is_interrupted = False
        books.start()
        try:
            while not (books.is_over or self._is_over()):
                self._resize()
                self._look(on_progress)
                books.pause(min(_LOOK_S, max(self._next_s() - books.now_s(), 0.0)))
        except KeyboardInterrupt:
            is_interrupted = True
        # What a server did that has gone ended when it was last heard.
        self._elapsed_s = books.now_s() if books.error is None else books.heard_s
        try:
            self._close()
        except KeyboardInterrupt:
            is_interrupted = True  # asked twice: what was measured is kept, leases end the rest
        if books.error is not None and not isinstance(books.error, RobotSdkError):
            raise books.error  # a fault of this program
        return is_interrupted or books.error is not None

    def result(self, seed: int, is_partial: bool) -> LiveRun:
        """What happened."""
        books = self._books
        with books.changed:
            result = summarise(
                books.tally,
                None,
                seed=seed,
                engine_version=_name(self._client.server_info),
                duration_s=self._elapsed_s,
                is_partial=is_partial,
                wall_s=self._elapsed_s,
            )
            return LiveRun(
                result=replace(result, warnings=self._warnings(result)),
                lengths=books.report,
                seen=self._seen,
                num_broken=len(books.broken),
                ended_by=None if books.error is None else str(books.error),
            )

    def _is_over(self) -> bool:
        now_s = self._books.now_s()
        if now_s >= self._settings.duration_s:
            return True
        return (
            self._settings.episodes_per_robot is not None
            and not self._points
            and all(robot.has_left for robot in self._robots)
        )

    def _next_s(self) -> float:
        """When something is due."""
        times = [self._settings.duration_s, *(point.time_s for point in self._points)]
        return min(times)

    def _resize(self) -> None:
        while self._points and self._points[0].time_s <= self._books.now_s():
            self._num_wanted = self._points.pop(0).num_robots
            while len(self._robots) < self._num_wanted:
                self._books.join(len(self._robots))
                self._robots.append(self._new_robot())
            for robot in self._robots[: self._num_wanted]:
                robot.set_wants_work(True)
        # Again and again: one that had just been about to join the queue did not hear it.
        for robot in self._robots[self._num_wanted :]:
            robot.set_wants_work(False)

    def _new_robot(self) -> LiveRobot:
        return LiveRobot(
            len(self._robots),
            self._client,
            self._books,
            self._run_id,
            self._lengths,
            uses_wall=self._settings.workload.gap == "wall",
            turn_timeout_s=self._live.turn_timeout_s,
            episodes_per_robot=self._settings.episodes_per_robot,
        )

    def _first_look(self) -> Look:
        """With the pool, if the engine is one that has one."""
        info = self._client.server_info
        tells = info.brain is not None and info.brain.reports_cached_tokens
        give_up_s = self._clock.now_s() + _POOL_TIMEOUT_S
        while True:
            seen = look(self._fleet, self._live.address)
            if not tells or seen.gauges.block_tokens is not None:
                return seen
            if self._clock.now_s() >= give_up_s:
                return seen
            self._clock.sleep_until(self._clock.now_s() + 0.1)

    def _look(self, on_progress: Callable[[LiveProgress], None]) -> None:
        books = self._books
        try:
            self._seen = look(self._fleet, self._live.address)
        except (ServerUnavailableError, DeadlineExceededError) as error:
            if books.now_s() - books.heard_s >= _GONE_AFTER_S:
                books.stop(
                    ServerUnavailableError(
                        f"the server has not answered for {_GONE_AFTER_S:g} s: {error.message}"
                    )
                )
            return
        except RobotSdkError as error:
            books.stop(error)
            return
        books.look(self._seen)
        on_progress(
            LiveProgress(
                elapsed_s=books.heard_s,
                duration_s=self._settings.duration_s,
                turns=books.tally.total.turns,
                num_active=self._seen.num_active,
                num_at_door=self._seen.num_at_door,
            )
        )

    def _close(self) -> None:
        """Everybody goes home; returns when they have, or when the time for it is up."""
        self._books.stop()
        give_up_s = self._clock.now_s() + _CLOSE_TIMEOUT_S
        with ThreadPoolExecutor(_MOST_ENDING_AT_ONCE, "live-end") as pool:
            while self._clock.now_s() < give_up_s:
                here = [robot for robot in self._robots if not robot.has_left]
                if not here:
                    return
                # A robot that was on its way to the door is there the next time.
                list(pool.map(lambda robot: robot.break_off("the replay is over"), here))
                self._clock.sleep_until(self._clock.now_s() + 0.02)

    def _warnings(self, result: ReplayResult) -> tuple[str, ...]:
        books, report = self._books, self._books.report
        texts = []
        if books.broken:
            texts.append(f"{len(books.broken)} episodes broke, the last by: {books.broken[-1]}")
        if result.turns and result.hit is None:
            texts.append("no hit rate: the server does not tell what it found in its cache")
        elif self._seen.gauges.block_tokens is None and result.turns:
            texts.append(
                f"the server does not tell its block size; {ASSUMED_BLOCK_TOKENS} tokens were "
                "assumed in what counts as a hit"
            )
        if result.turns and not report.turns:
            texts.append("the server does not count tokens: lengths are not known")
        if report.lengths is None and report.turns:
            texts.append(
                "the tokens of a word could not be measured before the run (no place, or no "
                "counts): lengths of first turns are rough"
            )
        if report.prompt_share is not None and abs(report.prompt_share - 1) > _PROMPT_TOLERANCE:
            texts.append(f"prompts had {100 * report.prompt_share:.0f}% of the traces' tokens")
        if report.output_share is not None and abs(report.output_share - 1) > _OUTPUT_TOLERANCE:
            texts.append(
                f"answers had {100 * report.output_share:.0f}% of the traces' tokens: the wire can "
                "bound an answer but not keep a model from ending it"
            )
        if report.is_estimated:
            texts.append("the server's token counts are estimates")
        return tuple(texts)


def _name(info: ServerInfo) -> str:
    assert info.brain is not None  # run() has seen to it
    return f"{info.brain.engine} {info.brain.model} ({info.server})"
