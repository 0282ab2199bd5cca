"""The door and the room behind it: leases, queue, admission and drain as one pure object.

The driver calls `step` at every tick and after every change and does what the returned events say.
The order in the queue is the order of arrival; leaving it, by end or expiry, moves the others up.
"""

from __future__ import annotations

from dataclasses import dataclass

from robot_sdk.errors import InvalidArgumentError, OverloadedError
from robot_sdk.messages import TokenUsage
from server.core import drain as drains
from server.core.admission import (
    ActiveEpisode,
    AdmissionPolicy,
    DurationHistory,
    FleetView,
    StaticCapAdmission,
    WaitingEpisode,
    expected_waits_s,
)
from server.core.drain import Drain
from server.core.leases import Attachment, EndCause, Episode, EpisodeInfo, LeaseTable, Phase


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
    """

    def __init__(
        self,
        leases: LeaseTable,
        admission: AdmissionPolicy,
        max_waiting: int = 1000,
        max_duration_s: float | None = None,
    ) -> None:
        self.leases = leases
        self.admission = admission
        self._max_waiting = max_waiting
        self._max_duration_s = max_duration_s
        self._durations = DurationHistory()
        self._drain: Drain | None = None
        self._reason = ""
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
        return self._reason if self.queued() else ""

    @property
    def num_active(self) -> int:
        """May be read from another thread, as may `num_queued`."""
        return self._admitted_total - self._ended_total

    @property
    def num_queued(self) -> int:
        return len(self.leases) - self.num_active

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
            if cause is EndCause.ENDED_BY_ROBOT:
                self._durations.add(now_s - episode.admitted_s)
        if cause is EndCause.LEASE_EXPIRED:
            self._expired_total += 1
        return episode

    def record_turn(
        self, episode_id: str, usage: TokenUsage, now_s: float, is_rebuild: bool = False
    ) -> None:
        """A turn of an admitted episode was committed."""

    def begin_drain(self, now_s: float, deadline_s: float, reason: str) -> Drain:
        self._drain = drains.begin(now_s, deadline_s, reason, self._drain)
        return self._drain

    def set_cap(self, cap: int | None) -> None:
        """Change the cap of a running static-cap policy."""
        if not isinstance(self.admission, StaticCapAdmission):
            raise InvalidArgumentError(
                "the running admission policy has no cap to set",
                field="admission.policy",
                value=self.admission.name,
                allowed=(StaticCapAdmission.name,),
            )
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
        events.extend(AdmittedEvent(episode) for episode in self._admit(now_s))
        return events

    def places(self, now_s: float) -> list[Place]:
        """The queue as its members see it, first one first."""
        queue = self.queued()
        ages_s = [now_s - e.admitted_s for e in self.active() if e.admitted_s is not None]
        waits_s = expected_waits_s(ages_s, self._durations.mean_s(), self.admission.cap, len(queue))
        return [
            Place(episode.episode_id, index + 1, len(queue), waits_s[index], self._reason)
            for index, episode in enumerate(queue)
        ]

    def _admit(self, now_s: float) -> list[Episode]:
        queue = self.queued()
        if not queue:
            self._reason = ""
            return []
        if self._drain is not None:
            self._reason = "the server is draining"
            return []
        decision = self.admission.decide(self._view(queue, now_s))
        self._reason = decision.reason
        admitted = [
            self.leases.admit(episode.episode_id, now_s) for episode in queue[: decision.num_admit]
        ]
        self._admitted_total += len(admitted)
        return admitted

    def _view(self, queue: list[Episode], now_s: float) -> FleetView:
        return FleetView(
            now_s=now_s,
            active=tuple(
                ActiveEpisode(
                    e.episode_id,
                    e.info.tenant,
                    e.info.task_family,
                    e.info.uses_brain,
                    now_s - (e.admitted_s if e.admitted_s is not None else now_s),
                )
                for e in self.active()
            ),
            waiting=tuple(
                WaitingEpisode(
                    e.episode_id,
                    e.info.tenant,
                    e.info.task_family,
                    e.info.uses_brain,
                    e.queued_s(now_s),
                )
                for e in queue
            ),
        )
