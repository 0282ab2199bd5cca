"""Results that are kept, so that an interrupted sweep goes on where it was."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from robot_sdk.errors import InvalidArgumentError, RobotSdkError
from sim.fleet.replay.result import ReplayResult

_KEY = b'{"key": "'
_PIECE_BYTES = 1 << 16


class ResultStore:
    """A file of lines of JSON to which results are appended; None keeps nothing.

    A last line that was cut off by a kill is dropped. Several processes may keep results in one
    file at the same time: each line is written, and half a line dropped, under the file's lock.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path

    def read(self, keys: Collection[str]) -> dict[str, ReplayResult]:
        """The complete results of some keys, as far as they are there.

        Raises:
            InvalidArgumentError: The file holds something else, or cannot be read or written. It
                is left as it is.
        """
        found: dict[str, ReplayResult] = {}
        if self._path is None or not self._path.exists():
            return found
        wanted = {key.encode() for key in keys}
        try:
            self._check_kind()
            with self._locked() as file:
                _drop_half_line(file)
            with self._path.open("rb") as lines:
                for number, line in enumerate(lines, start=1):
                    key = line[len(_KEY) :].partition(b'"')[0]
                    if key in wanted and line.endswith(b"\n"):  # or another process is at it
                        result = self._result(number, line)
                        if not result.is_partial:
                            found[key.decode()] = result
        except OSError as error:
            raise InvalidArgumentError(
                f"kept results cannot be read and added to: {error.strerror}",
                field="store",
                value=self._path,
                allowed=("a file that can be read and written",),
            ) from None
        return found

    def add(self, key: str, job: dict[str, Any], result: ReplayResult) -> None:
        """Keep a result; on disk before this returns.

        Raises:
            RobotSdkError: It cannot be written.
        """
        if self._path is None:
            return
        text = json.dumps({"key": key, "job": job, "result": result.to_json()})
        line = text.encode() + b"\n"
        assert line.startswith(_KEY)
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._locked() as file:
                _drop_half_line(file)
                file.write(line)
        except OSError as error:
            raise RobotSdkError(
                f"a result cannot be kept: {error.strerror}", field="store", value=self._path
            ) from None

    def _result(self, number: int, line: bytes) -> ReplayResult:
        try:
            return ReplayResult.from_json(json.loads(line)["result"])
        except (ValueError, KeyError, TypeError, RecursionError, InvalidArgumentError) as error:
            raise InvalidArgumentError(
                f"line {number} is not a kept result: {str(error)[:200]}",
                field="store",
                value=self._path,
                hint="remove the line, or use another file",
            ) from None

    def _check_kind(self) -> None:
        """Nothing is taken away from a file that is somebody else's."""
        assert self._path is not None
        if not self._path.is_file():
            raise InvalidArgumentError(
                "not a file", field="store", value=self._path, allowed=("a file of kept results",)
            )
        with self._path.open("rb") as file:
            begin = file.read(len(_KEY))
        if begin != _KEY[: len(begin)]:
            raise InvalidArgumentError(
                "this file holds something else than kept results",
                field="store",
                value=self._path,
                allowed=("a new file, or one that --store has made",),
            )

    @contextmanager
    def _locked(self) -> Iterator[BinaryIO]:
        assert self._path is not None
        # "a" makes the file; reading back from its end needs "+".
        with self._path.open("a+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)  # until it is closed
            yield file


def _drop_half_line(file: BinaryIO) -> None:
    """Whoever wrote it has been killed: it had the lock."""
    end = size = file.seek(0, os.SEEK_END)
    while end:
        start = max(end - _PIECE_BYTES, 0)
        file.seek(start)
        place = file.read(end - start).rfind(b"\n")
        if place >= 0:
            end = start + place + 1
            break
        end = start
    if end != size:
        file.truncate(end)
    file.seek(0, os.SEEK_END)
