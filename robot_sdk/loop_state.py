"""What the control loop has counted, for heartbeats and reports."""

from __future__ import annotations

from dataclasses import dataclass, field

from robot_sdk.action_source import SourceKind
from robot_sdk.lateness import LatenessStats


@dataclass(frozen=True)
class LoopState:
    """A snapshot. Counts are since the loop was made.

    Attributes:
        step: Address of the next tick; commanded_steps + overrun_ticks.
        commanded_steps: Ticks in which the robot was commanded, by act() or hold().
        acted_steps: Ticks with an action.
        policy_steps, scripted_steps: Commanded ticks during which a source of that kind was
            active, holds included. Their sum is what env-step gaps are counted in.
        starved_ticks: A policy source was active and had answers before, but no valid row.
        start_wait_ticks: A policy source was active and no answer had arrived yet.
        settling_ticks: A source held on purpose.
        idle_ticks: No source was active, or it ended in this tick.
        overrun_ticks: Ticks that were skipped because the loop was late.
        num_grid_shifts: How often the grid of ticks was moved to the phase that a server asked for,
            before a policy's first tick.
        grid_shift_s: Time that the grid was moved later by these, in all. Not an overrun: every
            shift is below one period, and no tick is skipped for it.
        tool: Name of the active source, empty if none.
        buffered_steps: Rows that can be executed without a new chunk. None: no policy source.
        steps_left: Steps the active source still expects. None: unknown.
        estopped: The emergency stop is set.
        robot_error: Last exception that the robot raised in act() or hold(), empty if none.
        lateness: How late ticks began. Real time only.
    """

    step: int = 0
    commanded_steps: int = 0
    acted_steps: int = 0
    policy_steps: int = 0
    scripted_steps: int = 0
    starved_ticks: int = 0
    start_wait_ticks: int = 0
    settling_ticks: int = 0
    idle_ticks: int = 0
    overrun_ticks: int = 0
    num_grid_shifts: int = 0
    grid_shift_s: float = 0.0
    tool: str = ""
    buffered_steps: int | None = None
    steps_left: int | None = None
    estopped: bool = False
    robot_error: str = ""
    lateness: LatenessStats = field(default_factory=LatenessStats)

    @property
    def active_steps(self) -> int:
        """Steps during which a source was active; idle ticks are not among them."""
        return self.policy_steps + self.scripted_steps


@dataclass(frozen=True)
class SourceReport:
    """What one source did.

    Attributes:
        result: Value of its `Done`; None if it ended otherwise.
        steps: Ticks in which the robot was commanded for it: acted + starved + start-wait +
            settling.
        first_step: Address of its first tick; None if it was never started.
        started_s, ended_s: On the control loop's clock; None if it was never started.
    """

    name: str
    kind: SourceKind
    result: object
    steps: int
    acted: int
    starved_ticks: int
    start_wait_ticks: int
    settling_ticks: int
    overrun_ticks: int
    first_step: int | None
    started_s: float | None
    ended_s: float | None
