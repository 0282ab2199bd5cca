"""The options of `python -m sim replay` and what they mean."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from robot_sdk.errors import InvalidArgumentError
from sim.fleet.brain.offload import block_megabytes
from sim.fleet.disciplines import DISCIPLINES
from sim.fleet.replay.settings import (
    ActionChoice,
    AdmissionChoice,
    EngineChoice,
    FleetPoint,
    OffloadChoice,
    ReplaySettings,
    WorkloadChoice,
)

_DEFAULT_STUDY_FOLDER = Path("out") / "study-engine"
_HOST_GIGABYTES_PER_S = 100.0
DEFAULT_PROCESSES = os.cpu_count() or 1
_BLOCK_MEGABYTES = round(block_megabytes(), 1)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `replay`."""
    fleet = parser.add_argument_group("fleet")
    fleet.add_argument("--robots", type=int, metavar="N", help="so many for the whole run")
    fleet.add_argument(
        "--fleet",
        metavar="S:N,...",
        help="robots over time instead: from second S on N of them want to work; 0:10,600:20",
    )
    fleet.add_argument(
        "--episodes-per-robot", type=int, metavar="N", help="a finite batch; default: for ever"
    )
    fleet.add_argument("--minutes", type=float, default=30.0, help="default: %(default)g")
    fleet.add_argument(
        "--warm-up-minutes",
        type=float,
        default=5.0,
        help="left out of what is said to be after the warm-up; default: %(default)g",
    )
    fleet.add_argument(
        "--seeds", default="0", metavar="LIST", help="0-9 or 0,3; default: %(default)s"
    )
    _add_admission(parser.add_argument_group("admission"))
    _add_workload(parser.add_argument_group("workload"))
    _add_engine(parser.add_argument_group("engine"))
    _add_action(parser.add_argument_group("action tier beside it"))
    output = parser.add_argument_group("output")
    output.add_argument("--json", type=Path, metavar="FILE", help="settings and results")
    output.add_argument("--picture", type=Path, metavar="FILE", help="windows over time, as PNG")
    output.add_argument(
        "--store",
        type=Path,
        metavar="FILE",
        help="keep results here, and take those from here that were run before",
    )
    output.add_argument(
        "--processes",
        type=int,
        default=DEFAULT_PROCESSES,
        help="runs at once; default: the machine's cores",
    )


def _add_admission(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--policy",
        default="unlimited",
        help="the server's, by the name it has in admission.policy; default: %(default)s",
    )
    group.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a setting of the policy, for example cap=16, by the policy's own name for it and not "
        "as the server's SECTION.KEY; may be repeated",
    )
    group.add_argument(
        "--told-pool-share",
        type=float,
        default=1.0,
        metavar="X",
        help="the policy is told X times the true pool; default: %(default)g",
    )


def _add_workload(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--mix", default="all", help="all, long, short, turning, or a trace file; default: all"
    )
    group.add_argument(
        "--order",
        choices=("shuffled", "suite"),
        default="shuffled",
        help="of the episodes; suite: long tasks come together; default: %(default)s",
    )
    group.add_argument(
        "--gap",
        choices=("env", "wall"),
        default="env",
        help="between turns: the robot's own time, or the wall clock; default: %(default)s",
    )


def _add_engine(group: argparse._ArgumentGroup) -> None:
    defaults = EngineChoice()
    group.add_argument(
        "--engine",
        choices=("installed", "study"),
        default=defaults.version,
        help="vLLM: the installed one, or the study's 0.17.1; default: %(default)s",
    )
    group.add_argument(
        "--study-folder",
        type=Path,
        default=_DEFAULT_STUDY_FOLDER,
        help="of --engine study; tests/tools/fetch_study_engine.sh makes it; default: %(default)s",
    )
    group.add_argument(
        "--pool-blocks", type=int, default=defaults.pool_blocks, help="default: %(default)s"
    )
    group.add_argument(
        "--block-tokens", type=int, default=defaults.block_tokens, help="default: %(default)s"
    )
    group.add_argument(
        "--state-groups", type=int, default=defaults.num_state_groups, help="default: %(default)s"
    )
    group.add_argument(
        "--step-tokens", type=int, default=defaults.step_tokens, help="default: %(default)s"
    )
    group.add_argument(
        "--retention-tokens",
        type=_tokens_or_none,
        default=defaults.retention_tokens,
        metavar="N|none",
        help="state snapshots kept; none: every one, as in vLLM 0.17; default: %(default)s",
    )
    group.add_argument(
        "--cost", default=ReplaySettings.cost, help="cost table; default: %(default)s"
    )
    group.add_argument(
        "--round-trip-ms", type=float, default=0.0, help="network of a turn; default: %(default)g"
    )
    group.add_argument(
        "--host-blocks", type=int, metavar="N", help="offload KV blocks to host memory: a model"
    )
    group.add_argument(
        "--host-gigabytes-per-s",
        type=float,
        default=_HOST_GIGABYTES_PER_S,
        help="default: %(default)g",
    )
    group.add_argument(
        "--block-megabytes",
        type=float,
        default=_BLOCK_MEGABYTES,
        help="of one KV block over all GPUs; default: %(default)g, Qwen3.6-27B's",
    )


