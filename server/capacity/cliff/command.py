"""`python -m server cliff`: where prefixes stop surviving."""

from __future__ import annotations

import argparse
from pathlib import Path

from robot_sdk.errors import InvalidArgumentError

DESCRIPTION = """\
Revisits sessions in a fixed cyclic order and counts those whose whole prefix was still cached.
--engine study: the study's pools, contexts and blocks on vLLM's own scheduler without a model (over
a minute on two idle cores; twice that with --study-engine). --engine tiny: a small random model on
this server, driven by robots over gRPC and counted from outside, without and with an admission cap
(under two minutes). Exit codes: 0 done, 1 an engine fails, 2 bad input, 3 another cliff than the
one that must be seen."""

_MOST_SESSIONS = 200


def main(arguments: list[str]) -> int:
    """Run the command; returns the exit code.

    Raises:
        InvalidArgumentError: A value is out of range.
        RobotSdkError: An engine cannot be loaded or fails.
    """
    args = _parser().parse_args(arguments)
    first, last = args.sessions
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
    if args.engine == "study":
        from server.capacity.cliff import study

        return study.run(args)
    from server.capacity.cliff import tiny

    return tiny.run(args)


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
        default=(22, 34),
        metavar="FIRST-LAST",
        help="numbers of sessions (default: 22-34)",
    )
    study.add_argument(
        "--pool-blocks",
        type=int,
        action="append",
        metavar="N",
        help="pool size; may be repeated (default: the study's 4270 and 4396)",
    )
    study.add_argument(
        "--rounds", type=int, default=2, metavar="N", help="visits of each session (default: 2)"
    )
    study.add_argument(
        "--study-engine",
        type=Path,
        metavar="FOLDER",
        help="also run vLLM 0.17.1 from here; tests/tools/fetch_study_engine.sh makes the folder",
    )
    tiny = parser.add_argument_group("--engine tiny")
    tiny.add_argument(
        "--quick", action="store_true", help="below the cliff, above it, and above it with the cap"
    )
    return parser
