from robot_sdk.api.v1 import common_pb2 as _common_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ActionMode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ACTION_MODE_UNSPECIFIED: _ClassVar[ActionMode]
    ACTION_MODE_DELTA: _ClassVar[ActionMode]
    ACTION_MODE_ABSOLUTE: _ClassVar[ActionMode]
ACTION_MODE_UNSPECIFIED: ActionMode
ACTION_MODE_DELTA: ActionMode
ACTION_MODE_ABSOLUTE: ActionMode

class ChunksRequest(_message.Message):
    __slots__ = ("open", "observation")
    OPEN_FIELD_NUMBER: _ClassVar[int]
    OBSERVATION_FIELD_NUMBER: _ClassVar[int]
    open: ChunksOpen
    observation: Observation
    def __init__(self, open: _Optional[_Union[ChunksOpen, _Mapping]] = ..., observation: _Optional[_Union[Observation, _Mapping]] = ...) -> None: ...

class ChunksResponse(_message.Message):
    __slots__ = ("opened", "chunk", "failed")
    OPENED_FIELD_NUMBER: _ClassVar[int]
    CHUNK_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    opened: ChunksOpened
    chunk: ActionChunk
    failed: ChunkFailed
    def __init__(self, opened: _Optional[_Union[ChunksOpened, _Mapping]] = ..., chunk: _Optional[_Union[ActionChunk, _Mapping]] = ..., failed: _Optional[_Union[ChunkFailed, _Mapping]] = ...) -> None: ...

class ChunksOpen(_message.Message):
    __slots__ = ("episode", "policy", "instruction", "control_hz", "observation_keys", "noise_seed", "trace")
    EPISODE_FIELD_NUMBER: _ClassVar[int]
    POLICY_FIELD_NUMBER: _ClassVar[int]
    INSTRUCTION_FIELD_NUMBER: _ClassVar[int]
    CONTROL_HZ_FIELD_NUMBER: _ClassVar[int]
    OBSERVATION_KEYS_FIELD_NUMBER: _ClassVar[int]
    NOISE_SEED_FIELD_NUMBER: _ClassVar[int]
    TRACE_FIELD_NUMBER: _ClassVar[int]
    episode: _common_pb2.EpisodeRef
    policy: str
    instruction: str
    control_hz: float
    observation_keys: _containers.RepeatedScalarFieldContainer[str]
    noise_seed: int
    trace: _common_pb2.TraceContext
    def __init__(self, episode: _Optional[_Union[_common_pb2.EpisodeRef, _Mapping]] = ..., policy: _Optional[str] = ..., instruction: _Optional[str] = ..., control_hz: _Optional[float] = ..., observation_keys: _Optional[_Iterable[str]] = ..., noise_seed: _Optional[int] = ..., trace: _Optional[_Union[_common_pb2.TraceContext, _Mapping]] = ...) -> None: ...

class ChunksOpened(_message.Message):
    __slots__ = ("spec", "next_observation_in_s", "server_sent_ns")
    SPEC_FIELD_NUMBER: _ClassVar[int]
    NEXT_OBSERVATION_IN_S_FIELD_NUMBER: _ClassVar[int]
    SERVER_SENT_NS_FIELD_NUMBER: _ClassVar[int]
    spec: PolicySpec
    next_observation_in_s: float
    server_sent_ns: int
    def __init__(self, spec: _Optional[_Union[PolicySpec, _Mapping]] = ..., next_observation_in_s: _Optional[float] = ..., server_sent_ns: _Optional[int] = ...) -> None: ...

