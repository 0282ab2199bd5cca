"""Names of all span attributes. The only place where they are spelled out.

`gen_ai.*` and `rpc.*` follow the OpenTelemetry semantic conventions where they exist; everything
else is `robot.*`. An attribute whose value is unknown is left off the span, never written as 0.
Seconds end in `_s`. "Steps" are control steps (one call of `act()` or `hold()` each); "tokens" are
tokens of the brain model.

Together the attributes of `brain.decide` hold what a replay of a fleet needs of a turn: new,
cached, computed and output tokens, images, the gap since the previous answer in control steps and
on the wall, and whether the prompt continued the previous one.
"""

from __future__ import annotations

# Span names -----------------------------------------------------------------------------------

SPAN_EPISODE = "episode"
SPAN_TURN = "turn"
SPAN_DECIDE = "brain.decide"
#: A tool span is named `tool.<name>`.
SPAN_TOOL_PREFIX = "tool."
SPAN_CHUNK = "policy.chunk"
#: Spans of a server process: children of `episode`, `brain.decide` and `policy.chunk`.
SPAN_SERVER_EPISODE = "server.episode"
SPAN_SERVER_DECIDE = "server.decide"
SPAN_SERVER_CHUNK = "server.chunk"
#: Child of `server.decide`: decoding pictures and rendering the prompt.
SPAN_SERVER_PREPROCESS = "server.preprocess"
#: Child of `server.decide`: the admission policy let the turn wait. Part of `BRAIN_QUEUE_S`.
SPAN_SERVER_HOLD = "server.hold"
#: Written by the file exporter itself: how many spans this process wrote and dropped so far.
SPAN_SUMMARY = "telemetry.summary"

# Process (resource attributes) ----------------------------------------------------------------

SERVICE_NAME = "service.name"
#: Differs between processes, also between a process and its forked children.
SERVICE_INSTANCE_ID = "service.instance.id"
SERVICE_VERSION = "service.version"
PROCESS_PID = "process.pid"
HOST_NAME = "host.name"
#: One instant on two clocks of this process, in ns. The difference turns the Unix times of its
#: spans back into its monotonic time, which `CLOCK_OFFSET_S` relates to another process.
CLOCK_ANCHOR_UNIX_NS = "robot.clock.anchor_unix_ns"
CLOCK_ANCHOR_MONOTONIC_NS = "robot.clock.anchor_monotonic_ns"

# Episode --------------------------------------------------------------------------------------

ROBOT_ID = "robot.id"
EMBODIMENT = "robot.embodiment"
RUN_ID = "robot.run_id"
EPISODE_ID = "robot.episode.id"
TASK = "robot.task"
TASK_FAMILY = "robot.task_family"
SUITE = "robot.suite"
TASK_INDEX = "robot.task_index"
INIT_INDEX = "robot.init_index"
SEED = "robot.seed"
CONTROL_HZ = "robot.control_hz"
#: "realtime" or "lockstep".
PACE = "robot.pace"
#: "success", "failure" or "aborted".
OUTCOME = "robot.outcome"
END_REASON = "robot.end_reason"
#: Time between asking for admission and getting it.
QUEUED_S = "robot.queued_s"
#: Server's monotonic clock minus the robot's, and the largest error of that figure.
CLOCK_OFFSET_S = "robot.clock.offset_s"
CLOCK_BOUND_S = "robot.clock.bound_s"

TICKS_ACTED = "robot.ticks.acted"
TICKS_STARVED = "robot.ticks.starved"
TICKS_START_WAIT = "robot.ticks.start_wait"
TICKS_IDLE = "robot.ticks.idle"
TICKS_OVERRUN = "robot.ticks.overrun"
STEPS_TOTAL = "robot.steps.total"
STEPS_POLICY = "robot.steps.policy"
STEPS_SCRIPTED = "robot.steps.scripted"

# Turn and brain -------------------------------------------------------------------------------

TURN_INDEX = "robot.turn.index"

#: The interval from the previous turn's answer to the sending of this turn, on the `brain.decide`
#: span of this turn (so turn 0 has none).
GAP_ENV_STEPS = "robot.gap.env_steps"
GAP_ENV_S = "robot.gap.env_s"
GAP_WALL_S = "robot.gap.wall_s"

GEN_AI_OPERATION_NAME = "gen_ai.operation.name"
GEN_AI_PROVIDER_NAME = "gen_ai.provider.name"
GEN_AI_REQUEST_MODEL = "gen_ai.request.model"
GEN_AI_INPUT_TOKENS = "gen_ai.usage.input_tokens"
GEN_AI_OUTPUT_TOKENS = "gen_ai.usage.output_tokens"

