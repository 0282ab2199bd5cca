"""Keeps one worker process loaded: start, wait for `ready`, restart with backoff when it dies."""

from __future__ import annotations

import asyncio
import enum
import logging
from collections.abc import Callable, Mapping, Sequence

from robot_sdk.clock import Clock, pause
from server.worker.framing import Frame, Header
from server.worker.process import WorkerProcess

_log = logging.getLogger(__name__)

_FIRST_BACKOFF_S = 0.2
_MAX_BACKOFF_S = 10.0
#: A worker that was ready for this long starts again with the first backoff.
_STABLE_S = 30.0
_STOP_GRACE_S = 3.0


class WorkerState(enum.Enum):
    """What a worker is doing."""

    LOADING = "loading"
    READY = "ready"
    DOWN = "down"


class Supervisor:
    """One place for a worker, whichever process fills it.

    The worker is told `load` first and must answer with a frame `ready` or `failed` (with
    `error`). A worker that cannot load the first time fails for good: its configuration is wrong.

    Args:
        name: For logs, for example "policy flow-libero/0".
        module: Module that the child runs.
        load: Header of the `load` frame, without `op`.
        on_ready: Called with the `ready` header at every (re)start.
        on_frame: Called for every later frame.
        on_lost: Called when a worker that was ready has gone, before it is started again.
        environment: Variables of the worker beside those of this process, or instead of them.
    """

    def __init__(
        self,
        name: str,
        module: str,
        load: Header,
        *,
        clock: Clock,
        on_ready: Callable[[Frame], None],
        on_frame: Callable[[Frame], None],
        on_lost: Callable[[], None],
        arguments: Sequence[str] = (),
        pass_descriptors: Sequence[int] = (),
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self.state = WorkerState.LOADING
        self._module = module
        self._load = load
        self._clock = clock
        self._on_ready = on_ready
        self._on_frame = on_frame
        self._on_lost = on_lost
        self._arguments = arguments
        self._pass_descriptors = pass_descriptors
        self._environment = dict(environment or {})
        self._worker: WorkerProcess | None = None
        self._backoff_s = _FIRST_BACKOFF_S
        self._ready_at_s: float | None = None
        self._stopping = False
        self._restart: asyncio.Task[None] | None = None
        self._first_load: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        # Somebody may never ask how the first load went.
        self._first_load.add_done_callback(lambda done: done.cancelled() or done.exception())

    @property
    def pid(self) -> int | None:
        """Process id of the present worker."""
        return None if self._worker is None else self._worker.pid

    @property
    def problem(self) -> str:
        """Why nothing can be asked of it now, for people; empty if something can."""
        if self.state is WorkerState.READY:
            return ""
        if self.state is WorkerState.LOADING:
            return "it is loading"
        return "its process has ended" + ("" if self._stopping else " and is started again")

    @property
    def retry_after_s(self) -> float:
        """When a caller who was turned away may try again."""
        return 1.0 if self.state is WorkerState.LOADING else self._backoff_s + 0.5

    async def start(self) -> None:
        """Start the first process; returns before it has loaded."""
        await self._launch()

    async def loaded(self) -> None:
        """Wait for the first `ready`.

        Raises:
            RuntimeError: The worker said that it cannot load, or died of it.
        """
        await asyncio.shield(self._first_load)

    def send(self, header: Header, body: bytes = b"") -> None:
        if self._worker is not None:
            self._worker.send(header, body)

    def kill(self) -> None:
        """End a process that does not answer; another one follows, as after any death."""
        if self._worker is not None:
            self._worker.kill()

    async def stop(self) -> None:
        """End the process and do not start another."""
        self._stopping = True
        if self._restart is not None:
            self._restart.cancel()
        if self._worker is not None:
            await self._worker.stop(_STOP_GRACE_S)
        self.state = WorkerState.DOWN

    async def _launch(self) -> None:
        self.state = WorkerState.LOADING
        self._worker = await WorkerProcess.start(
            self._module,
            self._arguments,
            self._received,
            self._exited,
            self._pass_descriptors,
            self._environment,
        )
        self._worker.send({"op": "load", **self._load})

    def _received(self, frame: Frame) -> None:
        if self.state is WorkerState.READY:
            self._on_frame(frame)
            return
        if frame.header["op"] == "failed":
            _log.error("%s cannot load: %s", self.name, frame.header["error"])
            if not self._first_load.done():
                self._first_load.set_exception(
                    RuntimeError(f"{self.name} cannot load: {frame.header['error']}")
                )
            return
        self.state = WorkerState.READY
        self._ready_at_s = self._clock.now_s()
        _log.info("%s is ready (pid %s)", self.name, self.pid)
        self._on_ready(frame)
        if not self._first_load.done():
            self._first_load.set_result(None)

    def _exited(self, code: int | None) -> None:
        was_ready = self.state is WorkerState.READY
        self.state = WorkerState.DOWN
        self._worker = None
        if self._stopping:
            return
        if not self._first_load.done():
            self._first_load.set_exception(
                RuntimeError(f"{self.name} died while loading, exit code {code}")
            )
        now_s = self._clock.now_s()
        if self._ready_at_s is not None and now_s - self._ready_at_s > _STABLE_S:
            self._backoff_s = _FIRST_BACKOFF_S
        _log.error(
            "%s has gone (exit code %s); starting it again in %.1f s",
            self.name,
            code,
            self._backoff_s,
        )
        if was_ready:
            self._on_lost()
        self._restart = asyncio.get_running_loop().create_task(self._start_again())

    async def _start_again(self) -> None:
        backoff_s = self._backoff_s
        self._backoff_s = min(2 * backoff_s, _MAX_BACKOFF_S)
        await pause(backoff_s)
        await self._launch()
