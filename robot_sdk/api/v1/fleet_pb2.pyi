from robot_sdk.api.v1 import episode_pb2 as _episode_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class EpisodePhase(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    EPISODE_PHASE_UNSPECIFIED: _ClassVar[EpisodePhase]
    EPISODE_PHASE_QUEUED: _ClassVar[EpisodePhase]
    EPISODE_PHASE_ADMITTED: _ClassVar[EpisodePhase]
EPISODE_PHASE_UNSPECIFIED: EpisodePhase
EPISODE_PHASE_QUEUED: EpisodePhase
EPISODE_PHASE_ADMITTED: EpisodePhase

class StatusRequest(_message.Message):
    __slots__ = ("include_episodes",)
    INCLUDE_EPISODES_FIELD_NUMBER: _ClassVar[int]
    include_episodes: bool
    def __init__(self, include_episodes: bool = ...) -> None: ...

class StatusResponse(_message.Message):
    __slots__ = ("status",)
    STATUS_FIELD_NUMBER: _ClassVar[int]
    status: FleetStatus
    def __init__(self, status: _Optional[_Union[FleetStatus, _Mapping]] = ...) -> None: ...

class WatchRequest(_message.Message):
    __slots__ = ("interval_s", "include_episodes")
    INTERVAL_S_FIELD_NUMBER: _ClassVar[int]
    INCLUDE_EPISODES_FIELD_NUMBER: _ClassVar[int]
    interval_s: float
    include_episodes: bool
    def __init__(self, interval_s: _Optional[float] = ..., include_episodes: bool = ...) -> None: ...

class WatchResponse(_message.Message):
    __slots__ = ("status",)
    STATUS_FIELD_NUMBER: _ClassVar[int]
    status: FleetStatus
    def __init__(self, status: _Optional[_Union[FleetStatus, _Mapping]] = ...) -> None: ...

class FleetStatus(_message.Message):
    __slots__ = ("server_boot_id", "uptime_s", "draining", "admission", "brain", "policies", "episodes")
    SERVER_BOOT_ID_FIELD_NUMBER: _ClassVar[int]
    UPTIME_S_FIELD_NUMBER: _ClassVar[int]
    DRAINING_FIELD_NUMBER: _ClassVar[int]
    ADMISSION_FIELD_NUMBER: _ClassVar[int]
    BRAIN_FIELD_NUMBER: _ClassVar[int]
    POLICIES_FIELD_NUMBER: _ClassVar[int]
    EPISODES_FIELD_NUMBER: _ClassVar[int]
    server_boot_id: str
    uptime_s: float
    draining: bool
    admission: AdmissionStatus
    brain: BrainStatus
    policies: _containers.RepeatedCompositeFieldContainer[PolicyStatus]
    episodes: _containers.RepeatedCompositeFieldContainer[EpisodeStatus]
    def __init__(self, server_boot_id: _Optional[str] = ..., uptime_s: _Optional[float] = ..., draining: bool = ..., admission: _Optional[_Union[AdmissionStatus, _Mapping]] = ..., brain: _Optional[_Union[BrainStatus, _Mapping]] = ..., policies: _Optional[_Iterable[_Union[PolicyStatus, _Mapping]]] = ..., episodes: _Optional[_Iterable[_Union[EpisodeStatus, _Mapping]]] = ...) -> None: ...

class AdmissionStatus(_message.Message):
    __slots__ = ("policy", "cap", "active_episodes", "queued_episodes", "admitted_total", "ended_total", "expired_total", "reason", "forecast_blocks", "capacity_blocks", "detail")
    POLICY_FIELD_NUMBER: _ClassVar[int]
    CAP_FIELD_NUMBER: _ClassVar[int]
    ACTIVE_EPISODES_FIELD_NUMBER: _ClassVar[int]
    QUEUED_EPISODES_FIELD_NUMBER: _ClassVar[int]
    ADMITTED_TOTAL_FIELD_NUMBER: _ClassVar[int]
    ENDED_TOTAL_FIELD_NUMBER: _ClassVar[int]
    EXPIRED_TOTAL_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    FORECAST_BLOCKS_FIELD_NUMBER: _ClassVar[int]
    CAPACITY_BLOCKS_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    policy: str
    cap: int
    active_episodes: int
    queued_episodes: int
    admitted_total: int
    ended_total: int
    expired_total: int
    reason: str
    forecast_blocks: int
    capacity_blocks: int
    detail: str
    def __init__(self, policy: _Optional[str] = ..., cap: _Optional[int] = ..., active_episodes: _Optional[int] = ..., queued_episodes: _Optional[int] = ..., admitted_total: _Optional[int] = ..., ended_total: _Optional[int] = ..., expired_total: _Optional[int] = ..., reason: _Optional[str] = ..., forecast_blocks: _Optional[int] = ..., capacity_blocks: _Optional[int] = ..., detail: _Optional[str] = ...) -> None: ...

class BrainStatus(_message.Message):
    __slots__ = ("engine", "model", "running_turns", "waiting_turns", "committed_turns_total", "replayed_turns_total", "aborted_turns_total", "ready", "prefix", "load", "alerts", "problem")
    ENGINE_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    RUNNING_TURNS_FIELD_NUMBER: _ClassVar[int]
    WAITING_TURNS_FIELD_NUMBER: _ClassVar[int]
    COMMITTED_TURNS_TOTAL_FIELD_NUMBER: _ClassVar[int]
    REPLAYED_TURNS_TOTAL_FIELD_NUMBER: _ClassVar[int]
    ABORTED_TURNS_TOTAL_FIELD_NUMBER: _ClassVar[int]
    READY_FIELD_NUMBER: _ClassVar[int]
    PREFIX_FIELD_NUMBER: _ClassVar[int]
    LOAD_FIELD_NUMBER: _ClassVar[int]
    ALERTS_FIELD_NUMBER: _ClassVar[int]
    PROBLEM_FIELD_NUMBER: _ClassVar[int]
    engine: str
    model: str
    running_turns: int
    waiting_turns: int
    committed_turns_total: int
    replayed_turns_total: int
    aborted_turns_total: int
    ready: bool
    prefix: PrefixStatus
    load: EngineLoad
    alerts: _containers.RepeatedCompositeFieldContainer[Alert]
    problem: str
    def __init__(self, engine: _Optional[str] = ..., model: _Optional[str] = ..., running_turns: _Optional[int] = ..., waiting_turns: _Optional[int] = ..., committed_turns_total: _Optional[int] = ..., replayed_turns_total: _Optional[int] = ..., aborted_turns_total: _Optional[int] = ..., ready: bool = ..., prefix: _Optional[_Union[PrefixStatus, _Mapping]] = ..., load: _Optional[_Union[EngineLoad, _Mapping]] = ..., alerts: _Optional[_Iterable[_Union[Alert, _Mapping]]] = ..., problem: _Optional[str] = ...) -> None: ...

class PrefixStatus(_message.Message):
    __slots__ = ("window_s", "turns_in_window", "full_prefix_hit", "computed_per_generated", "baseline_computed_per_generated", "computed_tokens_per_min", "generated_tokens_per_min", "reuse_distance_blocks_p50", "reuse_distance_blocks_p90", "working_set_tokens", "working_set_blocks", "forecast_blocks", "learned_capacity_blocks", "mean_context_tokens", "refreshes_found_total", "refreshes_lost_total")
    WINDOW_S_FIELD_NUMBER: _ClassVar[int]
    TURNS_IN_WINDOW_FIELD_NUMBER: _ClassVar[int]
    FULL_PREFIX_HIT_FIELD_NUMBER: _ClassVar[int]
    COMPUTED_PER_GENERATED_FIELD_NUMBER: _ClassVar[int]
    BASELINE_COMPUTED_PER_GENERATED_FIELD_NUMBER: _ClassVar[int]
    COMPUTED_TOKENS_PER_MIN_FIELD_NUMBER: _ClassVar[int]
    GENERATED_TOKENS_PER_MIN_FIELD_NUMBER: _ClassVar[int]
    REUSE_DISTANCE_BLOCKS_P50_FIELD_NUMBER: _ClassVar[int]
    REUSE_DISTANCE_BLOCKS_P90_FIELD_NUMBER: _ClassVar[int]
    WORKING_SET_TOKENS_FIELD_NUMBER: _ClassVar[int]
    WORKING_SET_BLOCKS_FIELD_NUMBER: _ClassVar[int]
    FORECAST_BLOCKS_FIELD_NUMBER: _ClassVar[int]
    LEARNED_CAPACITY_BLOCKS_FIELD_NUMBER: _ClassVar[int]
    MEAN_CONTEXT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    REFRESHES_FOUND_TOTAL_FIELD_NUMBER: _ClassVar[int]
    REFRESHES_LOST_TOTAL_FIELD_NUMBER: _ClassVar[int]
    window_s: float
    turns_in_window: int
    full_prefix_hit: float
    computed_per_generated: float
    baseline_computed_per_generated: float
    computed_tokens_per_min: float
    generated_tokens_per_min: float
    reuse_distance_blocks_p50: float
    reuse_distance_blocks_p90: float
    working_set_tokens: int
    working_set_blocks: int
    forecast_blocks: int
    learned_capacity_blocks: int
    mean_context_tokens: float
    refreshes_found_total: int
    refreshes_lost_total: int
    def __init__(self, window_s: _Optional[float] = ..., turns_in_window: _Optional[int] = ..., full_prefix_hit: _Optional[float] = ..., computed_per_generated: _Optional[float] = ..., baseline_computed_per_generated: _Optional[float] = ..., computed_tokens_per_min: _Optional[float] = ..., generated_tokens_per_min: _Optional[float] = ..., reuse_distance_blocks_p50: _Optional[float] = ..., reuse_distance_blocks_p90: _Optional[float] = ..., working_set_tokens: _Optional[int] = ..., working_set_blocks: _Optional[int] = ..., forecast_blocks: _Optional[int] = ..., learned_capacity_blocks: _Optional[int] = ..., mean_context_tokens: _Optional[float] = ..., refreshes_found_total: _Optional[int] = ..., refreshes_lost_total: _Optional[int] = ...) -> None: ...

class EngineLoad(_message.Message):
    __slots__ = ("pool_blocks", "block_tokens", "kv_cache_usage", "requests_running", "requests_waiting", "preemptions_total", "prompt_tokens_total", "cached_tokens_total", "generated_tokens_total", "max_context_tokens", "snapshot_interval_tokens")
    POOL_BLOCKS_FIELD_NUMBER: _ClassVar[int]
    BLOCK_TOKENS_FIELD_NUMBER: _ClassVar[int]
    KV_CACHE_USAGE_FIELD_NUMBER: _ClassVar[int]
    REQUESTS_RUNNING_FIELD_NUMBER: _ClassVar[int]
    REQUESTS_WAITING_FIELD_NUMBER: _ClassVar[int]
    PREEMPTIONS_TOTAL_FIELD_NUMBER: _ClassVar[int]
    PROMPT_TOKENS_TOTAL_FIELD_NUMBER: _ClassVar[int]
    CACHED_TOKENS_TOTAL_FIELD_NUMBER: _ClassVar[int]
    GENERATED_TOKENS_TOTAL_FIELD_NUMBER: _ClassVar[int]
    MAX_CONTEXT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_INTERVAL_TOKENS_FIELD_NUMBER: _ClassVar[int]
    pool_blocks: int
    block_tokens: int
    kv_cache_usage: float
    requests_running: int
    requests_waiting: int
    preemptions_total: int
    prompt_tokens_total: int
    cached_tokens_total: int
    generated_tokens_total: int
    max_context_tokens: int
    snapshot_interval_tokens: int
    def __init__(self, pool_blocks: _Optional[int] = ..., block_tokens: _Optional[int] = ..., kv_cache_usage: _Optional[float] = ..., requests_running: _Optional[int] = ..., requests_waiting: _Optional[int] = ..., preemptions_total: _Optional[int] = ..., prompt_tokens_total: _Optional[int] = ..., cached_tokens_total: _Optional[int] = ..., generated_tokens_total: _Optional[int] = ..., max_context_tokens: _Optional[int] = ..., snapshot_interval_tokens: _Optional[int] = ...) -> None: ...

class Alert(_message.Message):
    __slots__ = ("name", "evidence", "advice", "age_s")
    NAME_FIELD_NUMBER: _ClassVar[int]
    EVIDENCE_FIELD_NUMBER: _ClassVar[int]
    ADVICE_FIELD_NUMBER: _ClassVar[int]
    AGE_S_FIELD_NUMBER: _ClassVar[int]
    name: str
    evidence: str
    advice: str
    age_s: float
    def __init__(self, name: _Optional[str] = ..., evidence: _Optional[str] = ..., advice: _Optional[str] = ..., age_s: _Optional[float] = ...) -> None: ...

class PolicyStatus(_message.Message):
    __slots__ = ("name", "workers", "ready_workers", "running_observations", "waiting_observations", "chunks_total", "failed_total", "superseded_total", "batcher", "open_streams", "cycle_s", "sustainable_control_hz", "expired_total", "refused_streams_total", "latencies")
    NAME_FIELD_NUMBER: _ClassVar[int]
    WORKERS_FIELD_NUMBER: _ClassVar[int]
    READY_WORKERS_FIELD_NUMBER: _ClassVar[int]
    RUNNING_OBSERVATIONS_FIELD_NUMBER: _ClassVar[int]
    WAITING_OBSERVATIONS_FIELD_NUMBER: _ClassVar[int]
    CHUNKS_TOTAL_FIELD_NUMBER: _ClassVar[int]
    FAILED_TOTAL_FIELD_NUMBER: _ClassVar[int]
    SUPERSEDED_TOTAL_FIELD_NUMBER: _ClassVar[int]
    BATCHER_FIELD_NUMBER: _ClassVar[int]
    OPEN_STREAMS_FIELD_NUMBER: _ClassVar[int]
    CYCLE_S_FIELD_NUMBER: _ClassVar[int]
    SUSTAINABLE_CONTROL_HZ_FIELD_NUMBER: _ClassVar[int]
    EXPIRED_TOTAL_FIELD_NUMBER: _ClassVar[int]
    REFUSED_STREAMS_TOTAL_FIELD_NUMBER: _ClassVar[int]
    LATENCIES_FIELD_NUMBER: _ClassVar[int]
    name: str
    workers: int
    ready_workers: int
    running_observations: int
    waiting_observations: int
    chunks_total: int
    failed_total: int
    superseded_total: int
    batcher: str
    open_streams: int
    cycle_s: float
    sustainable_control_hz: float
    expired_total: int
    refused_streams_total: int
    latencies: _containers.RepeatedCompositeFieldContainer[BatchLatency]
    def __init__(self, name: _Optional[str] = ..., workers: _Optional[int] = ..., ready_workers: _Optional[int] = ..., running_observations: _Optional[int] = ..., waiting_observations: _Optional[int] = ..., chunks_total: _Optional[int] = ..., failed_total: _Optional[int] = ..., superseded_total: _Optional[int] = ..., batcher: _Optional[str] = ..., open_streams: _Optional[int] = ..., cycle_s: _Optional[float] = ..., sustainable_control_hz: _Optional[float] = ..., expired_total: _Optional[int] = ..., refused_streams_total: _Optional[int] = ..., latencies: _Optional[_Iterable[_Union[BatchLatency, _Mapping]]] = ...) -> None: ...

class BatchLatency(_message.Message):
    __slots__ = ("batch_size", "latency_s", "samples")
    BATCH_SIZE_FIELD_NUMBER: _ClassVar[int]
    LATENCY_S_FIELD_NUMBER: _ClassVar[int]
    SAMPLES_FIELD_NUMBER: _ClassVar[int]
    batch_size: int
    latency_s: float
    samples: int
    def __init__(self, batch_size: _Optional[int] = ..., latency_s: _Optional[float] = ..., samples: _Optional[int] = ...) -> None: ...

class EpisodeStatus(_message.Message):
    __slots__ = ("episode_id", "robot_id", "task", "tenant", "phase", "queue_position", "age_s", "lease_remaining_s", "connected", "committed_turns", "chunks_served", "robot_state", "epoch", "task_family", "context_tokens")
    EPISODE_ID_FIELD_NUMBER: _ClassVar[int]
    ROBOT_ID_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    QUEUE_POSITION_FIELD_NUMBER: _ClassVar[int]
    AGE_S_FIELD_NUMBER: _ClassVar[int]
    LEASE_REMAINING_S_FIELD_NUMBER: _ClassVar[int]
    CONNECTED_FIELD_NUMBER: _ClassVar[int]
    COMMITTED_TURNS_FIELD_NUMBER: _ClassVar[int]
    CHUNKS_SERVED_FIELD_NUMBER: _ClassVar[int]
    ROBOT_STATE_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    TASK_FAMILY_FIELD_NUMBER: _ClassVar[int]
    CONTEXT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    episode_id: str
    robot_id: str
    task: str
    tenant: str
    phase: EpisodePhase
    queue_position: int
    age_s: float
    lease_remaining_s: float
    connected: bool
    committed_turns: int
    chunks_served: int
    robot_state: _episode_pb2.RobotState
    epoch: int
    task_family: str
    context_tokens: int
    def __init__(self, episode_id: _Optional[str] = ..., robot_id: _Optional[str] = ..., task: _Optional[str] = ..., tenant: _Optional[str] = ..., phase: _Optional[_Union[EpisodePhase, str]] = ..., queue_position: _Optional[int] = ..., age_s: _Optional[float] = ..., lease_remaining_s: _Optional[float] = ..., connected: bool = ..., committed_turns: _Optional[int] = ..., chunks_served: _Optional[int] = ..., robot_state: _Optional[_Union[_episode_pb2.RobotState, _Mapping]] = ..., epoch: _Optional[int] = ..., task_family: _Optional[str] = ..., context_tokens: _Optional[int] = ...) -> None: ...

class EndEpisodeRequest(_message.Message):
    __slots__ = ("episode_id", "reason")
    EPISODE_ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    episode_id: str
    reason: str
    def __init__(self, episode_id: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class EndEpisodeResponse(_message.Message):
    __slots__ = ("episode",)
    EPISODE_FIELD_NUMBER: _ClassVar[int]
    episode: EpisodeStatus
    def __init__(self, episode: _Optional[_Union[EpisodeStatus, _Mapping]] = ...) -> None: ...

class DrainRequest(_message.Message):
    __slots__ = ("deadline_s", "reason")
    DEADLINE_S_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    deadline_s: float
    reason: str
    def __init__(self, deadline_s: _Optional[float] = ..., reason: _Optional[str] = ...) -> None: ...

class DrainResponse(_message.Message):
    __slots__ = ("active_episodes", "queued_episodes")
    ACTIVE_EPISODES_FIELD_NUMBER: _ClassVar[int]
    QUEUED_EPISODES_FIELD_NUMBER: _ClassVar[int]
    active_episodes: int
    queued_episodes: int
    def __init__(self, active_episodes: _Optional[int] = ..., queued_episodes: _Optional[int] = ...) -> None: ...

class SetCapRequest(_message.Message):
    __slots__ = ("cap",)
    CAP_FIELD_NUMBER: _ClassVar[int]
    cap: int
    def __init__(self, cap: _Optional[int] = ...) -> None: ...

class SetCapResponse(_message.Message):
    __slots__ = ("admission",)
    ADMISSION_FIELD_NUMBER: _ClassVar[int]
    admission: AdmissionStatus
    def __init__(self, admission: _Optional[_Union[AdmissionStatus, _Mapping]] = ...) -> None: ...
