"""Typed tools: plain Python functions that the brain may call.

    class Arm:
        @tool
        def gripper(self, command: Literal["open", "close"]) -> str:
            '''Open or close the gripper.'''

    tools = ToolRegistry(Arm())

The JSON Schema comes from the signature. A call with wrong arguments, to an unknown tool, or of a
tool that raises becomes an error result for the brain; nothing but the control loop is ever
stopped by a tool.
"""

from __future__ import annotations

import dataclasses
import json
import logging
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar, overload

import numpy as np

from robot_sdk.errors import InvalidArgumentError, RobotSdkError, nearest
from robot_sdk.messages import ImagePart, ToolSpec
from robot_sdk.text import check_text
from robot_sdk.tool_schema import Range, Signature, read_signature
from robot_sdk.tool_validation import check_arguments, parse_arguments

__all__ = ["Finish", "Range", "Tool", "ToolRegistry", "ToolResult", "finish", "tool"]

_log = logging.getLogger(__name__)

_MARK = "__robot_sdk_tool__"
#: Names that every brain's tool-call format can carry.
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
#: Of a call that could not be read, shown back to the brain that wrote it.
_MAX_SHOWN_CHARS = 500

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class Finish:
    """The brain's own verdict on its task; ends the episode."""

    success: bool
    summary: str = ""


@dataclass(frozen=True)
class ToolResult:
    """What goes back to the brain, and what the agent has to know.

    Attributes:
        text: The answer, often JSON.
        images: Pictures that belong to it; sent after the text.
        is_error: The call failed; `text` says why.
        is_invalid: The call was refused before anything ran: unknown tool, wrong or cut arguments.
        finish: Set by the tool that ends the episode.
        error: The exception behind a failed call, for the program around the agent.
    """

    text: str = ""
    images: tuple[ImagePart, ...] = ()
    is_error: bool = False
    is_invalid: bool = False
    finish: Finish | None = None
    error: Exception | None = None


@dataclass(frozen=True)
class _Mark:
    name: str
    description: str


@dataclass(frozen=True)
class Tool:
    """One callable tool."""

    name: str
    function: Callable[..., Any]
    signature: Signature

    @property
    def spec(self) -> ToolSpec:
        """What the brain is told. Equal for equal code, so it can stand in a cached prefix."""
        return ToolSpec(self.name, self.signature.description, self.signature.json_schema())


@overload
def tool(function: F, /) -> F: ...


@overload
def tool(*, name: str = ..., description: str = ...) -> Callable[[F], F]: ...


def tool(
    function: Callable[..., Any] | None = None, /, *, name: str = "", description: str = ""
) -> Any:
    """Mark a function or method as a tool.

    Args:
        function: The function, when used as a bare decorator.
        name: Name for the brain; the function's own name if empty.
        description: Text for the brain; the docstring's first paragraph if empty.
    """

    def mark(marked: F) -> F:
        setattr(marked, _MARK, _Mark(name or marked.__name__, description))
        return marked

    return mark if function is None else mark(function)


