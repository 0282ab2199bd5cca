"""One real LIBERO-PRO episode through a server, in code rather than by `python -m sim run`.

Shows how the simulator is a robot like any other: an environment, a Robot around it, tools, and a
judge that asks the simulator whether the task was done. Lockstep: the world waits for the policy.
Needs the extras [sim] and [server]. Takes about 30 seconds.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from robot_sdk.client import connect
from robot_sdk.runner import EpisodeOptions, run_episode
from robot_sdk.tools import ToolRegistry
from server.launch.server_process import ServerProcess
from sim.libero.env import LiberoEnv
from sim.libero.judge import settle_and_judge
from sim.libero.robot import EMBODIMENT, LiberoRobot
from sim.libero.tools import POLICY, LiberoTools

SUITE, TASK, INIT = "libero_object_swap", 0, 0


def main() -> None:
    with (
        tempfile.TemporaryDirectory() as folder,
        ServerProcess([], Path(folder)) as server,
        LiberoEnv(SUITE, TASK, INIT, gl="off") as env,
        connect(server.target) as client,
    ):
        robot = LiberoRobot(env)
        print(f"task: {env.language}")
        result = run_episode(
            client,
            robot,
            lambda running: ToolRegistry(LiberoTools(robot, running)),
            env.language,
            EpisodeOptions(
                robot_id="panda-0",
                embodiment=EMBODIMENT,
                policies=(POLICY,),
                pace="lockstep",
                allow_privileged=True,  # the stand-in policy sees object poses
            ),
            judge=lambda _: settle_and_judge(robot),
        )
        print(f"{result.outcome} ({result.reason}): {result.detail}")
        print(
            f"{result.turns} brain turns, {result.chunks} chunks, {result.env_steps} steps, "
            f"{result.policy_steps} of them by the policy"
        )
    if not result.success:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
