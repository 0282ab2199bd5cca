"""Frames over a connected socket, for a worker that runs an event loop."""

from __future__ import annotations

import asyncio
import socket

from server.worker.framing import Frame, FrameDecoder, Header, encode

_READ_BYTES = 1 << 20


class FrameStream:
    """Asynchronous frames. Made by `open`."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._decoder = FrameDecoder()
        self._ready: list[Frame] = []

    @classmethod
    async def open(cls, connection: socket.socket) -> FrameStream:
        """Take over a connected socket."""
        connection.setblocking(False)
        return cls(*await asyncio.open_connection(sock=connection))

    def send(self, header: Header, body: bytes = b"") -> None:
        """Queue a frame. Without effect once the other side has gone; `receive` tells."""
        if not self._writer.is_closing():
            self._writer.write(encode(header, body))

    async def receive(self) -> Frame | None:
        """The next frame; None when the other side has gone."""
        while not self._ready:
            try:
                data = await self._reader.read(_READ_BYTES)
            except ConnectionResetError:
                return None
            if not data:
                return None
            self._ready = self._decoder.feed(data)
        return self._ready.pop(0)

    async def close(self) -> None:
        """Send what is queued, then close."""
        try:
            await self._writer.drain()
            self._writer.close()
            await self._writer.wait_closed()
        except (BrokenPipeError, ConnectionResetError):
            return
