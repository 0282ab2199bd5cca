"""`python -m sim pacing`: does pacing hold in real time, over real gRPC?

A server on this machine with a policy that takes as long as a measured one and computes nothing,
and robots whose control loops run in real time. What starves them is then the tier and the network,
not a model or a simulator.

The robots are threads of this process: seven interpreters more would take turns on the few cores
of a small machine, while a robot here computes less than 1% of the time.

Robots and server run at real-time priority if this user may have it, as robot controllers do. A
batch of seven leaves 14 ms of a cycle, and at normal priority the scheduler of a small machine
takes more than that every few cycles. The result says which priority it was.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import random
import sys
import tempfile
import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

import robot_sdk
from robot_sdk.action_guard import ActionGuard
from robot_sdk.client import Client
from robot_sdk.clock import SYSTEM_CLOCK
from robot_sdk.control import ControlLoop
from robot_sdk.episode_trace import EpisodeTrace
from robot_sdk.errors import InvalidArgumentError, RobotSdkError
from robot_sdk.loop_state import LoopState
from robot_sdk.observation import Observation
from robot_sdk.policy_source import PolicyResult
from robot_sdk.robot import Action
from robot_sdk.running_episode import RunningEpisode
from robot_sdk.telemetry import attributes, no_telemetry
from server.core.batching import STUDY_TABLE
from server.launch.server_process import ServerProcess
from sim.cli.output import why_unusable
from sim.machine import machine

EXIT_CODES = (
    "exit codes: 0 all cases ran; 1 one could not be run to its end; 2 wrong arguments; "
    "130 interrupted, cases that had ended are kept."
)

_POLICY = "table"
_FACTORY = "server.policy.table_policy:TablePolicy"
_STATE_KEY = "observation/state"
_IMAGE_KEYS = ("images/agentview", "images/wrist")
_IMAGE_PX = 224
_ACTION_DIM = 7
#: Robots are switched on one after another, each at its own moment within these seconds.
_START_SPREAD_S = 1.0
#: What a state-only observation loses on loopback there and back, little more than this.
_LOOPBACK_MARGIN_S = 0.001
#: Of SCHED_FIFO, 1 to 99: above everything ordinary, below what keeps the system alive.
_REALTIME_PRIORITY = 20


@dataclass(frozen=True)
class Case:
    """One run.

    Attributes:
        discipline: "paced", or "unpaced": the same batcher, and robots ask when they want to.
        images: Observations hold two pictures of 224x224 besides the state.
    """

    discipline: str
    images: bool


@dataclass(frozen=True)
class RobotRow:
    """One robot. Ticks of its policy run, by the SDK's own counters."""

    starved_fraction: float
    acted_ticks: int
    starved_ticks: int
    start_wait_ticks: int
    overrun_ticks: int
    chunks: int
    failures: int
    out_of_order_actions: int
    grid_shift_s: float
    lateness_p50_s: float | None
    lateness_p99_s: float | None
    lateness_max_s: float | None


