from __future__ import annotations

import contextlib
import enum
import json
from typing import Annotated, Any, Literal, Optional

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from robot_sdk.errors import InvalidArgumentError
from robot_sdk.tool_schema import Range, Signature, read_signature
from robot_sdk.tool_validation import MAX_ARGUMENTS_CHARS, check_arguments, parse_arguments


class Side(enum.Enum):
    LEFT = 1
    RIGHT = 2


def move(
    x: Annotated[float, Range(-0.5, 0.5, unit="m")],
    steps: Annotated[int, Range(1, 10)] = 5,
    grip: Literal["open", "close"] = "open",
    side: Side = Side.LEFT,
    fast: bool = False,
    label: Annotated[str, Range(high=5)] = "",
    path: tuple[Annotated[float, Range(0, 1)], ...] = (),
    point: Optional[tuple[float, float]] = None,  # noqa: UP045
) -> None:
    """Move."""


SIGNATURE: Signature = read_signature(move)


def check(text: str) -> dict[str, Any]:
    return check_arguments(SIGNATURE, parse_arguments(text))


def test_good_arguments_become_python_values() -> None:
    values = check(
        '{"x": 0, "steps": 3.0, "grip": "close", "side": 2, "fast": true, "label": "\u62ff",'
        ' "path": [0, 1], "point": [1, 2]}'
    )

    assert values == {
        "x": 0.0,
        "steps": 3,
        "grip": "close",
        "side": Side.RIGHT,
        "fast": True,
        "label": "\u62ff",
        "path": (0.0, 1.0),
        "point": (1.0, 2.0),
    }
    assert type(values["x"]) is float
    assert type(values["steps"]) is int


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ('{"x": 0.6}', ["x", "0.6", "-0.5 to 0.5 m"]),
        ('{"x": true}', ["x", "true", "number"]),
        ('{"x": "0.1"}', ["x", '"0.1"', "number"]),
        ('{"x": null}', ["x", "null", "number"]),
        ('{"x": 0.1, "steps": true}', ["steps", "true", "whole number"]),
        ('{"x": 0.1, "steps": 2.5}', ["steps", "2.5", "whole number"]),
        ('{"x": 0.1, "steps": 11}', ["steps", "11", "1 to 10"]),
        ('{"x": 0.1, "fast": 1}', ["fast", "1", "true or false"]),
        ('{"x": 0.1, "grip": "shut"}', ["grip", "shut", '"open" | "close"']),
        ('{"x": 0.1, "side": true}', ["side", "true", "1 | 2"]),
        ('{"x": 0.1, "label": "123456"}', ["label", "123456", "at most 5"]),
        ('{"x": 0.1, "path": [0, 2]}', ["path[1]", "2", "0 to 1"]),
        ('{"x": 0.1, "path": 1}', ["path", "1", "list"]),
        ('{"x": 0.1, "point": [1]}', ["point", "[1]", "exactly"]),
        ('{"x": 0.1, "point": {"a": 1}}', ["point", "exactly"]),
        ('{"x": 0.1, "step": 3}', ["step", "3", "did you mean 'steps'"]),
        ('{"steps": 3}', ["x", "missing", "-0.5 to 0.5 m"]),
    ],
)
def test_wrong_argument_is_refused_with_its_name_value_and_what_is_allowed(
    text: str, named: list[str]
) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        check(text)

    assert [word for word in named if word not in str(caught.value)] == []


@pytest.mark.parametrize(
    "text",
    [
        '{"x": 0.1',
        '{"x": "cut in the midd',
        '{"x": 0.1} and then text',
        '{"x": 0.1}{"x": 0.2}',
        "[0.1]",
        "0.1",
        "null",
        '{"x": NaN}',
        '{"x": Infinity}',
        '{"x": -Infinity}',
        '{"x": 1e999}',
        '{"x": 0.1, "x": 0.2}',
        "{x: 0.1}",
        "[" * 50_000,
        '{"x": ' + "1" * 5000 + "}",
        " " * (MAX_ARGUMENTS_CHARS + 1),
    ],
)
def test_d9_anything_but_one_plain_json_object_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgumentError):
        check(text)


def test_no_text_means_no_arguments() -> None:
    assert parse_arguments("") == {}
    assert parse_arguments(" \n") == {}


@settings(deadline=None)
@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_number_passes_exactly_when_it_is_within_the_bounds(x: float) -> None:
    text = json.dumps({"x": x})
    if -0.5 <= x <= 0.5:
        assert check(text)["x"] == x
    else:
        with pytest.raises(InvalidArgumentError):
            check(text)


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.dictionaries(st.sampled_from([*SIGNATURE.parameters, "other"]), JSON_VALUES))
def test_any_json_is_either_accepted_within_bounds_or_refused_by_one_error(
    arguments: dict[str, Any],
) -> None:
    try:
        values = check(json.dumps(arguments))
    except InvalidArgumentError:
        return
    assert -0.5 <= values["x"] <= 0.5
    assert set(values) == set(arguments)


@settings(deadline=None)
@given(st.text())
def test_any_text_is_either_an_object_or_refused_by_one_error(text: str) -> None:
    with contextlib.suppress(InvalidArgumentError):
        assert isinstance(parse_arguments(text), dict)