def _add_action(group: argparse._ArgumentGroup) -> None:
    defaults = ActionChoice()
    group.add_argument(
        "--action-gpus", type=int, metavar="N", help="run policies on an action tier of N GPUs"
    )
    group.add_argument(
        "--control-hz", type=float, default=defaults.control_hz, help="default: %(default)g"
    )
    group.add_argument(
        "--discipline",
        choices=tuple(DISCIPLINES),
        default=defaults.discipline,
        help="default: %(default)s",
    )
    group.add_argument(
        "--whole-gap",
        action="store_true",
        help="policies make all control steps of a trace, not only those of its chunks",
    )


def _tokens_or_none(text: str) -> int | None:
    if text == "none":
        return None
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is neither a number nor none") from None


def settings_of(args: argparse.Namespace) -> ReplaySettings:
    """From the command line.

    Raises:
        InvalidArgumentError: Not to be understood. What is out of range `run_many` refuses.
    """
    _check_partners(args)
    offload = action = None
    if args.host_blocks is not None:
        offload = OffloadChoice(args.host_blocks, args.host_gigabytes_per_s, args.block_megabytes)
    if args.action_gpus is not None:
        action = ActionChoice(
            args.action_gpus, args.control_hz, args.discipline, whole_gap=args.whole_gap
        )
    return ReplaySettings(
        fleet=_fleet(args.robots, args.fleet),
        admission=AdmissionChoice(args.policy, policy_settings(args.set), args.told_pool_share),
        workload=WorkloadChoice(args.mix, args.order, args.gap),
        engine=EngineChoice(
            args.engine,
            args.pool_blocks,
            args.block_tokens,
            args.state_groups,
            args.step_tokens,
            args.retention_tokens,
        ),
        duration_s=60.0 * args.minutes,
        warm_up_s=60.0 * args.warm_up_minutes,
        episodes_per_robot=args.episodes_per_robot,
        cost=args.cost,
        round_trip_s=args.round_trip_ms / 1000.0,
        offload=offload,
        action=action,
    )


def _check_partners(args: argparse.Namespace) -> None:
    """Refuse an option that would have no effect without another one."""
    engine, action = EngineChoice(), ActionChoice()
    offload = OffloadChoice(0, _HOST_GIGABYTES_PER_S, _BLOCK_MEGABYTES)
    has_action, has_host = args.action_gpus is not None, args.host_blocks is not None
    is_study = args.engine == "study"
    changed = (
        ("--control-hz", args.control_hz != action.control_hz, "--action-gpus", has_action),
        ("--discipline", args.discipline != action.discipline, "--action-gpus", has_action),
        ("--whole-gap", args.whole_gap, "--action-gpus", has_action),
        (
            "--host-gigabytes-per-s",
            args.host_gigabytes_per_s != offload.gigabytes_per_s,
            "--host-blocks",
            has_host,
        ),
        (
            "--block-megabytes",
            args.block_megabytes != offload.block_megabytes,
            "--host-blocks",
            has_host,
        ),
        (
            "--study-folder",
            args.study_folder != _DEFAULT_STUDY_FOLDER,
            "--engine study",
            is_study,
        ),
    )
    for option, is_given, partner, has_partner in changed:
        if is_given and not has_partner:
            raise InvalidArgumentError(f"has no effect without {partner}", field=option)
    retention = args.retention_tokens
    if is_study and retention not in (engine.retention_tokens, None):
        raise InvalidArgumentError(
            "the study's vLLM keeps every state snapshot",
            field="--retention-tokens",
            value=retention,
            allowed=("none",),
        )


def _fleet(robots: int | None, points: str | None) -> tuple[FleetPoint, ...]:
    if (robots is None) == (points is None):
        raise InvalidArgumentError(
            "say how many robots there are, in one way",
            field="--robots",
            value="both" if robots is not None else "neither",
            allowed=("--robots N", "--fleet S:N,S:N,..."),
        )
    if points is None:
        assert robots is not None
        return (FleetPoint(0.0, robots),)
    try:
        pairs = [point.split(":") for point in points.split(",")]
        return tuple(FleetPoint(float(time_s), int(number)) for time_s, number in pairs)
    except ValueError:
        raise InvalidArgumentError(
            "not robots over time", field="--fleet", value=points, allowed=("0:10,600:20",)
        ) from None


def policy_settings(given: Sequence[str]) -> dict[str, Any]:
    """From NAME=VALUE, where a value is JSON or else a word.

    Raises:
        InvalidArgumentError: Not of that form, or the same name twice.
    """
    settings: dict[str, Any] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not (name and equals and value):
            raise InvalidArgumentError(
                "not a setting", field="--set", value=text, allowed=("NAME=VALUE, as cap=16",)
            )
        if name in settings:
            raise InvalidArgumentError("given twice", field="--set", value=name)
        try:
            settings[name] = json.loads(value)
        except (ValueError, RecursionError):
            settings[name] = value
    return settings
