"""Cost tables: the constants of a `CostModel`, what they were fitted to, and how well they fit.

A table is a JSON file. Those of this folder's `tables/` are known by name. `python -m sim fit-cost`
writes others.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from robot_sdk.errors import InvalidArgumentError
from sim.fleet.brain.cost_model import CostModel

FORMAT = "robot-brain-cost/1"
TABLES = Path(__file__).parent / "tables"


def names() -> tuple[str, ...]:
    """Tables that come with this package."""
    return tuple(sorted(path.stem for path in TABLES.glob("*.json")))


def load(name_or_path: str | Path) -> CostModel:
    """Constants of a table, by its name or the path of its file.

    Raises:
        InvalidArgumentError: There is no such table, or it is not one; says what is wrong where.
    """
    return model(read(name_or_path))


def read(name_or_path: str | Path) -> Mapping[str, Any]:
    """The whole content of a table, by its name or the path of its file.

    Raises:
        InvalidArgumentError: There is no such table, or it is not JSON.
    """
    path = TABLES / f"{name_or_path}.json" if name_or_path in names() else Path(name_or_path)
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidArgumentError(
            "no such cost table",
            field="cost",
            value=str(name_or_path),
            allowed=(*names(), "the path of a file that `python -m sim fit-cost` wrote"),
        ) from error
    except (ValueError, RecursionError) as error:
        raise InvalidArgumentError(
            f"a cost table is JSON: {error}", field="cost", value=str(name_or_path)
        ) from error
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise InvalidArgumentError(
            "not a cost table",
            field=f"format of {path.name}",
            value=content.get("format") if isinstance(content, dict) else type(content).__name__,
            allowed=(FORMAT,),
            hint="latencies as measured are no cost table; fit one: python -m sim fit-cost FILE",
        )
    return content


def model(content: Mapping[str, Any]) -> CostModel:
    """The constants in a table's content.

    Raises:
        InvalidArgumentError: One is missing, unknown or out of range; it is named.
    """
    constants = content.get("constants")
    wanted = [field.name for field in fields(CostModel)]
    if not isinstance(constants, dict):
        raise InvalidArgumentError(
            "a cost table holds its constants by name",
            field="constants",
            value=type(constants).__name__,
            allowed=wanted,
        )
    holes = [name for name in wanted if constants.get(name) is None]
    unknown = sorted(set(constants) - set(wanted))
    if holes or unknown:
        raise InvalidArgumentError(
            "a cost table has holes" if holes else "a cost table has constants nobody knows",
            field="constants",
            value=", ".join(holes or unknown),
            allowed=wanted,
        )
    return CostModel(**constants)
