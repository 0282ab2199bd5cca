"""Index lists on the command line: "0-4", "1,3", "0-2,7"."""

from __future__ import annotations

from robot_sdk.errors import InvalidArgumentError


def parse_range(text: str, field: str) -> list[int]:
    """The indices that `text` names, in order.

    Raises:
        InvalidArgumentError: Not of that form, or a range that runs backwards.
    """
    indices: list[int] = []
    for part in text.split(","):
        first, _, last = part.strip().partition("-")
        if not first.isdigit() or (last and not last.isdigit()) or part.strip().endswith("-"):
            raise _error(text, field)
        low, high = int(first), int(last or first)
        if high < low:
            raise _error(text, field)
        indices.extend(range(low, high + 1))
    return indices


def _error(text: str, field: str) -> InvalidArgumentError:
    return InvalidArgumentError(
        "not a list of indices", field=field, value=repr(text), allowed=["4", "0-4", "1,3,7-9"]
    )