class Observation(_message.Message):
    __slots__ = ("sequence", "control_step", "robot_captured_ns", "robot_sent_ns", "tensors", "images", "deadline_s", "buffered_steps", "committed_actions", "trace")
    class TensorsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: _common_pb2.Tensor
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[_common_pb2.Tensor, _Mapping]] = ...) -> None: ...
    class ImagesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: _common_pb2.Image
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[_common_pb2.Image, _Mapping]] = ...) -> None: ...
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    CONTROL_STEP_FIELD_NUMBER: _ClassVar[int]
    ROBOT_CAPTURED_NS_FIELD_NUMBER: _ClassVar[int]
    ROBOT_SENT_NS_FIELD_NUMBER: _ClassVar[int]
    TENSORS_FIELD_NUMBER: _ClassVar[int]
    IMAGES_FIELD_NUMBER: _ClassVar[int]
    DEADLINE_S_FIELD_NUMBER: _ClassVar[int]
    BUFFERED_STEPS_FIELD_NUMBER: _ClassVar[int]
    COMMITTED_ACTIONS_FIELD_NUMBER: _ClassVar[int]
    TRACE_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    control_step: int
    robot_captured_ns: int
    robot_sent_ns: int
    tensors: _containers.MessageMap[str, _common_pb2.Tensor]
    images: _containers.MessageMap[str, _common_pb2.Image]
    deadline_s: float
    buffered_steps: int
    committed_actions: _common_pb2.Tensor
    trace: _common_pb2.TraceContext
    def __init__(self, sequence: _Optional[int] = ..., control_step: _Optional[int] = ..., robot_captured_ns: _Optional[int] = ..., robot_sent_ns: _Optional[int] = ..., tensors: _Optional[_Mapping[str, _common_pb2.Tensor]] = ..., images: _Optional[_Mapping[str, _common_pb2.Image]] = ..., deadline_s: _Optional[float] = ..., buffered_steps: _Optional[int] = ..., committed_actions: _Optional[_Union[_common_pb2.Tensor, _Mapping]] = ..., trace: _Optional[_Union[_common_pb2.TraceContext, _Mapping]] = ...) -> None: ...

class ActionChunk(_message.Message):
    __slots__ = ("sequence", "control_step", "actions", "timing", "next_observation_in_s")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    CONTROL_STEP_FIELD_NUMBER: _ClassVar[int]
    ACTIONS_FIELD_NUMBER: _ClassVar[int]
    TIMING_FIELD_NUMBER: _ClassVar[int]
    NEXT_OBSERVATION_IN_S_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    control_step: int
    actions: _common_pb2.Tensor
    timing: PolicyTiming
    next_observation_in_s: float
    def __init__(self, sequence: _Optional[int] = ..., control_step: _Optional[int] = ..., actions: _Optional[_Union[_common_pb2.Tensor, _Mapping]] = ..., timing: _Optional[_Union[PolicyTiming, _Mapping]] = ..., next_observation_in_s: _Optional[float] = ...) -> None: ...

class ChunkFailed(_message.Message):
    __slots__ = ("sequence", "control_step", "error")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    CONTROL_STEP_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    control_step: int
    error: _common_pb2.ErrorDetail
    def __init__(self, sequence: _Optional[int] = ..., control_step: _Optional[int] = ..., error: _Optional[_Union[_common_pb2.ErrorDetail, _Mapping]] = ...) -> None: ...

class PolicyTiming(_message.Message):
    __slots__ = ("server_received_ns", "server_done_ns", "batch_wait_s", "preprocess_s", "vision_s", "prefill_s", "denoise_s", "infer_s", "batch_size", "modelled_delay_s", "worker")
    SERVER_RECEIVED_NS_FIELD_NUMBER: _ClassVar[int]
    SERVER_DONE_NS_FIELD_NUMBER: _ClassVar[int]
    BATCH_WAIT_S_FIELD_NUMBER: _ClassVar[int]
    PREPROCESS_S_FIELD_NUMBER: _ClassVar[int]
    VISION_S_FIELD_NUMBER: _ClassVar[int]
    PREFILL_S_FIELD_NUMBER: _ClassVar[int]
    DENOISE_S_FIELD_NUMBER: _ClassVar[int]
    INFER_S_FIELD_NUMBER: _ClassVar[int]
    BATCH_SIZE_FIELD_NUMBER: _ClassVar[int]
    MODELLED_DELAY_S_FIELD_NUMBER: _ClassVar[int]
    WORKER_FIELD_NUMBER: _ClassVar[int]
    server_received_ns: int
    server_done_ns: int
    batch_wait_s: float
    preprocess_s: float
    vision_s: float
    prefill_s: float
    denoise_s: float
    infer_s: float
    batch_size: int
    modelled_delay_s: float
    worker: str
    def __init__(self, server_received_ns: _Optional[int] = ..., server_done_ns: _Optional[int] = ..., batch_wait_s: _Optional[float] = ..., preprocess_s: _Optional[float] = ..., vision_s: _Optional[float] = ..., prefill_s: _Optional[float] = ..., denoise_s: _Optional[float] = ..., infer_s: _Optional[float] = ..., batch_size: _Optional[int] = ..., modelled_delay_s: _Optional[float] = ..., worker: _Optional[str] = ...) -> None: ...

