"""Messages between the front end and a worker: a small JSON header and raw bytes.

A frame is two little-endian uint32 (length of the header, length of the body), the header as UTF-8
JSON, then the body. Nothing is ever unpickled.
"""

from __future__ import annotations

import contextlib
import json
import socket
import struct
from dataclasses import dataclass
from typing import Any

_LENGTHS = struct.Struct("<II")

Header = dict[str, Any]


@dataclass(frozen=True)
class Frame:
    """One message."""

    header: Header
    body: bytes = b""


def encode(header: Header, body: bytes = b"") -> bytes:
    """The bytes of a frame."""
    text = json.dumps(header, separators=(",", ":")).encode()
    return b"".join((_LENGTHS.pack(len(text), len(body)), text, body))


class FrameDecoder:
    """Turns a byte stream, cut anywhere, into frames."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[Frame]:
        """Take bytes in; return the frames that are now complete."""
        self._buffer += data
        frames = []
        start = 0
        while len(self._buffer) - start >= _LENGTHS.size:
            header_len, body_len = _LENGTHS.unpack_from(self._buffer, start)
            header_at = start + _LENGTHS.size
            end = header_at + header_len + body_len
            if len(self._buffer) < end:
                break
            header = json.loads(self._buffer[header_at : header_at + header_len])
            frames.append(Frame(header, bytes(self._buffer[header_at + header_len : end])))
            start = end
        if start:
            del self._buffer[:start]
        return frames


class FrameSocket:
    """Blocking frames over a connected socket, for the worker's side.

    A front end that has gone is no fault of the worker: `receive` tells, and the worker leaves.
    """

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._decoder = FrameDecoder()
        self._ready: list[Frame] = []

    def send(self, header: Header, body: bytes = b"") -> None:
        """Send a frame. Without effect once the other side has gone."""
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self._socket.sendall(encode(header, body))

    def receive(self) -> Frame | None:
        """The next frame; None when the other side has gone."""
        while not self._ready:
            try:
                data = self._socket.recv(1 << 16)
            except ConnectionResetError:
                return None
            if not data:
                return None
            self._ready = self._decoder.feed(data)
        return self._ready.pop(0)
