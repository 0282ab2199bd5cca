"""What a robot said of itself last, and when."""

from __future__ import annotations

from dataclasses import dataclass

from robot_sdk.api.v1 import episode_pb2
from server.core.slack import RobotWork, slack_s


@dataclass(frozen=True)
class RobotReport:
    """The newest state of a robot. `heard_s` is on the server's clock."""

    state: episode_pb2.RobotState
    heard_s: float

    def slack_s(self, control_hz: float, now_s: float) -> float | None:
        """Seconds until the robot has nothing left to do; see server.core.slack."""
        state = self.state
        return slack_s(
            RobotWork(
                is_tool_running=bool(state.tool),
                steps_left=state.steps_left if state.HasField("steps_left") else None,
                buffered_steps=state.buffered_steps if state.HasField("buffered_steps") else None,
                control_hz=control_hz,
                age_s=now_s - self.heard_s,
            )
        )
