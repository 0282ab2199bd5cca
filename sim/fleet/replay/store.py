"""Results that are kept, so that an interrupted sweep goes on where it was."""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

from robot_sdk.errors import InvalidArgumentError
from sim.fleet.replay.result import ReplayResult

_KEY = '{"key": "'


class ResultStore:
    """A file of lines of JSON to which results are appended; None keeps nothing.

    A last line that was cut off by a kill is dropped. One process writes at a time.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path

    def read(self, keys: Collection[str]) -> dict[str, ReplayResult]:
        """The complete results of some keys, as far as they are there.

        Raises:
            InvalidArgumentError: The file holds something else.
        """
        found: dict[str, ReplayResult] = {}
        if self._path is None or not self._path.exists():
            return found
        self._drop_half_line()
        with self._path.open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, start=1):
                key = line[len(_KEY) :].partition('"')[0]
                if key not in keys:
                    continue
                try:
                    result = ReplayResult.from_json(json.loads(line)["result"])
                except (ValueError, KeyError, InvalidArgumentError) as error:
                    raise InvalidArgumentError(
                        f"line {number} is not a kept result: {error}",
                        field="store",
                        value=self._path,
                        hint="remove the line, or use another file",
                    ) from None
                if not result.is_partial:
                    found[key] = result
        return found

    def add(self, key: str, job: dict[str, Any], result: ReplayResult) -> None:
        """Keep a result; on disk before this returns."""
        if self._path is None:
            return
        line = json.dumps({"key": key, "job": job, "result": result.to_json()})
        assert line.startswith(_KEY)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a", encoding="utf-8") as file:
            file.write(line + "\n")

    def _drop_half_line(self) -> None:
        assert self._path is not None
        with self._path.open("r+b") as file:
            content = file.read()
            if content and not content.endswith(b"\n"):
                file.truncate(content.rfind(b"\n") + 1)
