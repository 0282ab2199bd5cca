from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class DType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    D_TYPE_UNSPECIFIED: _ClassVar[DType]
    D_TYPE_BOOL: _ClassVar[DType]
    D_TYPE_UINT8: _ClassVar[DType]
    D_TYPE_INT8: _ClassVar[DType]
    D_TYPE_UINT16: _ClassVar[DType]
    D_TYPE_INT16: _ClassVar[DType]
    D_TYPE_UINT32: _ClassVar[DType]
    D_TYPE_INT32: _ClassVar[DType]
    D_TYPE_UINT64: _ClassVar[DType]
    D_TYPE_INT64: _ClassVar[DType]
    D_TYPE_FLOAT16: _ClassVar[DType]
    D_TYPE_FLOAT32: _ClassVar[DType]
    D_TYPE_FLOAT64: _ClassVar[DType]

class ImageEncoding(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    IMAGE_ENCODING_UNSPECIFIED: _ClassVar[ImageEncoding]
    IMAGE_ENCODING_RGB8: _ClassVar[ImageEncoding]
    IMAGE_ENCODING_JPEG: _ClassVar[ImageEncoding]
    IMAGE_ENCODING_PNG: _ClassVar[ImageEncoding]

class ErrorReason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ERROR_REASON_UNSPECIFIED: _ClassVar[ErrorReason]
    ERROR_REASON_INVALID_ARGUMENT: _ClassVar[ErrorReason]
    ERROR_REASON_OBSERVATION_MISMATCH: _ClassVar[ErrorReason]
    ERROR_REASON_UNAUTHENTICATED: _ClassVar[ErrorReason]
    ERROR_REASON_PERMISSION_DENIED: _ClassVar[ErrorReason]
    ERROR_REASON_EPISODE_UNKNOWN: _ClassVar[ErrorReason]
    ERROR_REASON_EPISODE_LOST: _ClassVar[ErrorReason]
    ERROR_REASON_EPISODE_ENDED: _ClassVar[ErrorReason]
    ERROR_REASON_FENCED: _ClassVar[ErrorReason]
    ERROR_REASON_LEASE_EXPIRED: _ClassVar[ErrorReason]
    ERROR_REASON_OUT_OF_ORDER: _ClassVar[ErrorReason]
    ERROR_REASON_TURN_IN_PROGRESS: _ClassVar[ErrorReason]
    ERROR_REASON_TOO_LARGE: _ClassVar[ErrorReason]
    ERROR_REASON_OVERLOADED: _ClassVar[ErrorReason]
    ERROR_REASON_DRAINING: _ClassVar[ErrorReason]
    ERROR_REASON_WORKER_UNAVAILABLE: _ClassVar[ErrorReason]
    ERROR_REASON_BAD_MODEL_OUTPUT: _ClassVar[ErrorReason]
    ERROR_REASON_DEADLINE_EXCEEDED: _ClassVar[ErrorReason]
    ERROR_REASON_CONTEXT_LIMIT: _ClassVar[ErrorReason]
    ERROR_REASON_UNSUPPORTED: _ClassVar[ErrorReason]
    ERROR_REASON_CANCELLED: _ClassVar[ErrorReason]
    ERROR_REASON_INTERNAL: _ClassVar[ErrorReason]
D_TYPE_UNSPECIFIED: DType
D_TYPE_BOOL: DType
D_TYPE_UINT8: DType
D_TYPE_INT8: DType
D_TYPE_UINT16: DType
D_TYPE_INT16: DType
D_TYPE_UINT32: DType
D_TYPE_INT32: DType
D_TYPE_UINT64: DType
D_TYPE_INT64: DType
D_TYPE_FLOAT16: DType
D_TYPE_FLOAT32: DType
D_TYPE_FLOAT64: DType
IMAGE_ENCODING_UNSPECIFIED: ImageEncoding
IMAGE_ENCODING_RGB8: ImageEncoding
IMAGE_ENCODING_JPEG: ImageEncoding
IMAGE_ENCODING_PNG: ImageEncoding
ERROR_REASON_UNSPECIFIED: ErrorReason
ERROR_REASON_INVALID_ARGUMENT: ErrorReason
ERROR_REASON_OBSERVATION_MISMATCH: ErrorReason
ERROR_REASON_UNAUTHENTICATED: ErrorReason
ERROR_REASON_PERMISSION_DENIED: ErrorReason
ERROR_REASON_EPISODE_UNKNOWN: ErrorReason
ERROR_REASON_EPISODE_LOST: ErrorReason
ERROR_REASON_EPISODE_ENDED: ErrorReason
ERROR_REASON_FENCED: ErrorReason
ERROR_REASON_LEASE_EXPIRED: ErrorReason
ERROR_REASON_OUT_OF_ORDER: ErrorReason
ERROR_REASON_TURN_IN_PROGRESS: ErrorReason
ERROR_REASON_TOO_LARGE: ErrorReason
ERROR_REASON_OVERLOADED: ErrorReason
ERROR_REASON_DRAINING: ErrorReason
ERROR_REASON_WORKER_UNAVAILABLE: ErrorReason
ERROR_REASON_BAD_MODEL_OUTPUT: ErrorReason
ERROR_REASON_DEADLINE_EXCEEDED: ErrorReason
ERROR_REASON_CONTEXT_LIMIT: ErrorReason
ERROR_REASON_UNSUPPORTED: ErrorReason
ERROR_REASON_CANCELLED: ErrorReason
ERROR_REASON_INTERNAL: ErrorReason

class Tensor(_message.Message):
    __slots__ = ("dtype", "shape", "data")
    DTYPE_FIELD_NUMBER: _ClassVar[int]
    SHAPE_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    dtype: DType
    shape: _containers.RepeatedScalarFieldContainer[int]
    data: bytes
    def __init__(self, dtype: _Optional[_Union[DType, str]] = ..., shape: _Optional[_Iterable[int]] = ..., data: _Optional[bytes] = ...) -> None: ...

class Image(_message.Message):
    __slots__ = ("encoding", "height", "width", "data", "image_id", "camera")
    ENCODING_FIELD_NUMBER: _ClassVar[int]
    HEIGHT_FIELD_NUMBER: _ClassVar[int]
    WIDTH_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    IMAGE_ID_FIELD_NUMBER: _ClassVar[int]
    CAMERA_FIELD_NUMBER: _ClassVar[int]
    encoding: ImageEncoding
    height: int
    width: int
    data: bytes
    image_id: str
    camera: str
    def __init__(self, encoding: _Optional[_Union[ImageEncoding, str]] = ..., height: _Optional[int] = ..., width: _Optional[int] = ..., data: _Optional[bytes] = ..., image_id: _Optional[str] = ..., camera: _Optional[str] = ...) -> None: ...

class TraceContext(_message.Message):
    __slots__ = ("traceparent", "tracestate")
    TRACEPARENT_FIELD_NUMBER: _ClassVar[int]
    TRACESTATE_FIELD_NUMBER: _ClassVar[int]
    traceparent: str
    tracestate: str
    def __init__(self, traceparent: _Optional[str] = ..., tracestate: _Optional[str] = ...) -> None: ...

class EpisodeRef(_message.Message):
    __slots__ = ("episode_id", "episode_secret", "epoch", "server_boot_id")
    EPISODE_ID_FIELD_NUMBER: _ClassVar[int]
    EPISODE_SECRET_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    SERVER_BOOT_ID_FIELD_NUMBER: _ClassVar[int]
    episode_id: str
    episode_secret: str
    epoch: int
    server_boot_id: str
    def __init__(self, episode_id: _Optional[str] = ..., episode_secret: _Optional[str] = ..., epoch: _Optional[int] = ..., server_boot_id: _Optional[str] = ...) -> None: ...

class ErrorDetail(_message.Message):
    __slots__ = ("reason", "message", "field", "value", "allowed", "retry_after_s")
    REASON_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    FIELD_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    ALLOWED_FIELD_NUMBER: _ClassVar[int]
    RETRY_AFTER_S_FIELD_NUMBER: _ClassVar[int]
    reason: ErrorReason
    message: str
    field: str
    value: str
    allowed: _containers.RepeatedScalarFieldContainer[str]
    retry_after_s: float
    def __init__(self, reason: _Optional[_Union[ErrorReason, str]] = ..., message: _Optional[str] = ..., field: _Optional[str] = ..., value: _Optional[str] = ..., allowed: _Optional[_Iterable[str]] = ..., retry_after_s: _Optional[float] = ...) -> None: ...
