"""Pictures: the right way round, once; chosen, bounded and cleaned up."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import mujoco
import numpy as np
import pytest

from robot_sdk.errors import InvalidArgumentError
from sim.libero import rendering
from sim.libero.env import LiberoEnv
from sim.libero.gl import GlSelection, RenderingOffError, is_software, select_gl
from sim.libero.rendering import Renderer, RenderingHungError

pytestmark = pytest.mark.sim

# Four coloured squares seen from straight above: as a person sees them, red top left, green top
# right, blue bottom left, white bottom right.
_MARKER = """
<mujoco>
  <visual><headlight ambient="1 1 1" diffuse="0 0 0" specular="0 0 0"/></visual>
  <worldbody>
    <camera name="top" pos="0 0 2" xyaxes="1 0 0 0 1 0" fovy="53"/>
    <geom group="1" type="box" size=".5 .5 .01" pos="-.5 .5 0" rgba="1 0 0 1"/>
    <geom group="1" type="box" size=".5 .5 .01" pos=".5 .5 0" rgba="0 1 0 1"/>
    <geom group="1" type="box" size=".5 .5 .01" pos="-.5 -.5 0" rgba="0 0 1 1"/>
    <geom group="1" type="box" size=".5 .5 .01" pos=".5 -.5 0" rgba="1 1 1 1"/>
  </worldbody>
</mujoco>
"""
_RED, _GREEN, _BLUE, _WHITE = ([1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 1])


@pytest.fixture(scope="module")
def _works() -> None:
    if select_gl("auto").backend is None:
        pytest.skip("no graphics library here")


@pytest.fixture
def marker(_works: None) -> Iterator[Renderer]:
    model = mujoco.MjModel.from_xml_string(_MARKER)
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    renderer = Renderer(model, data, "auto")
    yield renderer
    renderer.close()


def _quadrants(image: np.ndarray) -> list[list[list[int]]]:
    """Colours at the middle of each quadrant, as [[top left, top right], [bottom ...]]."""
    high, wide = image.shape[:2]
    return [
        [(image[high * y // 4, wide * x // 4] > 100).astype(int).tolist() for x in (1, 3)]
        for y in (1, 3)
    ]


@pytest.mark.gl
def test_f6_policy_image_is_the_raw_buffer_turned_by_180_degrees_once(
    marker: Renderer, pudding_env: LiberoEnv
) -> None:
    pudding_env._renderer, original = marker, pudding_env._renderer
    try:
        raw = marker.raw("top", 64, 64)
        person = pudding_env.render("top", 64, 64)
        policy = pudding_env.policy_image("top", 64)
    finally:
        pudding_env._renderer = original
    assert _quadrants(person) == [[_RED, _GREEN], [_BLUE, _WHITE]]
    assert _quadrants(raw) == [[_BLUE, _WHITE], [_RED, _GREEN]]
    assert _quadrants(policy) == [[_GREEN, _RED], [_WHITE, _BLUE]]
    np.testing.assert_array_equal(policy, raw[::-1, ::-1])
    np.testing.assert_array_equal(person, raw[::-1])


@pytest.mark.gl
def test_a_picture_has_the_size_that_was_asked_for(marker: Renderer) -> None:
    for height, width in ((32, 48), (600, 800), (20, 20)):
        image = marker.raw("top", height, width)
        assert image.shape == (height, width, 3)
        assert image.dtype == np.uint8


@pytest.mark.gl
def test_an_unknown_camera_is_named_with_the_known_ones(marker: Renderer) -> None:
    with pytest.raises(InvalidArgumentError, match=r"camera.*'tpo'.*top"):
        marker.raw("tpo", 32, 32)


@pytest.mark.gl
@pytest.mark.parametrize(("height", "width"), [(0, 32), (32, -1), (10_000, 32)])
def test_an_impossible_size_is_refused(marker: Renderer, height: int, width: int) -> None:
    with pytest.raises(InvalidArgumentError, match="1 to 4096"):
        marker.raw("top", height, width)


@pytest.mark.gl
def test_f7_the_renderers_name_is_known_and_slow_drawing_is_warned_about_once(
    marker: Renderer, caplog: pytest.LogCaptureFixture
) -> None:
    rendering._log_renderer.cache_clear()
    with caplog.at_level(logging.INFO, logger="sim.libero.rendering"):
        name = marker.name
        assert name
        marker.raw("top", 16, 16)
        marker.raw("top", 16, 16)
    about_drawing = [record for record in caplog.records if name in record.getMessage()]
    assert len(about_drawing) == 1
    assert (about_drawing[0].levelno == logging.WARNING) == is_software(name)


def test_without_a_graphics_library_a_picture_is_a_clear_error(pudding_env: LiberoEnv) -> None:
    assert pudding_env.renderer_name is None
    with pytest.raises(RenderingOffError, match="gl='off'"):
        pudding_env.render()


def test_f3_a_first_frame_that_hangs_is_named_within_its_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import threading

    release = threading.Event()
    monkeypatch.setattr(rendering, "select_gl", lambda _: GlSelection("osmesa", "test"))
    monkeypatch.setattr(rendering, "make_context", lambda *_: release.wait())
    model = mujoco.MjModel.from_xml_string(_MARKER)
    renderer = Renderer(model, mujoco.MjData(model), "auto", timeout_s=0.05)
    try:
        with pytest.raises(RenderingHungError, match=r"osmesa hung while creating the context"):
            renderer.raw("top", 16, 16)
    finally:
        release.set()
