"""Features: strict about inputs, smooth where the pose is, blind to where in the world it is."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from robot_sdk.errors import ObservationMismatchError
from server.policy.flow.features import (
    APPROACH_HEIGHT,
    CARRY_HEIGHT,
    FEATURE_NAMES,
    INPUT_WIDTHS,
    NUM_FEATURES,
    PLACE_POS,
    STATE,
    TARGET_POS,
    TARGET_QUAT,
    TARGET_SIZE,
    compute_features,
)
from server.policy.flow.grasp_frame import FLOOR_GAP_M, grasp_frame
from tests.unit.server.policy.flow.helpers import example_inputs


def _feature(inputs: dict[str, np.ndarray], name: str) -> float:
    return float(compute_features(inputs)[0, FEATURE_NAMES.index(name)])


def test_a_row_and_a_batch_of_rows_give_the_same_features() -> None:
    inputs = example_inputs()
    batch = {name: np.stack([value, value]) for name, value in inputs.items()}
    single, double = compute_features(inputs), compute_features(batch)
    assert single.shape == (1, NUM_FEATURES)
    assert single.dtype == np.float32
    np.testing.assert_array_equal(double, np.repeat(single, 2, axis=0))


@pytest.mark.parametrize("name", INPUT_WIDTHS)
def test_a_missing_input_is_named(name: str) -> None:
    inputs = example_inputs()
    del inputs[name]
    with pytest.raises(ObservationMismatchError, match=name):
        compute_features(inputs)


@pytest.mark.parametrize("name", INPUT_WIDTHS)
def test_a_wrong_width_is_named(name: str) -> None:
    inputs = example_inputs()
    inputs[name] = np.zeros(INPUT_WIDTHS[name] + 1, dtype=np.float32)
    with pytest.raises(ObservationMismatchError, match=name):
        compute_features(inputs)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_values_that_are_not_finite_are_named(value: float) -> None:
    inputs = example_inputs()
    inputs[PLACE_POS] = np.array([value, 0.0, 0.0], dtype=np.float32)
    with pytest.raises(ObservationMismatchError, match=PLACE_POS):
        compute_features(inputs)


def test_different_batch_sizes_text_and_a_zero_quaternion_are_refused() -> None:
    for name, bad in (
        (STATE, np.zeros((2, 8), dtype=np.float32)),
        (TARGET_POS, np.array(["a", "b", "c"])),
        (TARGET_QUAT, np.zeros(4, dtype=np.float32)),
    ):
        with pytest.raises(ObservationMismatchError):
            compute_features({**example_inputs(), name: bad})


_shift = st.tuples(*[st.floats(-0.5, 0.5)] * 3).map(np.array)


@given(_shift)
def test_moving_everything_together_changes_nothing(shift: np.ndarray) -> None:
    inputs = example_inputs()
    moved = {name: value.astype(np.float64) for name, value in inputs.items()}
    moved[STATE][:3] += shift
    for name in (TARGET_POS, PLACE_POS):
        moved[name] += shift
    for name in (APPROACH_HEIGHT, CARRY_HEIGHT):
        moved[name] += shift[2]
    np.testing.assert_allclose(compute_features(inputs), compute_features(moved), atol=1e-5)


def test_the_sign_of_the_axis_angle_near_a_half_turn_does_not_matter() -> None:
    inputs = example_inputs()
    other = example_inputs()
    inputs[STATE][3:6] = [np.pi - 0.001, 0.0, 0.0]
    other[STATE][3:6] = [-(np.pi - 0.001), 0.0, 0.0]
    np.testing.assert_allclose(compute_features(inputs), compute_features(other), atol=0.01)


def test_the_turn_left_to_the_grasp_is_the_angle_of_the_bar() -> None:
    inputs = example_inputs()
    # The bar's narrow side is its x axis, 0.3 rad off the world's: fingers open along y at yaw 0,
    # so the gripper has to turn by 0.3 - pi/2.
    turn = _feature(inputs, "rotation_to_grasp_z")
    assert turn == pytest.approx(2.0 * np.sin((0.3 - np.pi / 2) / 2), abs=1e-5)
    assert _feature(inputs, "grasp_width") == pytest.approx(0.04)


def test_a_bar_turned_by_half_a_turn_is_the_same_bar() -> None:
    inputs = example_inputs()
    turned = {**inputs, TARGET_QUAT: np.array([0, 0, np.sin(0.15 + np.pi / 2), 0], np.float32)}
    turned[TARGET_QUAT][3] = np.cos(0.15 + np.pi / 2)
    np.testing.assert_allclose(compute_features(inputs), compute_features(turned), atol=1e-5)


def test_f8_opening_is_the_distance_of_the_fingers_not_their_sum() -> None:
    inputs = example_inputs()
    assert _feature(inputs, "opening") == pytest.approx(0.078)
    inputs[STATE][6:] = 0.0
    assert _feature(inputs, "opening") == 0.0


@given(
    st.floats(-1.5, 1.5),
    st.floats(0.02, 0.06),
    st.floats(0.01, 0.2),
)
def test_a_grasp_stays_between_floor_gap_and_top(yaw: float, width: float, height: float) -> None:
    frame = grasp_frame(
        np.array([[0.0, 0.0, height / 2]]),
        np.array([[0.0, 0.0, np.sin(yaw / 2), np.cos(yaw / 2)]]),
        np.array([[width, 0.1, height]]),
    )
    assert frame.bottom_m[0] == pytest.approx(0.0, abs=1e-9)
    assert frame.top_m[0] == pytest.approx(height)
    assert frame.position[0, 2] >= FLOOR_GAP_M - 1e-9
    fingers = np.array([-np.sin(frame.yaw_rad[0]), np.cos(frame.yaw_rad[0])])
    narrow = np.array([np.cos(yaw), np.sin(yaw)])
    assert abs(fingers @ narrow) == pytest.approx(1.0)
    assert frame.width_m[0] == pytest.approx(width)


def test_a_box_that_lies_on_its_side_is_taken_by_its_new_height() -> None:
    lying = np.array([[np.sin(np.pi / 4), 0.0, 0.0, np.cos(np.pi / 4)]])  # a quarter turn about x
    frame = grasp_frame(np.array([[0.0, 0.0, 0.02]]), lying, np.array([[0.06, 0.04, 0.15]]))
    assert frame.top_m[0] == pytest.approx(0.04)
    assert frame.width_m[0] == pytest.approx(0.06)
    assert TARGET_SIZE in INPUT_WIDTHS