class ActionDimension(_message.Message):
    __slots__ = ("name", "unit", "frame", "mode", "minimum", "maximum")
    NAME_FIELD_NUMBER: _ClassVar[int]
    UNIT_FIELD_NUMBER: _ClassVar[int]
    FRAME_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    MINIMUM_FIELD_NUMBER: _ClassVar[int]
    MAXIMUM_FIELD_NUMBER: _ClassVar[int]
    name: str
    unit: str
    frame: str
    mode: ActionMode
    minimum: float
    maximum: float
    def __init__(self, name: _Optional[str] = ..., unit: _Optional[str] = ..., frame: _Optional[str] = ..., mode: _Optional[_Union[ActionMode, str]] = ..., minimum: _Optional[float] = ..., maximum: _Optional[float] = ...) -> None: ...

class ActionGroup(_message.Message):
    __slots__ = ("name", "start", "size")
    NAME_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    name: str
    start: int
    size: int
    def __init__(self, name: _Optional[str] = ..., start: _Optional[int] = ..., size: _Optional[int] = ...) -> None: ...

class ObservationKey(_message.Message):
    __slots__ = ("name", "dtype", "shape", "is_image", "required", "privileged", "unit", "description")
    NAME_FIELD_NUMBER: _ClassVar[int]
    DTYPE_FIELD_NUMBER: _ClassVar[int]
    SHAPE_FIELD_NUMBER: _ClassVar[int]
    IS_IMAGE_FIELD_NUMBER: _ClassVar[int]
    REQUIRED_FIELD_NUMBER: _ClassVar[int]
    PRIVILEGED_FIELD_NUMBER: _ClassVar[int]
    UNIT_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    name: str
    dtype: _common_pb2.DType
    shape: _containers.RepeatedScalarFieldContainer[int]
    is_image: bool
    required: bool
    privileged: bool
    unit: str
    description: str
    def __init__(self, name: _Optional[str] = ..., dtype: _Optional[_Union[_common_pb2.DType, str]] = ..., shape: _Optional[_Iterable[int]] = ..., is_image: bool = ..., required: bool = ..., privileged: bool = ..., unit: _Optional[str] = ..., description: _Optional[str] = ...) -> None: ...

class PolicySpec(_message.Message):
    __slots__ = ("name", "version", "action_dimensions", "action_groups", "control_hz", "horizon", "executed_steps", "observation_keys", "embodiments", "supports_committed_actions", "stand_in", "note")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    ACTION_DIMENSIONS_FIELD_NUMBER: _ClassVar[int]
    ACTION_GROUPS_FIELD_NUMBER: _ClassVar[int]
    CONTROL_HZ_FIELD_NUMBER: _ClassVar[int]
    HORIZON_FIELD_NUMBER: _ClassVar[int]
    EXECUTED_STEPS_FIELD_NUMBER: _ClassVar[int]
    OBSERVATION_KEYS_FIELD_NUMBER: _ClassVar[int]
    EMBODIMENTS_FIELD_NUMBER: _ClassVar[int]
    SUPPORTS_COMMITTED_ACTIONS_FIELD_NUMBER: _ClassVar[int]
    STAND_IN_FIELD_NUMBER: _ClassVar[int]
    NOTE_FIELD_NUMBER: _ClassVar[int]
    name: str
    version: str
    action_dimensions: _containers.RepeatedCompositeFieldContainer[ActionDimension]
    action_groups: _containers.RepeatedCompositeFieldContainer[ActionGroup]
    control_hz: float
    horizon: int
    executed_steps: int
    observation_keys: _containers.RepeatedCompositeFieldContainer[ObservationKey]
    embodiments: _containers.RepeatedScalarFieldContainer[str]
    supports_committed_actions: bool
    stand_in: bool
    note: str
    def __init__(self, name: _Optional[str] = ..., version: _Optional[str] = ..., action_dimensions: _Optional[_Iterable[_Union[ActionDimension, _Mapping]]] = ..., action_groups: _Optional[_Iterable[_Union[ActionGroup, _Mapping]]] = ..., control_hz: _Optional[float] = ..., horizon: _Optional[int] = ..., executed_steps: _Optional[int] = ..., observation_keys: _Optional[_Iterable[_Union[ObservationKey, _Mapping]]] = ..., embodiments: _Optional[_Iterable[str]] = ..., supports_committed_actions: bool = ..., stand_in: bool = ..., note: _Optional[str] = ...) -> None: ...
