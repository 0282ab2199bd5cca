"""Strict reading of JSON lines: a complaint names line, field, value and what is allowed.

A line is one JSON object in UTF-8; a byte order mark and Windows' line ends do no harm. Numbers
that are no numbers, a name twice in one object, and names that nobody knows are refused: a misspelt
optional field would otherwise count as absent.
"""

from __future__ import annotations

import codecs
import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from robot_sdk.errors import InvalidArgumentError, nearest

MAX_FILE_BYTES = 1 << 30
MAX_LINE_BYTES = 64 << 20
MAX_TEXT_CHARS = 2000


def read_lines(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Objects of a JSONL file with their line numbers, from 1; empty lines are left out.

    Raises:
        InvalidArgumentError: There is no such file, it is too large, or a line is no object.
    """
    try:
        if path.is_dir():
            raise InvalidArgumentError("a folder, not a file", field="FILE", value=path)
        num_bytes = path.stat().st_size
        if num_bytes > MAX_FILE_BYTES:
            raise InvalidArgumentError(
                f"the file has {num_bytes} bytes",
                field=str(path),
                allowed=[f"at most {MAX_FILE_BYTES} bytes"],
                hint="split it",
            )
        with path.open("rb") as file:
            yield from _objects(path, file)
    except OSError as error:
        raise InvalidArgumentError(
            f"the file cannot be read: {error.strerror}", field="FILE", value=path
        ) from None


def _objects(path: Path, file: Any) -> Iterator[tuple[int, dict[str, Any]]]:
    number = 0
    while line := file.readline(MAX_LINE_BYTES + 1):
        number += 1
        where = f"{path}:{number}"
        if len(line) > MAX_LINE_BYTES:
            raise InvalidArgumentError(
                "the line is too long", field=where, allowed=[f"at most {MAX_LINE_BYTES} bytes"]
            )
        if number == 1:
            line = line.removeprefix(codecs.BOM_UTF8)
        if not line.strip():
            continue
        try:
            content = json.loads(
                line.decode("utf-8"), parse_constant=_no_number, object_pairs_hook=_unique
            )
        except (ValueError, RecursionError) as error:
            raise InvalidArgumentError(
                "the file ends within this line: it was cut off"
                if not line.endswith(b"\n")
                else f"not a JSON line ({_one_line(error)})",
                field=where,
                hint="write the file again" if not line.endswith(b"\n") else "",
            ) from None
        if not isinstance(content, dict):
            raise InvalidArgumentError(
                "not a JSON object", field=where, value=line[:80].decode("utf-8", "replace").strip()
            )
        yield number, content


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__


def _no_number(text: str) -> float:
    raise ValueError(f"{text} is no JSON number")


def _unique(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) < len(pairs):
        names = [name for name, _ in pairs]
        double = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{double!r} is there twice in one object")
    return content


class Fields:
    """The fields of one object, taken by name and kind.

    Args:
        content: The object.
        where: For messages: "FILE:LINE", or more.
        known: All names that may be there.
    """

    def __init__(self, content: Any, where: str, known: Sequence[str]) -> None:
        if not isinstance(content, dict):
            raise InvalidArgumentError("not an object", field=where, value=content)
        self._content = content
        self.where = where
        for name in content:
            if name not in known:
                raise InvalidArgumentError(
                    f"there is no field {name!r}",
                    field=where,
                    allowed=nearest(name, list(known)) or known,
                )

    def __contains__(self, name: str) -> bool:
        return self._content.get(name) is not None

    def whole(self, name: str, least: int, most: int, default: int | None = None) -> int:
        """A whole number; `default` where it is absent, None: it must be there."""
        value = self._take(name, default)
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise self.wrong(name, "not a whole number in its bounds", f"{least} to {most}")
        return value

    def maybe_whole(self, name: str, least: int, most: int) -> int | None:
        """A whole number, or None where it is absent or null."""
        return self.whole(name, least, most) if name in self else None

    def number(self, name: str, least: float, most: float, default: float | None = None) -> float:
        """A number; `default` where it is absent, None: it must be there."""
        value = self._take(name, default)
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        # A whole number of any size compares with a float, but does not always become one.
        if not is_number or not least <= value <= most or not math.isfinite(value):
            raise self.wrong(name, "not a number in its bounds", f"{least:g} to {most:g}")
        return float(value)

    def maybe_number(self, name: str, least: float, most: float) -> float | None:
        """A number, or None where it is absent or null."""
        return self.number(name, least, most) if name in self else None

    def text(self, name: str, default: str | None = None, *, may_be_empty: bool = False) -> str:
        """Printable text; `default` where it is absent, None: it must be there."""
        value = self._take(name, default)
        fits = isinstance(value, str) and len(value) <= MAX_TEXT_CHARS and value.isprintable()
        if not fits or not (value or may_be_empty):
            raise self.wrong(
                name, "not a printable text", f"1 to {MAX_TEXT_CHARS} characters on one line"
            )
        return str(value)

    def choice(self, name: str, allowed: Sequence[Any], default: Any = None) -> Any:
        """One of some values."""
        value = self._take(name, default)
        if not any(value is one or (type(value) is type(one) and value == one) for one in allowed):
            raise self.wrong(name, "not one of the values there are", *allowed)
        return value

    def array(self, name: str, most: int) -> list[Any]:
        """A list that is not empty."""
        value = self._take(name, None)
        if not isinstance(value, list) or not 1 <= len(value) <= most:
            size = f"a list of {len(value)}" if isinstance(value, list) else value
            raise InvalidArgumentError(
                "not a list of a length that is allowed",
                field=f"{self.where}: {name}",
                value=size,
                allowed=[f"1 to {most} items"],
            )
        return value

    def wrong(self, name: str, what: str, *allowed: object) -> InvalidArgumentError:
        """A complaint about a field."""
        value = self._content.get(name)
        # A number of thousands of digits has no text (and needs none).
        huge = isinstance(value, int) and abs(value) > 10**30
        return InvalidArgumentError(
            what,
            field=f"{self.where}: {name}",
            value="a huge number" if huge else json.dumps(value)[:80],
            allowed=allowed,
        )

    def _take(self, name: str, default: Any) -> Any:
        value = self._content.get(name)
        if value is not None:
            return value
        if default is None:
            raise InvalidArgumentError(f"there is no {name!r}", field=self.where)
        return default
