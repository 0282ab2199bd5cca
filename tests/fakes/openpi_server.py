"""A policy server on loopback that speaks openpi's protocol, well or badly.

Its messages are written here from the protocol's description and not with this project's codec, so
that a fault of the codec does not hide itself.
"""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response
from websockets.sync.server import Server, ServerConnection, serve

from robot_sdk.clock import SYSTEM_CLOCK

HORIZON = 10
ACTION_DIM = 7

Reply = Callable[[ServerConnection, dict[str, Any]], None]


@dataclass
class FakeOpenpiServer:
    """Answers observations with `replies` in their order, and then with `default`.

    Attributes:
        metadata: First message of a connection; a text is sent as a text.
        seen: Observations so far.
        headers: Of every connection.
        num_connections: Connections so far.
        num_working, most_at_once: Observations being worked on, now and at most.
    """

    metadata: Any = field(default_factory=lambda: {"reset_pose": [0.0, 1.0]})
    replies: deque[Reply] = field(default_factory=deque)
    seen: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    num_connections: int = 0
    num_working: int = 0
    most_at_once: int = 0
    port: int = 0

    def __post_init__(self) -> None:
        self.default: Reply = counting()
        self._server: Server | None = None
        self._open: list[ServerConnection] = []
        self._lock = threading.Lock()

    @property
    def url(self) -> str:
        return f"ws://127.0.0.1:{self.port}"

    def start(self) -> FakeOpenpiServer:
        """Listen on `port`, or on a free one that becomes `port`."""
        self._server = serve(
            self._handle,
            "127.0.0.1",
            self.port,
            compression=None,
            max_size=None,
            process_request=self._note,
        )
        self.port = self._server.socket.getsockname()[1]
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def stop(self) -> None:
        """As when the process dies: nobody listens, and every connection breaks."""
        assert self._server is not None
        self._server.shutdown()
        self._break_all()

    @property
    def num_open(self) -> int:
        return len(self._open)

    def close_all(self) -> None:
        """Hang up on everybody, as after a while without observations."""
        with self._lock:
            connections = list(self._open)
        for connection in connections:
            connection.close()

    def _break_all(self) -> None:
        with self._lock:
            connections = list(self._open)
        for connection in connections:
            connection.socket.close()

    def will(self, *replies: Reply) -> None:
        """Forget what was seen, and answer with these next."""
        self.seen.clear()
        self.replies.clear()
        self.replies.extend(replies)

    def _note(self, connection: ServerConnection, request: Request) -> Response | None:
        self.headers.append(dict(request.headers.raw_items()))
        return None

    def _handle(self, connection: ServerConnection) -> None:
        with self._lock:
            self._open.append(connection)
            self.num_connections += 1
        try:
            first = self.metadata
            connection.send(first if isinstance(first, str) else pack(first))
            while True:
                observation = unpack(connection.recv())
                self.seen.append(observation)
                reply = self.replies.popleft() if self.replies else self.default
                self._work(1)
                try:
                    reply(connection, observation)
                finally:
                    self._work(-1)
        except (ConnectionClosed, OSError):
            pass
        finally:
            with self._lock:
                self._open.remove(connection)

    def _work(self, change: int) -> None:
        with self._lock:
            self.num_working += change
            self.most_at_once = max(self.most_at_once, self.num_working)


def counting(delay_s: float = 0.0) -> Reply:
    """Row i holds i / 100, as openpi's own server sends it."""

    def reply(connection: ServerConnection, observation: dict[str, Any]) -> None:
        if delay_s:
            SYSTEM_CLOCK.sleep_until(SYSTEM_CLOCK.now_s() + delay_s)
        connection.send(pack({"actions": rows(), "server_timing": {"infer_ms": 12.5}}))

    return reply


def rows(num: int = HORIZON, width: int = ACTION_DIM, dtype: Any = np.float64) -> np.ndarray:
    return np.repeat(np.arange(num)[:, None] / 100.0, width, axis=1).astype(dtype)


def saying(message: Any) -> Reply:
    """This message; bytes are sent as they are, a text is openpi's error, which hangs up."""

    def reply(connection: ServerConnection, observation: dict[str, Any]) -> None:
        connection.send(message if isinstance(message, (bytes, str)) else pack(message))
        if isinstance(message, str):
            connection.close(1011, "Internal server error.")

    return reply


def hang_up() -> Reply:
    """The process dies while it works on the observation."""
    return lambda connection, observation: connection.socket.close()


def pack(message: Any) -> bytes:
    """Arrays as openpi-client 0.1.2 marks them."""
    return msgspec.msgpack.encode(message, enc_hook=_mark)


def unpack(data: bytes | str) -> Any:
    assert isinstance(data, bytes)
    return _arrays(msgspec.msgpack.decode(data))


def _mark(array: np.ndarray) -> dict[bytes, Any]:
    return {
        b"__ndarray__": True,
        b"data": array.tobytes(),
        b"dtype": array.dtype.str,
        b"shape": array.shape,
    }


def _arrays(value: Any) -> Any:
    if isinstance(value, dict) and b"__ndarray__" in value:
        assert set(value) == {b"__ndarray__", b"data", b"dtype", b"shape"}
        dtype = np.dtype(value[b"dtype"])
        assert len(value[b"data"]) == math.prod(value[b"shape"]) * dtype.itemsize
        return np.ndarray(buffer=value[b"data"], dtype=dtype, shape=value[b"shape"])
    if isinstance(value, dict):
        return {key: _arrays(item) for key, item in value.items()}
    return value
