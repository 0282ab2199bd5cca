"""Whole episodes by the SDK against a server process: configurations, robots, waiting."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from robot_sdk.action_source import Tick
from robot_sdk.client import Client, connect
from robot_sdk.clock import SYSTEM_CLOCK
from robot_sdk.loop_state import LoopState
from robot_sdk.observation import Observation
from robot_sdk.results import EpisodeResult
from robot_sdk.robot import Action
from robot_sdk.runner import EpisodeOptions, run_episode
from robot_sdk.running_episode import RunningEpisode
from robot_sdk.testing import SimpleRobot
from robot_sdk.tools import ToolRegistry, finish, tool
from tests.integration.server.harness import PATIENCE_S, REPOSITORY, Server, wait_until

#: The promise of the SDK: back within this of the server's port opening, seconds.
BACK_WITHIN_S = 5.0
DRIVE_ALWAYS = ("drive", {"steps": 100_000})
FINISH = ("finish", {"success": True})


def config(
    calls: Sequence[tuple[str, Mapping[str, Any]]] = (("drive", {"steps": 20}), FINISH),
    *,
    delays_s: Sequence[float] = (0.0,),
    effects_file: str = "",
    policy: str = "tests.fakes.policies:StepPolicy",
    policy_options: Mapping[str, Any] | None = None,
    lease_ttl_s: float = 30.0,
    heartbeat_interval_s: float = 0.2,
    cap: int | None = None,
    max_waiting: int = 1000,
    more: str = "",
) -> str:
    """TOML of a server with a brain that makes these calls, and the policy `fake`."""
    script = [[name, json.dumps(arguments)] for name, arguments in calls]
    options = {"action_dim": 1, **(policy_options or {})}
    admission = "" if cap is None else f'[admission]\npolicy = "static-cap"\ncap = {cap}\n'
    return f"""
[brain]
engine = "factory"
factory = "tests.fakes.scripted:ScriptedBrain"
[brain.options]
calls = {json.dumps(script)}
delays_s = {json.dumps(list(delays_s))}
effects_file = {json.dumps(effects_file)}
[policies.fake]
kind = "factory"
factory = "{policy}"
[policies.fake.options]
{"".join(f"{key} = {json.dumps(value)}" + chr(10) for key, value in options.items())}
[episodes]
lease_ttl_s = {lease_ttl_s}
heartbeat_interval_s = {heartbeat_interval_s}
max_waiting = {max_waiting}
{admission}{more}
"""


@dataclass(frozen=True)
class Executed:
    """One action: the control step in which it was executed, its value, when."""

    step: int
    value: float
    at_s: float


class LoggingRobot(SimpleRobot):
    """Knows the control step of every action; `on_state` must be passed to run_episode.

    Attributes:
        executed: Every action, oldest first.
        commanded_s: When it was told to act or hold.
        state: The loop's counters after the last tick.
    """

    def __init__(self) -> None:
        super().__init__()
        self.executed: list[Executed] = []
        self.commanded_s: list[float] = []
        self.state = LoopState()
        self._acted: tuple[float, float] | None = None

    def act(self, action: Action) -> None:
        super().act(action)
        self._acted = (float(action[0]), SYSTEM_CLOCK.now_s())
        self.commanded_s.append(self._acted[1])

    def hold(self) -> None:
        super().hold()
        self.commanded_s.append(SYSTEM_CLOCK.now_s())

    def observe(self, keys: Collection[str] | None = None) -> Observation:
        return super().observe(keys)

    def on_state(self, state: LoopState) -> None:
        """Address the action of this tick."""
        self.state = state
        if self._acted is not None:
            self.executed.append(Executed(state.step - 1, *self._acted))
            self._acted = None

    def assert_every_action_was_of_its_step(self) -> None:
        """StepPolicy's row for step s is s: no action was early, late or repeated."""
        assert [item.value for item in self.executed] == [
            item.step % 1000 for item in self.executed
        ]
        steps = [item.step for item in self.executed]
        assert steps == sorted(set(steps))


