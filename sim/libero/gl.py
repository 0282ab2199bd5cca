"""Choose the graphics library that draws camera pictures: EGL, OSMesa, or none.

    gl="auto"    MUJOCO_GL if it is set; else EGL if it works, else OSMesa, else no pictures
    gl="egl"     EGL (a GPU, or Mesa in software); MUJOCO_EGL_DEVICE_ID picks the device
    gl="osmesa"  OSMesa (software)
    gl="off"     no pictures; nothing of GL is loaded

A library is tried out in a child process that draws one frame within a bounded time, because a
library that is missing, broken or hung can take its process with it, and because only one of the
two can be loaded per process.
"""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from dataclasses import dataclass
from typing import Literal

from robot_sdk.errors import InvalidArgumentError, PersistentError, nearest

GlChoice = Literal["auto", "egl", "osmesa", "off"]
Backend = Literal["egl", "osmesa"]

GL_CHOICES: tuple[GlChoice, ...] = ("auto", "egl", "osmesa", "off")
#: Time that a library gets to draw its first frame, seconds. Software drawing takes about 2 s.
FIRST_FRAME_TIMEOUT_S = 60.0

# MuJoCo's own words for "no GL".
_OFF_WORDS = ("off", "disable", "disabled", "false", "0")
_VARIABLE_WORDS = ("egl", "osmesa", *_OFF_WORDS)

_PROBE = """
import sys
from sim.libero.gl_context import make_context, renderer_name
import mujoco
context = make_context(sys.argv[1], 32, 32)
context.make_current()
model = mujoco.MjModel.from_xml_string("<mujoco><worldbody/></mujoco>")
scene = mujoco.MjvScene(model, maxgeom=10)
target = mujoco.MjrContext(model, mujoco.mjtFontScale.mjFONTSCALE_100)
mujoco.mjr_render(mujoco.MjrRect(0, 0, 32, 32), scene, target)
print(renderer_name(sys.argv[1]))
target.free()
context.free()
"""


class RenderingOffError(PersistentError):
    """A picture was asked for, but no graphics library is in use. The message says why."""


@dataclass(frozen=True)
class ProbeResult:
    """Whether a library can draw here.

    Attributes:
        renderer: GL_RENDERER, for example "llvmpipe (LLVM 15.0.7, 256 bits)"; None if it cannot.
        problem: Why it cannot, one line; empty if it can.
    """

    renderer: str | None
    problem: str = ""


@dataclass(frozen=True)
class GlSelection:
    """What was chosen.

    Attributes:
        backend: The library, None for no pictures.
        reason: One line: why this one, and what is wrong with those passed over.
    """

    backend: Backend | None
    reason: str


def check_gl_settings(gl: str) -> None:
    """Refuse settings that can never work, before anything is loaded.

    Raises:
        InvalidArgumentError: Names the argument or the environment variable at fault.
    """
    if gl not in GL_CHOICES:
        raise InvalidArgumentError(
            "not a graphics library",
            field="gl",
            value=repr(gl),
            allowed=GL_CHOICES,
            hint=_did_you_mean(str(gl), GL_CHOICES),
        )
    if gl == "off":
        return
    variable = _mujoco_gl()
    if gl == "auto" and variable and variable not in _VARIABLE_WORDS:
        raise InvalidArgumentError(
            "the environment variable MUJOCO_GL names no headless graphics library",
            field="MUJOCO_GL",
            value=repr(variable),
            allowed=_VARIABLE_WORDS,
            hint="unset it to let the simulator choose (EGL, then OSMesa, then no pictures)",
        )
    device = os.environ.get("MUJOCO_EGL_DEVICE_ID")
    if device is not None and not device.strip().isdigit():
        raise InvalidArgumentError(
            "the environment variable MUJOCO_EGL_DEVICE_ID must be a device number",
            field="MUJOCO_EGL_DEVICE_ID",
            value=repr(device),
            allowed=["0, 1, ..."],
            hint="unset it to take the first device that works",
        )


def select_gl(gl: GlChoice) -> GlSelection:
    """Find a library that draws. Takes a second or two; remembered per process.

    Raises:
        InvalidArgumentError: The library asked for by `gl` or by MUJOCO_GL does not work here.
    """
    check_gl_settings(gl)
    variable = _mujoco_gl()
    if gl == "off":
        return GlSelection(None, "gl='off'")
    if gl == "auto" and variable in _OFF_WORDS:
        return GlSelection(None, f"MUJOCO_GL={variable}")
    wanted: Backend | None = None
    if gl == "egl" or (gl == "auto" and variable == "egl"):
        wanted = "egl"
    elif gl == "osmesa" or (gl == "auto" and variable == "osmesa"):
        wanted = "osmesa"
    if wanted is not None:
        source = "gl" if gl != "auto" else "MUJOCO_GL"
        result = probe(wanted, os.environ.get("MUJOCO_EGL_DEVICE_ID"))
        if result.renderer is None:
            raise InvalidArgumentError(
                f"{source}={wanted} does not work here: {result.problem}",
                field=source,
                hint="unset MUJOCO_GL and use gl='auto' to fall back by itself, or gl='off' to "
                "run without pictures",
            )
        return GlSelection(wanted, f"{source}={wanted}")
    passed_over: list[str] = []
    for backend in ("egl", "osmesa"):
        result = probe(backend, os.environ.get("MUJOCO_EGL_DEVICE_ID"))
        if result.renderer is not None:
            return GlSelection(backend, "; ".join([f"{backend} works", *passed_over]))
        passed_over.append(f"{backend}: {result.problem}")
    return GlSelection(None, "; ".join(passed_over))


@functools.cache
def probe(backend: Backend, egl_device: str | None) -> ProbeResult:
    """Draw one frame with `backend` in a child process.

    Args:
        backend: The library.
        egl_device: Value of MUJOCO_EGL_DEVICE_ID; part of the cache's key.
    """
    environment = {
        name: value
        for name, value in os.environ.items()
        if name not in ("MUJOCO_GL", "PYOPENGL_PLATFORM", "MUJOCO_EGL_DEVICE_ID")
    }
    environment["MUJOCO_GL"] = "off"  # mujoco itself must not load a library while importing
    environment["PYTHONPATH"] = os.pathsep.join(p for p in sys.path if p)
    if egl_device is not None:
        environment["MUJOCO_EGL_DEVICE_ID"] = egl_device
    try:
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", _PROBE, backend],
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=FIRST_FRAME_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return ProbeResult(None, f"no first frame within {FIRST_FRAME_TIMEOUT_S:.0f} s")
    if done.returncode == 0 and done.stdout.strip():
        return ProbeResult(done.stdout.strip().splitlines()[-1])
    lines = done.stderr.strip().splitlines()
    return ProbeResult(None, lines[-1] if lines else f"exit status {done.returncode}")


def is_software(renderer: str) -> bool:
    """Whether GL_RENDERER names a renderer that runs on the CPU."""
    return any(word in renderer.lower() for word in ("llvmpipe", "softpipe", "swrast", "software"))


def _mujoco_gl() -> str:
    return os.environ.get("MUJOCO_GL", "").strip().lower()


def _did_you_mean(name: str, known: tuple[str, ...]) -> str:
    close = nearest(name, known, 1)
    return f"did you mean {close[0]!r}?" if close else ""
