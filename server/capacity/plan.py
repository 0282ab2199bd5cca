"""`python -m server plan`: how many robots a box carries, which tier binds, and why."""

from __future__ import annotations

import argparse
import json
import math
import sys
from pathlib import Path

from robot_sdk import operator_access
from robot_sdk.api.v1 import fleet_pb2
from robot_sdk.errors import InvalidArgumentError
from server.capacity.from_server import Measured, read_status
from server.capacity.plan_lines import (
    ActionInputs,
    BrainInputs,
    Line,
    Plan,
    PlanInputs,
    make_plan,
)
from server.core.batching.latency_table import STUDY_TABLE, LatencyTable
from server.core.capacity import KvPool
from server.result_path import check_result_path

DESCRIPTION = """\
Plans a box from its KV pool, the contexts of its conversations and the latencies of its policy;
with --deadline-hz and none of the pool's figures, the action tier alone. Each line says its rule,
the numbers put in and where the rule comes from. Without --state-groups the model is taken to be a
hybrid one as the study's. Exit codes: 0 done, 1 the server cannot be reached
or refuses, 2 bad input."""

#: State groups of Qwen3.6-27B, the study's model: three quarters of its layers keep a state.
DEFAULT_STATE_GROUPS = 3
#: vLLM's own default for a server on a GPU of 70 GiB or more.
DEFAULT_STEP_TOKENS = 8192
#: The study's median of brain latency and environment steps between two turns, per robot.
STUDY_TURN_CYCLE_S = 9.4
#: Rows in a chunk of pi0.5 on LIBERO.
DEFAULT_HORIZON = 10
DEFAULT_EXECUTED_STEPS = 5
DEFAULT_PORT = 50051
_TIMEOUT_S = 5.0


def main(arguments: list[str]) -> int:
    """Run the command; returns the exit code.

    Raises:
        InvalidArgumentError: A value is missing or out of range, or a file cannot be read.
        RobotSdkError: The server cannot be reached or refuses.
    """
    args = _parser().parse_args(arguments)
    _check_partners(args)
    if args.json not in (None, "-"):
        check_result_path(Path(args.json), "--json")
    measured = None if args.from_server is None else _ask(args)
    plan = make_plan(_inputs(args, measured))
    if args.json == "-":
        json.dump(plan.to_json(), sys.stdout, indent=2)
        sys.stdout.write("\n")
        return 0
    sys.stdout.write(render(plan) + "\n")
    if args.json is not None:
        Path(args.json).write_text(json.dumps(plan.to_json(), indent=2) + "\n", encoding="utf-8")
    return 0


def _check_partners(args: argparse.Namespace) -> None:
    """Refuse an option that would have no effect without another one."""
    needs = (
        ("--latency-table", args.latency_table, "--deadline-hz", args.deadline_hz),
        ("--gpus", args.gpus, "--deadline-hz", args.deadline_hz),
        ("--policy-share", args.policy_share, "--deadline-hz", args.deadline_hz),
        ("--executed-steps", args.executed_steps, "--deadline-hz", args.deadline_hz),
        ("--horizon", args.horizon, "--deadline-hz", args.deadline_hz),
        ("--policy", args.policy, "--from-server", args.from_server),
        ("--token-file", args.token_file, "--from-server", args.from_server),
        ("--ca-file", args.ca_file, "--from-server", args.from_server),
    )
    for option, value, partner, partner_value in needs:
        if value is not None and partner_value is None:
            raise InvalidArgumentError(
                f"has no effect without {partner}", field=option, value=value
            )


def render(plan: Plan) -> str:
    """The plan for a person, without a line end at the end."""
    brain, action = plan.inputs.brain, plan.inputs.action
    if brain is None:
        parts = ["Brain tier: not planned; give --pool-blocks, --block-tokens and --mean-context"]
    else:
        pool = brain.pool
        parts = [
            f"KV pool: {pool.num_blocks:,} blocks of {pool.block_tokens:,} tokens = "
            f"{pool.tokens:,} tokens, {pool.num_state_groups} state groups ({brain.pool_source})",
            f"mean context: {brain.mean_context_tokens:,.0f} tokens ({brain.context_source})",
            "",
            "Brain tier",
            *_rendered(plan.brain),
        ]
    if action is None:
        parts += ["", "Action tier: not planned; give --deadline-hz, the control rate"]
    else:
        parts += [
            "",
            f"Action tier: {action.control_hz:g} Hz, {action.executed_steps} of {action.horizon} "
            f"rows of a chunk executed, {action.num_gpus} GPU"
            + ("s" if action.num_gpus > 1 else ""),
            *_rendered(plan.action),
        ]
    if plan.together:
        parts += ["", "Both tiers", *_rendered(plan.together)]
    return "\n".join(parts)


