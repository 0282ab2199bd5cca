"""`python -m server cliff`: where prefixes stop surviving."""

from __future__ import annotations

import argparse
from pathlib import Path

from robot_sdk.errors import InvalidArgumentError
from robot_sdk.trace.timeline import new_figure
from server.result_path import check_result_path

DESCRIPTION = """\
Revisits sessions in a fixed cyclic order and counts those whose whole prefix was still cached.
--engine study: the study's pools, contexts and blocks on vLLM's own scheduler without a model (over
a minute on two idle cores; twice that with --study-engine). --engine tiny: a small random model on
this server, driven by robots over gRPC and counted from outside, without and with an admission cap
(under two minutes). Exit codes: 0 done, 1 an engine fails, 2 bad input, 3 another cliff than the
one that must be seen."""

DEFAULT_SESSIONS = (22, 34)
DEFAULT_ROUNDS = 2
_MOST_SESSIONS = 200
#: vLLM makes an object of each block.
_MOST_BLOCKS = 1_000_000


def main(arguments: list[str]) -> int:
    """Run the command; returns the exit code.

    Raises:
        InvalidArgumentError: A value is out of range.
        MissingExtraError: A picture is asked for and matplotlib is not installed.
        RobotSdkError: An engine cannot be loaded or fails.
    """
    args = _parser().parse_args(arguments)
    _check_partners(args)
    first, last = args.sessions or DEFAULT_SESSIONS
    args.sessions = (first, last)
    args.rounds = DEFAULT_ROUNDS if args.rounds is None else args.rounds
    if not 1 <= first <= last <= _MOST_SESSIONS:
        raise InvalidArgumentError(
            "out of range",
            field="--sessions",
            value=f"{first}-{last}",
            allowed=(f"FIRST-LAST within 1-{_MOST_SESSIONS}",),
        )
    if not 1 <= args.rounds <= 20:
        raise InvalidArgumentError(
            "out of range", field="--rounds", value=args.rounds, allowed=("1 to 20",)
        )
    for pool_blocks in args.pool_blocks or ():
        if not 2 <= pool_blocks <= _MOST_BLOCKS:
            raise InvalidArgumentError(
                "out of range",
                field="--pool-blocks",
                value=pool_blocks,
                allowed=(f"2 to {_MOST_BLOCKS}",),
            )
    if args.out is not None:
        for ending in ("json", "png"):
            check_result_path(args.out / f"cliff-{args.engine}.{ending}", "--out")
        new_figure(1.0, 1.0)  # tells now, not after the runs, that it cannot be drawn
    if args.engine == "study":
        from server.capacity.cliff import study

        return study.run(args)
    from server.capacity.cliff import tiny

    return tiny.run(args)


def _check_partners(args: argparse.Namespace) -> None:
    """Refuse an option that would have no effect with this engine."""
    belongs = (
        ("--sessions", args.sessions is not None, "study"),
        ("--pool-blocks", args.pool_blocks is not None, "study"),
        ("--rounds", args.rounds is not None, "study"),
        ("--study-engine", args.study_engine is not None, "study"),
        ("--quick", args.quick, "tiny"),
    )
    for option, is_given, engine in belongs:
        if is_given and args.engine != engine:
            raise InvalidArgumentError(f"has no effect without --engine {engine}", field=option)


def _session_range(text: str) -> tuple[int, int]:
    first, separator, last = text.partition("-")
    try:
        return int(first), int(last if separator else first)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not FIRST-LAST, for example 24-34") from None


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m server cliff", description=DESCRIPTION, allow_abbrev=False
    )
    parser.add_argument("--engine", choices=("study", "tiny"), required=True)
    parser.add_argument(
        "--out", type=Path, metavar="DIR", help="write cliff-ENGINE.json and cliff-ENGINE.png there"
    )
    study = parser.add_argument_group("--engine study")
    study.add_argument(
        "--sessions",
        type=_session_range,
        metavar="FIRST-LAST",
        help=f"numbers of sessions (default: {DEFAULT_SESSIONS[0]}-{DEFAULT_SESSIONS[1]})",
    )
    study.add_argument(
        "--pool-blocks",
        type=int,
        action="append",
        metavar="N",
        help="pool size; may be repeated (default: the study's 4270 and 4396)",
    )
    study.add_argument(
        "--rounds",
        type=int,
        metavar="N",
        help=f"visits of each session (default: {DEFAULT_ROUNDS})",
    )
    study.add_argument(
        "--study-engine",
        type=Path,
        metavar="FOLDER",
        help="also run vLLM 0.17.1 from here; `make study-engine` makes out/study-engine "
        "(tests/tools/fetch_study_engine.sh FOLDER: elsewhere)",
    )
    tiny = parser.add_argument_group("--engine tiny")
    tiny.add_argument(
        "--quick", action="store_true", help="below the cliff, above it, and above it with the cap"
    )
    return parser
