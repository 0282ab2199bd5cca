"""A toy robot with its tools, in plain numpy: a gripper over a table with a ball and a box.

What is here is what you write for a robot of your own: `observe`, `act`, `hold`, and a few tools.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np

from robot_sdk.action_source import Act, Command, Done, Tick
from robot_sdk.clock import SYSTEM_CLOCK
from robot_sdk.errors import InvalidArgumentError
from robot_sdk.observation import Observation
from robot_sdk.policy_source import PolicyResult
from robot_sdk.running_episode import RunningEpisode
from robot_sdk.tools import Range, tool

EXAMPLES = Path(__file__).parent
STEP_M = 0.02
POLICY = "toy-reach"
Coordinate = Annotated[float, Range(-1.0, 1.0, unit="m")]


class ToyRobot:
    """A gripper that moves up to 2 cm a step and takes what it closes on. Control rate 20 Hz.

    Actions are `[dx, dy, dz, gripper]`, each in [-1, 1]; gripper above 0 closes.
    """

    control_hz = 20.0
    action_dim = 4

    def __init__(self) -> None:
        self.position = np.array([0.0, 0.0, 0.30])
        self.is_closed = False
        self.target = np.zeros(3)
        self.held = ""
        self.things = {
            "ball": (np.array([0.20, -0.10, 0.02]), np.array([0.04, 0.04, 0.04])),
            "box": (np.array([-0.10, 0.25, 0.05]), np.array([0.20, 0.20, 0.10])),
        }

    def observe(self, keys: Collection[str] | None = None) -> Observation:
        """The gripper's state (4,), and the target (3,) that the policy is to take."""
        state = np.r_[self.position, float(self.is_closed)].astype(np.float32)
        known = {
            "observation/state": state,
            "observation/target": self.target.astype(np.float32),
        }
        wanted = known if keys is None else keys
        for key in wanted:
            if key not in known:
                raise InvalidArgumentError("no such observation", field=key, allowed=known)
        tensors = {key: known[key] for key in wanted}
        return Observation(tensors=tensors, captured_s=SYSTEM_CLOCK.now_s())

    def act(self, action: np.ndarray) -> None:
        """One control period."""
        self.position = self.position + np.clip(action[:3], -1.0, 1.0) * STEP_M
        self.is_closed = bool(action[3] > 0.0)
        if not self.is_closed:
            self._drop()
        elif not self.held:
            self.held = next((n for n in ("ball",) if self._distance(n) < 0.02), "")
        if self.held:
            self.things[self.held] = (self.position.copy(), self.things[self.held][1])

    def hold(self) -> None:
        """Stay where it is, fingers as they are."""
        self.act(np.r_[0.0, 0.0, 0.0, 1.0 if self.is_closed else -1.0])

    def _distance(self, name: str) -> float:
        return float(np.linalg.norm(self.things[name][0] - self.position))

    def _drop(self) -> None:
        if self.held:
            position, size = self.things[self.held]
            position[2] = size[2] / 2  # it falls to the table, or to the bottom of the box
            self.held = ""


class ToyTools:
    """What the brain may do. The names are those that the demo planner knows."""

    def __init__(self, robot: ToyRobot, running: RunningEpisode) -> None:
        self._robot = robot
        self._running = running

    @tool
    def scene(self) -> dict[str, Any]:
        """List what is there."""
        return self._running.call(
            lambda _: {"objects": [self._thing("ball")], "places": [self._thing("box")]}
        )

    @tool
    def localise(self, object: str) -> dict[str, Any]:  # noqa: A002  # the brain's word for it
        """Find one thing, or the gripper."""
        return self._running.call(lambda _: self._thing(object))

    @tool
    def policy_pick(self, object: Literal["ball"]) -> dict[str, Any]:  # noqa: A002
        """Let the policy take an object and lift it."""
        robot = self._robot
        robot.target = robot.things[object][0].copy()
        report = self._running.run_policy(
            POLICY,
            f"pick up the {object}",
            max_steps=200,
            stop_when=lambda _: "lifted" if robot.held and robot.position[2] > 0.1 else None,
        )
        result = report.result
        grasped = isinstance(result, PolicyResult) and result.value == "lifted"
        return {"grasped": grasped, "held": robot.held or None, "steps": report.steps}

    @tool
    def move_to(self, x: Coordinate, y: Coordinate, z: Coordinate) -> dict[str, Any]:
        """Move the gripper in a straight line."""
        report = self._running.run(Reach(self._robot, np.array([x, y, z])))
        return {"reached": True, "steps": report.steps}

    @tool
    def gripper(self, command: Literal["open", "close"]) -> dict[str, Any]:
        """Open or close the fingers."""
        self._running.run(Reach(self._robot, None, 1.0 if command == "close" else -1.0))
        return {"held": self._robot.held or None}

    def _thing(self, name: str) -> dict[str, Any]:
        if name == "gripper":
            return {"name": name, "position": self._robot.position.tolist()}
        position, size = self._robot.things[name]
        return {"name": name, "position": position.tolist(), "size": size.tolist()}


@dataclass
class Reach:
    """A scripted motion: an action source that the control loop asks in every tick."""

    robot: ToyRobot
    goal: np.ndarray | None
    gripper: float | None = None
    name: str = "reach"
    kind: Literal["scripted"] = "scripted"
    steps: int = 0

    def start(self, tick: Tick) -> None:
        """Keep the fingers as they are unless told otherwise."""
        if self.gripper is None:
            self.gripper = 1.0 if self.robot.is_closed else -1.0
        if self.goal is None:
            self.goal = self.robot.position.copy()

    def next(self, tick: Tick) -> Command:
        """One step towards the goal; done when it is there and has acted at least once."""
        error = self.goal - self.robot.position
        if self.steps and np.linalg.norm(error) < 0.001:
            return Done()
        self.steps += 1
        delta = np.clip(error / STEP_M, -1.0, 1.0)
        return Act(np.r_[delta, self.gripper].astype(np.float32))

    def wait(self, timeout_s: float) -> None:
        """Never holds."""

    def stop(self) -> None:
        """Nothing to free."""


@contextmanager
def local_server(*settings: str) -> Iterator[str]:
    """A server on a free port of this machine; yields "host:port".

    In your own deployment the server runs on its own machine: `python -m server --config FILE`.
    """
    with tempfile.TemporaryDirectory() as folder:
        ready = Path(folder) / "ready.json"
        command = [sys.executable, "-m", "server", "--ready-file", str(ready)]
        command += ["--config", str(EXAMPLES / "toy_server.toml")]
        command += ['--set=server.log_level="warning"']
        command += [f"--set={setting}" for setting in settings]
        paths = [str(EXAMPLES), str(EXAMPLES.parent), os.environ.get("PYTHONPATH", "")]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in paths if p)}
        process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)
        try:
            while not ready.exists():
                if process.poll() is not None:
                    raise SystemExit(f"the server ended with status {process.returncode}")
                SYSTEM_CLOCK.sleep_until(SYSTEM_CLOCK.now_s() + 0.05)
            told = json.loads(ready.read_text())
            yield f"{told['host']}:{told['port']}"
        finally:
            process.terminate()
            process.wait()