def _rendered(lines: tuple[Line, ...]) -> list[str]:
    width = max(len(line.name) for line in lines)
    shown = []
    for line in lines:
        value = f"{'>= ' if line.is_at_least else ''}{line.value} {line.unit}".rstrip()
        shown += [
            f"  {line.name:<{width}}  {value}",
            f"      rule    {line.rule}",
            f"      here    {line.formula}",
            f"      source  {line.source}",
        ]
    return shown


def _inputs(args: argparse.Namespace, measured: Measured | None) -> PlanInputs:
    given = (args.pool_blocks, args.block_tokens, args.mean_context)
    has_brain = any(value is not None for value in given)
    has_brain |= measured is not None and measured.engine != ""
    # Without either, what the brain tier lacks is named.
    wants_brain = has_brain or args.deadline_hz is None
    return PlanInputs(
        brain=_brain(args, measured) if wants_brain else None, action=_action(args, measured)
    )


def _brain(args: argparse.Namespace, measured: Measured | None) -> BrainInputs:
    pool, pool_source = _pool(args, measured)
    context_tokens, context_source = _context(args, measured)
    if args.turn_seconds is None:
        turn_cycle_s = STUDY_TURN_CYCLE_S
        turn_source = "the study's median of brain latency and environment steps between turns"
    else:
        turn_cycle_s, turn_source = args.turn_seconds, "--turn-seconds"
    return BrainInputs(
        pool=pool,
        mean_context_tokens=context_tokens,
        step_tokens=args.step_tokens,
        turn_cycle_s=turn_cycle_s,
        pool_source=pool_source,
        context_source=context_source,
        turn_source=turn_source,
    )


def _pool(args: argparse.Namespace, measured: Measured | None) -> tuple[KvPool, str]:
    blocks, block_tokens, source = args.pool_blocks, args.block_tokens, "given"
    if measured is not None and (blocks is None or block_tokens is None):
        if measured.pool_blocks is None or measured.block_tokens is None:
            raise InvalidArgumentError(
                f"the server's brain ({measured.engine or 'none'}) has no KV pool to plan with",
                field="--from-server",
                value=args.from_server,
                hint='serve with brain.engine = "vllm" (the pool is known once the model is '
                "loaded), or give --pool-blocks and --block-tokens",
            )
        blocks = measured.pool_blocks if blocks is None else blocks
        block_tokens = measured.block_tokens if block_tokens is None else block_tokens
        source = f"blocks measured by {args.from_server}"
    for option, value in (("--pool-blocks", blocks), ("--block-tokens", block_tokens)):
        if value is None:
            raise InvalidArgumentError(
                "missing",
                field=option,
                hint="vLLM's start-up log has it; or give --from-server HOST:PORT"
                + (
                    "; --deadline-hz alone plans the action tier"
                    if args.deadline_hz is None
                    else ""
                ),
            )
    if args.state_groups is None:
        source += "; state groups assumed to be Qwen3.6-27B's, --state-groups tells others"
        return KvPool(blocks, block_tokens, DEFAULT_STATE_GROUPS), source
    return KvPool(blocks, block_tokens, args.state_groups), f"{source}; state groups given"


def _context(args: argparse.Namespace, measured: Measured | None) -> tuple[float, str]:
    if args.mean_context is not None:
        return args.mean_context, "given"
    if measured is None:
        raise InvalidArgumentError(
            "missing",
            field="--mean-context",
            hint="tokens of the conversations alive together, on average; or --from-server",
        )
    if measured.mean_context_tokens is None:
        raise InvalidArgumentError(
            "no episode of the server has a counted turn, so no context was measured",
            field="--from-server",
            value=args.from_server,
            hint="ask again while robots work, or give --mean-context",
        )
    return measured.mean_context_tokens, f"measured by {args.from_server}, {measured.context_note}"


