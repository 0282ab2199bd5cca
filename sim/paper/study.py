"""The study's figures, to be set beside ours.

`study.json` holds every figure that *Serving Agentic Robot Fleets* (arXiv) and its write-up give,
by name; its first entry says what the units are. They are the study's measurements with vLLM 0.17.1
and Qwen3.6-27B on H800 80 GB, not ours. No run changes the file.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from robot_sdk.errors import InvalidArgumentError

FILE = Path(__file__).with_name("study.json")


@cache
def figures() -> dict[str, Any]:
    """Everything that is in the file."""
    content = json.loads(FILE.read_text(encoding="utf-8"))
    assert isinstance(content, dict)
    return content


def value(path: str) -> Any:
    """One entry, for example `value("brain_tier/sustained_replay/N20/rps")`.

    Args:
        path: Names from the outside in, with "/" between them.

    Raises:
        InvalidArgumentError: There is no such entry; it names those that there are.
    """
    found: Any = figures()
    passed: list[str] = []
    for name in path.split("/"):
        if not isinstance(found, dict) or name not in found:
            raise InvalidArgumentError(
                f"the study has no {name!r} in {'/'.join(passed) or 'its figures'}",
                field="path",
                value=path,
                allowed=tuple(found) if isinstance(found, dict) else (),
            )
        found = found[name]
        passed.append(name)
    return found


def numbers(path: str) -> tuple[float, ...]:
    """An entry of one or several numbers.

    Raises:
        InvalidArgumentError: There is no such entry, or it is something else.
    """
    found = value(path)
    several: Sequence[Any] = found if isinstance(found, list) else [found]
    if not all(_is_number(item) for item in several) or not several:
        raise InvalidArgumentError("this entry is not a number", field="path", value=path)
    return tuple(several)


def number(path: str) -> float | tuple[float, float]:
    """An entry as `Row.study` takes it: a number, or the range of several runs' numbers.

    Raises:
        InvalidArgumentError: There is no such entry, or it is something else.
    """
    several = numbers(path)
    return several[0] if len(several) == 1 else (min(several), max(several))


def _is_number(item: Any) -> bool:
    return isinstance(item, int | float) and not isinstance(item, bool)