class ToolRegistry:
    """The tools of one episode, in a fixed order.

    Args:
        sources: Functions, and objects whose methods are marked with `@tool`. A function needs no
            mark. Methods come in the order in which their classes define them.

    Raises:
        InvalidArgumentError: A signature is unsupported, a name is taken or unfit, or an object
            has no tools.
    """

    def __init__(self, *sources: Any) -> None:
        self._tools: dict[str, Tool] = {}
        for source in sources:
            self.add(source)

    def add(self, source: Any) -> None:
        """Add a function, or every marked method of an object."""
        if hasattr(source, _MARK) or (callable(source) and hasattr(source, "__name__")):
            self._add_function(source)
            return
        functions = list(_marked_methods(source))
        if not functions:
            raise InvalidArgumentError(
                "the object has no tools",
                value=type(source).__name__,
                hint="mark its methods with @tool, or pass a function",
            )
        for function in functions:
            self._add_function(function)

    @property
    def names(self) -> tuple[str, ...]:
        """Names in order."""
        return tuple(self._tools)

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """What the brain is told, in order."""
        return tuple(tool.spec for tool in self._tools.values())

    def call(self, name: str, arguments_json: str) -> ToolResult:
        """Check the arguments and run the tool. Never raises an `Exception`.

        Args:
            name: As the brain wrote it. Empty: the server could not read the call.
            arguments_json: As the brain wrote them; of a call that could not be read, all of it.
        """
        found = self._tools.get(name)
        if not name:
            return _invalid(
                InvalidArgumentError(
                    "the tool call could not be read and was not run",
                    value=arguments_json[:_MAX_SHOWN_CHARS],
                    allowed=self._tools,
                    hint="write it again, exactly in the format for tool calls",
                )
            )
        if found is None:
            close = nearest(name, self._tools, 1)
            return _invalid(
                InvalidArgumentError(
                    "unknown tool",
                    field="tool",
                    value=repr(name),
                    allowed=self._tools,
                    hint=f"did you mean {close[0]!r}?" if close else "",
                )
            )
        try:
            arguments = check_arguments(found.signature, parse_arguments(arguments_json))
        except InvalidArgumentError as error:
            return _invalid(error, f"{name} was not run: ")
        try:
            return _sendable(to_result(found.function(**arguments)))
        except RobotSdkError as error:
            return ToolResult(f"{name} failed: {_words(error)}", is_error=True, error=error)
        except Exception as error:  # noqa: BLE001  # a tool is foreign code; the loop must go on
            _log.exception("tool %s raised", name)
            text = f"{name} failed: {type(error).__name__}: {_words(error)}"
            return ToolResult(text, is_error=True, error=error)

    def _add_function(self, function: Callable[..., Any]) -> None:
        mark = getattr(function, _MARK, _Mark(getattr(function, "__name__", ""), ""))
        if not _NAME.fullmatch(mark.name):
            raise InvalidArgumentError(
                "not a tool name",
                field="name",
                value=repr(mark.name),
                allowed=["a letter or _, then up to 63 letters, digits, _ or -"],
            )
        if mark.name in self._tools:
            raise InvalidArgumentError(
                "two tools have one name", field="name", value=repr(mark.name)
            )
        signature = read_signature(function, mark.description)
        self._tools[mark.name] = Tool(mark.name, function, signature)


@tool
def finish(success: bool, summary: str = "") -> ToolResult:
    """End the episode. Call it when the task is done, or when it cannot be done.

    Args:
        success: Whether the task is done.
        summary: What was done, or why it could not be done, in one sentence.
    """
    return ToolResult("the episode ends", finish=Finish(success, summary))


def to_result(value: Any) -> ToolResult:
    """What a tool returned, as a result: text stays, None is "done", the rest becomes JSON.

    Raises:
        TypeError: The value has no JSON form.
    """
    if isinstance(value, ToolResult):
        return value
    if value is None:
        return ToolResult("done")
    if isinstance(value, str):
        return ToolResult(value)
    return ToolResult(to_json(value))


def _sendable(result: ToolResult) -> ToolResult:
    """Refuse what could not be sent here, where it fails one call and not the episode."""
    check_text(result.text, "the tool's text")
    for image in result.images:
        if not isinstance(image, ImagePart):
            raise InvalidArgumentError(
                "a tool's pictures are ImageParts",
                field="images",
                value=type(image).__name__,
                hint="make one with ImagePart(array)",
            )
    return result


def _words(error: Exception) -> str:
    """The text of an error of foreign code, whatever it holds; it must be possible to send it."""
    try:
        text = str(error)
    except Exception:  # noqa: BLE001  # an error that cannot be printed is still only an error
        return "(without words)"
    return text.encode("utf-8", "backslashreplace").decode()


def to_json(value: Any) -> str:
    """Compact JSON of plain values, dataclasses and numpy values; NaN and infinity become null."""
    return json.dumps(_plain(value), ensure_ascii=False, allow_nan=False)


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = dataclasses.fields(value)
        return {field.name: _plain(getattr(value, field.name)) for field in fields}
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_plain(item) for item in value]
    if isinstance(value, (np.ndarray, np.generic)):
        return _plain(value.tolist())
    if isinstance(value, float) and not np.isfinite(value):
        return None
    return value


def _marked_methods(source: Any) -> Iterator[Callable[..., Any]]:
    """Marked methods of an object: base classes first, each in the order of definition."""
    seen: dict[str, None] = {}
    for cls in reversed(type(source).__mro__):
        seen.update(dict.fromkeys(vars(cls)))
    for name in seen:
        if hasattr(getattr(type(source), name, None), _MARK):
            yield getattr(source, name)


def _invalid(error: InvalidArgumentError, prefix: str = "") -> ToolResult:
    return ToolResult(prefix + str(error), is_error=True, is_invalid=True, error=error)
