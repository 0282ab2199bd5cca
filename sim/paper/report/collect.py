"""What a folder of results holds, read back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from robot_sdk.errors import RobotSdkError
from sim.paper.case import Picture
from sim.paper.rows import Row

#: What reading a file can raise that no case has left.
_UNREADABLE = (
    OSError,
    ValueError,
    KeyError,
    TypeError,
    AttributeError,
    RecursionError,
    RobotSdkError,
)


@dataclass(frozen=True)
class CaseResult:
    """One case's file.

    Attributes:
        partial: Why it is not complete; "": it is.
        finished: Of a partial one, how many results there are by what they are.
        notes: Sentences to print under the tables.
        settings: As the case left them.
    """

    name: str
    command: str
    made_with: str
    made_at: str
    machine: str
    quick: bool
    partial: str
    finished: Mapping[str, int]
    rows: tuple[Row, ...]
    pictures: tuple[Picture, ...]
    notes: tuple[str, ...]
    settings: Mapping[str, Any]

    def count(self, verdict: str) -> int:
        """Rows with that verdict."""
        return sum(row.verdict == verdict for row in self.rows)


def collect(folder: Path) -> tuple[list[CaseResult], list[str]]:
    """Every case's result in a folder, and a sentence for each file that cannot be read as one.

    Other JSON files, which name no case, are passed over.
    """
    results: list[CaseResult] = []
    problems: list[str] = []
    for path in sorted(folder.glob("*.json")):
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            if isinstance(content, dict) and "case" in content:
                results.append(_result(content))
        except _UNREADABLE as error:
            problems.append(f"{path.name} cannot be read: {type(error).__name__}: {error}")
    return results, problems


def _result(content: Mapping[str, Any]) -> CaseResult:
    machine = content["made_on"]
    return CaseResult(
        name=str(content["case"]),
        command=str(content["command"]),
        made_with=str(content["made_with"]),
        made_at=str(content["made_at"]),
        machine=f"{machine['system']}, {machine['cpus']} CPUs",
        quick=bool(content["quick"]),
        partial=str(content["why"]) if content["partial"] else "",
        finished={what: len(done) for what, done in content.get("finished", {}).items()},
        rows=tuple(Row.from_json(row) for row in content["rows"]),
        pictures=tuple(Picture(**picture) for picture in content["pictures"]),
        notes=tuple(str(note) for note in content.get("notes", ())),
        settings=content["settings"],
    )
