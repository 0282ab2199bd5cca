"""Spans as lines of a file that may be read while it grows, and appended to after a crash."""

from __future__ import annotations

import logging
import os
import re
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path

from opentelemetry.sdk.trace import ReadableSpan

from robot_sdk.clock import SYSTEM_CLOCK, Clock
from robot_sdk.telemetry import attributes as attr
from robot_sdk.telemetry.anchor import TimeAnchor
from robot_sdk.telemetry.otlp_json import JsonObject, encode_attributes, encode_line, join_line

_logger = logging.getLogger(__name__)

#: Every trace file ends so; readers of a run folder go by it.
TRACE_SUFFIX = ".trace.jsonl"


class FileSink:
    """Writes `<folder>/<service>.trace.jsonl`, and `<service>-<pid>.trace.jsonl` in a child.

    The file appears with the first span. Each line goes to the operating system in one append, so
    that what was written survives the death of the process, and two processes of one name may share
    a file. An error (no space, read-only folder) is reported once; later lines are tried again.
    """

    def __init__(
        self,
        folder: Path,
        service: str,
        resource: Mapping[str, object],
        anchor: TimeAnchor,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._folder = folder
        self._stem = file_stem(service)
        self._anchor = anchor
        self._clock = clock
        self._resource = dict(resource)
        self._path = folder / (self._stem + TRACE_SUFFIX)
        self._file: int | None = None
        self._line_is_whole = True
        self._warned = False
        self._written = 0
        self._reported: tuple[int, int] = (0, 0)
        self._identify()

    @property
    def path(self) -> Path:
        """The file of this process."""
        return self._path

    def write(self, spans: Sequence[ReadableSpan], dropped: int) -> int:
        lost = 0 if self._append(encode_line(spans, self._resource)) else len(spans)
        self._written += len(spans) - lost
        if dropped > self._reported[1]:
            self._report(dropped)
        return lost

    def close(self, dropped: int) -> None:
        if self._written or dropped:
            self._report(dropped)
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def abandon(self) -> None:
        self._warn("the disk does not answer")

    def after_fork_in_child(self) -> None:
        if self._file is not None:
            os.close(self._file)
        self._file = None
        self._line_is_whole = True
        self._warned = False
        self._written = 0
        self._reported = (0, 0)
        self._path = self._folder / f"{self._stem}-{os.getpid()}{TRACE_SUFFIX}"
        self._identify()

    def _identify(self) -> None:
        self._resource[attr.PROCESS_PID] = os.getpid()
        self._resource[attr.SERVICE_INSTANCE_ID] = uuid.uuid4().hex

    def _report(self, dropped: int) -> None:
        """Write a `telemetry.summary` span: totals of this process so far."""
        self._reported = (self._written, dropped)
        now_ns = str(self._anchor.to_unix_ns(self._clock.now_s()))
        totals = {attr.WRITTEN_SPANS: self._written, attr.DROPPED_SPANS: dropped}
        span: JsonObject = {
            "traceId": os.urandom(16).hex(),
            "spanId": os.urandom(8).hex(),
            "name": attr.SPAN_SUMMARY,
            "kind": 1,
            "startTimeUnixNano": now_ns,
            "endTimeUnixNano": now_ns,
            "attributes": encode_attributes(totals),
            "status": {"code": 0},
        }
        self._append(join_line({("robot_sdk.telemetry", ""): [span]}, self._resource))

    def _append(self, line: bytes) -> bool:
        try:
            if self._file is None:
                self._file = self._open()
            if not self._line_is_whole:
                line = b"\n" + line
            self._line_is_whole = False
            rest = memoryview(line)
            while rest:
                rest = rest[os.write(self._file, rest) :]
            self._line_is_whole = True
        except OSError as error:
            self._warn(error)
            return False
        return True

    def _open(self) -> int:
        self._folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        size = os.fstat(descriptor).st_size
        # A process that died while writing leaves half a line, which must not swallow ours.
        self._line_is_whole = size == 0 or os.pread(descriptor, 1, size - 1) == b"\n"
        return descriptor

    def _warn(self, error: OSError | str) -> None:
        if not self._warned:
            self._warned = True
            _logger.warning(
                "cannot write spans to %s (%s); they are dropped and counted, the program goes on",
                self._path,
                error,
            )


def file_stem(service: str) -> str:
    """A file name for a service name: everything unusual becomes an underscore."""
    return re.sub(r"[^A-Za-z0-9._-]", "_", service).lstrip(".") or "process"
