"""Make an off-screen GL context with MuJoCo's own EGL or OSMesa classes."""

from __future__ import annotations

import importlib
import os
from typing import Any, Literal

_GL_RENDERER = 0x1F01


def make_context(backend: Literal["egl", "osmesa"], width: int, height: int) -> Any:
    """A context, not yet current. PyOpenGL is bound to `backend` for the rest of the process."""
    os.environ["PYOPENGL_PLATFORM"] = backend
    return importlib.import_module(f"mujoco.{backend}").GLContext(width, height)


def renderer_name(backend: Literal["egl", "osmesa"]) -> str:
    """GL_RENDERER of the current context."""
    name = importlib.import_module("OpenGL.GL").glGetString(_GL_RENDERER)
    return name.decode() if name else f"{backend}, unnamed"
