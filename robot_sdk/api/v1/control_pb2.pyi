from robot_sdk.api.v1 import policy_pb2 as _policy_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class HandshakeRequest(_message.Message):
    __slots__ = ("client", "protocols", "keepalive_interval_s")
    CLIENT_FIELD_NUMBER: _ClassVar[int]
    PROTOCOLS_FIELD_NUMBER: _ClassVar[int]
    KEEPALIVE_INTERVAL_S_FIELD_NUMBER: _ClassVar[int]
    client: str
    protocols: _containers.RepeatedScalarFieldContainer[str]
    keepalive_interval_s: float
    def __init__(self, client: _Optional[str] = ..., protocols: _Optional[_Iterable[str]] = ..., keepalive_interval_s: _Optional[float] = ...) -> None: ...

class HandshakeResponse(_message.Message):
    __slots__ = ("server", "protocol", "server_boot_id", "roles", "features", "policies", "brain", "limits", "draining")
    SERVER_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    SERVER_BOOT_ID_FIELD_NUMBER: _ClassVar[int]
    ROLES_FIELD_NUMBER: _ClassVar[int]
    FEATURES_FIELD_NUMBER: _ClassVar[int]
    POLICIES_FIELD_NUMBER: _ClassVar[int]
    BRAIN_FIELD_NUMBER: _ClassVar[int]
    LIMITS_FIELD_NUMBER: _ClassVar[int]
    DRAINING_FIELD_NUMBER: _ClassVar[int]
    server: str
    protocol: str
    server_boot_id: str
    roles: _containers.RepeatedScalarFieldContainer[str]
    features: _containers.RepeatedScalarFieldContainer[str]
    policies: _containers.RepeatedCompositeFieldContainer[_policy_pb2.PolicySpec]
    brain: BrainInfo
    limits: ServerLimits
    draining: bool
    def __init__(self, server: _Optional[str] = ..., protocol: _Optional[str] = ..., server_boot_id: _Optional[str] = ..., roles: _Optional[_Iterable[str]] = ..., features: _Optional[_Iterable[str]] = ..., policies: _Optional[_Iterable[_Union[_policy_pb2.PolicySpec, _Mapping]]] = ..., brain: _Optional[_Union[BrainInfo, _Mapping]] = ..., limits: _Optional[_Union[ServerLimits, _Mapping]] = ..., draining: bool = ...) -> None: ...

class BrainInfo(_message.Message):
    __slots__ = ("engine", "model", "max_context_tokens", "accepts_images", "reports_cached_tokens")
    ENGINE_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    MAX_CONTEXT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    ACCEPTS_IMAGES_FIELD_NUMBER: _ClassVar[int]
    REPORTS_CACHED_TOKENS_FIELD_NUMBER: _ClassVar[int]
    engine: str
    model: str
    max_context_tokens: int
    accepts_images: bool
    reports_cached_tokens: bool
    def __init__(self, engine: _Optional[str] = ..., model: _Optional[str] = ..., max_context_tokens: _Optional[int] = ..., accepts_images: bool = ..., reports_cached_tokens: bool = ...) -> None: ...

class ServerLimits(_message.Message):
    __slots__ = ("max_message_bytes", "min_keepalive_interval_s", "lease_ttl_s", "heartbeat_interval_s")
    MAX_MESSAGE_BYTES_FIELD_NUMBER: _ClassVar[int]
    MIN_KEEPALIVE_INTERVAL_S_FIELD_NUMBER: _ClassVar[int]
    LEASE_TTL_S_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_INTERVAL_S_FIELD_NUMBER: _ClassVar[int]
    max_message_bytes: int
    min_keepalive_interval_s: float
    lease_ttl_s: float
    heartbeat_interval_s: float
    def __init__(self, max_message_bytes: _Optional[int] = ..., min_keepalive_interval_s: _Optional[float] = ..., lease_ttl_s: _Optional[float] = ..., heartbeat_interval_s: _Optional[float] = ...) -> None: ...

class ExchangeRequest(_message.Message):
    __slots__ = ("robot_sent_ns",)
    ROBOT_SENT_NS_FIELD_NUMBER: _ClassVar[int]
    robot_sent_ns: int
    def __init__(self, robot_sent_ns: _Optional[int] = ...) -> None: ...

class ExchangeResponse(_message.Message):
    __slots__ = ("robot_sent_ns", "server_received_ns", "server_sent_ns", "server_boot_id", "server_wall_unix_ns")
    ROBOT_SENT_NS_FIELD_NUMBER: _ClassVar[int]
    SERVER_RECEIVED_NS_FIELD_NUMBER: _ClassVar[int]
    SERVER_SENT_NS_FIELD_NUMBER: _ClassVar[int]
    SERVER_BOOT_ID_FIELD_NUMBER: _ClassVar[int]
    SERVER_WALL_UNIX_NS_FIELD_NUMBER: _ClassVar[int]
    robot_sent_ns: int
    server_received_ns: int
    server_sent_ns: int
    server_boot_id: str
    server_wall_unix_ns: int
    def __init__(self, robot_sent_ns: _Optional[int] = ..., server_received_ns: _Optional[int] = ..., server_sent_ns: _Optional[int] = ..., server_boot_id: _Optional[str] = ..., server_wall_unix_ns: _Optional[int] = ...) -> None: ...
