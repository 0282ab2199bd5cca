"""How long a robot still has something to do, from what it said last."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class RobotWork:
    """What a heartbeat says of the work at hand. None is unknown.

    Attributes:
        is_tool_running: False while the robot waits for its brain.
        steps_left: Control steps that the running tool still expects to take.
        buffered_steps: Rows of the chunk buffer that can still be executed.
        control_hz: Steps per second; 0 or less is unknown.
        age_s: Time since the robot said so.
    """

    is_tool_running: bool
    steps_left: int | None
    buffered_steps: int | None
    control_hz: float
    age_s: float


def slack_s(work: RobotWork) -> float | None:
    """Seconds until the robot runs out of things to do; the brain's answer is late after that.

    A running tool keeps the robot busy for the steps it has left. If it does not say, the buffered
    rows are what is sure: the tool may go on beyond them, so this is the earliest moment. Without a
    running tool the robot stands still already. What has passed since the heartbeat is taken off.

    Returns:
        At least 0; None if the robot is busy but does not say for how long.
    """
    if not work.is_tool_running:
        return 0.0
    steps = work.buffered_steps if work.steps_left is None else work.steps_left
    if steps is None or not work.control_hz > 0:
        return None
    return max(steps / work.control_hz - max(work.age_s, 0.0), 0.0)
