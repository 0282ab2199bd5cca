"""Runs as scripts in bare environments: no GL, no home, no terminal, clean exit."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from robot_sdk.errors import InvalidArgumentError
from sim.libero import gl
from sim.libero.gl import ProbeResult, check_gl_settings, select_gl

_ROOT = Path(__file__).parents[4]
_EPISODE = """
import logging; logging.getLogger("sim").setLevel(logging.ERROR)
from sim.libero.env import IDLE_ACTION, LiberoEnv
env = LiberoEnv("libero_object_swap", 0, 0, gl={gl!r})
for _ in range(5):
    env.step(IDLE_ACTION)
{more}
print("done")
"""


def _run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("MUJOCO_")}
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=_ROOT,
        env={**inherited, "OMP_NUM_THREADS": "1", **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.sim
@pytest.mark.parametrize("more", ["", "env.close()"])
def test_f2_an_episode_with_pictures_ends_with_status_0_and_an_empty_stderr(more: str) -> None:
    if select_gl("auto").backend is None:
        pytest.skip("no graphics library here")
    done = _run(_EPISODE.format(gl="auto", more="env.render('agentview', 64, 64)\n" + more))
    assert done.stdout == "done\n"
    assert done.stderr == ""
    assert done.returncode == 0


@pytest.mark.sim
def test_f4_an_empty_home_and_a_closed_stdin_are_enough(tmp_path: Path) -> None:
    code = "import os; os.close(0)\n" + _EPISODE.format(gl="off", more="")
    done = _run(code, HOME=str(tmp_path), XDG_CONFIG_HOME=str(tmp_path / "config"))
    assert done.stdout == "done\n"
    assert done.stderr == ""
    assert done.returncode == 0


@pytest.mark.sim
def test_f1_a_stale_egl_device_does_not_break_a_run_without_pictures() -> None:
    done = _run(
        _EPISODE.format(gl="off", more=""),
        MUJOCO_GL="egl",
        MUJOCO_EGL_DEVICE_ID="7",
        CUDA_VISIBLE_DEVICES="1",
    )
    assert done.stdout == "done\n"
    assert done.stderr == ""


@pytest.mark.sim
def test_f1_a_device_that_does_not_exist_is_one_line_naming_the_variable() -> None:
    if select_gl("egl").backend is None:
        pytest.skip("no EGL here")
    code = (
        "from sim.libero.gl import select_gl\n"
        "try:\n    select_gl('egl')\nexcept Exception as error:\n    print(error)"
    )
    done = _run(code, MUJOCO_EGL_DEVICE_ID="99")
    assert "MUJOCO_EGL_DEVICE_ID" in done.stdout
    assert done.stdout.count("\n") == 1
    assert "gl='off'" in done.stdout


@pytest.mark.parametrize("value", ["foo", "glfw", "eglx"])
def test_f7_a_word_that_names_no_library_is_refused(
    monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    monkeypatch.setenv("MUJOCO_GL", value)
    with pytest.raises(InvalidArgumentError, match=rf"MUJOCO_GL.*{value}.*egl.*osmesa"):
        check_gl_settings("auto")


def test_f1_a_device_that_is_no_number_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MUJOCO_EGL_DEVICE_ID", "gpu0")
    with pytest.raises(InvalidArgumentError, match=r"MUJOCO_EGL_DEVICE_ID.*gpu0"):
        check_gl_settings("egl")


def test_an_unknown_choice_is_refused_with_the_nearest() -> None:
    with pytest.raises(InvalidArgumentError, match=r"gl:.*did you mean 'osmesa'"):
        check_gl_settings("mesa")


def _probe_results(monkeypatch: pytest.MonkeyPatch, **works: bool) -> None:
    monkeypatch.delenv("MUJOCO_GL", raising=False)
    monkeypatch.setattr(
        gl,
        "probe",
        lambda backend, _: (
            ProbeResult("a renderer") if works[backend] else ProbeResult(None, "no library")
        ),
    )


@pytest.mark.parametrize(
    ("egl", "osmesa", "expected"),
    [(True, True, "egl"), (False, True, "osmesa"), (False, False, None)],
)
def test_f1_auto_falls_back_from_egl_to_osmesa_to_no_pictures(
    monkeypatch: pytest.MonkeyPatch, egl: bool, osmesa: bool, expected: str | None
) -> None:
    _probe_results(monkeypatch, egl=egl, osmesa=osmesa)
    selection = select_gl("auto")
    assert selection.backend == expected
    assert egl or "no library" in selection.reason


def test_f1_a_library_that_was_asked_for_is_not_silently_replaced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _probe_results(monkeypatch, egl=False, osmesa=True)
    monkeypatch.setenv("MUJOCO_GL", "egl")
    with pytest.raises(InvalidArgumentError, match="MUJOCO_GL=egl does not work here: no library"):
        select_gl("auto")


def test_f3_a_library_that_hangs_in_the_probe_counts_as_not_working(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gl, "FIRST_FRAME_TIMEOUT_S", 0.01)
    monkeypatch.setattr(gl, "_PROBE", "import threading; threading.Event().wait()")
    gl.probe.cache_clear()
    try:
        result = gl.probe("egl", None)
    finally:
        gl.probe.cache_clear()
    assert result.renderer is None
    assert "no first frame" in result.problem
