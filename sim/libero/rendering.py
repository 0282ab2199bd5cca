"""Camera pictures of a MuJoCo scene, made on one thread that owns the graphics context.

A GL context belongs to the thread that made it current, and a driver may hang for ever inside a
call. So each renderer has one daemon thread; callers wait for it a bounded time and are told what
hung. The thread frees the context before the interpreter goes away.
"""

from __future__ import annotations

import atexit
import functools
import logging
import queue
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import Any

import mujoco
import numpy as np
from numpy.typing import NDArray

from robot_sdk.errors import InvalidArgumentError, RetryableError, nearest
from sim.libero.gl import (
    FIRST_FRAME_TIMEOUT_S,
    Backend,
    GlChoice,
    RenderingOffError,
    is_software,
    select_gl,
)
from sim.libero.gl_context import make_context, renderer_name

_LOG = logging.getLogger(__name__)
_CLOSE_TIMEOUT_S = 5.0
_MAX_SCENE_GEOMS = 1000


class RenderingHungError(RetryableError):
    """The graphics library did not answer in time. The message names library, device and call."""


class Renderer:
    """Pictures of one scene. Nothing of GL is loaded before the first one.

    Args:
        model: Raw MuJoCo model.
        data: Raw MuJoCo data; the caller must not step it while a picture is being made.
        gl: Which library, see `sim.libero.gl`.
        timeout_s: Longest wait for a picture, the first one included, seconds.
    """

    def __init__(
        self, model: Any, data: Any, gl: GlChoice, timeout_s: float = FIRST_FRAME_TIMEOUT_S
    ) -> None:
        self._model = model
        self._data = data
        self._gl = gl
        self._timeout_s = timeout_s
        self._worker: _Worker | None = None

    @property
    def name(self) -> str | None:
        """GL_RENDERER of the library in use, None if there is none."""
        try:
            return self._started().renderer
        except RenderingOffError:
            return None

    def raw(self, camera: str, height: int, width: int) -> NDArray[np.uint8]:
        """The frame buffer as GL gives it: uint8 (height, width, 3), RGB, bottom row first."""
        cameras = [self._model.camera(i).name for i in range(self._model.ncam)]
        if camera not in cameras:
            close = nearest(str(camera), cameras, 1)
            raise InvalidArgumentError(
                "no such camera",
                field="camera",
                value=repr(camera),
                allowed=cameras,
                hint=f"did you mean {close[0]!r}?" if close else "",
            )
        for field, size in (("height", height), ("width", width)):
            if not 1 <= size <= _Worker.MAX_SIZE:
                raise InvalidArgumentError(
                    "picture size out of range",
                    field=field,
                    value=size,
                    allowed=[f"1 to {_Worker.MAX_SIZE} pixels"],
                )
        return self._started().draw(cameras.index(camera), height, width)

    def close(self) -> None:
        """Free the graphics context, if there is one."""
        if self._worker is not None:
            self._worker.close()
            self._worker = None

    def _started(self) -> _Worker:
        if self._worker is None:
            selection = select_gl(self._gl)
            if selection.backend is None:
                raise RenderingOffError(
                    f"camera pictures are off ({selection.reason})",
                    hint="install EGL or OSMesa (Debian: libegl1 libgl1-mesa-dri libosmesa6), "
                    "or run without pictures",
                )
            worker = _Worker(self._model, self._data, selection.backend, self._timeout_s)
            _log_renderer(selection.backend, worker.renderer, selection.reason)
            self._worker = worker
        return self._worker


@functools.cache
def _log_renderer(backend: Backend, renderer: str, reason: str) -> None:
    """Once per process and library: say what draws, and warn when it is slow."""
    if is_software(renderer):
        _LOG.warning(
            "pictures are drawn in software by %s (%s): 50 to 110 ms each; ask for few",
            renderer,
            backend,
        )
    else:
        _LOG.info("pictures are drawn by %s (%s; %s)", renderer, backend, reason)


_LIVE: weakref.WeakSet[_Worker] = weakref.WeakSet()


@functools.cache
def _register_close_all() -> None:
    """Free what is left at exit. Registered after MuJoCo's EGL module has registered the end of
    the display, so that it runs before: a context freed after its display is an error.
    """
    atexit.register(_close_all)


def _close_all() -> None:
    for worker in list(_LIVE):
        worker.close()


