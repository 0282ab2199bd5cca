"""What a scheduler may know about the robot; travels with every heartbeat."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class RobotState:
    """Counts since the episode's start.

    Attributes:
        control_step: Control steps so far.
        buffered_steps: Rows of the chunk buffer that can still be executed. None: no policy tool
            is running.
        steps_left: Steps that the running tool still expects to take. None: unknown.
        progress: Progress of the task, 0 to 1, by the robot's own measure. None: unknown.
        tool: Name of the running tool, empty while the brain thinks.
    """

    control_step: int = 0
    buffered_steps: int | None = None
    steps_left: int | None = None
    progress: float | None = None
    tool: str = ""
    starved_ticks: int = 0
    start_wait_ticks: int = 0
    idle_ticks: int = 0
    overrun_ticks: int = 0
    estopped: bool = False
