"""The server's door in virtual time: what its hub does, without streams."""

from __future__ import annotations

import itertools
from collections.abc import Callable

from server.core.admission import AdmissionPolicy
from server.core.leases import Attachment, EndCause, EpisodeInfo, LeaseTable
from server.core.registry import AdmittedEvent, EpisodeRegistry
from server.core.residency import EngineGauges
from sim.fleet.event_loop import EventLoop

#: As a server's defaults: episodes.lease_ttl_s, episodes.heartbeat_s.
LEASE_TTL_S = 10.0
HEARTBEAT_S = 2.0


class LeaseLostError(RuntimeError):
    """An episode's lease ran out although its robot sends heartbeats: a fault of the replay."""


class VirtualDoor:
    """Drives the server's registry.

    Args:
        policy: Who may come in.
        gauges: What the engine says of itself, asked at every step.
        max_waiting: Robots at the door at most.
        max_turn_hold_s: Longest time that the policy may let one turn wait.
    """

    def __init__(
        self,
        loop: EventLoop,
        policy: AdmissionPolicy,
        gauges: Callable[[], EngineGauges],
        max_waiting: int,
        max_turn_hold_s: float = 30.0,
    ) -> None:
        numbers = itertools.count()
        leases = LeaseTable(LEASE_TTL_S, "replay", lambda: f"id-{next(numbers)}")
        self.registry = EpisodeRegistry(
            leases, policy, max_waiting=max_waiting, max_turn_hold_s=max_turn_hold_s
        )
        self._loop = loop
        self._gauges = gauges
        self._on_admitted: dict[str, Callable[[], None]] = {}

    def open(self, info: EpisodeInfo, on_admitted: Callable[[], None]) -> Attachment:
        """A robot asks to come in. It may be inside before this returns: `on_admitted` is called
        from the event loop, after what is due now.
        """
        attachment = self.registry.open(info, self._loop.clock.now_s())
        self._on_admitted[attachment.episode_id] = on_admitted
        self.step()
        return attachment

    def heartbeat(self, attachment: Attachment) -> None:
        """Renew a lease."""
        self.registry.leases.heartbeat(attachment, self._loop.clock.now_s())

    def end(self, attachment: Attachment, cause: EndCause = EndCause.ENDED_BY_ROBOT) -> None:
        """A robot is done with its episode, or leaves the queue."""
        now_s = self._loop.clock.now_s()
        self.registry.leases.heartbeat(attachment, now_s)
        self.registry.end(attachment.episode_id, cause, now_s)
        self._on_admitted.pop(attachment.episode_id, None)
        self.step()

    def step(self) -> None:
        """What a server does at every tick and after every change."""
        now_s = self._loop.clock.now_s()
        self.registry.tell_engine(self._gauges())
        for event in self.registry.step(now_s):
            if not isinstance(event, AdmittedEvent):
                raise LeaseLostError(f"episode {event.episode.episode_id}: {event.cause.value}")
            self._loop.at(now_s, self._on_admitted.pop(event.episode.episode_id))