class NumberedRobot:
    """A robot that only looks whether actions come in the order of their steps."""

    def __init__(self, control_hz: float, seed: int) -> None:
        self.control_hz = control_hz
        self.action_dim = _ACTION_DIM
        self.num_out_of_order = 0
        self._last = -1.0
        self._num_frames = 0
        chance = np.random.default_rng(seed)
        shape = (_IMAGE_PX, _IMAGE_PX, 3)
        self._pictures = {
            key: chance.integers(0, 256, shape, dtype=np.uint8) for key in _IMAGE_KEYS
        }

    def observe(self, keys: Collection[str] | None = None) -> Observation:
        """A state of 8 numbers, and of the two pictures those that are asked for."""
        wanted = {_STATE_KEY} if keys is None else set(keys)
        known = {_STATE_KEY, *self._pictures}
        if not wanted <= known:
            raise InvalidArgumentError(
                "no such observation", field="keys", value=sorted(wanted - known), allowed=known
            )
        self._num_frames += 1
        images = {key: picture for key, picture in self._pictures.items() if key in wanted}
        state = np.full(8, self._num_frames, np.float32)
        return Observation(
            tensors={_STATE_KEY: state} if _STATE_KEY in wanted else {},
            images=images,
            captured_s=SYSTEM_CLOCK.now_s(),
            frame_ids=dict.fromkeys(images, self._num_frames),
        )

    def act(self, action: Action) -> None:
        """Rows hold the number of their step, so each must be above the one before."""
        number = float(action[0])
        self.num_out_of_order += number <= self._last
        self._last = number

    def hold(self) -> None:
        """Nothing moves."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    parser.add_argument("--robots", type=int, default=7, help="default: %(default)s")
    parser.add_argument("--hz", type=float, default=20.0, help="control rate; default: %(default)s")
    parser.add_argument("--gpus", type=int, default=1, help="policy workers; default: %(default)s")
    parser.add_argument(
        "--seconds", type=float, default=60.0, help="length of each case; default: %(default)s"
    )
    parser.add_argument(
        "--paced", action="store_true", help="run the paced case, and only those named"
    )
    parser.add_argument("--unpaced", action="store_true", help="run the unpaced case, likewise")
    parser.add_argument(
        "--images", action="store_true", help="run the paced case with pictures, likewise"
    )
    parser.add_argument(
        "--seed", type=int, default=0, help="when the robots are switched on; default: %(default)s"
    )
    parser.add_argument(
        "--priority",
        choices=("realtime", "normal"),
        default="realtime",
        help="how the system schedules robots and server; default: %(default)s where allowed",
    )
    parser.add_argument("--json", type=Path, help="file for the result")


def run(args: argparse.Namespace) -> int:
    """Run the cases; prints a line for each. Returns the exit code."""
    for name in ("robots", "hz", "gpus", "seconds"):
        if not 0 < getattr(args, name) < float("inf"):
            print(f"error: --{name} is {getattr(args, name)}; it must be above 0", file=sys.stderr)
            return 2
    problem = None if args.json is None else why_unusable(args.json.parent)
    if args.json is not None and args.json.is_dir():
        problem = f"{args.json} is a folder"
    if problem is not None:
        print(f"error: --json: {problem}", file=sys.stderr)
        return 2
    with _scheduled(args.priority) as priority:
        return _run_cases(args, priority)


@contextmanager
def _scheduled(wanted: str) -> Iterator[str]:
    """Give this process and all that it starts the priority; yields what it got."""
    before = os.sched_getscheduler(0), os.sched_getparam(0)
    try:
        if wanted == "realtime":
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(_REALTIME_PRIORITY))
    except PermissionError:
        print("this user may not have real-time priority; going on at normal", file=sys.stderr)
        wanted = "normal"
    try:
        yield wanted
    finally:
        os.sched_setscheduler(0, *before)


def _run_cases(args: argparse.Namespace, priority: str) -> int:
    cases = _cases(args)
    rows: list[dict[str, Any]] = []
    result = {
        "command": "python -m sim pacing",
        "settings": {
            **{name: getattr(args, name) for name in ("robots", "hz", "gpus", "seconds", "seed")},
            "cases": [asdict(case) for case in cases],
            "priority": priority,
        },
        "machine": machine(),
        "policy": f"sleeps the latencies of {STUDY_TABLE.policy} ({STUDY_TABLE.measured_on})",
        "rows": rows,
    }
    status = 0
    for case in cases:
        try:
            rows.append(_row(args, case))
            print(_line(rows[-1]), flush=True)
        except RobotSdkError as error:
            print(f"error: {error}", file=sys.stderr)
            status = 1
        except KeyboardInterrupt:
            print("interrupted; the case that ran is not counted", file=sys.stderr)
            return 130
        if args.json is not None:
            args.json.write_text(json.dumps(result, indent=1) + "\n")
    return status


def _cases(args: argparse.Namespace) -> list[Case]:
    every = not (args.paced or args.unpaced or args.images)
    wanted = {
        Case("paced", images=False): args.paced,
        Case("unpaced", images=False): args.unpaced,
        Case("paced", images=True): args.images,
    }
    return [case for case, named in wanted.items() if named or every]


def _row(args: argparse.Namespace, case: Case) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="pacing-") as name:
        folder = Path(name)
        table = folder / "latency.json"
        table.write_text(json.dumps(STUDY_TABLE.to_json()))
        with ServerProcess(_settings(args, case, table), folder) as server:
            robots = _run_fleet(server.target, args, case)
    starved = [robot.starved_fraction for robot in robots]
    counted = sum(robot.acted_ticks + robot.starved_ticks for robot in robots)
    return {
        "hz": args.hz,
        "gpus": args.gpus,
        "discipline": case.discipline,
        "robots": args.robots,
        "images": case.images,
        "seconds": args.seconds,
        "worst_starved_fraction": max(starved),
        "starved_fraction": sum(robot.starved_ticks for robot in robots) / max(1, counted),
        "overrun_ticks": sum(robot.overrun_ticks for robot in robots),
        "out_of_order_actions": sum(robot.out_of_order_actions for robot in robots),
        "per_robot": [asdict(robot) for robot in robots],
    }


def _settings(args: argparse.Namespace, case: Case, table: Path) -> list[str]:
    policy = f"policies.{_POLICY}"
    options = f'{{table_file = "{table}", control_hz = {args.hz}'
    options += f", image_px = {_IMAGE_PX}}}" if case.images else "}"
    paced = case.discipline == "paced"
    return [
        'server.roles=["policy"]',
        f'{policy}.kind="factory"',
        f'{policy}.factory="{_FACTORY}"',
        f"{policy}.options={options}",
        f"{policy}.workers={args.gpus}",
        f"{policy}.max_batch={STUDY_TABLE.largest_batch}",
        f'{policy}.latency_table="{table}"',
        f"{policy}.pacing={str(paced).lower()}",
        f"{policy}.refuse_overload=false",
        f"{policy}.jitter_margin_s={_LOOPBACK_MARGIN_S}",
    ]


def _run_fleet(target: str, args: argparse.Namespace, case: Case) -> list[RobotRow]:
    chance = random.Random(args.seed)
    delays_s = [chance.random() * _START_SPREAD_S for _ in range(args.robots)]
    rows: list[RobotRow | None] = [None] * args.robots
    errors: list[BaseException] = []
    stopping = threading.Event()

    def drive(index: int) -> None:
        try:
            SYSTEM_CLOCK.sleep_until(begin_s + delays_s[index])
            rows[index] = _run_robot(target, args, case, index, stopping)
        except BaseException as error:  # noqa: BLE001 - raised again by the caller
            errors.append(error)

    # A full collection over everything that was imported takes 20 ms and more, which is longer than
    # the tier has to spare.
    gc.collect()
    gc.freeze()
    begin_s = SYSTEM_CLOCK.now_s() + 0.2
    threads = [
        threading.Thread(target=drive, args=(index,), name=f"robot-{index}")
        for index in range(args.robots)
    ]
    for thread in threads:
        thread.start()
    try:
        for thread in threads:
            thread.join()
    except KeyboardInterrupt:
        # Their server is still there, so they end at their next tick instead of holding without it.
        stopping.set()
        for thread in threads:
            thread.join()
        raise
    if errors:
        raise errors[0]
    return [row for row in rows if row is not None]


def _run_robot(
    target: str, args: argparse.Namespace, case: Case, index: int, stopping: threading.Event
) -> RobotRow:
    robot = NumberedRobot(args.hz, index)
    keys = (_STATE_KEY, *_IMAGE_KEYS) if case.images else (_STATE_KEY,)
    with robot_sdk.connect(target) as client, _running(client, robot, f"robot-{index}") as running:
        report = running.run_policy(
            _POLICY,
            "go",
            max_steps=max(1, round(args.seconds * args.hz)),
            observation_keys=keys,
            stop_when=lambda _: True if stopping.is_set() else None,
        )
        state = running.state
    assert isinstance(report.result, PolicyResult)
    return _robot_row(report.result, state, robot)


@contextmanager
def _running(client: Client, robot: NumberedRobot, name: str) -> Iterator[RunningEpisode]:
    """An admitted episode with its control loop, as `robot_sdk.run_episode` makes it."""
    with client.episode(
        task="ask in step",
        robot_id=name,
        control_hz=robot.control_hz,
        policies=(_POLICY,),
        uses_brain=False,
    ) as episode:
        telemetry = no_telemetry()
        loop = ControlLoop(robot, guard=ActionGuard.unlimited(robot.action_dim))
        span = telemetry.start_span(attributes.SPAN_EPISODE)
        trace = EpisodeTrace(telemetry, span, robot.control_hz, loop.state)
        with loop:
            yield RunningEpisode(
                episode, client.server_info, loop, trace, robot.control_hz, max_env_steps=None
            )
        episode.end("success", "the case is over")


def _robot_row(result: PolicyResult, state: LoopState, robot: NumberedRobot) -> RobotRow:
    counted = state.acted_steps + state.starved_ticks
    return RobotRow(
        starved_fraction=state.starved_ticks / counted if counted else 1.0,
        acted_ticks=state.acted_steps,
        starved_ticks=state.starved_ticks,
        start_wait_ticks=state.start_wait_ticks,
        overrun_ticks=state.overrun_ticks,
        chunks=result.num_chunks,
        failures=result.num_failures,
        out_of_order_actions=robot.num_out_of_order,
        grid_shift_s=state.grid_shift_s,
        lateness_p50_s=state.lateness.p50_s,
        lateness_p99_s=state.lateness.p99_s,
        lateness_max_s=state.lateness.max_s,
    )


def _line(row: dict[str, Any]) -> str:
    pictures = "two pictures" if row["images"] else "state only"
    return (
        f"{row['robots']} robots at {row['hz']:g} Hz, {row['gpus']} GPU, {row['discipline']}, "
        f"{pictures}, {row['seconds']:g} s: worst robot starved "
        f"{100 * row['worst_starved_fraction']:.2f}%, all {100 * row['starved_fraction']:.2f}%, "
        f"{row['overrun_ticks']} overruns, {row['out_of_order_actions']} out of order"
    )
