"""One worker process as the event loop sees it: start, send, receive, stop.

The child is a fresh interpreter (`python -m MODULE`), never a fork: the front end has gRPC threads.
It inherits one end of a socket pair, and nothing else but the descriptors it is told about.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable, Mapping, Sequence

from robot_sdk.clock import pause
from server.worker.framing import Frame, FrameDecoder, Header, encode

_log = logging.getLogger(__name__)

#: After a child has gone, time to read what it still wrote, seconds.
_LAST_WORDS_S = 0.5
_POLL_S = 0.05


class _FrameProtocol(asyncio.Protocol):
    def __init__(self, on_frame: Callable[[Frame], None], on_lost: Callable[[], None]) -> None:
        self._decoder = FrameDecoder()
        self._on_frame = on_frame
        self._on_lost = on_lost

    def data_received(self, data: bytes) -> None:
        for frame in self._decoder.feed(data):
            self._on_frame(frame)

    def connection_lost(self, exc: Exception | None) -> None:
        self._on_lost()


class WorkerProcess:
    """A running child.

    Args:
        on_frame: Called on the loop for every frame that arrives.
        on_exit: Called once on the loop when the child has gone, with its exit code (None if it
            could not be learned). Nothing arrives after it.
    """

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        on_frame: Callable[[Frame], None],
        on_exit: Callable[[int | None], None],
    ) -> None:
        self._process = process
        self._on_exit = on_exit
        self._protocol = _FrameProtocol(on_frame, self._connection_lost)
        self._transport: asyncio.Transport | None = None
        self._closed = asyncio.get_running_loop().create_future()
        self._disconnected = asyncio.Event()
        self._reaper: asyncio.Task[None] | None = None

    @classmethod
    async def start(
        cls,
        module: str,
        arguments: Sequence[str],
        on_frame: Callable[[Frame], None],
        on_exit: Callable[[int | None], None],
        pass_descriptors: Sequence[int] = (),
        environment: Mapping[str, str] | None = None,
    ) -> WorkerProcess:
        """Start `python -m module SOCKET_DESCRIPTOR PARENT_PID *arguments`."""
        ours, theirs = socket.socketpair()
        with theirs:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                module,
                str(theirs.fileno()),
                str(os.getpid()),
                *arguments,
                stdin=asyncio.subprocess.DEVNULL,
                pass_fds=(theirs.fileno(), *pass_descriptors),
                env={**os.environ, **(environment or {})},
                # Ctrl-C goes to the front end alone, which then ends its children in order.
                start_new_session=True,
            )
        worker = cls(process, on_frame, on_exit)
        ours.setblocking(False)
        loop = asyncio.get_running_loop()
        transport, _ = await loop.create_connection(lambda: worker._protocol, sock=ours)
        worker._transport = transport
        worker._reaper = loop.create_task(worker._reap())
        return worker

    @property
    def pid(self) -> int:
        return self._process.pid

    def send(self, header: Header, body: bytes = b"") -> None:
        """Queue a frame. Without effect once the child has gone; `on_exit` tells."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(encode(header, body))

    async def stop(self, grace_s: float) -> None:
        """Close the connection, which tells the child to leave; kill it after `grace_s`."""
        if self._transport is not None:
            self._transport.close()
        try:
            await asyncio.wait_for(asyncio.shield(self._closed), grace_s)
        except asyncio.TimeoutError:
            _log.warning("worker %d did not leave within %.1f s and is killed", self.pid, grace_s)
            self.kill()
            await self._closed

    def kill(self) -> None:
        """End the child at once."""
        if self._process.returncode is None:
            try:
                os.kill(self.pid, signal.SIGKILL)
            except ProcessLookupError:
                return

    def _kill_group(self) -> None:
        """End what the child started and left behind. The child leads a group of its own."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)

    async def _group_gone(self, timeout_s: float) -> None:
        waited_s = 0.0
        while waited_s < timeout_s:
            try:
                os.killpg(self.pid, 0)
            except ProcessLookupError:
                return
            await pause(_POLL_S)
            waited_s += _POLL_S

    def _connection_lost(self) -> None:
        self._disconnected.set()

    async def _reap(self) -> None:
        code = await self._process.wait()
        try:
            # A process that the child forked may hold the socket open for as long as it likes.
            await asyncio.wait_for(self._disconnected.wait(), _LAST_WORDS_S)
        except asyncio.TimeoutError:
            assert self._transport is not None
            self._transport.abort()
            await self._disconnected.wait()
        if code == 0:
            # Its children are leaving by themselves, one may still be tidying up.
            await self._group_gone(_LAST_WORDS_S)
        self._kill_group()
        if not self._closed.done():
            self._closed.set_result(code)
        self._on_exit(code)
