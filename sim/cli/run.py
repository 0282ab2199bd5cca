"""`python -m sim run`: LIBERO-PRO episodes through a server, as many as asked for."""

from __future__ import annotations

import argparse
import json
import shlex
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import datetime, timezone
from pathlib import Path
from types import FrameType

from robot_sdk.client import connect
from robot_sdk.clock import wall_unix_ns
from robot_sdk.errors import InvalidArgumentError, RobotSdkError
from robot_sdk.interpreter import python_command
from robot_sdk.server_info import ServerInfo
from server.launch.server_process import ServerProcess
from sim.cli.plan import Job, RobotSettings, plan_jobs
from sim.cli.pool import Event, RobotPool
from sim.cli.record import EpisodeRecord, failed_record
from sim.cli.result_file import ResultFile
from sim.libero.tools import POLICY

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130

EXIT_CODES = """\
Exit codes: 0 every episode ran to a verdict, which may be a failure (the results say which); 1 an
episode could not be run to one (a crash, a lost server, a stop); 2 wrong arguments or a result file
that cannot be written; 130 stopped by a signal."""


class Interrupted(Exception):
    """A signal asked the run to stop."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `run`."""
    parser.add_argument("--suite", default="libero_object_swap", help="for example %(default)s")
    parser.add_argument("--tasks", default="0-9", help='task indices, "0-9" or "0,3,5-7"')
    parser.add_argument("--inits", default="0", help="fixed initial states, written alike")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--pace", choices=("lockstep", "realtime"), default="lockstep")
    parser.add_argument("--robots", type=int, default=1, help="robot processes, 1.5 GB each")
    parser.add_argument("--cap", type=int, help="most episodes that the server lets in at once")
    parser.add_argument("--server", metavar="HOST:PORT", help="default: one of its own")
    parser.add_argument(
        "--policy-delay-ms", type=float, default=0.0, help="modelled, added to every chunk"
    )
    parser.add_argument(
        "--brain-delay-s", type=float, default=0.0, help="modelled, added to every turn"
    )
    parser.add_argument("--limits", choices=("suite",), help="also apply LIBERO's own step limits")
    parser.add_argument("--max-steps", type=int, default=3000, help="step budget of an episode")
    parser.add_argument("--images", action="store_true", help="camera pictures for the brain")
    parser.add_argument("--video", action="store_true", help="film every episode")
    parser.add_argument("--run-folder", type=Path, help="default: out/run-DATE-TIME")
    parser.add_argument("--json", type=Path, metavar="FILE", help="where the results go")


def exit_code(records: Sequence[EpisodeRecord]) -> int:
    """What a run ends with that came to its end. Failures are results, not errors."""
    return 0 if all(record.has_verdict for record in records) else EXIT_FAILED


def run(args: argparse.Namespace) -> int:
    """Run it; returns one of the exit codes of `EXIT_CODES`."""
    try:
        jobs = plan_jobs(args.suite, args.tasks, args.inits)
        check_arguments(args)
    except InvalidArgumentError as error:
        print(f"error: {error}", file=sys.stderr)
        return EXIT_USAGE
    if args.pace == "realtime" and (args.images or args.video):
        print(
            "note: drawing pictures in software takes several control periods; in real time those "
            "ticks are skipped and counted as overrun",
            file=sys.stderr,
        )
    folder = args.run_folder or Path("out") / f"run-{_time_text()}"
    results = ResultFile(
        args.json or folder / "summary.json",
        ["python", "-m", "sim", *sys.argv[1:]],
        describe_settings(args),
    )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # Now, and not after the first episode has been run for nothing.
        results.write()
    except OSError as error:
        print(f"error: cannot write the results: {error}", file=sys.stderr)
        return EXIT_USAGE
    return run_jobs(jobs, args, folder, results, Progress(len(jobs)))


