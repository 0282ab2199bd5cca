"""`python -m sim replay --live ADDRESS`: the same traces against a running server, in real time."""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from robot_sdk import operator_access
from robot_sdk.errors import InvalidArgumentError, RobotSdkError
from sim.cli import replay_options
from sim.cli.indices import parse_indices
from sim.cli.replay_options import settings_of
from sim.cli.replay_output import (
    ProgressLine,
    check_outputs,
    complain,
    leave,
    options_of_inputs,
    options_of_outputs,
    title_of,
)
from sim.cli.replay_table import show
from sim.fleet.live import fleet
from sim.fleet.live.fleet import LiveRun, scaled_traces
from sim.fleet.live.settings import LiveSettings, check_live, robots_own
from sim.fleet.replay.settings import ReplaySettings
from sim.fleet.workload import mixes
from sim.fleet.workload.trace_file import write_traces

_MOST_SEEDS = 1000
_DEFAULTS = LiveSettings("")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of a live replay."""
    group = parser.add_argument_group(
        "live",
        "Against a running server over gRPC, in real time: robots without bodies open episodes, "
        "wait at the door and ask brain turns with random words that have the traces' lengths and "
        "prefixes. Admission and engine are the server's, so their options cannot be given.",
    )
    group.add_argument("--live", metavar="HOST:PORT", help="the server")
    group.add_argument(
        "--token-scale",
        type=float,
        default=_DEFAULTS.token_scale,
        metavar="X",
        help="multiplies the tokens of every turn, so that traces fit a small model; 0.01",
    )
    group.add_argument(
        "--time-scale",
        type=float,
        default=_DEFAULTS.time_scale,
        metavar="X",
        help="multiplies what robots wait between turns",
    )
    group.add_argument(
        "--turn-timeout-s",
        type=float,
        default=_DEFAULTS.turn_timeout_s,
        metavar="S",
        help="longest brain turn; default: %(default)g",
    )
    group.add_argument(
        "--allow-remote",
        action="store_true",
        help="the server may be on another machine; this is a load test, so ask its operator",
    )
    group.add_argument(
        "--scaled-traces",
        type=Path,
        metavar="FILE",
        help="leave the traces as they are sent; --mix FILE replays the same ones in virtual time",
    )
    operator_access.add_arguments(group)


def _check_unused_here(args: argparse.Namespace) -> None:
    """Raises:
    InvalidArgumentError: An option means something without --live alone.
    """
    if args.store is not None:
        raise InvalidArgumentError(
            "a live run is never the same twice, so none is kept for another time", field="--store"
        )
    if args.processes != replay_options.DEFAULT_PROCESSES:
        raise InvalidArgumentError(
            "a live run has one process", field="--processes", value=args.processes
        )


def check_unused(args: argparse.Namespace) -> None:
    """Raises:
    InvalidArgumentError: An option means something with --live alone, which is not given.
    """
    given = {
        "--token-scale": args.token_scale != _DEFAULTS.token_scale,
        "--time-scale": args.time_scale != _DEFAULTS.time_scale,
        "--turn-timeout-s": args.turn_timeout_s != _DEFAULTS.turn_timeout_s,
        "--allow-remote": args.allow_remote,
        "--scaled-traces": args.scaled_traces is not None,
    }
    for name, is_given in given.items():
        if is_given:
            raise InvalidArgumentError("means something with --live HOST:PORT alone", field=name)


def run(args: argparse.Namespace) -> int:
    """Replay; returns one of the exit codes of `replay.EXIT_CODES`."""
    with _quiet_robots():
        return _run(args)


@contextmanager
def _quiet_robots() -> Iterator[None]:
    """A line for every robot that waits or whose connection breaks would bury the progress; what
    they tell is counted in the results.
    """
    log = logging.getLogger("robot_sdk")
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        yield
    finally:
        log.setLevel(level)


def _run(args: argparse.Namespace) -> int:
    bar = ProgressLine()
    runs: list[LiveRun] = []
    code = 0
    try:
        _check_unused_here(args)
        settings, live = settings_of(args), _live_settings(args)
        seeds = parse_indices("--seeds", args.seeds, _MOST_SEEDS)
        outputs = {**options_of_outputs(args), "--scaled-traces": args.scaled_traces}
        check_outputs(outputs, options_of_inputs(args))
        for seed in seeds:
            check_live(live, settings, seed)
        _leave_traces(args.scaled_traces, settings, live, seeds)
        token, tls = operator_access.token_of(args), operator_access.tls_of(args)
        for seed in seeds:
            ended = fleet.run(
                settings,
                live,
                seed,
                token=token,
                tls=tls,
                on_progress=lambda now: bar.show(str(now), now.elapsed_s),
            )
            runs.append(ended)
            if ended.result.is_partial:
                code = 130 if ended.ended_by is None else 1
                break
    except KeyboardInterrupt:
        code = 130
    except RobotSdkError as error:
        bar.clear()
        complain(error)
        code = 2 if isinstance(error, InvalidArgumentError) else 1
    bar.clear()
    if runs:
        written, is_written = _leave(args, settings, seeds, live, runs)
        _show(runs, live.address, written)
        code = code or int(not is_written)
    if runs and runs[-1].ended_by is not None:
        print(f"error: the run ended before its time: {runs[-1].ended_by}", file=sys.stderr)
    if code == 130:
        what = "runs marked * are partial" if runs else "no robot had begun"
        print(f"interrupted: {what}", file=sys.stderr)
    return code


def _live_settings(args: argparse.Namespace) -> LiveSettings:
    return LiveSettings(
        address=args.live,
        token_scale=args.token_scale,
        time_scale=args.time_scale,
        turn_timeout_s=args.turn_timeout_s,
        allows_remote=args.allow_remote,
    )


def _leave_traces(
    path: Path | None, settings: ReplaySettings, live: LiveSettings, seeds: list[int]
) -> None:
    if path is None:
        return
    if len(seeds) > 1:
        raise InvalidArgumentError(
            "each seed has traces of its own", field="--scaled-traces", allowed=("one seed",)
        )
    members = mixes.members(settings.workload.mix, seeds[0])
    try:
        write_traces(path, scaled_traces(members, live))
    except OSError as error:
        raise InvalidArgumentError(
            f"cannot be written: {error.strerror}", field="--scaled-traces", value=path
        ) from None
    print(f"wrote {path}")


def _show(runs: list[LiveRun], address: str, written: list[str]) -> None:
    first = runs[0].result
    minutes = first.duration_s / 60
    show(
        [run.result for run in runs],
        f"live at {address}: {first.engine_version}, {minutes:.1f} minutes, robots' view",
    )
    for run in runs:
        print(f"seed {run.result.seed}: {run.lengths}")
    for line in written:
        print(line)


def _leave(
    args: argparse.Namespace,
    settings: ReplaySettings,
    seeds: list[int],
    live: LiveSettings,
    runs: list[LiveRun],
) -> tuple[list[str], bool]:
    first = runs[0]
    cap = "" if first.seen.cap is None else f" (cap={first.seen.cap})"
    title = title_of(
        settings,
        f"{first.seen.policy}{cap}",
        f"live: {first.result.engine_version}",
        first.seen.gauges.pool_blocks,
    )
    more = {"live": {**live.to_json(), "runs": [run.to_json() for run in runs]}}
    results = [run.result for run in runs]
    return leave(args, robots_own(settings), seeds, results, title, more)
