"""Robot processes of the memory benchmark: `python _support_robot.py idle|episodes ADDRESS [NUM]`.

`idle` connects, opens an episode and waits: what the SDK costs a controller that embeds it.
`episodes` runs NUM whole episodes on a fake robot with two cameras: brain turns, pictures for the
brain, and a policy that runs for 20 control steps. Both print one JSON line for each state.
"""

from __future__ import annotations

import gc
import json
import os
import sys
from collections.abc import Collection
from typing import Any

from _support_load import ACTION_DIM, PROMPT, make_samples
from _support_policy import BASE_RGB, STATE, WRIST_RGB
from _support_process import num_open_fds, num_threads, rss_bytes
from _support_product import POLICY

from robot_sdk.client import connect
from robot_sdk.clock import SYSTEM_CLOCK
from robot_sdk.messages import ImagePart
from robot_sdk.observation import Observation
from robot_sdk.robot import Action
from robot_sdk.runner import EpisodeOptions, run_episode
from robot_sdk.running_episode import RunningEpisode
from robot_sdk.tools import Finish, ToolRegistry, ToolResult, tool

_NUM_STEPS = 20


def say(state: str, **figures: Any) -> None:
    """Print what this process takes now."""
    pid = os.getpid()
    figures |= {
        "state": state,
        "rss_mb": rss_bytes(pid) / 1e6,
        "threads": num_threads(pid),
        "open_fds": num_open_fds(pid),
    }
    print(json.dumps(figures), flush=True)


class CameraRobot:
    """Shows the benchmark's pictures and accepts everything."""

    control_hz = 20.0
    action_dim = ACTION_DIM

    def __init__(self) -> None:
        self._samples = make_samples(0)
        self._num_observations = 0

    def observe(self, keys: Collection[str] | None = None) -> Observation:
        self._num_observations += 1
        sample = self._samples[self._num_observations % len(self._samples)]
        images = {BASE_RGB: sample.base_rgb, WRIST_RGB: sample.wrist_rgb}
        wanted = set(keys or ())
        return Observation(
            tensors={STATE: sample.state},
            images={key: image for key, image in images.items() if key in wanted},
            captured_s=SYSTEM_CLOCK.now_s(),
        )

    def act(self, action: Action) -> None:
        pass

    def hold(self) -> None:
        pass


class Tools:
    """What the benchmark's planner calls."""

    def __init__(self, running: RunningEpisode) -> None:
        self._running = running

    @tool
    def look(self) -> ToolResult:
        """Take a picture."""
        seen = self._running.call(lambda robot: robot.observe([BASE_RGB]))
        return ToolResult("one picture", images=(ImagePart(seen.images[BASE_RGB], "base"),))

    @tool
    def work(self) -> str:
        """Let the policy work."""
        report = self._running.run_policy(POLICY, PROMPT, max_steps=_NUM_STEPS)
        return f"{report.steps} steps"

    @tool
    def done(self) -> ToolResult:
        """End the episode."""
        return ToolResult("done", finish=Finish(True, "done"))


def idle(address: str) -> None:
    """Connect, open an episode with a policy stream, and wait for the end of the input."""
    client = connect(address)
    say("connected")
    with client.episode(
        task=PROMPT, robot_id="idle", policies=(POLICY,), uses_brain=False
    ) as episode:
        with episode.open_policy(POLICY, PROMPT, (BASE_RGB, WRIST_RGB, STATE), control_hz=20.0):
            say("episode and policy open")
            for _ in sys.stdin:
                say("idle")
    client.close()


def episodes(address: str, count: int) -> None:
    """Run them one after the other with one client."""
    client = connect(address)
    robot = CameraRobot()
    say("connected", episodes=0)
    for number in range(1, count + 1):
        result = run_episode(
            client,
            robot,
            lambda running: ToolRegistry(Tools(running)),
            PROMPT,
            EpisodeOptions(policies=(POLICY,), pace="lockstep"),
        )
        if not result.success:
            raise RuntimeError(f"episode {number} ended {result.outcome}: {result.detail}")
        if number % 20 == 0 or number == count:
            gc.collect()
            say("running", episodes=number, turns=result.turns, chunks=result.chunks)
    client.close()


if __name__ == "__main__":
    if sys.argv[1] == "idle":
        idle(sys.argv[2])
    else:
        episodes(sys.argv[2], int(sys.argv[3]))
