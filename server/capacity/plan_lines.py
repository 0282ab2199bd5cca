"""A capacity plan: every figure with the rule that gave it, the numbers put in, and its source."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from server.core.batching.latency_table import LatencyTable
from server.core.capacity import (
    ActionCapacity,
    Envelope,
    KvPool,
    chunk_deadline_s,
    cliff_sessions,
    envelope,
    paced_by_arrival,
    paced_by_step,
    prefill_snapshots,
    robots_sharing,
    session_blocks,
    sessions_that_fit,
    starting_cap,
    turns_per_s,
    unpaced,
)

FORMAT = "robot-capacity-plan/1"

_WRITE_UP = "the study's write-up: an estimate for the worst warm-up order, not a measurement"
_SCHEDULER = "vLLM's block pool, counted; tests/fidelity compares it with vLLM's own scheduler"


@dataclass(frozen=True)
class ActionInputs:
    """What the action tier is planned with.

    Attributes:
        table: Latency by batch size.
        table_source: Where the table comes from.
        horizon: Rows in a chunk.
        num_gpus: Policy replicas, one on each GPU.
        policy_share: Part of the time in which a robot inside runs its policy; 1: all may at once.
    """

    control_hz: float
    table: LatencyTable
    table_source: str
    executed_steps: int
    horizon: int
    num_gpus: int
    policy_share: float = 1.0


@dataclass(frozen=True)
class BrainInputs:
    """What the brain tier is planned with.

    Attributes:
        step_tokens: Most tokens in one step of the engine.
        turn_cycle_s: From one turn of a robot to its next.
        pool_source, context_source, turn_source: Where these figures come from.
    """

    pool: KvPool
    mean_context_tokens: float
    step_tokens: int
    turn_cycle_s: float
    pool_source: str
    context_source: str
    turn_source: str


@dataclass(frozen=True)
class PlanInputs:
    """What a plan is made from. None: that tier is not planned."""

    brain: BrainInputs | None
    action: ActionInputs | None


@dataclass(frozen=True)
class Line:
    """One figure of the plan.

    Attributes:
        is_at_least: The figure is a lower bound.
        rule: In words and symbols.
        formula: The rule with the numbers put in.
    """

    name: str
    value: float | int | str
    unit: str
    rule: str
    formula: str
    source: str
    is_at_least: bool = False


@dataclass(frozen=True)
class Plan:
    """A plan, line by line.

    Attributes:
        both: The two tiers together; None where only one is planned.
    """

    inputs: PlanInputs
    brain: tuple[Line, ...]
    action: tuple[Line, ...]
    together: tuple[Line, ...]
    both: Envelope | None

    @property
    def binds(self) -> str | None:
        """A value of `Tier`; None where only one tier is planned."""
        return None if self.both is None else self.both.binds.value

    def to_json(self) -> dict[str, Any]:
        """The content of the file."""
        inputs: dict[str, Any] = {}
        if self.inputs.brain is not None:
            brain = self.inputs.brain
            inputs |= {
                "pool_blocks": brain.pool.num_blocks,
                "block_tokens": brain.pool.block_tokens,
                "state_groups": brain.pool.num_state_groups,
                "mean_context_tokens": brain.mean_context_tokens,
                "step_tokens": brain.step_tokens,
                "turn_cycle_s": brain.turn_cycle_s,
                "pool_source": brain.pool_source,
                "context_source": brain.context_source,
            }
        if self.inputs.action is not None:
            action = self.inputs.action
            inputs["action"] = {
                "control_hz": action.control_hz,
                "executed_steps": action.executed_steps,
                "horizon": action.horizon,
                "gpus": action.num_gpus,
                "policy_share": action.policy_share,
                "policy": action.table.policy,
                "latency_source": action.table_source,
            }
        content: dict[str, Any] = {"format": FORMAT, "inputs": inputs, "binds": self.binds}
        for tier in ("brain", "action", "together"):
            content[tier] = [asdict(line) for line in getattr(self, tier)]
        return content


def make_plan(inputs: PlanInputs) -> Plan:
    """Plan.

    Raises:
        InvalidArgumentError: A value is out of range; it is named.
    """
    brain = () if inputs.brain is None else _brain_lines(inputs.brain)
    if inputs.action is None:
        return Plan(inputs, brain, (), (), None)
    action, planned = _action_lines(inputs.action)
    if inputs.brain is None:
        return Plan(inputs, (), action, (), None)
    cap = brain_cap(inputs.brain.pool, inputs.brain.mean_context_tokens)
    both = envelope(cap, planned, inputs.action.num_gpus, inputs.action.policy_share)
    together = _together_lines(both, cap, inputs.action.policy_share)
    return Plan(inputs, brain, action, together, both)


def brain_cap(pool: KvPool, mean_context_tokens: float) -> int:
    """Episodes that a plan lets in for the brain's sake.

    Raises:
        InvalidArgumentError: The context is out of range.
    """
    # With short blocks and many state groups the count can lie below the estimate.
    return min(
        starting_cap(cliff_sessions(pool, mean_context_tokens)),
        sessions_that_fit(pool, session_blocks(pool, mean_context_tokens)),
    )


def _brain_lines(inputs: BrainInputs) -> tuple[Line, ...]:
    pool, context = inputs.pool, inputs.mean_context_tokens
    cliff = cliff_sessions(pool, context)
    fitting = sessions_that_fit(pool, session_blocks(pool, context))
    cap = brain_cap(pool, context)
    return (
        Line(
            "cliff",
            round(cliff, 2),
            "sessions",
            "0.85 x pool tokens / mean context",
            f"0.85 x {pool.tokens:,} / {context:,.0f}",
            _WRITE_UP,
        ),
        Line(
            "starting cap",
            cap,
            "episodes",
            "two thirds of the cliff, to the nearest episode, and no more than fit",
            f"min(2/3 x {cliff:.2f}, {fitting})",
            _WRITE_UP + "; its fleets were healthy at 20 and collapsed from 24",
        ),
        *_count_lines(inputs),
        Line(
            "brain turns",
            round(turns_per_s(cap, inputs.turn_cycle_s), 2),
            "per second at the starting cap",
            "sessions / (brain latency + robot's time between turns), Little's law",
            f"{cap} / {inputs.turn_cycle_s:g} s",
            inputs.turn_source,
        ),
    )


def _count_lines(inputs: BrainInputs) -> tuple[Line, ...]:
    pool = inputs.pool
    every = prefill_snapshots(inputs.mean_context_tokens, pool.block_tokens, inputs.step_tokens)
    if not pool.num_state_groups:
        return (_count_line("sessions that fit", inputs, 1, "the model keeps no states"),)
    return (
        _count_line(
            "sessions that fit, latest snapshot kept",
            inputs,
            1,
            "prefix_cache_retention_interval = 0, the default of vLLM 0.32",
        ),
        _count_line(
            "sessions that fit, every snapshot kept",
            inputs,
            every,
            "prefix_cache_retention_interval = -1, or vLLM 0.17: one snapshot a step of "
            f"{inputs.step_tokens:,} tokens",
        ),
    )


def _count_line(name: str, inputs: BrainInputs, snapshots: int, kept: str) -> Line:
    pool = inputs.pool
    blocks = session_blocks(pool, inputs.mean_context_tokens, snapshots)
    attention = blocks - pool.num_state_groups * snapshots
    return Line(
        name,
        sessions_that_fit(pool, blocks),
        "sessions",
        "floor((blocks - 1) / (attention blocks + state groups x snapshots)), whole blocks",
        f"floor({pool.num_blocks - 1:,} / ({attention} + {pool.num_state_groups} x {snapshots}))",
        f"{_SCHEDULER}; {kept}",
    )


def _action_lines(inputs: ActionInputs) -> tuple[tuple[Line, ...], ActionCapacity]:
    table, hz, steps = inputs.table, inputs.control_hz, inputs.executed_steps
    deadline_s = chunk_deadline_s(hz, steps)
    by_step = paced_by_step(table, hz, steps, inputs.horizon)
    by_arrival = paced_by_arrival(table, hz, steps)
    on_demand = unpaced(table, hz, steps)
    return (
        Line(
            "chunk deadline",
            deadline_s,
            "s",
            "D = executed steps / control rate",
            f"{steps} / {hz:g} Hz",
            "the study's rule",
        ),
        _capacity_line(
            "robots, paced, rows by control step",
            by_step,
            inputs,
            "largest n with t = L(n) + 10 ms <= D and ceil(t x f) + executed steps <= horizon",
            f"horizon {inputs.horizon}",
        ),
        _capacity_line(
            "robots, paced, rows from arrival",
            by_arrival,
            inputs,
            "largest n with L(n) + 10 ms <= D (the study's accounting of a chunk)",
            "",
        ),
        _capacity_line(
            "robots, unpaced",
            on_demand,
            inputs,
            "largest n with 2 x L(n) <= D (a request waits for one batch); alone L(1) <= D",
            "the study measured 1 at 20 Hz, 8 at 10 Hz, 32 or more at 5 Hz on one GPU",
        ),
        *_sharing_lines(inputs, by_step),
    ), by_step


def _sharing_lines(inputs: ActionInputs, by_step: ActionCapacity) -> tuple[Line, ...]:
    if inputs.policy_share == 1.0:
        return ()
    places = by_step.robots * inputs.num_gpus
    return (
        Line(
            "robots that share them",
            robots_sharing(places, inputs.policy_share),
            "robots",
            "largest n with P(c or more of the other n - 1 run their policy) <= 1%, binomial",
            f"c = {places}, each {100 * inputs.policy_share:g}% of its time",
            "robots act independently; one that finds no place is refused, and asks again",
            by_step.is_at_least,
        ),
    )


def _capacity_line(
    name: str, capacity: ActionCapacity, inputs: ActionInputs, rule: str, note: str
) -> Line:
    if capacity.batch_latency_s is None:
        formula = f"L(1) = {inputs.table.latency_s(1) * 1000:.0f} ms is too long already"
    else:
        latency_ms = capacity.batch_latency_s * 1000
        formula = f"L({capacity.robots}) = {latency_ms:.0f} ms, {inputs.num_gpus} GPU"
        formula += "s" if inputs.num_gpus > 1 else ""
    if capacity.is_at_least:
        formula += f"; the table ends at batch {inputs.table.largest_batch}"
    source = inputs.table_source + (f"; {note}" if note else "")
    return Line(
        name,
        capacity.robots * inputs.num_gpus,
        "robots",
        rule,
        formula,
        source,
        capacity.is_at_least,
    )


def _together_lines(both: Envelope, cap: int, policy_share: float) -> tuple[Line, ...]:
    sign = ">= " if both.is_at_least else ""
    formula = f"brain {cap}, action {sign}{both.action_robots}"
    if policy_share == 1.0:
        action = "robots paced by control step"
        source = "both rules above; every robot inside may run its policy at the same time"
    else:
        action = "robots that share the action tier"
        source = f"both rules above; a robot inside runs its policy {policy_share:.1%} of its time"
    return (
        Line(
            "robots inside at once",
            both.robots,
            "robots",
            f"min(starting cap, {action})",
            formula,
            source,
        ),
        Line(
            "binding tier",
            both.binds.value,
            "",
            "the tier that one more robot would overload first",
            formula,
            "both rules above",
        ),
    )
