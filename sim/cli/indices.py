"""Indices as a command line has them: "0-4,7"."""

from __future__ import annotations

from collections.abc import Sequence

from robot_sdk.errors import InvalidArgumentError

_MOST_DIGITS = 20


def parse_indices(field: str, text: str, count: int) -> list[int]:
    """Indices below `count` from text like "0-4,7"; in order, each once.

    Raises:
        InvalidArgumentError: Not such a text, or an index out of range.
    """
    found: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise InvalidArgumentError(
                "not a list of indices", field=field, value=text, allowed=["0-9", "0,3,5-7"]
            )
        # A number of thousands of digits cannot even be read.
        is_short = max(len(first), len(last)) <= _MOST_DIGITS
        low, high = (int(first), int(last or first)) if is_short else (0, count)
        if low > high or high >= count:
            raise InvalidArgumentError(
                "no such index", field=field, value=part.strip(), allowed=[f"0 to {count - 1}"]
            )
        found.update(range(low, high + 1))
    return sorted(found)


def format_indices(indices: Sequence[int]) -> str:
    """The text of these indices: "0-4,7"."""
    runs: list[list[int]] = []
    for index in sorted(set(indices)):
        if runs and index == runs[-1][-1] + 1:
            runs[-1][1:] = [index]
        else:
            runs.append([index])
    return ",".join("-".join(map(str, run)) for run in runs)
