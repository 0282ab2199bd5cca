"""Attributes of the known spans, from plain values. A value of None is unknown and is left off.

Each function returns a dict for `attributes=` of `Telemetry.start_span`, `OpenSpan.set` or
`Telemetry.record_span`. Durations in seconds, steps are control steps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Union

from google.protobuf.message import Message

from robot_sdk.api.v1 import brain_pb2, policy_pb2
from robot_sdk.telemetry import attributes as attr
from robot_sdk.telemetry.open_span import AttributeValue, known

if TYPE_CHECKING:  # the clients may import telemetry, so telemetry does not import them
    from robot_sdk import chunks, messages

    TokenUsage = Union[messages.TokenUsage, brain_pb2.TokenUsage]
    BrainTiming = Union[messages.BrainTiming, brain_pb2.BrainTiming]
    PolicyTiming = Union[chunks.PolicyTiming, policy_pb2.PolicyTiming]


def tool_span_name(tool: str) -> str:
    """The span name of a tool call."""
    return attr.SPAN_TOOL_PREFIX + tool


def episode(
    *,
    robot_id: str | None = None,
    embodiment: str | None = None,
    run_id: str | None = None,
    episode_id: str | None = None,
    task: str | None = None,
    task_family: str | None = None,
    suite: str | None = None,
    task_index: int | None = None,
    init_index: int | None = None,
    seed: int | None = None,
    control_hz: float | None = None,
    pace: str | None = None,
    queued_s: float | None = None,
    clock_offset_s: float | None = None,
    clock_bound_s: float | None = None,
) -> dict[str, AttributeValue]:
    """What is known of an episode when it starts. `clock_offset_s`: server minus robot."""
    return known(
        {
            attr.ROBOT_ID: robot_id,
            attr.EMBODIMENT: embodiment,
            attr.RUN_ID: run_id,
            attr.EPISODE_ID: episode_id,
            attr.TASK: task,
            attr.TASK_FAMILY: task_family,
            attr.SUITE: suite,
            attr.TASK_INDEX: task_index,
            attr.INIT_INDEX: init_index,
            attr.SEED: seed,
            attr.CONTROL_HZ: control_hz,
            attr.PACE: pace,
            attr.QUEUED_S: queued_s,
            attr.CLOCK_OFFSET_S: clock_offset_s,
            attr.CLOCK_BOUND_S: clock_bound_s,
        }
    )


def episode_end(
    *,
    outcome: str | None = None,
    reason: str | None = None,
    acted_ticks: int | None = None,
    starved_ticks: int | None = None,
    start_wait_ticks: int | None = None,
    idle_ticks: int | None = None,
    overrun_ticks: int | None = None,
    total_steps: int | None = None,
    policy_steps: int | None = None,
    scripted_steps: int | None = None,
) -> dict[str, AttributeValue]:
    """What is known of an episode when it has ended. `outcome`: success, failure or aborted."""
    return known(
        {
            attr.OUTCOME: outcome,
            attr.END_REASON: reason or None,
            attr.TICKS_ACTED: acted_ticks,
            attr.TICKS_STARVED: starved_ticks,
            attr.TICKS_START_WAIT: start_wait_ticks,
            attr.TICKS_IDLE: idle_ticks,
            attr.TICKS_OVERRUN: overrun_ticks,
            attr.STEPS_TOTAL: total_steps,
            attr.STEPS_POLICY: policy_steps,
            attr.STEPS_SCRIPTED: scripted_steps,
        }
    )


def turn(*, turn_index: int, episode_id: str | None = None) -> dict[str, AttributeValue]:
    """One turn of the agent: a decision and the tools it called."""
    return known({attr.TURN_INDEX: turn_index, attr.EPISODE_ID: episode_id})


def gap(
    *, env_steps: int | None, control_hz: float | None, wall_s: float | None
) -> dict[str, AttributeValue]:
    """The interval since the previous turn's answer, for the `brain.decide` span of this turn.

    Args:
        env_steps: Control steps in it during which a tool was active, held ones included.
        control_hz: Control rate, to turn steps into seconds of robot time.
        wall_s: The same interval on the wall.
    """
    env_s = None if env_steps is None or not control_hz else env_steps / control_hz
    return known({attr.GAP_ENV_STEPS: env_steps, attr.GAP_ENV_S: env_s, attr.GAP_WALL_S: wall_s})


def decide(
    *,
    turn_index: int,
    latency_s: float | None = None,
    unavailable_s: float | None = None,
    usage: TokenUsage | None = None,
    timing: BrainTiming | None = None,
    engine: str | None = None,
    model: str | None = None,
    finish_reason: str | int | None = None,
    replayed: bool | None = None,
    slack_s: float | None = None,
    num_new_images: int | None = None,
    prefix_continues: bool | None = None,
    prefix_expected_tokens: int | None = None,
) -> dict[str, AttributeValue]:
    """One brain decision; also for `server.decide`, where `latency_s` is left off.

    Args:
        turn_index: Counts from 0 within the episode.
        latency_s: From sending to the last word, on the client. Gives the network's share.
        unavailable_s: Part of `latency_s` before the request that was answered. None or 0: none.
        usage: Token counts, of the wire or of `robot_sdk.messages`.
        timing: The server's breakdown, of the wire or of `robot_sdk.messages`.
        engine: Engine that answered.
        model: Model that answered.
        finish_reason: "stop", "length" or "aborted", or a `FinishReason` of the wire.
        replayed: A committed turn was played back.
        slack_s: Time the robot can go on without an answer.
        num_new_images: Images in the messages that this turn added.
        prefix_continues: The input is the previous input and output plus new messages.
        prefix_expected_tokens: Tokens of the previous input and output.
    """
    values: dict[str, AttributeValue | None] = {
        attr.TURN_INDEX: turn_index,
        attr.GEN_AI_OPERATION_NAME: "chat",
        attr.GEN_AI_PROVIDER_NAME: engine or None,
        attr.GEN_AI_REQUEST_MODEL: model or None,
        attr.BRAIN_REPLAYED: replayed,
        attr.BRAIN_SLACK_S: slack_s,
        attr.IMAGES_NEW: num_new_images,
        attr.PREFIX_CONTINUES: prefix_continues,
        attr.PREFIX_EXPECTED_TOKENS: prefix_expected_tokens,
    }
    if finish_reason:
        values[attr.BRAIN_FINISH_REASON] = finish_reason_name(finish_reason)
    if usage is not None:
        values.update(_usage(usage))
    if timing is not None:
        values.update(_brain_timing(timing, latency_s, unavailable_s))
    return known(values)


def finish_reason_name(value: str | int) -> str:
    """`stop`, `length` or `aborted`; the number as text for one this version does not know."""
    if isinstance(value, str):
        return value
    try:
        name = str(brain_pb2.FinishReason.Name(value))
    except ValueError:
        return str(value)
    return name.removeprefix("FINISH_REASON_").lower()


def tool(
    *,
    name: str,
    call_id: str | None = None,
    is_error: bool | None = None,
    steps: int | None = None,
    starved_ticks: int | None = None,
    start_wait_ticks: int | None = None,
) -> dict[str, AttributeValue]:
    """One tool call. `steps`: control steps it used, held ones included."""
    return known(
        {
            attr.TOOL_NAME: name,
            attr.TOOL_CALL_ID: call_id or None,
            attr.TOOL_IS_ERROR: is_error,
            attr.TOOL_STEPS: steps,
            attr.TOOL_STARVED_TICKS: starved_ticks,
            attr.TOOL_START_WAIT_TICKS: start_wait_ticks,
        }
    )


def chunk(
    *,
    sequence: int,
    control_step: int,
    policy: str | None = None,
    buffered_steps: int | None = None,
    round_trip_s: float | None = None,
    timing: PolicyTiming | None = None,
    rows: int | None = None,
    applied_step: int | None = None,
    dropped_rows: int | None = None,
    age_steps: int | None = None,
    error: str | None = None,
) -> dict[str, AttributeValue]:
    """One observation and its chunk; also for `server.chunk`, without the robot's part.

    Args:
        sequence: Sequence of the observation.
        control_step: Step of the observation.
        policy: Name of the policy.
        buffered_steps: Rows the robot still had when it sent the observation.
        round_trip_s: From sending to arrival, on the client. Gives the network's share.
        timing: The server's breakdown, of the wire or of `robot_sdk.chunks`.
        rows: Rows in the chunk.
        applied_step: First step whose action came from this chunk; None: none did.
        dropped_rows: Rows that were too late.
        age_steps: Steps between the observation and the arrival.
        error: Why there is no chunk.
    """
    values: dict[str, AttributeValue | None] = {
        attr.CHUNK_SEQUENCE: sequence,
        attr.CHUNK_CONTROL_STEP: control_step,
        attr.POLICY_NAME: policy or None,
        attr.CHUNK_BUFFERED_STEPS: buffered_steps,
        attr.CHUNK_ROUND_TRIP_S: round_trip_s,
        attr.CHUNK_ROWS: rows,
        attr.CHUNK_APPLIED_STEP: applied_step,
        attr.CHUNK_DROPPED_ROWS: dropped_rows,
        attr.CHUNK_AGE_STEPS: age_steps,
        attr.CHUNK_ERROR: error or None,
    }
    if timing is not None:
        values.update(_policy_timing(timing, round_trip_s))
    return known(values)


def _usage(usage: TokenUsage) -> dict[str, AttributeValue | None]:
    values: dict[str, AttributeValue | None] = {
        attr.GEN_AI_INPUT_TOKENS: _optional_int(usage, "input_tokens"),
        attr.GEN_AI_OUTPUT_TOKENS: _optional_int(usage, "output_tokens"),
        attr.TOKENS_CACHED: _optional_int(usage, "cached_tokens"),
        attr.TOKENS_COMPUTED: _optional_int(usage, "computed_tokens"),
        attr.TOKENS_NEW: _optional_int(usage, "new_tokens"),
        attr.IMAGES: _optional_int(usage, "num_images"),
    }
    if any(value is not None for value in values.values()):
        values[attr.TOKENS_ESTIMATED] = usage.estimated
    return values


def _brain_timing(
    timing: BrainTiming, latency_s: float | None, unavailable_s: float | None
) -> dict[str, AttributeValue | None]:
    server_s = _elapsed_s(timing.server_received_ns, timing.server_done_ns)
    answered_s = None if latency_s is None else latency_s - (unavailable_s or 0.0)
    return {
        attr.BRAIN_UNAVAILABLE_S: unavailable_s or None,
        attr.BRAIN_SERVER_S: server_s,
        attr.BRAIN_NETWORK_S: _network_s(answered_s, server_s),
        attr.BRAIN_QUEUE_S: _optional(timing, "queue_s"),
        attr.BRAIN_PREPROCESS_S: _optional(timing, "preprocess_s"),
        attr.BRAIN_PREFILL_S: _optional(timing, "prefill_s"),
        attr.BRAIN_DECODE_S: _optional(timing, "decode_s"),
        attr.BRAIN_TTFT_S: _optional(timing, "time_to_first_token_s"),
        attr.BRAIN_MODELLED_DELAY_S: _optional(timing, "modelled_delay_s"),
    }


def _policy_timing(
    timing: PolicyTiming, round_trip_s: float | None
) -> dict[str, AttributeValue | None]:
    server_s = _elapsed_s(timing.server_received_ns, timing.server_done_ns)
    return {
        attr.CHUNK_SERVER_S: server_s,
        attr.CHUNK_NETWORK_S: _network_s(round_trip_s, server_s),
        attr.CHUNK_BATCH_SIZE: timing.batch_size or None,
        attr.CHUNK_BATCH_WAIT_S: _optional(timing, "batch_wait_s"),
        attr.CHUNK_PREPROCESS_S: _optional(timing, "preprocess_s"),
        attr.CHUNK_VISION_S: _optional(timing, "vision_s"),
        attr.CHUNK_PREFILL_S: _optional(timing, "prefill_s"),
        attr.CHUNK_DENOISE_S: _optional(timing, "denoise_s"),
        attr.CHUNK_INFER_S: _optional(timing, "infer_s"),
        attr.CHUNK_MODELLED_DELAY_S: _optional(timing, "modelled_delay_s"),
        attr.CHUNK_WORKER: timing.worker or None,
    }


def _optional(values: object, name: str) -> float | None:
    """A field of a wire message or of a dataclass, None where it is absent."""
    if isinstance(values, Message) and not values.HasField(name):
        return None
    value: float | None = getattr(values, name)
    return value


def _optional_int(values: object, name: str) -> int | None:
    value = _optional(values, name)
    return None if value is None else int(value)


def _elapsed_s(start_ns: int | None, end_ns: int | None) -> float | None:
    """Both times on one monotonic clock; 0 on the wire means that the server did not measure."""
    return (end_ns - start_ns) / 1e9 if start_ns and end_ns else None


def _network_s(total_s: float | None, server_s: float | None) -> float | None:
    """The difference of two durations on two clocks, whose rates differ: never below 0."""
    return None if total_s is None or server_s is None else max(0.0, total_s - server_s)
