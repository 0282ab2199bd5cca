"""From a Python annotation to the values a tool argument may take, and its JSON Schema.

A tool's signature is the only place where its arguments are described: what the brain is told
(the schema) and what is refused (`robot_sdk.tool_validation`) both come from the types here.
"""

from __future__ import annotations

import enum
import inspect
import math
import re
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Union

from robot_sdk.errors import InvalidArgumentError

JsonSchema = dict[str, Any]

_SUPPORTED = (
    "bool",
    "int",
    "float",
    "str",
    "Literal[...]",
    "an Enum",
    "list[...]",
    "tuple[...]",
    "Optional[...]",
    "Annotated[..., Range(...)]",
)


@dataclass(frozen=True)
class Range:
    """Inclusive bounds: of a number, or of the length of a text or list.

    Attributes:
        low: Smallest allowed value, None for no bound.
        high: Largest allowed value, None for no bound.
        unit: Unit of the value, told to the brain, for example "m".
    """

    low: float | None = None
    high: float | None = None
    unit: str = ""

    def __post_init__(self) -> None:
        for bound in (self.low, self.high):
            if bound is not None and not math.isfinite(bound):
                raise InvalidArgumentError(
                    "a bound of Range must be finite", value=bound, hint="use None for no bound"
                )
        if self.low is not None and self.high is not None and self.low > self.high:
            raise InvalidArgumentError(
                "the bounds of Range are in the wrong order", value=f"{self.low} > {self.high}"
            )

    def describe(self) -> str:
        """The bounds in words, for example "-0.5 to 0.5 m"."""
        unit = f" {self.unit}" if self.unit else ""
        if self.low is not None and self.high is not None:
            return f"{self.low:g} to {self.high:g}{unit}"
        if self.low is not None:
            return f"at least {self.low:g}{unit}"
        if self.high is not None:
            return f"at most {self.high:g}{unit}"
        return f"any value{unit and ' in' + unit}"


_UNBOUNDED = Range()


@dataclass(frozen=True)
class BooleanType:
    """true or false."""


@dataclass(frozen=True)
class IntegerType:
    """A whole number."""

    bounds: Range = _UNBOUNDED


@dataclass(frozen=True)
class NumberType:
    """A finite number; whole numbers are welcome."""

    bounds: Range = _UNBOUNDED


@dataclass(frozen=True)
class TextType:
    """Text; the bounds count characters."""

    bounds: Range = _UNBOUNDED


@dataclass(frozen=True)
class ChoiceType:
    """One of fixed values. `values` maps the JSON form to what the function receives."""

    values: tuple[tuple[Any, Any], ...]


@dataclass(frozen=True)
class ListType:
    """Any number of equal items; the bounds count items."""

    item: ValueType
    bounds: Range = _UNBOUNDED
    as_tuple: bool = False


@dataclass(frozen=True)
class TupleType:
    """A fixed number of items."""

    items: tuple[ValueType, ...]


@dataclass(frozen=True)
class OptionalType:
    """The inner type or null."""

    inner: ValueType


ValueType = (
    BooleanType
    | IntegerType
    | NumberType
    | TextType
    | ChoiceType
    | ListType
    | TupleType
    | OptionalType
)


@dataclass(frozen=True)
class Parameter:
    """One argument of a tool.

    Attributes:
        required: False when the function has a default, which then is used.
        default: JSON form of the default, shown to the brain; None where there is nothing to show.
    """

    name: str
    type: ValueType
    required: bool
    default: Any = None
    description: str = ""


@dataclass(frozen=True)
class Signature:
    """All arguments of a tool and its description."""

    description: str
    parameters: Mapping[str, Parameter] = field(default_factory=dict)

    def json_schema(self) -> JsonSchema:
        """The object schema (JSON Schema 2020-12) of the arguments; the same for equal input."""
        return {
            "type": "object",
            "properties": {p.name: _parameter_schema(p) for p in self.parameters.values()},
            "required": [p.name for p in self.parameters.values() if p.required],
            "additionalProperties": False,
        }


def read_signature(function: Callable[..., Any], description: str = "") -> Signature:
    """What a function's annotations, defaults and docstring say about its arguments.

    A bound method's `self` is left out. The docstring's first paragraph describes the tool; an
    `Args:` section describes the arguments.

    Raises:
        InvalidArgumentError: An argument has no annotation, one of an unsupported type, or is not
            passed by name (`*args`, `**kwargs`, positional only).
    """
    name = getattr(function, "__name__", repr(function))
    try:
        hints = typing.get_type_hints(function, include_extras=True)
    except NameError as error:
        raise InvalidArgumentError(
            f"tool {name!r} has an annotation that cannot be resolved: {error}",
            hint="annotate with names that are visible at module level",
        ) from error
    summary, argument_texts = _read_docstring(inspect.getdoc(function) or "")
    parameters = {}
    for parameter in inspect.signature(function).parameters.values():
        where = f"argument {parameter.name!r} of tool {name!r}"
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise InvalidArgumentError(
                f"{where} cannot be passed by name", hint="list every argument by its name"
            )
        if parameter.name not in hints:
            raise InvalidArgumentError(
                f"{where} has no type annotation",
                allowed=_SUPPORTED,
                hint="the schema is made from it",
            )
        required = parameter.default is parameter.empty
        parameters[parameter.name] = Parameter(
            name=parameter.name,
            type=value_type_of(hints[parameter.name], where),
            required=required,
            default=None if required else _json_default(parameter.default),
            description=argument_texts.get(parameter.name, ""),
        )
    return Signature(description or summary, parameters)


