"""What the control loop asks in every tick: an action source, and what it may answer."""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Literal, Protocol, Union, runtime_checkable

from robot_sdk.observation import Observation
from robot_sdk.robot import Action

#: "realtime": the world runs on by itself, one tick per control period. "lockstep": the world
#: (a simulator) moves only when it is commanded.
Pace = Literal["realtime", "lockstep"]
SourceKind = Literal["policy", "scripted"]


class HoldReason(enum.Enum):
    """Why a source has no action in this tick."""

    #: No answer of the policy has arrived since the source was started.
    START_WAIT = "start_wait"
    #: The policy has answered before, but there is no valid row for this step.
    STARVED = "starved"
    #: The source wants the robot to stand still on purpose. A step also in lockstep.
    SETTLING = "settling"


@dataclass(frozen=True)
class Act:
    """Execute this action in this tick. Shape (action_dim,)."""

    action: Action


@dataclass(frozen=True)
class Hold:
    """Stay where it is in this tick."""

    reason: HoldReason


@dataclass(frozen=True)
class Done:
    """The source has finished; it commands nothing in this tick and is not asked again."""

    result: object = None


Command = Union[Act, Hold, Done]


class Tick:
    """One control step as a source sees it. Valid only during the call it is passed to.

    Attributes:
        step: Address of this tick. Counts up from 0 over the life of the loop. In real time it is
            the index on the grid t0 + step / control_hz, so it also counts ticks that were skipped
            because the loop was late: rows age with the world. In lockstep it counts commands.
        now_s: When the tick began, on the control loop's clock.
        pace: How the world runs.
        control_hz: Control rate, per second.
    """

    def __init__(
        self,
        step: int,
        now_s: float,
        pace: Pace,
        control_hz: float,
        observe: Callable[[Collection[str] | None], Observation],
    ) -> None:
        self.step = step
        self.now_s = now_s
        self.pace = pace
        self.control_hz = control_hz
        self._observe = observe
        self._cache: dict[frozenset[str] | None, Observation] = {}

    def observe(self, keys: Collection[str] | None = None) -> Observation:
        """The sensors in this tick. Read at most once per tick and set of keys.

        Args:
            keys: As for `Robot.observe`.

        Raises:
            Exception: Whatever `Robot.observe` raises.
        """
        key = None if keys is None else frozenset(keys)
        if key not in self._cache:
            self._cache[key] = self._observe(keys)
        return self._cache[key]


class ActionSource(Protocol):
    """Something that decides what the robot does, tick by tick: a policy or a scripted motion.

    All methods are called on the control thread. Any exception from `start`, `next` or `wait` ends
    the source: the robot holds, and the caller of `ControlLoop.run` gets the exception.
    """

    @property
    def name(self) -> str:
        """Name of the tool it serves, for heartbeats and reports."""

    @property
    def kind(self) -> SourceKind:
        """Whose steps these are in the report."""

    def start(self, tick: Tick) -> None:
        """The first tick has come; `next` follows with the same tick."""

    def next(self, tick: Tick) -> Command:
        """What to do in this tick. Must not block."""

    def wait(self, timeout_s: float) -> None:
        """Block until `next` could do better, at most `timeout_s`. Only called in lockstep."""

    def stop(self) -> None:
        """The source is over, for whatever reason. Called exactly once.

        Also if `start` failed, and if the source was refused before its first tick; a refused
        source is stopped on the thread that offered it.
        """


@runtime_checkable
class WantsPhase(Protocol):
    """A source whose first tick should fall on a certain moment. Optional; real time only."""

    @property
    def grid_phase_s(self) -> float | None:
        """A moment, on the control loop's clock, that the grid of ticks should go through.

        Read once, when the source is accepted. The loop then delays its grid by less than one
        period before the source's first tick. None: the grid may stay as it is.
        """


@dataclass(frozen=True)
class SourceStatus:
    """What a scheduler may know about a running source. None: does not apply or unknown."""

    buffered_steps: int | None = None
    steps_left: int | None = None


@runtime_checkable
class ReportsStatus(Protocol):
    """A source that can say how it stands. Optional."""

    def status(self) -> SourceStatus:
        """As of the last tick. Called on the control thread."""
