"""Who may come in: the admission policies, and the wait that a place in the queue means.

A policy looks at the whole fleet and says which of the waiting may come in now, in queue order, and
why the next one may not. It never touches an episode that is already inside.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from robot_sdk.errors import InvalidArgumentError


@dataclass(frozen=True)
class WaitingEpisode:
    """One episode at the door."""

    episode_id: str
    tenant: str
    task_family: str
    uses_brain: bool
    waited_s: float


@dataclass(frozen=True)
class ActiveEpisode:
    """One admitted episode."""

    episode_id: str
    tenant: str
    task_family: str
    uses_brain: bool
    age_s: float


@dataclass(frozen=True)
class FleetView:
    """What an admission policy may look at. `waiting` is in order of arrival."""

    now_s: float
    active: tuple[ActiveEpisode, ...]
    waiting: tuple[WaitingEpisode, ...]


@dataclass(frozen=True)
class AdmissionDecision:
    """Attributes:
    num_admit: How many from the front of the queue come in now.
    reason: Why the next one may not, for a person. Empty when nobody is left waiting.
    """

    num_admit: int
    reason: str = ""


class AdmissionPolicy(Protocol):
    """Decides at the episode boundary. A turn of an admitted episode is never refused."""

    @property
    def name(self) -> str:
        """For people, for example "static-cap"."""

    @property
    def cap(self) -> int | None:
        """Most episodes inside at once, as far as the policy knows one. None: no cap."""

    def decide(self, view: FleetView) -> AdmissionDecision:
        """Who comes in now."""


class UnlimitedAdmission:
    """Everybody comes in at once."""

    name = "unlimited"
    cap: int | None = None

    def decide(self, view: FleetView) -> AdmissionDecision:
        return AdmissionDecision(num_admit=len(view.waiting))


class StaticCapAdmission:
    """At most `cap` episodes inside; None is no cap. The cap may be changed while running."""

    name = "static-cap"

    def __init__(self, cap: int | None) -> None:
        self.set_cap(cap)

    @property
    def cap(self) -> int | None:
        return self._cap

    def set_cap(self, cap: int | None) -> None:
        """Lowering it ends no running episode; 0 lets nobody in."""
        if cap is not None and cap < 0:
            raise InvalidArgumentError(
                "the cap counts episodes",
                field="cap",
                value=cap,
                allowed=(">= 0", "absent: no cap"),
            )
        self._cap = cap

    def decide(self, view: FleetView) -> AdmissionDecision:
        if self._cap is None:
            return AdmissionDecision(num_admit=len(view.waiting))
        num_admit = min(max(self._cap - len(view.active), 0), len(view.waiting))
        if num_admit == len(view.waiting):
            return AdmissionDecision(num_admit)
        return AdmissionDecision(
            num_admit,
            reason=f"static cap {self._cap}: {len(view.active) + num_admit} episodes inside",
        )


class DurationHistory:
    """How long ended episodes were inside. Keeps the newest `size`."""

    def __init__(self, size: int = 64) -> None:
        self._durations_s: deque[float] = deque(maxlen=size)

    def add(self, duration_s: float) -> None:
        self._durations_s.append(duration_s)

    def mean_s(self) -> float | None:
        """None as long as no episode has ended."""
        if not self._durations_s:
            return None
        return sum(self._durations_s) / len(self._durations_s)


def expected_waits_s(
    ages_s: Sequence[float], mean_duration_s: float | None, cap: int | None, num_waiting: int
) -> list[float | None]:
    """Wait from now of each place in a first-in-first-out queue, seconds.

    Every active episode is taken to last the mean duration in all (one that is older is about to
    end), and each slot that frees up to serve the next in line for the mean duration. None where
    nothing is known: no episode has ended so far, or the policy knows no cap.

    Args:
        ages_s: Time that each active episode has been inside.
        mean_duration_s: Mean time inside of ended episodes.
        cap: Episodes inside at once.
        num_waiting: Length of the queue.
    """
    if mean_duration_s is None or cap is None or cap == 0:
        return [None] * num_waiting
    ends_s = [max(mean_duration_s - age_s, 0.0) for age_s in ages_s]
    # After the cap was lowered, that many episodes must end before the first slot is free.
    num_over = max(len(ends_s) - cap, 0)
    # Free slots beyond one for each in line change nothing, and a cap may be very large.
    num_free = min(max(cap - len(ends_s), 0), num_waiting)
    ends_s = sorted(ends_s)[num_over:] + [0.0] * num_free
    heapq.heapify(ends_s)
    waits_s: list[float | None] = []
    for _ in range(num_waiting):
        free_s = ends_s[0]
        waits_s.append(free_s)
        heapq.heapreplace(ends_s, free_s + mean_duration_s)
    return waits_s
