"""Spans out of the trace files of a run folder, whatever state these are in.

A file may still be growing, end in half a line, hold garbage, or come from another exporter that
writes OTLP/JSON (the OpenTelemetry collector's file exporter does). What can be read is read; what
cannot is named.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Union

from robot_sdk.errors import InvalidArgumentError, nearest
from robot_sdk.telemetry import attributes as attr
from robot_sdk.telemetry.file_sink import TRACE_SUFFIX

Value = Union[str, bool, int, float, list[Any], dict[str, Any], None]


@dataclass(frozen=True)
class Process:
    """The process that wrote a span.

    Attributes:
        service: Its name, for example "robot-0".
        instance: Differs between two processes of one name.
        anchor_unix_ns: Unix time of the instant at which its monotonic clock read
            `anchor_monotonic_ns`; None if it does not say.
    """

    service: str
    instance: str
    pid: int | None
    host: str
    anchor_unix_ns: int | None
    anchor_monotonic_ns: int | None


@dataclass(frozen=True)
class SpanRecord:
    """A finished span.

    Attributes:
        parent_id: None for the root of a trace.
        start_ns, end_ns: Unix time by the clock of `process`, ns.
        error: Text of a failed span's status; None if it did not fail.
    """

    trace_id: str
    span_id: str
    parent_id: str | None
    name: str
    start_ns: int
    end_ns: int
    attributes: Mapping[str, Value]
    error: str | None
    process: Process

    @property
    def duration_s(self) -> float:
        return (self.end_ns - self.start_ns) / 1e9

    def number(self, key: str) -> float | None:
        """An attribute as a number, None if it is absent or no number."""
        value = self.attributes.get(key)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return None
        return value

    def integer(self, key: str) -> int | None:
        """An attribute as an integer, None if it is absent or no number."""
        value = self.number(key)
        return None if value is None else int(value)

    def text(self, key: str) -> str | None:
        """An attribute as text, None if it is absent."""
        value = self.attributes.get(key)
        return None if value is None else str(value)


@dataclass
class RunFolder:
    """Everything that could be read of a run folder.

    Attributes:
        spans: In no particular order, without doubles.
        files: The files read.
        problems: What could not be read, one sentence each.
        unfinished_lines: Files whose last line is incomplete: their process is writing, or died.
        dropped_spans: Spans that the processes report as lost, summed.
    """

    spans: list[SpanRecord] = field(default_factory=list)
    files: list[Path] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    unfinished_lines: list[Path] = field(default_factory=list)
    dropped_spans: int = 0


def read_folder(folder: Path) -> RunFolder:
    """Read every trace file that lies directly in `folder`; also takes a single file.

    Raises:
        InvalidArgumentError: There is no such folder, or no trace file in it.
    """
    run = RunFolder()
    seen: set[tuple[str, str]] = set()
    dropped: dict[str, int] = {}
    for path in _trace_files(folder):
        run.files.append(path)
        for span in _read_file(path, run):
            key = (span.trace_id, span.span_id)
            if key in seen:
                continue
            seen.add(key)
            if span.name == attr.SPAN_SUMMARY:
                # Totals only grow, so the largest of a process is its last.
                instance = span.process.instance or str(path)
                count = span.integer(attr.DROPPED_SPANS) or 0
                dropped[instance] = max(dropped.get(instance, 0), count)
            else:
                run.spans.append(span)
    run.dropped_spans = sum(dropped.values())
    return run


def _trace_files(folder: Path) -> list[Path]:
    if folder.is_file():
        return [folder]
    if not folder.is_dir():
        siblings = (
            [path.name for path in folder.parent.iterdir() if path.is_dir()]
            if folder.parent.is_dir()
            else []
        )
        raise InvalidArgumentError(
            "there is no such folder",
            field="FOLDER",
            value=folder,
            allowed=nearest(folder.name, siblings),
            hint="give the run folder of a robot or server, it holds *" + TRACE_SUFFIX,
        )
    files = sorted(path for path in folder.iterdir() if path.name.endswith(TRACE_SUFFIX))
    if files:
        return files
    deeper = sorted({path.parent for path in folder.glob(f"*/**/*{TRACE_SUFFIX}")})
    raise InvalidArgumentError(
        f"no *{TRACE_SUFFIX} in this folder",
        field="FOLDER",
        value=folder,
        allowed=[str(path) for path in deeper[:5]],
        hint="choose one of these run folders"
        if deeper
        else "a run writes its trace files when it is given a run folder",
    )


def _read_file(path: Path, run: RunFolder) -> Iterator[SpanRecord]:
    try:
        content = path.read_bytes()
    except OSError as error:
        run.problems.append(f"{path}: cannot be read ({error.strerror})")
        return
    lines = content.split(b"\n")
    for index, line in enumerate(lines):
        if not line.strip():
            continue
        try:
            request = json.loads(line)
            spans = list(_spans_of(request))
        except (ValueError, TypeError, AttributeError, KeyError, RecursionError) as error:
            if index == len(lines) - 1:
                run.unfinished_lines.append(path)
            else:
                run.problems.append(f"{path}:{index + 1}: not an OTLP/JSON line ({error})")
            continue
        yield from spans


def _spans_of(request: Any) -> Iterator[SpanRecord]:
    if not isinstance(request, dict):
        raise TypeError("not a JSON object")
    for resource_spans in request.get("resourceSpans", ()):
        process = _process(_attributes(resource_spans.get("resource", {}).get("attributes", ())))
        for scope_spans in resource_spans.get("scopeSpans", ()):
            for span in scope_spans.get("spans", ()):
                yield _span(span, process)


def _process(resource: Mapping[str, Value]) -> Process:
    def integer(key: str) -> int | None:
        value = resource.get(key)
        return value if isinstance(value, int) else None

    return Process(
        service=str(resource.get(attr.SERVICE_NAME, "unknown")),
        instance=str(resource.get(attr.SERVICE_INSTANCE_ID, "")),
        pid=integer(attr.PROCESS_PID),
        host=str(resource.get(attr.HOST_NAME, "")),
        anchor_unix_ns=integer(attr.CLOCK_ANCHOR_UNIX_NS),
        anchor_monotonic_ns=integer(attr.CLOCK_ANCHOR_MONOTONIC_NS),
    )


def _span(span: Mapping[str, Any], process: Process) -> SpanRecord:
    status = span.get("status", {})
    return SpanRecord(
        trace_id=str(span["traceId"]).lower(),
        span_id=str(span["spanId"]).lower(),
        parent_id=str(span.get("parentSpanId") or "").lower() or None,
        name=str(span.get("name", "")),
        start_ns=int(span["startTimeUnixNano"]),
        end_ns=max(int(span["endTimeUnixNano"]), int(span["startTimeUnixNano"])),
        attributes=_attributes(span.get("attributes", ())),
        error=str(status.get("message", ""))
        if status.get("code") in (2, "STATUS_CODE_ERROR")
        else None,
        process=process,
    )


def _attributes(pairs: Any) -> dict[str, Value]:
    return {str(pair["key"]): _value(pair.get("value", {})) for pair in pairs}


def _value(value: Mapping[str, Any]) -> Value:
    for kind, content in value.items():
        if kind == "intValue":
            return int(content)
        if kind == "doubleValue":
            return float(content)  # also "NaN" and "Infinity"
        if kind == "boolValue":
            return bool(content)
        if kind == "arrayValue":
            return [_value(item) for item in content.get("values", ())]
        if kind == "kvlistValue":
            return _attributes(content.get("values", ()))
        return str(content)
    return None
