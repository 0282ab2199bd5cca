"""One episode in a process of its own: `robot_program ADDRESS OPTIONS_AS_JSON`.

Prints a line of JSON when it is queued, admitted, first acts, and has ended.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

from robot_sdk.client import connect
from robot_sdk.episode import QueueUpdate
from robot_sdk.loop_state import LoopState
from robot_sdk.robot import Action
from robot_sdk.runner import EpisodeOptions, run_episode
from robot_sdk.running_episode import RunningEpisode
from robot_sdk.tools import ToolRegistry, finish
from tests.integration.end_to_end.harness import LoggingRobot, Tools


def tell(event: str, **details: Any) -> None:
    print(json.dumps({"event": event, **details}), flush=True)


class TellingRobot(LoggingRobot):
    """Tells of its first action."""

    def act(self, action: Action) -> None:
        if not self.executed and self._acted is None:
            tell("acted")
        super().act(action)


def main() -> None:
    address, options = sys.argv[1], json.loads(sys.argv[2])
    robot = TellingRobot()
    wall: list[float] = []

    def make_tools(running: RunningEpisode) -> ToolRegistry:
        tell("admitted")
        return ToolRegistry(Tools(running), finish)

    def on_queued(update: QueueUpdate) -> None:
        tell("queued", position=update.position)

    def on_state(state: LoopState) -> None:
        wall.append(time.time())
        robot.on_state(state)

    with connect(address) as client:
        result = run_episode(
            client,
            robot,
            make_tools,
            "go somewhere",
            EpisodeOptions(policies=("fake",), on_queued=on_queued, **options),
            on_state=on_state,
        )
        offset = client.clock_offset
    steps = [(item.step, item.value) for item in robot.executed]
    tell(
        "result",
        outcome=result.outcome,
        reason=result.reason,
        detail=result.detail,
        steps=steps,
        brain_s=[sample.brain_s for sample in result.samples],
        chunks=result.chunks,
        starved_ticks=result.starved_ticks,
        overrun_ticks=result.overrun_ticks,
        duration_s=result.duration_s,
        largest_wall_step_s=max(b - a for a, b in zip(wall, wall[1:], strict=False)),
        smallest_wall_step_s=min(b - a for a, b in zip(wall, wall[1:], strict=False)),
        wall_s=wall[0],
        clock_offset_s=offset.offset_s,
        clock_bound_s=offset.bound_s,
        commanded_s=robot.commanded_s,
    )


if __name__ == "__main__":
    main()
