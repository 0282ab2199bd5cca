"""A whole episode with a robot of your own: brain, policy, tools and control loop together.

Shows `run_episode`: it asks the server for admission, runs the control loop at 20 Hz in real time,
lets the brain call the tools, and ends the episode whatever happens. The robot is a toy in plain
numpy (toy.py); the server is started here, on this machine. Takes about 15 seconds.
"""

from __future__ import annotations

from toy import POLICY, ToyRobot, ToyTools, local_server

from robot_sdk.client import connect
from robot_sdk.runner import EpisodeOptions, run_episode
from robot_sdk.tools import ToolRegistry, finish


def main() -> None:
    robot = ToyRobot()
    with local_server() as target, connect(target) as client:
        result = run_episode(
            client,
            robot,
            lambda running: ToolRegistry(ToyTools(robot, running), finish),
            "put the ball in the box",
            EpisodeOptions(robot_id="toy-0", policies=(POLICY,)),
        )
    print(f"{result.outcome}: {result.detail}")
    print(f"{result.turns} brain turns, {result.chunks} chunks")
    print(f"{result.policy_steps} steps by the policy, {result.scripted_steps} by scripted motion")
    print(
        f"ticks held: {result.start_wait_ticks} before first chunks, {result.starved_ticks} "
        f"starved, {result.idle_ticks} idle while the brain was thinking"
    )
    if not result.success:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