class Tools:
    """What the scripted brain may call.

    Attributes:
        num_noted: How often `note` ran.
        enough: When set, `drive` ends.
    """

    def __init__(self, running: RunningEpisode) -> None:
        self.running = running
        self.num_noted = 0
        self.enough = threading.Event()

    @tool
    def drive(self, steps: int, instruction: str = "go") -> dict[str, Any]:
        """Let the policy drive."""
        report = self.running.run_policy(
            "fake", instruction, max_steps=steps, stop_when=self._is_enough
        )
        return {"steps": report.steps}

    @tool
    def note(self) -> dict[str, Any]:
        """Have an effect on the world that can be counted."""
        self.num_noted += 1
        return {"noted": self.num_noted}

    def _is_enough(self, _: Tick) -> str | None:
        return "enough" if self.enough.is_set() else None


class EpisodeThread:
    """`run_episode` in a thread of its own, so that the test can do harm meanwhile.

    Attributes:
        tools: None before admission.
        queued: Places in the queue so far.
    """

    def __init__(
        self,
        client: Client,
        robot: LoggingRobot,
        tools: Callable[[RunningEpisode], Tools] = Tools,
        **options: Any,
    ) -> None:
        self.robot = robot
        self.tools: Tools | None = None
        self.queued: list[int] = []
        self.ended_s = 0.0
        self._client = client
        self._make_tools = tools
        options.setdefault("policies", ("fake",))
        self._options = EpisodeOptions(
            on_queued=lambda update: self.queued.append(update.position), **options
        )
        self._result: EpisodeResult | None = None
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def is_running(self) -> bool:
        return self._thread.is_alive()

    def result(self, timeout_s: float = PATIENCE_S) -> EpisodeResult:
        """Wait for the end. Raises what run_episode raised."""
        self._thread.join(timeout_s)
        assert not self._thread.is_alive(), "the episode has not ended"
        if self._error is not None:
            raise self._error
        assert self._result is not None
        return self._result

    def wait_for(self, condition: Callable[[LoopState], bool]) -> None:
        """Wait for a state of the control loop."""
        wait_until(lambda: condition(self.robot.state) or not self.is_running)
        assert self.is_running, self._result or self._error

    def _registry(self, running: RunningEpisode) -> ToolRegistry:
        self.tools = self._make_tools(running)
        return ToolRegistry(self.tools, finish)

    def _run(self) -> None:
        try:
            self._result = run_episode(
                self._client,
                self.robot,
                self._registry,
                "go somewhere",
                self._options,
                on_state=self.robot.on_state,
            )
        except BaseException as error:
            self._error = error
        self.ended_s = SYSTEM_CLOCK.now_s()


def run_one(server: Server, **options: Any) -> tuple[EpisodeResult, LoggingRobot]:
    """One episode from connect to end."""
    robot = LoggingRobot()
    with connect(server.address) as client:
        return EpisodeThread(client, robot, **options).result(), robot


def sleep(duration_s: float) -> None:
    SYSTEM_CLOCK.sleep_until(SYSTEM_CLOCK.now_s() + duration_s)


def wait_for_port(port: int) -> float:
    """Wait until somebody listens; returns when, in seconds of the system clock."""

    def is_open() -> bool:
        with socket.socket() as probe:
            probe.settimeout(1.0)
            return probe.connect_ex(("127.0.0.1", port)) == 0

    wait_until(is_open, 60.0)
    return SYSTEM_CLOCK.now_s()


def listening_port(server: Server) -> int:
    """The port from the server's log: it listens before its models are loaded."""
    wait_until(lambda: "listening on" in server.log, 60.0)
    return int(server.log.split("listening on 127.0.0.1:")[1].split(",")[0])


class RobotProcess:
    """A robot in a process of its own that tells what happens to it in lines of JSON."""

    def __init__(
        self, address: str, *, environment: Mapping[str, str] | None = None, **options: Any
    ) -> None:
        self.process = subprocess.Popen(
            [
                *(sys.executable, "-m", "tests.integration.end_to_end.robot_program"),
                *(address, json.dumps(options)),
            ],
            cwd=REPOSITORY,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            env=None if environment is None else dict(environment),
        )

    def until(self, event: str) -> dict[str, Any]:
        """Read on to the first line of this kind."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            told = json.loads(line)
            if told["event"] == event:
                return told
        raise AssertionError(f"the robot ended without {event!r}")

    def kill(self) -> None:
        """As the out-of-memory killer does."""
        self.process.kill()
        self.close()

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()

    def __enter__(self) -> RobotProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
