from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
import pytest

from robot_sdk.errors import EstopError, InvalidArgumentError
from robot_sdk.messages import ImagePart
from robot_sdk.tools import Finish, Range, ToolRegistry, ToolResult, finish, to_json, tool


@dataclass(frozen=True)
class Place:
    name: str
    position: np.ndarray[Any, Any]


class Base:
    @tool
    def first(self) -> None:
        """First."""


class Arm(Base):
    def __init__(self) -> None:
        self.moves: list[float] = []

    @tool
    def move(self, x: Annotated[float, Range(-1, 1, "m")]) -> str:
        """Move."""
        self.moves.append(x)
        return f"at {x}"

    @tool(name="grip", description="Open or close.")
    def set_gripper(self, command: Literal["open", "close"]) -> Place:
        return Place(command, np.array([1.5, 2.0], dtype=np.float32))

    @tool
    def broken(self) -> None:
        """Always fails."""
        raise ZeroDivisionError("by zero")

    @tool
    def stopped(self) -> None:
        """The e-stop is set."""
        raise EstopError("e-stop")

    @tool
    def look(self) -> ToolResult:
        """Look."""
        return ToolResult("one picture", (ImagePart(np.zeros((2, 2, 3), np.uint8), "front"),))

    def not_a_tool(self) -> None:
        pass


def test_tools_come_in_the_order_of_definition_base_class_first() -> None:
    names = ToolRegistry(Arm(), finish).names

    assert names == ("first", "move", "grip", "broken", "stopped", "look", "finish")


def test_d2_specs_are_byte_equal_for_two_registries_of_equal_code() -> None:
    def text(registry: ToolRegistry) -> str:
        return json.dumps([[s.name, s.description, s.parameters] for s in registry.specs])

    assert text(ToolRegistry(Arm())) == text(ToolRegistry(Arm()))


def test_a_good_call_runs_with_python_values() -> None:
    arm = Arm()

    result = ToolRegistry(arm).call("move", '{"x": 1}')

    assert result == ToolResult("at 1.0")
    assert arm.moves == [1.0]


def test_results_become_text_json_or_pictures() -> None:
    tools = ToolRegistry(Arm())

    assert tools.call("first", "").text == "done"
    assert json.loads(tools.call("grip", '{"command": "open"}').text) == {
        "name": "open",
        "position": [1.5, 2.0],
    }
    assert tools.call("look", "{}").images[0].camera == "front"


@pytest.mark.parametrize("arguments", ['{"x": 2}', '{"x": NaN}', '{"x": 0', '{"y": 0}', "{}"])
def test_d9_refused_arguments_never_reach_the_tool(arguments: str) -> None:
    arm = Arm()

    result = ToolRegistry(arm).call("move", arguments)

    assert result.is_error
    assert result.is_invalid
    assert result.text.startswith("move was not run: ")
    assert arm.moves == []


def test_d9_unknown_tool_lists_the_tools_and_the_nearest() -> None:
    result = ToolRegistry(Arm()).call("moove", '{"x": 0}')

    assert result.is_invalid
    assert "did you mean 'move'" in result.text
    assert "grip" in result.text


def test_d9_a_call_that_could_not_be_read_is_shown_back_with_the_tools() -> None:
    arm = Arm()

    result = ToolRegistry(arm).call("", '{"name": "move", "argum')

    assert result.is_invalid
    assert '{"name": "move", "argum' in result.text
    assert "grip" in result.text
    assert arm.moves == []


def test_a_tool_that_raises_returns_an_error_without_a_traceback() -> None:
    result = ToolRegistry(Arm()).call("broken", "{}")

    assert result.text == "broken failed: ZeroDivisionError: by zero"
    assert result.is_error
    assert not result.is_invalid
    assert isinstance(result.error, ZeroDivisionError)


def test_errors_of_the_sdk_stay_reachable_for_the_agent() -> None:
    assert isinstance(ToolRegistry(Arm()).call("stopped", "{}").error, EstopError)


def test_a_result_without_a_json_form_is_an_error_not_a_crash() -> None:
    def odd() -> object:
        return object()

    assert ToolRegistry(odd).call("odd", "{}").is_error


def test_finish_ends_the_episode_with_the_brains_verdict() -> None:
    result = ToolRegistry(finish).call("finish", '{"success": true, "summary": "done"}')

    assert result.finish == Finish(True, "done")


def test_not_a_number_becomes_null_in_json() -> None:
    assert to_json({"a": float("nan"), "b": np.float32(1.5), 3: (np.int64(2),)}) == (
        '{"a": null, "b": 1.5, "3": [2]}'
    )


def named_twice() -> None:
    pass


@pytest.mark.parametrize(
    "sources", [(named_twice, named_twice), (object(),), (tool(name="no spaces")(lambda: None),)]
)
def test_a_registry_that_cannot_work_is_refused_at_once(sources: tuple[Any, ...]) -> None:
    with pytest.raises(InvalidArgumentError):
        ToolRegistry(*sources)


class _Wordless(Exception):
    def __str__(self) -> str:
        raise ValueError("no words")


@pytest.mark.parametrize(
    "outcome",
    [
        "\ud800",
        ToolResult(5),  # type: ignore[arg-type]
        ToolResult("seen", images=(np.zeros((2, 2, 3), np.uint8),)),  # type: ignore[arg-type]
        ValueError("\ud800"),
        _Wordless(),
        InvalidArgumentError("\ud800"),
    ],
)
def test_what_could_not_be_sent_fails_its_call_and_not_the_episode(outcome: Any) -> None:
    def look() -> Any:
        """Look."""
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    result = ToolRegistry(look).call("look", "{}")

    assert result.is_error
    assert result.text.startswith("look failed: ")
    assert result.images == ()
    result.text.encode()