class _Worker:
    """The thread that owns one context."""

    MAX_SIZE = 4096

    def __init__(self, model: Any, data: Any, backend: Backend, timeout_s: float) -> None:
        self._backend = backend
        self._timeout_s = timeout_s
        jobs: queue.SimpleQueue[tuple[Callable[[], Any], Future[Any]] | None] = queue.SimpleQueue()
        self._jobs = jobs
        self._thread = threading.Thread(target=_serve, args=(jobs,), name="render", daemon=True)
        self._thread.start()
        self._drawing: _Drawing = self._call(
            lambda: _Drawing(model, data, backend), "creating the context"
        )
        self.renderer = self._drawing.renderer
        self._finalizer = weakref.finalize(self, _shut_down, jobs, self._thread, self._drawing.free)
        self._finalizer.atexit = False  # `_close_all` does that, in the right order
        _LIVE.add(self)
        _register_close_all()

    def draw(self, camera_id: int, height: int, width: int) -> NDArray[np.uint8]:
        image: NDArray[np.uint8] = self._call(
            lambda: self._drawing.draw(camera_id, height, width),
            f"drawing camera {camera_id} at {width}x{height}",
        )
        return image

    def close(self) -> None:
        self._finalizer()

    def _call(self, job: Callable[[], Any], what: str) -> Any:
        future: Future[Any] = Future()
        self._jobs.put((job, future))
        try:
            return future.result(timeout=self._timeout_s)
        except FutureTimeoutError:
            raise RenderingHungError(
                f"the graphics library {self._backend} hung while {what}: no answer within "
                f"{self._timeout_s:.0f} s",
                hint="run with gl='osmesa' or gl='off', or check the driver",
            ) from None


def _serve(jobs: queue.SimpleQueue[tuple[Callable[[], Any], Future[Any]] | None]) -> None:
    while (item := jobs.get()) is not None:
        job, future = item
        try:
            future.set_result(job())
        except BaseException as error:  # noqa: BLE001  # handed to the caller, whatever it is
            future.set_exception(error)
        del item, job, future  # they hold the caller's objects


def _shut_down(
    jobs: queue.SimpleQueue[Any], thread: threading.Thread, free: Callable[[], None]
) -> None:
    jobs.put((free, Future()))
    jobs.put(None)
    thread.join(_CLOSE_TIMEOUT_S)


class _Drawing:
    """Context, scene and buffers; every method runs on the render thread."""

    def __init__(self, model: Any, data: Any, backend: Backend) -> None:
        self._model = model
        self._data = data
        self._context = make_context(backend, _Worker.MAX_SIZE, _Worker.MAX_SIZE)
        self._context.make_current()
        self.renderer = renderer_name(backend)
        self._scene = mujoco.MjvScene(model, maxgeom=_MAX_SCENE_GEOMS)
        self._camera = mujoco.MjvCamera()
        self._camera.type = mujoco.mjtCamera.mjCAMERA_FIXED
        self._options = mujoco.MjvOption()
        # robosuite puts collision shapes into group 0 and what a camera should see into group 1.
        self._options.geomgroup[0] = 0
        self._options.geomgroup[1] = 1
        self._target = self._make_target()

    def draw(self, camera_id: int, height: int, width: int) -> NDArray[np.uint8]:
        if width > self._target.offWidth or height > self._target.offHeight:
            self._model.vis.global_.offwidth = max(width, self._target.offWidth)
            self._model.vis.global_.offheight = max(height, self._target.offHeight)
            self._target.free()
            self._target = self._make_target()
        self._camera.fixedcamid = camera_id
        view = mujoco.MjrRect(0, 0, width, height)
        mujoco.mjv_updateScene(
            self._model,
            self._data,
            self._options,
            None,
            self._camera,
            mujoco.mjtCatBit.mjCAT_ALL,
            self._scene,
        )
        mujoco.mjr_render(view, self._scene, self._target)
        image = np.empty((height, width, 3), dtype=np.uint8)
        mujoco.mjr_readPixels(image, None, view, self._target)
        return image

    def free(self) -> None:
        self._target.free()
        self._context.free()

    def _make_target(self) -> Any:
        target = mujoco.MjrContext(self._model, mujoco.mjtFontScale.mjFONTSCALE_150)
        mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN, target)
        return target
