from __future__ import annotations

import pytest

from robot_sdk.errors import InvalidArgumentError
from sim.cli.indices import parse_indices


@pytest.mark.parametrize(
    ("text", "indices"), [("0", [0]), ("0-2", [0, 1, 2]), ("7, 1-2,2", [1, 2, 7])]
)
def test_indices_are_read_in_order_each_once(text: str, indices: list[int]) -> None:
    assert parse_indices("tasks", text, 10) == indices


@pytest.mark.parametrize("text", ["", "a", "-1", "1-", "3-1", "10", "0-10", "1;2", "1.5"])
def test_wrong_indices_are_refused_with_what_is_allowed(text: str) -> None:
    with pytest.raises(InvalidArgumentError, match="allowed"):
        parse_indices("tasks", text, 10)
