from robot_sdk.api.v1 import common_pb2 as _common_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class EpisodeOutcome(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    EPISODE_OUTCOME_UNSPECIFIED: _ClassVar[EpisodeOutcome]
    EPISODE_OUTCOME_SUCCESS: _ClassVar[EpisodeOutcome]
    EPISODE_OUTCOME_FAILURE: _ClassVar[EpisodeOutcome]
    EPISODE_OUTCOME_ABORTED: _ClassVar[EpisodeOutcome]
EPISODE_OUTCOME_UNSPECIFIED: EpisodeOutcome
EPISODE_OUTCOME_SUCCESS: EpisodeOutcome
EPISODE_OUTCOME_FAILURE: EpisodeOutcome
EPISODE_OUTCOME_ABORTED: EpisodeOutcome

class RunRequest(_message.Message):
    __slots__ = ("open", "resume", "heartbeat", "end")
    OPEN_FIELD_NUMBER: _ClassVar[int]
    RESUME_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    open: OpenEpisode
    resume: ResumeEpisode
    heartbeat: Heartbeat
    end: EndEpisode
    def __init__(self, open: _Optional[_Union[OpenEpisode, _Mapping]] = ..., resume: _Optional[_Union[ResumeEpisode, _Mapping]] = ..., heartbeat: _Optional[_Union[Heartbeat, _Mapping]] = ..., end: _Optional[_Union[EndEpisode, _Mapping]] = ...) -> None: ...

class RunResponse(_message.Message):
    __slots__ = ("queued", "admitted", "heartbeat_ack", "pacing", "draining", "revoked", "ended")
    QUEUED_FIELD_NUMBER: _ClassVar[int]
    ADMITTED_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_ACK_FIELD_NUMBER: _ClassVar[int]
    PACING_FIELD_NUMBER: _ClassVar[int]
    DRAINING_FIELD_NUMBER: _ClassVar[int]
    REVOKED_FIELD_NUMBER: _ClassVar[int]
    ENDED_FIELD_NUMBER: _ClassVar[int]
    queued: Queued
    admitted: Admitted
    heartbeat_ack: HeartbeatAck
    pacing: Pacing
    draining: Draining
    revoked: Revoked
    ended: Ended
    def __init__(self, queued: _Optional[_Union[Queued, _Mapping]] = ..., admitted: _Optional[_Union[Admitted, _Mapping]] = ..., heartbeat_ack: _Optional[_Union[HeartbeatAck, _Mapping]] = ..., pacing: _Optional[_Union[Pacing, _Mapping]] = ..., draining: _Optional[_Union[Draining, _Mapping]] = ..., revoked: _Optional[_Union[Revoked, _Mapping]] = ..., ended: _Optional[_Union[Ended, _Mapping]] = ...) -> None: ...

class OpenEpisode(_message.Message):
    __slots__ = ("open_id", "robot_id", "embodiment", "run_id", "task", "seed", "labels", "control_hz", "policies", "uses_brain", "task_family", "trace")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    OPEN_ID_FIELD_NUMBER: _ClassVar[int]
    ROBOT_ID_FIELD_NUMBER: _ClassVar[int]
    EMBODIMENT_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    SEED_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    CONTROL_HZ_FIELD_NUMBER: _ClassVar[int]
    POLICIES_FIELD_NUMBER: _ClassVar[int]
    USES_BRAIN_FIELD_NUMBER: _ClassVar[int]
    TASK_FAMILY_FIELD_NUMBER: _ClassVar[int]
    TRACE_FIELD_NUMBER: _ClassVar[int]
    open_id: str
    robot_id: str
    embodiment: str
    run_id: str
    task: str
    seed: int
    labels: _containers.ScalarMap[str, str]
    control_hz: float
    policies: _containers.RepeatedScalarFieldContainer[str]
    uses_brain: bool
    task_family: str
    trace: _common_pb2.TraceContext
    def __init__(self, open_id: _Optional[str] = ..., robot_id: _Optional[str] = ..., embodiment: _Optional[str] = ..., run_id: _Optional[str] = ..., task: _Optional[str] = ..., seed: _Optional[int] = ..., labels: _Optional[_Mapping[str, str]] = ..., control_hz: _Optional[float] = ..., policies: _Optional[_Iterable[str]] = ..., uses_brain: bool = ..., task_family: _Optional[str] = ..., trace: _Optional[_Union[_common_pb2.TraceContext, _Mapping]] = ...) -> None: ...

class ResumeEpisode(_message.Message):
    __slots__ = ("episode", "next_turn_index", "trace")
    EPISODE_FIELD_NUMBER: _ClassVar[int]
    NEXT_TURN_INDEX_FIELD_NUMBER: _ClassVar[int]
    TRACE_FIELD_NUMBER: _ClassVar[int]
    episode: _common_pb2.EpisodeRef
    next_turn_index: int
    trace: _common_pb2.TraceContext
    def __init__(self, episode: _Optional[_Union[_common_pb2.EpisodeRef, _Mapping]] = ..., next_turn_index: _Optional[int] = ..., trace: _Optional[_Union[_common_pb2.TraceContext, _Mapping]] = ...) -> None: ...

class Heartbeat(_message.Message):
    __slots__ = ("sequence", "robot_sent_ns", "state")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    ROBOT_SENT_NS_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    robot_sent_ns: int
    state: RobotState
    def __init__(self, sequence: _Optional[int] = ..., robot_sent_ns: _Optional[int] = ..., state: _Optional[_Union[RobotState, _Mapping]] = ...) -> None: ...

class RobotState(_message.Message):
    __slots__ = ("control_step", "buffered_steps", "steps_left", "progress", "tool", "starved_ticks", "start_wait_ticks", "idle_ticks", "overrun_ticks", "estopped")
    CONTROL_STEP_FIELD_NUMBER: _ClassVar[int]
    BUFFERED_STEPS_FIELD_NUMBER: _ClassVar[int]
    STEPS_LEFT_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    TOOL_FIELD_NUMBER: _ClassVar[int]
    STARVED_TICKS_FIELD_NUMBER: _ClassVar[int]
    START_WAIT_TICKS_FIELD_NUMBER: _ClassVar[int]
    IDLE_TICKS_FIELD_NUMBER: _ClassVar[int]
    OVERRUN_TICKS_FIELD_NUMBER: _ClassVar[int]
    ESTOPPED_FIELD_NUMBER: _ClassVar[int]
    control_step: int
    buffered_steps: int
    steps_left: int
    progress: float
    tool: str
    starved_ticks: int
    start_wait_ticks: int
    idle_ticks: int
    overrun_ticks: int
    estopped: bool
    def __init__(self, control_step: _Optional[int] = ..., buffered_steps: _Optional[int] = ..., steps_left: _Optional[int] = ..., progress: _Optional[float] = ..., tool: _Optional[str] = ..., starved_ticks: _Optional[int] = ..., start_wait_ticks: _Optional[int] = ..., idle_ticks: _Optional[int] = ..., overrun_ticks: _Optional[int] = ..., estopped: bool = ...) -> None: ...

class EndEpisode(_message.Message):
    __slots__ = ("outcome", "reason", "final_state")
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    FINAL_STATE_FIELD_NUMBER: _ClassVar[int]
    outcome: EpisodeOutcome
    reason: str
    final_state: RobotState
    def __init__(self, outcome: _Optional[_Union[EpisodeOutcome, str]] = ..., reason: _Optional[str] = ..., final_state: _Optional[_Union[RobotState, _Mapping]] = ...) -> None: ...

class Queued(_message.Message):
    __slots__ = ("position", "num_waiting", "expected_wait_s", "reason", "heartbeat_interval_s", "lease_ttl_s")
    POSITION_FIELD_NUMBER: _ClassVar[int]
    NUM_WAITING_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_WAIT_S_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_INTERVAL_S_FIELD_NUMBER: _ClassVar[int]
    LEASE_TTL_S_FIELD_NUMBER: _ClassVar[int]
    position: int
    num_waiting: int
    expected_wait_s: float
    reason: str
    heartbeat_interval_s: float
    lease_ttl_s: float
    def __init__(self, position: _Optional[int] = ..., num_waiting: _Optional[int] = ..., expected_wait_s: _Optional[float] = ..., reason: _Optional[str] = ..., heartbeat_interval_s: _Optional[float] = ..., lease_ttl_s: _Optional[float] = ...) -> None: ...

class Admitted(_message.Message):
    __slots__ = ("episode_id", "episode_secret", "server_boot_id", "epoch", "lease_ttl_s", "heartbeat_interval_s", "limits", "queued_s", "committed_turns")
    EPISODE_ID_FIELD_NUMBER: _ClassVar[int]
    EPISODE_SECRET_FIELD_NUMBER: _ClassVar[int]
    SERVER_BOOT_ID_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    LEASE_TTL_S_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_INTERVAL_S_FIELD_NUMBER: _ClassVar[int]
    LIMITS_FIELD_NUMBER: _ClassVar[int]
    QUEUED_S_FIELD_NUMBER: _ClassVar[int]
    COMMITTED_TURNS_FIELD_NUMBER: _ClassVar[int]
    episode_id: str
    episode_secret: str
    server_boot_id: str
    epoch: int
    lease_ttl_s: float
    heartbeat_interval_s: float
    limits: EpisodeLimits
    queued_s: float
    committed_turns: int
    def __init__(self, episode_id: _Optional[str] = ..., episode_secret: _Optional[str] = ..., server_boot_id: _Optional[str] = ..., epoch: _Optional[int] = ..., lease_ttl_s: _Optional[float] = ..., heartbeat_interval_s: _Optional[float] = ..., limits: _Optional[_Union[EpisodeLimits, _Mapping]] = ..., queued_s: _Optional[float] = ..., committed_turns: _Optional[int] = ...) -> None: ...

class EpisodeLimits(_message.Message):
    __slots__ = ("max_turns", "max_duration_s", "max_context_tokens")
    MAX_TURNS_FIELD_NUMBER: _ClassVar[int]
    MAX_DURATION_S_FIELD_NUMBER: _ClassVar[int]
    MAX_CONTEXT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    max_turns: int
    max_duration_s: float
    max_context_tokens: int
    def __init__(self, max_turns: _Optional[int] = ..., max_duration_s: _Optional[float] = ..., max_context_tokens: _Optional[int] = ...) -> None: ...

class HeartbeatAck(_message.Message):
    __slots__ = ("sequence", "robot_sent_ns", "server_received_ns", "server_sent_ns", "lease_remaining_s")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    ROBOT_SENT_NS_FIELD_NUMBER: _ClassVar[int]
    SERVER_RECEIVED_NS_FIELD_NUMBER: _ClassVar[int]
    SERVER_SENT_NS_FIELD_NUMBER: _ClassVar[int]
    LEASE_REMAINING_S_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    robot_sent_ns: int
    server_received_ns: int
    server_sent_ns: int
    lease_remaining_s: float
    def __init__(self, sequence: _Optional[int] = ..., robot_sent_ns: _Optional[int] = ..., server_received_ns: _Optional[int] = ..., server_sent_ns: _Optional[int] = ..., lease_remaining_s: _Optional[float] = ...) -> None: ...

class Pacing(_message.Message):
    __slots__ = ("grid_shift_s", "sustainable_control_hz")
    GRID_SHIFT_S_FIELD_NUMBER: _ClassVar[int]
    SUSTAINABLE_CONTROL_HZ_FIELD_NUMBER: _ClassVar[int]
    grid_shift_s: float
    sustainable_control_hz: float
    def __init__(self, grid_shift_s: _Optional[float] = ..., sustainable_control_hz: _Optional[float] = ...) -> None: ...

class Draining(_message.Message):
    __slots__ = ("deadline_s", "reason")
    DEADLINE_S_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    deadline_s: float
    reason: str
    def __init__(self, deadline_s: _Optional[float] = ..., reason: _Optional[str] = ...) -> None: ...

class Revoked(_message.Message):
    __slots__ = ("error",)
    ERROR_FIELD_NUMBER: _ClassVar[int]
    error: _common_pb2.ErrorDetail
    def __init__(self, error: _Optional[_Union[_common_pb2.ErrorDetail, _Mapping]] = ...) -> None: ...

class Ended(_message.Message):
    __slots__ = ("outcome", "committed_turns", "chunks_served", "duration_s")
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    COMMITTED_TURNS_FIELD_NUMBER: _ClassVar[int]
    CHUNKS_SERVED_FIELD_NUMBER: _ClassVar[int]
    DURATION_S_FIELD_NUMBER: _ClassVar[int]
    outcome: EpisodeOutcome
    committed_turns: int
    chunks_served: int
    duration_s: float
    def __init__(self, outcome: _Optional[_Union[EpisodeOutcome, str]] = ..., committed_turns: _Optional[int] = ..., chunks_served: _Optional[int] = ..., duration_s: _Optional[float] = ...) -> None: ...
