"""The living episodes as the servicers see them: leases, mailboxes, turns, calls.

The hub does what the pure registry decides. It is called on the event loop only. One ticker drives
expiry and admission; every change that may free or take a place is followed by a step at once.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Collection, Iterator
from dataclasses import dataclass, field

from robot_sdk.api.v1 import common_pb2, episode_pb2
from robot_sdk.clock import Clock, pause
from robot_sdk.errors import (
    CancelledByServerError,
    ContextLimitError,
    FencedError,
    RobotSdkError,
    to_detail,
)
from robot_sdk.plain_text import one_line
from robot_sdk.telemetry import Telemetry, parent_from
from robot_sdk.telemetry import attributes as attr
from server.brain.interface import Finished, ToolCall
from server.brain.transcript import Transcript
from server.config import EpisodesSection
from server.core.drain import Drain
from server.core.leases import (
    Attachment,
    EndCause,
    Episode,
    EpisodeInfo,
    Phase,
    Reference,
    ended_error,
)
from server.core.registry import AdmittedEvent, EpisodeRegistry, Event, Place
from server.core.residency import SILENT_ENGINE, EngineGauges, PrefixOutcome
from server.core.turns import TurnLog
from server.rpc.alert_log import AlertLog
from server.rpc.calls import ActiveCall
from server.rpc.mailbox import Mailbox
from server.rpc.refresh_driver import RefreshDriver, nothing_to_refresh
from server.rpc.robot_report import RobotReport

_log = logging.getLogger(__name__)

#: A queue that has become longer or shorter by one part of so many is news to all in it.
_NEWS_SHARE = 8
#: A step that is late by more than this share of the lease time: the server stood still (it got no
#: processor, or the machine was suspended). For less, leases have room.
_HOLD_UP_SHARE = 0.1
#: What a robot or an operator wrote is logged up to this length, on one line.
_MAX_LOGGED_CHARS = 300


@dataclass(frozen=True)
class TurnRecord:
    """What a committed turn said, for replay."""

    reasoning: str
    text: str
    tool_calls: tuple[ToolCall, ...]
    finished: Finished


@dataclass
class LiveEpisode:
    """What the server keeps for one episode beside its lease."""

    lease: Episode
    trace: common_pb2.TraceContext
    mailbox: Mailbox
    transcript: Transcript = field(default_factory=Transcript)
    turns: TurnLog[TurnRecord] = field(default_factory=TurnLog)
    calls: set[ActiveCall] = field(default_factory=set)
    chunks_served: int = 0
    robot: RobotReport | None = None
    told_place: Place | None = None

    @property
    def episode_id(self) -> str:
        return self.lease.episode_id


class EpisodeHub:
    """See the module.

    Args:
        on_episode_end: Told the id of every admitted episode that is no more, once, after its calls
            were stopped; for example an engine that forgets its conversation.
        max_context_tokens: The longest conversation the brain takes, asked at every admission
            because an engine may know it only once it has loaded. None: no limit, or unknown.
        engine_gauges: What the brain's engine last said of itself; asked at every step.
        brain_problem: Why the brain can take no turn now, empty if it can; asked at every step.
        refresh: Asks the brain's engine to touch the prefix of an episode; see BrainEngine.refresh.
        on_turn: Told of every committed turn: what it found of its prefix, and its time in the
            server, seconds.
    """

    def __init__(
        self,
        registry: EpisodeRegistry,
        settings: EpisodesSection,
        boot_id: str,
        clock: Clock,
        telemetry: Telemetry,
        on_episode_end: Callable[[str], None] = lambda _: None,
        max_context_tokens: Callable[[], int | None] = lambda: None,
        engine_gauges: Callable[[], EngineGauges] = lambda: SILENT_ENGINE,
        brain_problem: Callable[[], str] = lambda: "",
        refresh: Callable[[str], Awaitable[bool | None]] = nothing_to_refresh,
        on_turn: Callable[[PrefixOutcome, float], None] = lambda _outcome, _latency_s: None,
    ) -> None:
        self.registry = registry
        self.boot_id = boot_id
        self._settings = settings
        self._clock = clock
        self._telemetry = telemetry
        self._on_episode_end = on_episode_end
        self._max_context_tokens = max_context_tokens
        self._engine_gauges = engine_gauges
        self._brain_problem = brain_problem
        self._on_turn = on_turn
        self._refreshes = RefreshDriver(registry, refresh, clock)
        self._live: dict[str, LiveEpisode] = {}
        self._alert_log = AlertLog()
        # When the last step was; None: no ticker runs.
        self._stepped_s: float | None = None

    def __iter__(self) -> Iterator[LiveEpisode]:
        return iter(list(self._live.values()))

    @property
    def drain(self) -> Drain | None:
        return self.registry.drain

    async def tick_forever(self) -> None:
        """The one ticker. A fault in a step is logged and does not end it."""
        self._stepped_s = self._clock.now_s()
        while True:
            await pause(self._settings.tick_s)
            self.tick()

    def tick(self) -> None:
        """What the ticker does each time."""
        try:
            self.step()
        except Exception:
            _log.exception("a step of the episode hub failed")
        self._refreshes.tick()

    def step(self) -> None:
        """Do what is due now."""
        now_s = self._clock.now_s()
        self._forgive_hold_up(now_s)
        self.registry.tell_engine(self._engine_gauges())
        self.registry.tell_brain(self._brain_problem())
        for event in self.registry.step(now_s):
            # What the registry decided has happened already. A fault in carrying one thing out
            # must not leave the next robot without its news.
            try:
                self._carry_out(event)
            except Exception:
                _log.exception(
                    "episode %s: %s failed", _short(event.episode.episode_id), type(event).__name__
                )
                self._give_up(event.episode.episode_id)
        self._tell_places(now_s)
        self._alert_log.update(self.registry.report.alerts)

    def _forgive_hold_up(self, now_s: float) -> None:
        """A server that stood still has heard nobody, so that its own silence ends no episode."""
        if self._stepped_s is None:
            return
        late_s = now_s - self._stepped_s - self._settings.tick_s
        self._stepped_s = now_s
        if late_s > _HOLD_UP_SHARE * self._settings.lease_ttl_s:
            self.registry.leases.extend(late_s, now_s)
            _log.warning("the server stood still for %.1f s; leases last as much longer", late_s)

    def _carry_out(self, event: Event) -> None:
        if isinstance(event, AdmittedEvent):
            self._tell_admitted(self._live[event.episode.episode_id])
        else:
            error = ended_error(event.episode.episode_id, event.cause)
            self._close(event.episode, event.cause, error)

    def _give_up(self, episode_id: str) -> None:
        """End an episode that a fault of the server has hit, so that its slot is free."""
        live = self._live.pop(episode_id, None)
        if self.registry.leases.get(episode_id) is not None:
            self.registry.end(episode_id, EndCause.FAULT, self._clock.now_s())
        if live is not None:
            live.mailbox.finish(_revoked(ended_error(episode_id, EndCause.FAULT)))
            self._forget(live.lease)

    def open(
        self, info: EpisodeInfo, trace: common_pb2.TraceContext
    ) -> tuple[LiveEpisode, Attachment, Mailbox]:
        """Take or join a place; the Run stream then sends what comes into the mailbox."""
        now_s = self._clock.now_s()
        attachment = self.registry.open(info, now_s)
        lease = self.registry.leases.get(attachment.episode_id)
        assert lease is not None
        live = self._live.get(attachment.episode_id)
        if live is None:
            live = self._live[attachment.episode_id] = LiveEpisode(lease, trace, Mailbox())
            _log.info(
                "episode %s: opened by robot %r, task %r",
                _short(live.episode_id),
                info.robot_id,
                info.task,
            )
        else:
            self._take_over(live)
        if lease.phase is Phase.ADMITTED:
            self._tell_admitted(live)
        mailbox = live.mailbox
        self.step()
        return live, attachment, mailbox

    def resume(self, reference: common_pb2.EpisodeRef) -> tuple[LiveEpisode, Attachment, Mailbox]:
        """Attach a new Run stream to an admitted episode."""
        attachment = self.registry.leases.resume(plain_reference(reference), self._clock.now_s())
        live = self._live[attachment.episode_id]
        self._take_over(live)
        self._tell_admitted(live)
        _log.info("episode %s: resumed, epoch %d", _short(live.episode_id), live.lease.epoch)
        return live, attachment, live.mailbox

    def heartbeat(self, attachment: Attachment, state: episode_pb2.RobotState | None) -> float:
        """Renew the lease; returns the seconds that remain."""
        remaining_s = self.registry.leases.heartbeat(attachment, self._clock.now_s())
        if state is not None:
            live = self._live[attachment.episode_id]
            live.robot = RobotReport(state, self._clock.now_s())
        return remaining_s

    def detach(self, attachment: Attachment) -> None:
        self.registry.leases.detach(attachment)

    def end_by_robot(self, attachment: Attachment, request: episode_pb2.EndEpisode) -> None:
        """The robot is done. Its stream gets Ended."""
        self.registry.leases.heartbeat(attachment, self._clock.now_s())
        live = self._live[attachment.episode_id]
        if request.HasField("final_state"):
            live.robot = RobotReport(request.final_state, self._clock.now_s())
        now_s = self._clock.now_s()
        lease = self.registry.end(live.episode_id, EndCause.ENDED_BY_ROBOT, now_s)
        admitted_s = lease.admitted_s
        ended = episode_pb2.Ended(
            outcome=request.outcome,
            committed_turns=live.turns.num_committed,
            chunks_served=live.chunks_served,
            duration_s=0.0 if admitted_s is None else now_s - admitted_s,
        )
        live.mailbox.finish(episode_pb2.RunResponse(ended=ended))
        self._close(
            lease,
            EndCause.ENDED_BY_ROBOT,
            ended_error(lease.episode_id, EndCause.ENDED_BY_ROBOT),
            outcome=request.outcome,
            reason=request.reason,
        )
        self.step()

    def end_by_operator(self, episode_id: str, reason: str) -> LiveEpisode:
        """End any living episode; its robot gets Revoked."""
        lease = self.registry.end(episode_id, EndCause.ENDED_BY_OPERATOR, self._clock.now_s())
        live = self._live[episode_id]
        error = ended_error(episode_id, EndCause.ENDED_BY_OPERATOR)
        if reason:
            error = type(error)(f"{error.message}: {reason}", field="episode_id", value=episode_id)
        self._close(lease, EndCause.ENDED_BY_OPERATOR, error, reason=reason)
        self.step()
        return live

    def end_by_context_limit(self, live: LiveEpisode, error: ContextLimitError) -> None:
        """End an episode whose next turn would pass the model's limit; its robot gets Revoked.

        The slot is free and the next one in line is told before this returns. Called by the handler
        of the turn after its own ActiveCall is done, so that the handler can still answer `error`;
        other calls of the episode are stopped. Without effect if the episode has ended meanwhile.
        """
        if self.registry.leases.get(live.episode_id) is None:
            return
        cause = EndCause.CONTEXT_LIMIT
        lease = self.registry.end(live.episode_id, cause, self._clock.now_s())
        self._close(lease, cause, error, reason=error.message)
        self.step()

    def end_by_lost_brain(self, episode_ids: Collection[str]) -> None:
        """End episodes whose conversation died with the brain's process; their robots are told."""
        for episode_id in episode_ids:
            if self.registry.leases.get(episode_id) is None:
                continue
            cause = EndCause.BRAIN_LOST
            lease = self.registry.end(episode_id, cause, self._clock.now_s())
            self._close(lease, cause, ended_error(episode_id, cause))
        self.step()

    def turn_committed(
        self, live: LiveEpisode, record: TurnRecord, now_s: float, latency_s: float
    ) -> None:
        """A turn counts: tell the prefix ledger and the admission policy what it used.

        Called once for each turn, after its commit, never for a replay. `latency_s` is its time in
        the server. A fault in counting is logged: the robot gets its answer.
        """
        usage = record.finished.usage
        is_rebuild = record.finished.dropped_turns > 0
        if usage is None or self.registry.leases.get(live.episode_id) is None:
            return
        try:
            turn = self.registry.record_turn(live.episode_id, usage, now_s, is_rebuild=is_rebuild)
            self._on_turn(PrefixOutcome.UNKNOWN if turn is None else turn.outcome, latency_s)
        except Exception:
            _log.exception("a turn of episode %s is not counted", _short(live.episode_id))

    async def hold_turn(self, live: LiveEpisode) -> float:
        """Wait for as long as the admission policy lets the next turn of an episode wait.

        Then either `turn_committed` or `turn_failed` must follow.

        Returns:
            Seconds that it was held; 0.0: it was not.
        """
        began_s = self._clock.now_s()
        is_held = False
        while True:
            now_s = self._clock.now_s()
            hold_s = self.registry.turn_hold_s(live.episode_id, now_s)
            if hold_s <= 0:
                return now_s - began_s if is_held else 0.0
            is_held = True
            await pause(hold_s)

    def turn_failed(self, live: LiveEpisode) -> None:
        """A turn came to nothing: the prefix ledger must not take it to be running on."""
        self.registry.turn_failed(live.episode_id)

    def slack_s(self, live: LiveEpisode) -> float | None:
        """Seconds until the robot has nothing left to do, by its last heartbeat. None: unknown."""
        if live.robot is None:
            return None
        return live.robot.slack_s(live.lease.info.control_hz, self._clock.now_s())

    def authorise(self, reference: common_pb2.EpisodeRef) -> LiveEpisode:
        """The admitted episode a call belongs to. Raises what LeaseTable.authorise raises."""
        lease = self.registry.leases.authorise(plain_reference(reference))
        return self._live[lease.episode_id]

    def begin_drain(self, deadline_s: float, reason: str) -> Drain:
        """No new episodes; those at the door are sent away, those inside are told."""
        now_s = self._clock.now_s()
        drain = self.registry.begin_drain(now_s, deadline_s, reason)
        _log.info(
            "draining (%s): %d episodes inside, they have %.1f s to end",
            reason,
            len(self.registry.active()),
            drain.remaining_s(now_s),
        )
        for lease in self.registry.queued():
            self.registry.end(lease.episode_id, EndCause.SHUTDOWN, now_s)
            self._close(lease, EndCause.SHUTDOWN, drain.refusal(now_s))
        for live in self:
            live.mailbox.put(
                episode_pb2.RunResponse(
                    draining=episode_pb2.Draining(
                        deadline_s=drain.remaining_s(now_s), reason=drain.reason
                    )
                )
            )
        return drain

    def end_all(self) -> None:
        """The process is about to stop."""
        self._refreshes.stop()
        now_s = self._clock.now_s()
        for live in self:
            lease = self.registry.end(live.episode_id, EndCause.SHUTDOWN, now_s)
            self._close(lease, EndCause.SHUTDOWN, ended_error(live.episode_id, EndCause.SHUTDOWN))

    def _take_over(self, live: LiveEpisode) -> None:
        error = FencedError("a newer stream of this episode has taken over")
        live.mailbox.finish(_revoked(error))
        live.mailbox = Mailbox()
        live.told_place = None
        drain = self.registry.drain
        if drain is not None:
            live.mailbox.put(
                episode_pb2.RunResponse(
                    draining=episode_pb2.Draining(
                        deadline_s=drain.remaining_s(self._clock.now_s()), reason=drain.reason
                    )
                )
            )

    def _tell_admitted(self, live: LiveEpisode) -> None:
        lease = live.lease
        limits = episode_pb2.EpisodeLimits(
            max_turns=self._settings.max_turns,
            max_duration_s=self._settings.max_duration_s,
            max_context_tokens=self._max_context_tokens() if lease.info.uses_brain else None,
        )
        queued_s = lease.queued_s(self._clock.now_s())
        live.mailbox.put(
            episode_pb2.RunResponse(
                admitted=episode_pb2.Admitted(
                    episode_id=lease.episode_id,
                    episode_secret=lease.secret,
                    server_boot_id=self.boot_id,
                    epoch=lease.epoch,
                    lease_ttl_s=self._settings.lease_ttl_s,
                    heartbeat_interval_s=self._settings.heartbeat_interval_s,
                    limits=limits,
                    queued_s=queued_s,
                    committed_turns=live.turns.num_committed,
                )
            )
        )
        if lease.epoch == 1:
            _log.info("episode %s: admitted after %.2f s", _short(lease.episode_id), queued_s)

    def _tell_places(self, now_s: float) -> None:
        for place in self.registry.places(now_s):
            live = self._live[place.episode_id]
            if _is_news(live.told_place, place):
                live.told_place = place
                live.mailbox.put(
                    episode_pb2.RunResponse(
                        queued=episode_pb2.Queued(
                            position=place.position,
                            num_waiting=place.num_waiting,
                            expected_wait_s=place.expected_wait_s,
                            reason=place.reason,
                            heartbeat_interval_s=self._settings.heartbeat_interval_s,
                            lease_ttl_s=self._settings.lease_ttl_s,
                        )
                    )
                )

    def _close(
        self,
        lease: Episode,
        cause: EndCause,
        error: RobotSdkError,
        outcome: int = episode_pb2.EPISODE_OUTCOME_UNSPECIFIED,
        reason: str = "",
    ) -> None:
        """Let go of everything an ended episode had. Its place is free already."""
        live = self._live.pop(lease.episode_id)
        live.mailbox.finish(_revoked(error))
        for call in list(live.calls):
            call.stop(CancelledByServerError(error.message, field=error.field, value=error.value))
        self._forget(lease)
        now_s = self._clock.now_s()
        words = cause.value + (f": {reason}" if reason else "")
        _log.info("episode %s: %s", _short(lease.episode_id), one_line(words, _MAX_LOGGED_CHARS))
        try:
            self._record_span(lease, now_s, outcome, reason or cause.value, live.trace)
        except Exception:
            _log.exception("the span of episode %s is not recorded", _short(lease.episode_id))

    def _forget(self, lease: Episode) -> None:
        if lease.admitted_s is None:
            return
        try:
            self._on_episode_end(lease.episode_id)
        except Exception:
            _log.exception("the end of episode %s is not passed on", _short(lease.episode_id))

    def _record_span(
        self,
        lease: Episode,
        now_s: float,
        outcome: int,
        end_reason: str,
        trace: common_pb2.TraceContext,
    ) -> None:
        self._telemetry.record_span(
            "server.episode",
            lease.opened_s,
            now_s,
            parent=parent_from(trace),
            attributes={
                attr.EPISODE_ID: lease.episode_id,
                attr.ROBOT_ID: lease.info.robot_id or None,
                attr.RUN_ID: lease.info.run_id or None,
                attr.TASK: lease.info.task or None,
                attr.TASK_FAMILY: lease.info.task_family or None,
                attr.QUEUED_S: lease.queued_s(now_s),
                attr.OUTCOME: (
                    episode_pb2.EpisodeOutcome.Name(outcome)
                    .removeprefix("EPISODE_OUTCOME_")
                    .lower()
                    if outcome
                    else None
                ),
                attr.END_REASON: end_reason,
            },
        )


def plain_reference(reference: common_pb2.EpisodeRef) -> Reference:
    return Reference(
        reference.episode_id, reference.episode_secret, reference.epoch, reference.server_boot_id
    )


def _revoked(error: RobotSdkError) -> episode_pb2.RunResponse:
    return episode_pb2.RunResponse(revoked=episode_pb2.Revoked(error=to_detail(error)))


def _is_news(told: Place | None, place: Place) -> bool:
    """An expected wait that only counts down is no news, nor are a few more behind many.

    Otherwise each of a thousand robots that come at once would be told of every other.
    """
    if told is None:
        return True
    if abs(place.num_waiting - told.num_waiting) * _NEWS_SHARE >= told.num_waiting:
        return True
    return (told.position, told.reason) != (place.position, place.reason) or (
        told.expected_wait_s is None
    ) != (place.expected_wait_s is None)


def _short(episode_id: str) -> str:
    return episode_id[:8]