def _action(args: argparse.Namespace, measured: Measured | None) -> ActionInputs | None:
    if args.deadline_hz is None:
        return None
    if args.latency_table is not None:
        table = _read_table(args.latency_table)
        source = f"{args.latency_table}: {table.policy} on {table.device}"
    elif measured is not None and measured.table is not None:
        table, source = measured.table, f"latencies of {measured.table.policy} as the server knows"
    else:
        table, source = STUDY_TABLE, "the study's published table of pi0.5 (batch 1, 8, 64)"
    num_gpus = args.gpus
    if num_gpus is None:
        num_gpus = 1 if measured is None else measured.policy_workers or 1
    return ActionInputs(
        control_hz=args.deadline_hz,
        table=table,
        table_source=source,
        executed_steps=(
            DEFAULT_EXECUTED_STEPS if args.executed_steps is None else args.executed_steps
        ),
        horizon=DEFAULT_HORIZON if args.horizon is None else args.horizon,
        num_gpus=num_gpus,
        policy_share=1.0 if args.policy_share is None else args.policy_share,
    )


def _read_table(path: Path) -> LatencyTable:
    try:
        return LatencyTable.from_json(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, RecursionError) as error:
        raise InvalidArgumentError(
            f"not a latency table: {error}",
            field="--latency-table",
            value=path,
            hint="`python -m server profile-policy` writes one",
        ) from None


def _ask(args: argparse.Namespace) -> Measured:
    target = args.from_server if ":" in args.from_server else f"{args.from_server}:{DEFAULT_PORT}"
    with operator_access.open_fleet(target, args) as fleet:
        response = fleet.stub.Status(
            fleet_pb2.StatusRequest(include_episodes=True),
            timeout=_TIMEOUT_S,
            metadata=fleet.metadata,
        )
    return read_status(response.status, args.policy)


def _count(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None


def _number(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise argparse.ArgumentTypeError(f"{text!r} is not a finite number")
    return value


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m server plan", description=DESCRIPTION, allow_abbrev=False
    )
    brain = parser.add_argument_group("brain tier")
    brain.add_argument("--pool-blocks", type=_count, metavar="N", help="blocks in the KV pool")
    brain.add_argument("--block-tokens", type=_count, metavar="N", help="tokens in a block")
    brain.add_argument(
        "--mean-context",
        type=_number,
        metavar="TOKENS",
        help="mean context of the sessions alive together (the study: 95000)",
    )
    brain.add_argument(
        "--state-groups",
        type=_count,
        metavar="N",
        help="KV cache groups that keep a state; 0 for a model with attention alone; a server does "
        f"not tell (default: {DEFAULT_STATE_GROUPS}, Qwen3.6-27B's)",
    )
    brain.add_argument(
        "--step-tokens",
        type=_count,
        default=DEFAULT_STEP_TOKENS,
        metavar="N",
        help="the engine's max_num_batched_tokens (default: %(default)s)",
    )
    brain.add_argument(
        "--turn-seconds",
        type=_number,
        metavar="S",
        help=f"from one turn of a robot to its next (default: the study's {STUDY_TURN_CYCLE_S})",
    )
    action = parser.add_argument_group("action tier")
    action.add_argument(
        "--deadline-hz", type=_number, metavar="HZ", help="control rate; D = executed steps / HZ"
    )
    action.add_argument(
        "--gpus", type=_count, metavar="N", help="policy replicas (default: 1, or the server's)"
    )
    action.add_argument(
        "--latency-table",
        type=Path,
        metavar="FILE",
        help="what `python -m server profile-policy` wrote (default: the study's table)",
    )
    action.add_argument(
        "--policy-share",
        type=_number,
        metavar="SHARE",
        help="part of its time in which a robot inside runs its policy: with fewer than all at "
        "once, more share the tier (default: 1, all at once; the study's robots: 0.02)",
    )
    action.add_argument(
        "--executed-steps",
        type=_count,
        metavar="N",
        help=f"rows of a chunk that are executed (default: {DEFAULT_EXECUTED_STEPS})",
    )
    action.add_argument(
        "--horizon",
        type=_count,
        metavar="N",
        help=f"rows of a chunk (default: {DEFAULT_HORIZON})",
    )
    measured = parser.add_argument_group("a running server")
    measured.add_argument(
        "--from-server",
        metavar="HOST[:PORT]",
        help=f"read pool, contexts and latencies there (port {DEFAULT_PORT} if none is given); "
        "what is given beside it counts before it",
    )
    measured.add_argument("--policy", metavar="NAME", help="whose latencies, if it serves several")
    operator_access.add_arguments(measured)
    parser.add_argument(
        "--json", metavar="FILE", help="also write the plan as JSON; - prints it in place of text"
    )
    return parser
