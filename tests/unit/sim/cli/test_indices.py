from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from robot_sdk.errors import InvalidArgumentError
from sim.cli.indices import format_indices, parse_indices


@pytest.mark.parametrize(
    ("text", "indices"), [("0", [0]), ("0-2", [0, 1, 2]), ("7, 1-2,2", [1, 2, 7])]
)
def test_indices_are_read_in_order_each_once(text: str, indices: list[int]) -> None:
    assert parse_indices("tasks", text, 10) == indices


@pytest.mark.parametrize("text", ["", "a", "-1", "1-", "3-1", "10", "0-10", "1;2", "1.5"])
def test_wrong_indices_are_refused_with_what_is_allowed(text: str) -> None:
    with pytest.raises(InvalidArgumentError, match="allowed"):
        parse_indices("tasks", text, 10)


@pytest.mark.parametrize(
    ("indices", "text"), [([0], "0"), ([2, 0, 1], "0-2"), ([7, 1, 2, 4], "1-2,4,7"), ([], "")]
)
def test_indices_are_written_as_ranges(indices: list[int], text: str) -> None:
    assert format_indices(indices) == text


@given(st.sets(st.integers(0, 40), min_size=1))
def test_written_indices_are_read_as_the_same(indices: set[int]) -> None:
    assert parse_indices("tasks", format_indices(sorted(indices)), 41) == sorted(indices)