#: Parts of the input tokens.
TOKENS_CACHED = "robot.tokens.cached"
TOKENS_COMPUTED = "robot.tokens.computed"
#: Input tokens added since the previous turn's input and output.
TOKENS_NEW = "robot.tokens.new"
#: True when the counts come from a rule of thumb and not from a tokenizer.
TOKENS_ESTIMATED = "robot.tokens.estimated"
#: True when this turn's input is the previous turn's input and output plus new messages.
PREFIX_CONTINUES = "robot.prefix.continues"
#: Tokens of the previous turn's input and output, which a perfect cache would still hold.
PREFIX_EXPECTED_TOKENS = "robot.prefix.expected_tokens"
#: Images in the whole prompt, and in the messages that this turn added.
IMAGES = "robot.images"
IMAGES_NEW = "robot.images.new"

BRAIN_QUEUE_S = "robot.brain.queue_s"
BRAIN_PREPROCESS_S = "robot.brain.preprocess_s"
BRAIN_PREFILL_S = "robot.brain.prefill_s"
BRAIN_DECODE_S = "robot.brain.decode_s"
BRAIN_TTFT_S = "robot.brain.ttft_s"
#: From the request's arrival at the server to its last word, on the server's clock.
BRAIN_SERVER_S = "robot.brain.server_s"
#: Before the request that was answered: the server or its brain was away.
BRAIN_UNAVAILABLE_S = "robot.brain.unavailable_s"
#: Client latency minus `BRAIN_SERVER_S` and `BRAIN_UNAVAILABLE_S`: both directions of the network,
#: on no clock but durations.
BRAIN_NETWORK_S = "robot.brain.network_s"
#: Part of the latency that was added on purpose and is no work. Absent: none.
BRAIN_MODELLED_DELAY_S = "robot.brain.modelled_delay_s"
BRAIN_REPLAYED = "robot.brain.replayed"
BRAIN_FINISH_REASON = "robot.brain.finish_reason"
#: Time the robot could go on without an answer, as told to the server.
BRAIN_SLACK_S = "robot.brain.slack_s"
BRAIN_ERROR = "robot.brain.error"

# Tool -----------------------------------------------------------------------------------------

TOOL_NAME = "robot.tool.name"
TOOL_CALL_ID = "robot.tool.call_id"
TOOL_IS_ERROR = "robot.tool.is_error"
#: Control steps that the tool used.
TOOL_STEPS = "robot.tool.steps"
#: Those of them that were held because the policy had no valid row, or no chunk yet.
TOOL_STARVED_TICKS = "robot.tool.starved_ticks"
TOOL_START_WAIT_TICKS = "robot.tool.start_wait_ticks"

# Chunk ----------------------------------------------------------------------------------------

POLICY_NAME = "robot.policy.name"
CHUNK_SEQUENCE = "robot.chunk.sequence"
#: Step of the observation, and the first step whose action came from this chunk.
CHUNK_CONTROL_STEP = "robot.chunk.control_step"
CHUNK_APPLIED_STEP = "robot.chunk.applied_step"
CHUNK_ROWS = "robot.chunk.rows"
#: Rows whose step had passed when the chunk arrived.
CHUNK_DROPPED_ROWS = "robot.chunk.dropped_rows"
CHUNK_ROUND_TRIP_S = "robot.chunk.round_trip_s"
#: From arrival at the server to the sending of the answer, on the server's clock.
CHUNK_SERVER_S = "robot.chunk.server_s"
CHUNK_NETWORK_S = "robot.chunk.network_s"
#: Steps between the observation and the arrival of the chunk.
CHUNK_AGE_STEPS = "robot.chunk.age_steps"
#: Rows that were still to be executed when the observation was sent.
CHUNK_BUFFERED_STEPS = "robot.chunk.buffered_steps"
CHUNK_BATCH_SIZE = "robot.chunk.batch_size"
CHUNK_BATCH_WAIT_S = "robot.chunk.batch_wait_s"
CHUNK_PREPROCESS_S = "robot.chunk.preprocess_s"
CHUNK_VISION_S = "robot.chunk.vision_s"
CHUNK_PREFILL_S = "robot.chunk.prefill_s"
CHUNK_DENOISE_S = "robot.chunk.denoise_s"
CHUNK_INFER_S = "robot.chunk.infer_s"
CHUNK_MODELLED_DELAY_S = "robot.chunk.modelled_delay_s"
CHUNK_WORKER = "robot.chunk.worker"
CHUNK_ERROR = "robot.chunk.error"

# Telemetry itself -----------------------------------------------------------------------------

DROPPED_SPANS = "robot.telemetry.dropped_spans"
WRITTEN_SPANS = "robot.telemetry.written_spans"
