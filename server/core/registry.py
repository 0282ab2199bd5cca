"""The door and the room behind it: leases, queue, admission and drain as one pure object.

The driver calls `step` at every tick and after every change and does what the returned events say.
The queue is in order of arrival within a tenant and fair between tenants; leaving it, by end or
expiry, moves the others up.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace

from robot_sdk.errors import OverloadedError
from robot_sdk.messages import TokenUsage
from server.core import drain as drains
from server.core.admission import (
    ActiveEpisode,
    AdmissionPolicy,
    DurationHistory,
    EndedEpisode,
    FleetView,
    WaitingEpisode,
    expected_waits_s,
    fair_order,
)
from server.core.drain import Drain
from server.core.fleet_watch import FleetReport, FleetWatch
from server.core.leases import Attachment, EndCause, Episode, EpisodeInfo, LeaseTable, Phase
from server.core.residency import (
    SILENT_ENGINE,
    CountedTurn,
    EngineGauges,
    LiveContext,
    PrefixLedger,
)

_log = logging.getLogger(__name__)

#: Ends after which an episode's length says something about others like it.
_ENDS_BY_ITSELF = (EndCause.ENDED_BY_ROBOT, EndCause.CONTEXT_LIMIT)


@dataclass(frozen=True)
class Place:
    """A place in the queue. `position` 1 is next; an unknown wait is None."""

    episode_id: str
    position: int
    num_waiting: int
    expected_wait_s: float | None
    reason: str


@dataclass(frozen=True)
class AdmittedEvent:
    """This episode came in."""

    episode: Episode


@dataclass(frozen=True)
class RemovedEvent:
    """This episode was taken out by the server itself: its lease or its time ran out."""

    episode: Episode
    cause: EndCause


Event = AdmittedEvent | RemovedEvent


@dataclass(frozen=True)
class Counters:
    """Totals since the server started."""

    admitted: int = 0
    ended: int = 0
    expired: int = 0


class EpisodeRegistry:
    """Every episode of one server.

    Args:
        leases: The table this registry drives.
        admission: Who may come in.
        max_waiting: Longest queue; beyond it a robot is refused with OVERLOADED.
        max_duration_s: Longest time inside, None for no bound.
        tenant_weights: Shares of the room by tenant; 1 for one that is not named.
        max_turn_hold_s: Longest time that a policy may let one turn wait.
    """

    def __init__(
        self,
        leases: LeaseTable,
        admission: AdmissionPolicy,
        max_waiting: int = 1000,
        max_duration_s: float | None = None,
        tenant_weights: Mapping[str, float] | None = None,
        max_turn_hold_s: float = 30.0,
    ) -> None:
        self.leases = leases
        self.admission = admission
        self.ledger = PrefixLedger()
        self._watch = FleetWatch(admission)
        self._engine = SILENT_ENGINE
        self._tenant_weights = dict(tenant_weights or {})
        self._max_turn_hold_s = max_turn_hold_s
        self._held_since_s: dict[str, float] = {}
        self._max_waiting = max_waiting
        self._max_duration_s = max_duration_s
        self._durations = DurationHistory()
        self._drain: Drain | None = None
        self._reason = ""
        self._brain_problem = ""
        self._told_faults: dict[str, str] = {}
        self._admitted_total = 0
        self._ended_total = 0
        self._expired_total = 0

    @property
    def drain(self) -> Drain | None:
        return self._drain

    @property
    def counters(self) -> Counters:
        return Counters(self._admitted_total, self._ended_total, self._expired_total)

    @property
    def waiting_reason(self) -> str:
        """Why the head of the queue is not inside. Empty: nobody waits."""
        line = self._line()
        return self._reason_of(line[0]) if line else ""

    @property
    def num_active(self) -> int:
        """May be read from another thread, as may `num_queued`."""
        return self._admitted_total - self._ended_total

    @property
    def num_queued(self) -> int:
        return len(self.leases) - self.num_active

    @property
    def report(self) -> FleetReport:
        """Figures, alerts and the policy's words, at most a second older than the last step.

        May be read from another thread.
        """
        return self._watch.report

    def look(self, now_s: float) -> FleetReport:
        """The same as of now."""
        return self._watch.look(self.view(now_s))

    def tell_engine(self, engine: EngineGauges) -> None:
        """What the engine says of itself; kept until it is told anew."""
        self._engine = engine
        self.ledger.set_pool(
            engine.pool_blocks, engine.block_tokens, engine.snapshot_interval_tokens
        )
        self.ledger.see_usage(engine.kv_cache_usage, engine.requests_waiting)

    def tell_brain(self, problem: str) -> None:
        """Why the brain can take no turn; empty if it can. Whoever needs it waits at the door."""
        self._brain_problem = problem

    def queued(self) -> list[Episode]:
        """In order of arrival."""
        return [episode for episode in self.leases if episode.phase is Phase.QUEUED]

    def active(self) -> list[Episode]:
        return [episode for episode in self.leases if episode.phase is Phase.ADMITTED]

    def open(self, info: EpisodeInfo, now_s: float) -> Attachment:
        """Take or join a place.

        Raises:
            DrainingError: No new episodes; a place that was taken before may still be joined.
            OverloadedError: The queue is full.
        """
        if self.leases.find(info) is None:
            if self._drain is not None:
                raise self._drain.refusal(now_s)
            num_waiting = len(self.queued())
            if num_waiting >= self._max_waiting:
                raise OverloadedError(
                    f"{num_waiting} episodes wait already: the limit (episodes.max_waiting)",
                    retry_after_s=self._durations.mean_s(),
                )
        return self.leases.open(info, now_s)

    def end(self, episode_id: str, cause: EndCause, now_s: float) -> Episode:
        """Take a living episode out; exactly once."""
        episode = self.leases.end(episode_id, cause)
        if episode.admitted_s is not None:
            self._ended_total += 1
            self._forget(episode, cause, now_s - episode.admitted_s)
        if cause is EndCause.LEASE_EXPIRED:
            self._expired_total += 1
        return episode

    def record_turn(
        self, episode_id: str, usage: TokenUsage, now_s: float, is_rebuild: bool = False
    ) -> CountedTurn | None:
        """A turn of an admitted episode was committed; see PrefixLedger.record_turn."""
        turn = self.ledger.record_turn(episode_id, usage, now_s, is_rebuild)
        if turn is not None:
            self.admission.on_turn(turn)
        return turn

    def turn_hold_s(self, episode_id: str, now_s: float) -> float:
        """How long the next turn of an admitted episode has to wait before it asks again.

        0: it may start, and is taken to start now. The sum of holds of one turn stays within
        `max_turn_hold_s`, so no turn is ever refused.
        """
        if not self.admission.holds_turns:
            self.ledger.begin_turn(episode_id)
            return 0.0
        since_s = self._held_since_s.setdefault(episode_id, now_s)
        left_s = since_s + self._max_turn_hold_s - now_s
        hold_s = 0.0
        with self._faults_logged("hold of a turn"):
            hold_s = min(self.admission.turn_hold_s(episode_id, self.view(now_s)), left_s)
        if hold_s > 0:
            return hold_s
        del self._held_since_s[episode_id]
        self.ledger.begin_turn(episode_id)
        return 0.0

    def turn_failed(self, episode_id: str) -> None:
        """A turn will not be recorded: it failed or was given up, held or begun.

        Without effect if the episode has none, or is not inside any more.
        """
        self.ledger.abandon_turn(episode_id)

    def due_refreshes(self, now_s: float) -> list[str]:
        """Episodes whose prefix the engine is to touch now; call it at every tick.

        For each of them `refresh_done` must follow. Empty if the policy does not want it, or the
        engine cannot.
        """
        if not self.ledger.refreshes_are_due(now_s):
            return []
        limit_blocks = None
        if self._engine.can_refresh:
            with self._faults_logged("limit of refreshes"):
                limit_blocks = self.admission.refresh_limit_blocks(self.ledger.snapshot(now_s))
        return self.ledger.due_refreshes(limit_blocks, now_s)

    def refresh_done(self, episode_id: str, found: bool | None, now_s: float) -> None:
        """A refresh has ended; see PrefixLedger.end_refresh."""
        refreshed = self.ledger.end_refresh(episode_id, found, now_s)
        if refreshed is not None:
            with self._faults_logged("refresh"):
                self.admission.on_refresh(refreshed)

    def begin_drain(self, now_s: float, deadline_s: float, reason: str) -> Drain:
        self._drain = drains.begin(now_s, deadline_s, reason, self._drain)
        return self._drain

    def set_cap(self, cap: int | None) -> None:
        """Change the cap of a running policy that has one; see AdmissionPolicy.set_cap."""
        self.admission.set_cap(cap)

    def step(self, now_s: float) -> list[Event]:
        """Expire leases first, so that a slot that frees up is given away in the same step."""
        events: list[Event] = []
        for episode in self.leases.expired(now_s):
            self.end(episode.episode_id, EndCause.LEASE_EXPIRED, now_s)
            events.append(RemovedEvent(episode, EndCause.LEASE_EXPIRED))
        if self._max_duration_s is not None:
            for episode in self.active():
                assert episode.admitted_s is not None
                if now_s - episode.admitted_s >= self._max_duration_s:
                    self.end(episode.episode_id, EndCause.MAX_DURATION, now_s)
                    events.append(RemovedEvent(episode, EndCause.MAX_DURATION))
        # A policy that fails must not take the news of those who left or came in with it.
        with self._faults_logged("control"):
            self._watch.control(now_s, lambda: self.view(now_s))
        with self._faults_logged("admission"):
            events.extend(AdmittedEvent(episode) for episode in self._admit(now_s))
        with self._faults_logged("report"):
            self._watch.look_if_due(now_s, lambda: self.view(now_s))
        return events

    @contextmanager
    def _faults_logged(self, what: str) -> Iterator[None]:
        """Of the admission policy. One that goes on at every tick is logged once."""
        try:
            yield
        except Exception as error:
            if self._told_faults.get(what) != repr(error):
                self._told_faults[what] = repr(error)
                _log.exception("admission policy %s failed at the %s", self.admission.name, what)

    def places(self, now_s: float) -> list[Place]:
        """The queue as its members see it, first one first."""
        line = self._line()
        if not line:
            return []
        ages_s = [now_s - e.admitted_s for e in self.active() if e.admitted_s is not None]
        # A policy that counts something else than episodes, and lets nobody in now, works like a
        # cap at what is inside.
        cap = max(len(ages_s), 1) if self.admission.cap is None else self.admission.cap
        waits_s = expected_waits_s(ages_s, self._durations.mean_s(), cap, len(line))
        return [
            Place(
                episode.episode_id,
                index + 1,
                len(line),
                waits_s[index],
                self._reason_of(episode),
            )
            for index, episode in enumerate(line)
        ]

    def view(self, now_s: float) -> FleetView:
        """The fleet as an admission policy sees it."""
        return FleetView(
            now_s=now_s,
            active=tuple(self._active(episode, now_s) for episode in self.active()),
            waiting=tuple(
                WaitingEpisode(
                    e.episode_id,
                    e.info.tenant,
                    e.info.task_family,
                    e.info.uses_brain,
                    e.queued_s(now_s),
                )
                for e in self._line()
            ),
            ledger=self.ledger.snapshot(now_s),
            engine=self._engine,
        )

    def _line(self) -> list[Episode]:
        """Who waits, in the order in which they come in."""
        inside = Counter(episode.info.tenant for episode in self.active())
        return fair_order(self.queued(), inside, self._tenant_weights)

    def _reason_of(self, episode: Episode) -> str:
        """Why an episode at the door is not inside."""
        if self._brain_problem and episode.info.uses_brain and self._drain is None:
            return f"the brain is not ready: {self._brain_problem}"
        return self._reason

    def _admit(self, now_s: float) -> list[Episode]:
        if not self.num_queued:
            self._reason = ""
            return []
        if self._drain is not None:
            self._reason = "the server is draining"
            return []
        view = self.view(now_s)
        if self._brain_problem:
            # Those who need no brain do not wait for it.
            ready = tuple(waiting for waiting in view.waiting if not waiting.uses_brain)
            if not ready:
                self._reason = ""
                return []
            view = replace(view, waiting=ready)
        self._reason = f"the admission policy {self.admission.name} failed; see the server's log"
        decision = self.admission.decide(view)
        self._reason = decision.reason
        admitted = []
        for waiting in view.waiting[: max(decision.num_admit, 0)]:
            admitted.append(self.leases.admit(waiting.episode_id, now_s))
            # The others have no prefix, and must not be forecast one like that of their family.
            if waiting.uses_brain:
                self.ledger.begin_episode(waiting.episode_id, waiting.task_family)
        self._admitted_total += len(admitted)
        return admitted

    def _forget(self, episode: Episode, cause: EndCause, duration_s: float) -> None:
        """An admitted episode is no more: the ledger and the policy let go of it."""
        if cause is EndCause.ENDED_BY_ROBOT:
            self._durations.add(duration_s)
        went_to_its_end = cause in _ENDS_BY_ITSELF
        context = self.ledger.end_episode(episode.episode_id, went_to_its_end)
        self._held_since_s.pop(episode.episode_id, None)
        ended = EndedEpisode(
            episode_id=episode.episode_id,
            tenant=episode.info.tenant,
            task_family=episode.info.task_family,
            went_to_its_end=went_to_its_end,
            duration_s=duration_s,
            num_turns=0 if context is None else context.num_turns,
            peak_tokens=0 if context is None else context.peak_tokens,
        )
        # The place is free already; what else the end means must still be done.
        with self._faults_logged("end of an episode"):
            self.admission.on_end(ended)

    def _active(self, episode: Episode, now_s: float) -> ActiveEpisode:
        info = episode.info
        context = self.ledger.context(episode.episode_id)
        if context is None:
            context = LiveContext(episode.episode_id, info.task_family)
        return ActiveEpisode(
            episode.episode_id,
            info.tenant,
            info.task_family,
            info.uses_brain,
            now_s - (episode.admitted_s if episode.admitted_s is not None else now_s),
            context.context_tokens,
            context.num_turns,
            context.last_turn_s,
        )
