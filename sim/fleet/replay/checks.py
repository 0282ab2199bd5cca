"""Whether a replay can be run: everything that is out of range is refused here, before the run."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import fields

from robot_sdk.errors import InvalidArgumentError
from server import config as configuration
from server.capacity.engine import EngineSettings
from server.config import ConfigError
from server.core.admission import StaticCapAdmission, build_policy
from server.core.capacity import KvPool
from server.sections.admission import AdmissionSection
from sim.fleet.replay.settings import AdmissionChoice, EngineChoice, ReplaySettings
from sim.fleet.workload.trace import EpisodeTrace

MOST_ROBOTS = 1000
MOST_EPISODES = 10_000
MOST_BLOCKS = 1_000_000
MOST_SEED = 2**32 - 1
LONGEST_S = 7 * 86_400.0
_LEAST_DURATION_S = 1.0
_LONGEST_ROUND_TRIP_S = 60.0
_TOLD_SHARES = (0.01, 100.0)
_MOST_GPUS = 64
_CONTROL_HZ = (0.1, 1000.0)
_MOST_ROWS = 1000
#: Settings of policies that a server's configuration has not, with their bounds.
_NOT_CONFIGURED = {
    "newest": (0.001, 1.0),
    "refill_share": (0.001, 1.0),
    "refill_interval_s": (0.0, LONGEST_S),
}
_MAY_BE_NONE = ("pool_share",)
_CAPS = ("cap", "initial_cap", "min_cap")
#: Policies reckon with floats, which do not hold every whole number.
_MOST_OF_A_SETTING = 1e12


def check_settings(settings: ReplaySettings, seed: int) -> None:
    """Raises:
    InvalidArgumentError: A value is out of range; says which, and what is allowed.
    """
    _whole("seed", seed, 0, MOST_SEED)
    _number("duration_s", settings.duration_s, _LEAST_DURATION_S, LONGEST_S)
    _number("warm_up_s", settings.warm_up_s, 0.0, LONGEST_S)
    _number("round_trip_s", settings.round_trip_s, 0.0, _LONGEST_ROUND_TRIP_S)
    if settings.episodes_per_robot is not None:
        _whole("episodes_per_robot", settings.episodes_per_robot, 1, MOST_EPISODES)
    _check_fleet(settings)
    low, high = _TOLD_SHARES
    _number("max_turn_hold_s", settings.admission.max_turn_hold_s, 0.0, LONGEST_S)
    _number("told_pool_share", settings.admission.told_pool_share, low, high)
    check_admission(settings.admission)
    engine_settings(settings.engine)
    _one_of("order", settings.workload.order, ("shuffled", "suite"))
    _one_of("gap", settings.workload.gap, ("env", "wall"))
    _one_of("engine version", settings.engine.version, ("installed", "study"))
    _check_action(settings)


def check_admission(choice: AdmissionChoice) -> None:
    """By the bounds of the server's own configuration, and closer ones for a cap.

    Raises:
        InvalidArgumentError: There is no such policy or setting, or one is out of range.
    """
    configured = {field.name for field in fields(AdmissionSection)}
    for name, value in choice.settings.items():
        key = f"{choice.policy.replace('-', '_')}_{name}"
        if isinstance(value, (int, float)):
            _number(name, value, -_MOST_OF_A_SETTING, _MOST_OF_A_SETTING)
        if name in _CAPS:
            # A cap of 0 is allowed to a server that must stand empty; a replay of nothing is not.
            _whole(name, value, 1, MOST_ROBOTS)
        elif name in _NOT_CONFIGURED:
            _number(name, value, *_NOT_CONFIGURED[name])
        elif key in configured and (value is not None or name not in _MAY_BE_NONE):
            try:
                configuration.from_tree({"admission": {key: value}})
            except ConfigError as error:
                raise InvalidArgumentError(str(error), field=name, value=value) from None
    build_policy(choice.policy, choice.settings)
    if choice.policy == StaticCapAdmission.name and "cap" not in choice.settings:
        raise InvalidArgumentError(
            "a static cap without a cap lets everybody in",
            field="cap",
            value="none",
            allowed=(f"whole numbers 1 to {MOST_ROBOTS}",),
            hint="set it, or choose the policy unlimited",
        )


def engine_settings(choice: EngineChoice) -> EngineSettings:
    """The engine that a choice means.

    Raises:
        InvalidArgumentError: A value is out of range.
    """
    if choice.pool_blocks > MOST_BLOCKS:
        raise InvalidArgumentError(
            "out of range",
            field="pool blocks",
            value=choice.pool_blocks,
            allowed=(f"2 to {MOST_BLOCKS}",),
            hint="vLLM makes an object of each block",
        )
    pool = KvPool(choice.pool_blocks, choice.block_tokens, choice.num_state_groups)
    # The study's version has no such setting and keeps every snapshot.
    retention = None if choice.version == "study" else choice.retention_tokens
    found = EngineSettings(pool, step_tokens=choice.step_tokens, retention_tokens=retention)
    if found.step_tokens < found.max_sequences:
        raise InvalidArgumentError(
            "out of range",
            field="step tokens",
            value=found.step_tokens,
            allowed=(f"at least {found.max_sequences}",),
            hint="vLLM wants a token for each request that may run",
        )
    return found


def check_traces(traces: Iterable[EpisodeTrace], engine: EngineSettings) -> None:
    """Whether every trace can be run on an engine.

    Raises:
        InvalidArgumentError: There is none, or one is longer than the engine's context or pool.
    """
    num_traces = 0
    room_tokens = engine.pool.tokens
    longest = min(engine.max_context_tokens, room_tokens)
    for trace in traces:
        num_traces += 1
        ends = [
            prompt + turn.output_tokens
            for prompt, turn in zip(trace.prompt_tokens, trace.turns, strict=True)
        ]
        if max(ends) > longest:
            limit = "context" if longest == engine.max_context_tokens else "pool"
            raise InvalidArgumentError(
                f"turn {ends.index(max(ends)) + 1} of the trace {trace.trace_id!r} does not fit "
                f"into the engine's {limit}",
                field="trace",
                value=f"{max(ends)} tokens",
                allowed=(f"at most {longest} tokens",),
                hint="leave the trace out, or cut it",
            )
    if not num_traces:
        raise InvalidArgumentError("there is no trace to replay", field="traces", value=0)


def _check_fleet(settings: ReplaySettings) -> None:
    points = settings.fleet
    if not points or points[0].time_s != 0:
        raise InvalidArgumentError(
            "a fleet begins at 0 s",
            field="fleet",
            value=points[0].time_s if points else "no point",
            allowed=("a first point at 0 s",),
        )
    for earlier, later in itertools.pairwise(points):
        if not later.time_s > earlier.time_s:
            raise InvalidArgumentError(
                "the points of a fleet are in order of time",
                field="fleet",
                value=f"{later.time_s} s after {earlier.time_s} s",
            )
    for point in points:
        _number("time of a fleet's point", point.time_s, 0.0, LONGEST_S)
        _whole("robots", point.num_robots, 0, MOST_ROBOTS)
    if not any(point.num_robots for point in points if point.time_s < settings.duration_s):
        raise InvalidArgumentError(
            "the fleet is empty until the run ends",
            field="robots",
            value=0,
            allowed=(f"1 to {MOST_ROBOTS}",),
        )


def _check_action(settings: ReplaySettings) -> None:
    action = settings.action
    if action is None:
        return
    from sim.fleet.disciplines import DISCIPLINES

    _whole("action GPUs", action.num_gpus, 1, _MOST_GPUS)
    _number("control_hz", action.control_hz, *_CONTROL_HZ)
    _whole("horizon", action.horizon, 1, _MOST_ROWS)
    _whole("executed_steps", action.executed_steps, 1, action.horizon)
    _one_of("discipline", action.discipline, tuple(DISCIPLINES))
    if any(point.cuts_off for point in settings.fleet):
        # The tier's tools run to their end, beside the robot's next episode.
        raise InvalidArgumentError(
            "an action tier cannot end a policy whose episode is cut off",
            field="fleet",
            value="cuts_off",
            allowed=("robots that leave when their episode has ended",),
        )


def _whole(name: str, value: int, least: int, most: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise InvalidArgumentError(
            "out of range", field=name, value=value, allowed=(f"whole numbers {least} to {most}",)
        )


def _number(name: str, value: float, least: float, most: float) -> None:
    # Nothing that is not finite lies between two numbers.
    if not (isinstance(value, (int, float)) and least <= value <= most):
        raise InvalidArgumentError(
            "out of range", field=name, value=value, allowed=(f"{least:g} to {most:g}",)
        )


def _one_of(name: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise InvalidArgumentError("no such choice", field=name, value=value, allowed=allowed)
