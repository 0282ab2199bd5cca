from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from robot_sdk.action_guard import LIMIT_TOLERANCE, ActionGuard
from robot_sdk.errors import BadModelOutputError, InvalidArgumentError
from robot_sdk.testing.virtual_policy import plain_spec


def _guard(**options) -> ActionGuard:
    return ActionGuard([-1.0] * 7, [1.0] * 7, names=[f"j{i}" for i in range(7)], **options)


@pytest.mark.parametrize(
    "chunk",
    [
        np.zeros((0, 7), np.float32),
        np.zeros(7, np.float32),
        np.zeros((16, 6), np.float32),
        np.float32(0.0),
        np.zeros((2, 16, 7), np.float32),
        [[0.0] * 7] * 2 + [[0.0] * 6],
        [np.zeros((16, 7)), np.zeros((8, 7))],
        [],
        None,
        "chunk",
        np.zeros((16, 7), dtype=object),
        np.zeros((16, 7), dtype=complex),
        np.zeros((16, 7), dtype=bool),
        np.full((16, 7), "0.0"),
    ],
    ids=[
        "no rows",
        "one-dimensional",
        "too narrow",
        "zero-dimensional",
        "three-dimensional",
        "ragged list",
        "two arrays of 16 and 8 rows",
        "empty list",
        "nothing",
        "text",
        "objects",
        "complex",
        "bool",
        "strings",
    ],
)
def test_a14_malformed_chunk_is_a_named_error(chunk):
    with pytest.raises(BadModelOutputError):
        _guard().check_chunk(chunk)


def test_a14_chunk_shorter_than_the_horizon_is_refused():
    guard = ActionGuard.from_spec(plain_spec(action_dim=7, horizon=16))
    with pytest.raises(BadModelOutputError, match=r"\(16, 7\).*\(8, 7\)"):
        guard.check_chunk(np.zeros((8, 7), np.float32))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("on_limit", ["reject", "clip"])
def test_value_that_is_not_finite_is_refused_under_either_limit_rule(value, on_limit):
    chunk = np.zeros((16, 7), np.float32)
    chunk[3, 2] = value
    with pytest.raises(BadModelOutputError, match="row 3, j2"):
        _guard(on_limit=on_limit).check_chunk(chunk)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_value_that_is_not_finite_is_refused_where_there_are_no_limits(value):
    guard = ActionGuard.unlimited(2)
    with pytest.raises(InvalidArgumentError, match=r"action\[1\].*finite"):
        guard.check_action(np.array([0.0, value], np.float32))


def test_float64_beyond_float32_is_refused_like_infinity():
    guard = ActionGuard.unlimited(1)
    with pytest.raises(InvalidArgumentError, match="finite"):
        guard.check_action(np.array([1e300]))


def test_value_out_of_limits_is_refused_with_row_name_value_and_limit():
    chunk = np.zeros((16, 7), np.float32)
    chunk[5, 6] = 1.5
    with pytest.raises(BadModelOutputError) as caught:
        _guard().check_chunk(chunk)
    message = str(caught.value)
    assert "row 5, j6" in message
    assert "1.5" in message
    assert "-1.0 to 1.0" in message


def test_clip_moves_the_value_onto_the_limit_and_counts_it():
    guard = _guard(on_limit="clip")
    checked = guard.check_action(np.array([2.0, -3.0, 0, 0, 0, 0, 0.5]))
    assert checked.tolist() == [1.0, -1.0, 0, 0, 0, 0, 0.5]
    assert guard.num_clipped == 2


def test_rounding_beyond_a_limit_passes_and_lands_on_the_limit():
    guard = ActionGuard([-1.0], [1.0])
    assert guard.check_action(np.array([1.0 + LIMIT_TOLERANCE / 2])).tolist() == [1.0]
    with pytest.raises(InvalidArgumentError):
        guard.check_action(np.array([1.0 + 3 * LIMIT_TOLERANCE]))


@pytest.mark.parametrize("action", [np.zeros(6), np.zeros((1, 7)), 0.0, [], [[0.0], [0.0, 1.0]]])
def test_action_of_wrong_shape_is_an_invalid_argument(action):
    with pytest.raises(InvalidArgumentError):
        _guard().check_action(action)


def test_checked_chunk_is_a_writable_copy_of_a_read_only_one():
    chunk = np.zeros((16, 7), np.float32)
    chunk.setflags(write=False)
    checked = _guard().check_chunk(chunk)
    checked[0, 0] = 0.5
    assert chunk[0, 0] == 0.0


def test_integers_and_strided_views_are_accepted_as_float32():
    checked = _guard().check_chunk(np.ones((32, 7), np.int64)[::-2])
    assert checked.dtype == np.float32
    assert checked.shape == (16, 7)


@pytest.mark.parametrize(
    ("lower", "upper"), [([0.0], [-1.0]), ([np.nan], [1.0]), ([0.0], [1.0, 1.0]), ([], [])]
)
def test_impossible_limits_are_refused(lower, upper):
    with pytest.raises(InvalidArgumentError):
        ActionGuard(lower, upper)


def test_unknown_limit_rule_names_the_allowed_ones():
    with pytest.raises(InvalidArgumentError, match="reject, clip"):
        _guard(on_limit="wrap")


@given(
    hnp.arrays(
        np.float32, (4, 3), elements=st.floats(width=32, allow_nan=True, allow_infinity=True)
    ),
    st.sampled_from(["reject", "clip"]),
)
@settings(deadline=None)
def test_what_passes_is_finite_and_within_limits(chunk, on_limit):
    guard = ActionGuard([-2.0, -1.0, 0.0], [2.0, 1.0, 0.5], on_limit=on_limit)
    try:
        checked = guard.check_chunk(chunk)
    except BadModelOutputError:
        return
    assert np.isfinite(checked).all()
    assert (checked >= np.float32([-2, -1, 0])).all()
    assert (checked <= np.float32([2, 1, 0.5])).all()