def check_arguments(args: argparse.Namespace) -> None:
    """Refuse numbers that cannot work and options that exclude each other."""
    for name, value, low, high in (
        ("robots", args.robots, 1, 64),
        ("max-steps", args.max_steps, 1, 1_000_000),
        ("policy-delay-ms", args.policy_delay_ms, 0.0, 60_000.0),
        ("brain-delay-s", args.brain_delay_s, 0.0, 3600.0),
        ("cap", 1 if args.cap is None else args.cap, 1, 10_000),
    ):
        if not low <= value <= high:
            raise InvalidArgumentError(
                "out of range", field=f"--{name}", value=value, allowed=[f"{low} to {high}"]
            )
    changes_server = args.cap is not None or args.policy_delay_ms or args.brain_delay_s
    if args.server and changes_server:
        raise InvalidArgumentError(
            "cap and delays are settings of the server",
            field="--server",
            value=args.server,
            hint="leave --server out to start one with them",
        )


def describe_settings(args: argparse.Namespace) -> dict[str, object]:
    """The options as plain values, for the result file."""
    return {
        name: str(value) if isinstance(value, Path) else value
        for name, value in vars(args).items()
        if name not in ("command", "json", "run_folder")
    }


def server_settings(args: argparse.Namespace, folder: Path) -> list[str]:
    """What a server of our own is started with."""
    settings = [
        # A JSON string is a TOML string, whatever the folder is called.
        f"telemetry.run_folder={json.dumps(str(folder), ensure_ascii=False)}",
        f"brain.delay_s={args.brain_delay_s}",
        f"policies.{POLICY}.added_latency_s={args.policy_delay_ms / 1000.0}",
    ]
    if args.cap is not None:
        settings += ['admission.policy="static-cap"', f"admission.cap={args.cap}"]
    return settings


class Progress:
    """Says what happens while it does, one line at a time.

    Args:
        num_jobs: Episodes of the run.
        show_tools: Also a line for every tool that is seen running.
    """

    def __init__(self, num_jobs: int, *, show_tools: bool = False) -> None:
        self._num_jobs = num_jobs
        self._show_tools = show_tools
        self._tools: dict[int, str] = {}
        self._num_done = 0
        self._queued: dict[int, object] = {}

    def server(self, info: ServerInfo, target: str) -> None:
        """The server answers."""
        brain = "no brain" if info.brain is None else f"brain {info.brain.engine}"
        policies = ", ".join(
            f"{spec.name}{' (a stand-in)' if spec.stand_in else ''}" for spec in info.policies
        )
        print(f"server {target}: {brain}; policies {policies}", flush=True)

    def event(self, event: Event) -> None:
        """A robot said something."""
        robot, values = event.robot, event.values
        label = robot.job.label if robot.job else ""
        if event.name == "queued":
            place = values["position"]
            if self._queued.get(robot.index) == place:
                return
            self._queued[robot.index] = place
            wait_s = values["expected_wait_s"]
            wait = "wait unknown yet" if wait_s is None else f"expected wait {wait_s:.0f} s"
            print(f"  {robot.name}  {label}  queued at place {place}, {wait}", flush=True)
        elif event.name == "admitted":
            self._queued.pop(robot.index, None)
            print(f"  {robot.name}  {label}  admitted", flush=True)
        elif event.name == "progress" and self._show_tools:
            tool = values["tool"]
            if tool and tool != self._tools.get(robot.index):
                print(f"  {robot.name}  {label}  step {values['step']}, {tool}", flush=True)
            self._tools[robot.index] = tool

    def episode(self, record: EpisodeRecord) -> None:
        """An episode is over."""
        self._num_done += 1
        word = "success" if record.success else f"FAILED ({record.reason})"
        print(
            f"[{self._num_done}/{self._num_jobs}] {record.job.label}  {word}  "
            f"{steps_text(record)}, {record.brain_turns} turns, "
            f"{record.chunks} chunks, {record.starved_ticks} starved, "
            f"{time_text(record)}  {record.language}",
            flush=True,
        )
        if not record.success and record.detail:
            print(f"      {record.detail}", flush=True)


def steps_text(record: EpisodeRecord) -> str:
    """Steps, how many of them had an action if not all, and the share under the policy."""
    acted = "" if record.acted_steps == record.steps else f", {record.acted_steps} acted"
    share = "-" if record.policy_share is None else f"{record.policy_share:.0%}"
    return f"{record.steps} steps{acted} (policy in charge: {share})"


