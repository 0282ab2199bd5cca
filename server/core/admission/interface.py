"""What an admission policy sees, decides and is told.

A policy decides at the door: how many of the waiting come in now, in the order that the queue has,
and why the next one may not. It never touches an episode inside, with one exception that is bounded
and ends by itself: a policy may let an episode's next turn wait a little (`turn_hold_s`). No turn
of an admitted episode is ever refused.

The same policy objects run in the server and in virtual time; they read no clock.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from robot_sdk.errors import InvalidArgumentError
from server.core.residency import (
    SILENT_ENGINE,
    CountedTurn,
    EngineGauges,
    LedgerSnapshot,
    RefreshedPrefix,
)


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
    """One admitted episode.

    Attributes:
        context_tokens: Its conversation so far; 0 before its first turn, and where the engine
            counts no tokens.
        num_turns: Turns committed and counted.
        last_turn_s: When the last of them was committed, on the clock of `FleetView.now_s`.
    """

    episode_id: str
    tenant: str
    task_family: str
    uses_brain: bool
    age_s: float
    context_tokens: int = 0
    num_turns: int = 0
    last_turn_s: float | None = None


@dataclass(frozen=True)
class FleetView:
    """What an admission policy may look at.

    Attributes:
        waiting: In the order in which they come in: fair between tenants, in order of arrival
            within one.
        ledger: Hit rate, working set, learned capacity, forecasts by task family, pool.
        engine: The engine's own gauges.
    """

    now_s: float
    active: tuple[ActiveEpisode, ...]
    waiting: tuple[WaitingEpisode, ...]
    ledger: LedgerSnapshot = field(default_factory=LedgerSnapshot)
    engine: EngineGauges = SILENT_ENGINE


@dataclass(frozen=True)
class AdmissionDecision:
    """Attributes:
    num_admit: How many from the front of the queue come in now.
    reason: Why the next one may not, for a person. Empty when nobody is left waiting.
    """

    num_admit: int
    reason: str = ""


@dataclass(frozen=True)
class AdmissionReport:
    """What a policy works with, for people. None: it does not count blocks.

    Attributes:
        forecast_blocks: Blocks that the episodes inside are taken to need.
        capacity_blocks: Blocks that it lets them have.
        detail: Its last change, or what it decides on.
    """

    forecast_blocks: int | None = None
    capacity_blocks: int | None = None
    detail: str = ""


@dataclass(frozen=True)
class EndedEpisode:
    """An admitted episode that is no more.

    Attributes:
        went_to_its_end: False if it was cut off (lease, operator, fault): how long it became says
            nothing about others like it.
        duration_s: Time inside.
        peak_tokens: Longest its conversation was; 0 if no turn was counted.
    """

    episode_id: str
    tenant: str
    task_family: str
    went_to_its_end: bool
    duration_s: float
    num_turns: int
    peak_tokens: int


class AdmissionPolicy:
    """Base of all policies. Only `name` and `decide` have to be given.

    Attributes:
        name: For people and the configuration, for example "static-cap".
        control_interval_s: How often `control` is called; None: never.
        holds_turns: Whether `turn_hold_s` may return more than 0.
    """

    name: str
    control_interval_s: float | None = None
    holds_turns: bool = False

    @property
    def cap(self) -> int | None:
        """Most episodes inside at once, as far as the policy knows one. None: no cap."""
        return None

    def decide(self, view: FleetView) -> AdmissionDecision:
        """Who comes in now. Called whenever somebody waits and something may have changed."""
        raise NotImplementedError

    def control(self, view: FleetView) -> None:
        """Regular look at the fleet, also while nobody waits. A new cap counts from now on."""

    def on_turn(self, turn: CountedTurn) -> None:
        """A turn of an episode inside was committed and counted."""

    def refresh_limit_blocks(self, ledger: LedgerSnapshot) -> int | None:
        """What a prefix may need of the pool before the engine is asked to touch it; see
        server.core.residency.refresh. None: this policy lets prefixes go.
        """
        return None

    def on_refresh(self, refreshed: RefreshedPrefix) -> None:
        """A prefix was touched for the policy."""

    def on_end(self, ended: EndedEpisode) -> None:
        """An episode that was inside is no more. Called once for each."""

    def turn_hold_s(self, episode_id: str, view: FleetView) -> float:
        """How long the next turn of an episode should wait before it is asked about again.

        0: it may start. Called when the turn is about to start and after every hold; the sum of
        holds of one turn is bounded by the driver, and then the turn starts whatever this says.
        """
        return 0.0

    def report(self, view: FleetView) -> AdmissionReport:
        """What is shown to people."""
        return AdmissionReport()

    def set_cap(self, cap: int | None) -> None:
        """An operator sets the cap; None: no cap. Lowering it ends no running episode.

        Raises:
            InvalidArgumentError: The cap is negative, or this policy has none.
        """
        raise InvalidArgumentError(
            "the running admission policy has no cap to set",
            field="admission.policy",
            value=self.name,
            allowed=POLICIES_WITH_A_CAP,
        )


#: Names of the policies that an operator can give a cap.
POLICIES_WITH_A_CAP = ("static-cap", "aimd")


def checked_cap(cap: int | None) -> int | None:
    """A cap as given by a person.

    Raises:
        InvalidArgumentError: It is negative.
    """
    if cap is not None and cap < 0:
        raise InvalidArgumentError(
            "the cap counts episodes",
            field="cap",
            value=cap,
            allowed=(">= 0", "absent: no cap"),
        )
    return cap
