"""RobotState to the wire."""

from __future__ import annotations

from robot_sdk.api.v1 import episode_pb2
from robot_sdk.errors import InvalidArgumentError
from robot_sdk.robot_state import RobotState


def encode_state(state: RobotState) -> episode_pb2.RobotState:
    """The wire form; None is left out.

    Raises:
        InvalidArgumentError: A value is of another type, or out of its range.
    """
    try:
        return episode_pb2.RobotState(
            control_step=state.control_step,
            buffered_steps=state.buffered_steps,
            steps_left=state.steps_left,
            progress=state.progress,
            tool=state.tool,
            starved_ticks=state.starved_ticks,
            start_wait_ticks=state.start_wait_ticks,
            idle_ticks=state.idle_ticks,
            overrun_ticks=state.overrun_ticks,
            estopped=state.estopped,
        )
    except (TypeError, ValueError) as error:
        raise InvalidArgumentError(
            f"the robot's state cannot travel: {error}",
            field="state",
            value=state,
            allowed=("the types of robot_sdk.robot_state.RobotState, counts from 0 up",),
        ) from error