def time_text(record: EpisodeRecord) -> str:
    """How long it took, from admission and with everything around it."""
    around = [
        "start-up",
        *(["queue"] if record.queued_s >= 0.1 else []),
        *(["film"] if record.files else []),
    ]
    words = " and ".join(filter(None, [", ".join(around[:-1]), around[-1]]))
    whole = f"{record.wall_time_s:.1f} s with {words}"
    return whole if record.duration_s is None else f"{record.duration_s:.1f} s ({whole})"


def run_jobs(
    jobs: Sequence[Job],
    args: argparse.Namespace,
    folder: Path,
    results: ResultFile,
    progress: Progress,
) -> int:
    """Run the episodes and keep every record, whatever ends the run."""
    left = list(jobs)
    note, status = "", 0
    pool: RobotPool | None = None
    server: ServerProcess | None = None
    try:
        with _signals_raise(), ExitStack() as stack:
            target = args.server
            if not target:
                server = stack.enter_context(ServerProcess(server_settings(args, folder), folder))
                target = server.target
            with connect(target) as client:
                results.describe_server(client.server_info)
                progress.server(client.server_info, target)
            pool = stack.enter_context(
                RobotPool(robot_settings(args, target, folder), args.robots, progress.event)
            )
            for record in pool.run(jobs):
                results.add(record)
                left.remove(record.job)
                progress.episode(record)
                if server is not None and server.exit_status is not None:
                    note = f"the server ended with status {server.exit_status}; its log is "
                    note += str(server.log_path)
                    status = EXIT_FAILED
                    break
    except (Interrupted, KeyboardInterrupt):
        note, status = "stopped by a signal", EXIT_INTERRUPTED
    except RobotSdkError as error:
        note, status = str(error), EXIT_FAILED
    for job in left:
        results.records.append(failed_record(job, "not_finished", note))
    status = status or exit_code(results.records)
    results.finish(complete=not left, note=note)
    if note:
        print(f"error: {note}; {len(left)} of {len(jobs)} episodes not finished", file=sys.stderr)
    print_summary(results, folder)
    return status


def robot_settings(args: argparse.Namespace, target: str, folder: Path) -> RobotSettings:
    """What the robots are started with."""
    return RobotSettings(
        target=target,
        run_id=folder.name,
        seed=args.seed,
        pace=args.pace,
        max_steps=args.max_steps,
        suite_limits=args.limits == "suite",
        with_images=args.images,
        with_video=args.video,
        run_folder=str(folder),
    )


def print_summary(results: ResultFile, folder: Path) -> None:
    """The result in a few lines."""
    summary = results.summary()
    print(f"\n{summary['successes']} of {summary['episodes']} episodes succeeded")
    if summary["without_verdict"]:
        print(f"{summary['without_verdict']} could not be run to a verdict")
    if summary["steps"]:
        held = summary["steps"] - summary["acted_steps"]
        print(
            f"steps: {summary['steps']}{f' ({held} of them held)' if held else ''}, "
            f"{summary['policy_step_share']:.1%} with the policy in charge, "
            f"{summary['scripted_step_share']:.1%} with scripted tools; "
            f"{summary['chunks']} chunks, {summary['starved_ticks']} starved ticks"
        )
    if summary["failure_reasons"]:
        print("failures: " + ", ".join(f"{k} {v}" for k, v in summary["failure_reasons"].items()))
    if results.path is not None:
        print(f"results: {results.path}")
    print(f"traces: {python_command()} -m robot_sdk trace {shlex.quote(str(folder))}")


@contextmanager
def _signals_raise() -> Iterator[None]:
    """SIGINT and SIGTERM stop the run in an orderly way."""

    def stop(signum: int, frame: FrameType | None) -> None:
        raise Interrupted(signal.Signals(signum).name)

    old = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)


def _time_text() -> str:
    return datetime.fromtimestamp(wall_unix_ns() / 1e9, timezone.utc).strftime("%Y%m%d-%H%M%S")
