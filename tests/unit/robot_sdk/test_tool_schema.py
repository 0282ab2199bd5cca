from __future__ import annotations

import enum
import json
from typing import Annotated, Any, Literal, Optional

import pytest

from robot_sdk.errors import InvalidArgumentError
from robot_sdk.tool_schema import Range, read_signature


class Speed(enum.Enum):
    SLOW = "slow"
    FAST = "fast"


def every_type(
    x: Annotated[float, Range(-0.5, 0.5, unit="m")],
    count: Annotated[int, Range(low=1)],
    flag: bool,
    name: Annotated[str, Range(1, 20)],
    command: Literal["open", "close"],
    speed: Speed,
    path: list[Annotated[float, Range(0, 1)]],
    point: tuple[float, float],
    limit: Optional[int] = None,  # noqa: UP045  # the old spelling must work too
    gain: Annotated[float | None, Range(0, 2)] = 1.0,
    mode: Speed = Speed.SLOW,
) -> None:
    """Do everything
    at once.

    Long text that the brain does not need.

    Args:
        x: Where to go
            along the table.
        flag: Whether to.
    """


def test_schema_says_type_bounds_unit_default_and_description_of_every_argument() -> None:
    signature = read_signature(every_type)
    properties = signature.json_schema()["properties"]

    assert signature.description == "Do everything at once."
    assert properties["x"] == {
        "type": "number",
        "minimum": -0.5,
        "maximum": 0.5,
        "description": "Where to go along the table. Unit: m.",
    }
    assert properties["count"] == {"type": "integer", "minimum": 1}
    assert properties["flag"] == {"type": "boolean", "description": "Whether to."}
    assert properties["name"] == {"type": "string", "minLength": 1, "maxLength": 20}
    assert properties["command"] == {"enum": ["open", "close"]}
    assert properties["speed"] == {"enum": ["slow", "fast"]}
    assert properties["path"]["items"] == {"type": "number", "minimum": 0, "maximum": 1}
    assert properties["point"]["prefixItems"] == [{"type": "number"}] * 2
    assert properties["limit"] == {"anyOf": [{"type": "integer"}, {"type": "null"}]}
    assert properties["gain"]["anyOf"][0] == {"type": "number", "minimum": 0, "maximum": 2}
    assert properties["gain"]["default"] == 1.0
    assert properties["mode"]["default"] == "slow"


def test_only_arguments_without_a_default_are_required_and_others_are_refused() -> None:
    schema = read_signature(every_type).json_schema()

    optional = {"limit", "gain", "mode"}
    assert set(schema["required"]) == set(schema["properties"]) - optional
    assert schema["additionalProperties"] is False


def test_d2_schema_is_byte_equal_every_time() -> None:
    texts = {json.dumps(read_signature(every_type).json_schema()) for _ in range(3)}

    assert len(texts) == 1


def no_annotation(x) -> None:  # type: ignore[no-untyped-def]
    pass


def star_arguments(*values: float) -> None:
    pass


def unsupported(x: dict[str, int]) -> None:
    pass


def ambiguous(x: int | str) -> None:
    pass


@pytest.mark.parametrize("function", [no_annotation, star_arguments, unsupported, ambiguous])
def test_a_signature_that_cannot_be_described_is_refused_with_argument_and_tool(
    function: Any,
) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        read_signature(function)

    assert function.__name__ in str(caught.value)


@pytest.mark.parametrize(("low", "high"), [(1.0, 0.0), (float("nan"), None), (None, float("inf"))])
def test_impossible_ranges_are_refused(low: float | None, high: float | None) -> None:
    with pytest.raises(InvalidArgumentError):
        Range(low, high)