def value_type_of(annotation: Any, where: str = "annotation") -> ValueType:
    """The value type of an annotation. `where` names it in errors.

    Raises:
        InvalidArgumentError: The annotation is none of the supported ones.
    """
    bounds = _UNBOUNDED
    if typing.get_origin(annotation) is typing.Annotated:
        annotation, *extras = typing.get_args(annotation)
        bounds = next((extra for extra in extras if isinstance(extra, Range)), _UNBOUNDED)
    found = _plain_type(annotation, bounds, where)
    if found is None:
        raise InvalidArgumentError(
            f"{where} has an unsupported type",
            value=getattr(annotation, "__name__", str(annotation)),
            allowed=_SUPPORTED,
        )
    return found


def _plain_type(annotation: Any, bounds: Range, where: str) -> ValueType | None:
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Literal:
        return ChoiceType(tuple((value, value) for value in arguments))
    if origin in (Union, types.UnionType):
        inner = [argument for argument in arguments if argument is not type(None)]
        if len(inner) == 1 and len(arguments) == 2:
            # A Range around Optional[float] means the number, as in Annotated[float | None, ...].
            annotated = typing.Annotated[inner[0], bounds] if bounds != _UNBOUNDED else inner[0]
            return OptionalType(value_type_of(annotated, where))
        return None
    if annotation is list or origin is list:
        return ListType(value_type_of(arguments[0] if arguments else str, where), bounds)
    if origin is tuple and arguments:
        if len(arguments) == 2 and arguments[1] is Ellipsis:
            return ListType(value_type_of(arguments[0], where), bounds, as_tuple=True)
        return TupleType(tuple(value_type_of(argument, where) for argument in arguments))
    if isinstance(annotation, type) and issubclass(annotation, enum.Enum):
        return ChoiceType(tuple((member.value, member) for member in annotation))
    simple: dict[Any, ValueType] = {
        bool: BooleanType(),
        int: IntegerType(bounds),
        float: NumberType(bounds),
        str: TextType(bounds),
    }
    return simple.get(annotation)


def schema_of(value_type: ValueType) -> JsonSchema:
    """The JSON Schema of a value type."""
    if isinstance(value_type, BooleanType):
        return {"type": "boolean"}
    if isinstance(value_type, IntegerType):
        return {"type": "integer", **_bounds_schema(value_type.bounds, "minimum", "maximum")}
    if isinstance(value_type, NumberType):
        return {"type": "number", **_bounds_schema(value_type.bounds, "minimum", "maximum")}
    if isinstance(value_type, TextType):
        return {"type": "string", **_bounds_schema(value_type.bounds, "minLength", "maxLength")}
    if isinstance(value_type, ChoiceType):
        return {"enum": [value for value, _ in value_type.values]}
    if isinstance(value_type, ListType):
        bounds = _bounds_schema(value_type.bounds, "minItems", "maxItems")
        return {"type": "array", "items": schema_of(value_type.item), **bounds}
    if isinstance(value_type, TupleType):
        return {
            "type": "array",
            "prefixItems": [schema_of(item) for item in value_type.items],
            "minItems": len(value_type.items),
            "maxItems": len(value_type.items),
        }
    return {"anyOf": [schema_of(value_type.inner), {"type": "null"}]}


def _parameter_schema(parameter: Parameter) -> JsonSchema:
    schema = schema_of(parameter.type)
    words = [parameter.description] if parameter.description else []
    unit = _unit_of(parameter.type)
    if unit:
        words.append(f"Unit: {unit}.")
    if words:
        schema["description"] = " ".join(words)
    if parameter.default is not None:
        schema["default"] = parameter.default
    return schema


def _unit_of(value_type: ValueType) -> str:
    if isinstance(value_type, OptionalType):
        return _unit_of(value_type.inner)
    return value_type.bounds.unit if isinstance(value_type, (IntegerType, NumberType)) else ""


def _bounds_schema(bounds: Range, low_key: str, high_key: str) -> JsonSchema:
    pairs = ((low_key, bounds.low), (high_key, bounds.high))
    return {key: bound for key, bound in pairs if bound is not None}


def _json_default(value: Any) -> Any:
    if isinstance(value, enum.Enum):
        return value.value
    return list(value) if isinstance(value, tuple) else value


def _read_docstring(text: str) -> tuple[str, dict[str, str]]:
    """The first paragraph as one line, and the entries of the `Args:` section."""
    summary = " ".join(text.split("\n\n", 1)[0].split())
    section = re.search(r"^Args:\n((?:[ \t]+.*\n?|\n)+)", text, flags=re.MULTILINE)
    entries: dict[str, str] = {}
    if section:
        for match in re.finditer(
            r"^ {4}(\w+):[ ]*(.*(?:\n {5,}.*)*)", section.group(1), flags=re.MULTILINE
        ):
            entries[match.group(1)] = " ".join(match.group(2).split())
    return summary, entries
