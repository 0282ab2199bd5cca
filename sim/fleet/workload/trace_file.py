"""Episode traces as a file: JSON lines, a header and then one episode a line.

    {"format": "robot-sdk-episode-traces", "version": 1}
    {"trace_id": "a", "task_family": "libero_10_swap", "control_hz": 20, "turns": [
        {"index": 0, "new_tokens": 20000, "output_tokens": 140, "env_steps": 0, "new_images": 4},
        {"index": 1, "new_tokens": 3279, "output_tokens": 150, "env_steps": 20, "chunks": 2}]}

(an episode stands on one line). Fields are those of `EpisodeTrace` and `TurnTrace`; what is unknown
is null or absent, never 0. An episode must have `trace_id`, `task_family` and `turns`, a turn
`index`, `new_tokens` and `output_tokens`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from robot_sdk.errors import InvalidArgumentError
from sim.files import write_whole
from sim.fleet.workload.json_fields import Fields, read_lines
from sim.fleet.workload.trace import EpisodeTrace, TurnTrace

FORMAT = "robot-sdk-episode-traces"
VERSION = 1

MAX_EPISODES = 100_000
MAX_TURNS = 20_000
#: Of one turn, and of a whole prompt with its output.
MAX_TOKENS = 20_000_000
MAX_STEPS = 10**11
MAX_SECONDS = 1e7
MAX_CONTROL_HZ = 10_000.0

_EPISODE_FIELDS = (
    "trace_id",
    "task_family",
    "task",
    "control_hz",
    "success",
    "source",
    "tokens_estimated",
    "turns",
)
_TURN_FIELDS = (
    "index",
    "new_tokens",
    "output_tokens",
    "env_steps",
    "wall_gap_s",
    "brain_latency_s",
    "new_images",
    "chunks",
    "kept_tokens",
)


def read_traces(path: Path) -> tuple[EpisodeTrace, ...]:
    """All episodes of a file, in its order.

    Raises:
        InvalidArgumentError: The file is not there or not valid; it names line, field and value.
    """
    traces: list[EpisodeTrace] = []
    line_of: dict[str, int] = {}
    has_header = False
    for number, content in read_lines(path):
        where = f"{path}:{number}"
        if not has_header:
            _check_header(content, where)
            has_header = True
            continue
        trace = _episode(content, where)
        if trace.trace_id in line_of:
            raise InvalidArgumentError(
                f"this trace_id is also that of line {line_of[trace.trace_id]}",
                field=f"{where}: trace_id",
                value=trace.trace_id,
            )
        if len(traces) == MAX_EPISODES:
            raise InvalidArgumentError(
                "too many episodes", field=where, allowed=[f"at most {MAX_EPISODES}"]
            )
        line_of[trace.trace_id] = number
        traces.append(trace)
    if not traces:
        raise InvalidArgumentError("there is no episode in the file", field="FILE", value=path)
    return tuple(traces)


def write_traces(path: Path, traces: Iterable[EpisodeTrace]) -> None:
    """Leave a file that `read_traces` reads; nobody ever sees half of it.

    Raises:
        InvalidArgumentError: An episode is not valid, an id is there twice, or there is none.
        OSError: The file cannot be written.
    """
    lines = [json.dumps({"format": FORMAT, "version": VERSION})]
    ids: set[str] = set()
    for number, trace in enumerate(traces, start=1):
        content = _to_json(trace)
        _episode(content, f"episode {number}")
        if trace.trace_id in ids:
            raise InvalidArgumentError(
                "two episodes have this trace_id", field="trace_id", value=trace.trace_id
            )
        ids.add(trace.trace_id)
        lines.append(json.dumps(content, ensure_ascii=False))
    if not ids:
        raise InvalidArgumentError("there is no episode to write", field="FILE", value=path)
    write_whole(path, "\n".join(lines) + "\n")


def _check_header(content: dict[str, Any], where: str) -> None:
    if content.get("format") != FORMAT:
        raise InvalidArgumentError(
            "the first line is not the header of a trace file",
            field=f"{where}: format",
            value=json.dumps(content.get("format"))[:80],
            allowed=[FORMAT],
            hint="`python -m sim workload import` reads token counts of other programs",
        )
    Fields(content, where, ("format", "version")).choice("version", (VERSION,))


def _episode(content: dict[str, Any], where: str) -> EpisodeTrace:
    fields = Fields(content, where, _EPISODE_FIELDS)
    turns: list[TurnTrace] = []
    context = 0
    for place, item in enumerate(fields.array("turns", MAX_TURNS)):
        own = Fields(item, f"{where}: turns[{place}]", _TURN_FIELDS)
        turns.append(_turn(own, place, context))
        context = _context_after(turns[-1], context)
        if context > MAX_TOKENS:
            raise InvalidArgumentError(
                "prompt and output together are too long",
                field=own.where,
                value=f"{context} tokens",
                allowed=[f"at most {MAX_TOKENS}"],
            )
    return EpisodeTrace(
        trace_id=fields.text("trace_id"),
        task_family=fields.text("task_family"),
        turns=tuple(turns),
        task=fields.text("task", "", may_be_empty=True),
        control_hz=fields.number("control_hz", 0.01, MAX_CONTROL_HZ, 20.0),
        success=fields.choice("success", (True, False)) if "success" in fields else None,
        source=fields.choice("source", ("generated", "recorded", "imported"), "imported"),
        tokens_estimated=fields.choice("tokens_estimated", (True, False), default=False),
    )


def _turn(fields: Fields, place: int, context: int) -> TurnTrace:
    if fields.whole("index", 0, MAX_TURNS) != place:
        raise fields.wrong("index", "turns are not in order from 0", place)
    kept = fields.maybe_whole("kept_tokens", 0, MAX_TOKENS)
    if kept is not None and kept > context:
        raise fields.wrong(
            "kept_tokens", "more than the previous prompt and output have", f"0 to {context}"
        )
    return TurnTrace(
        new_tokens=fields.whole("new_tokens", 1, MAX_TOKENS),
        output_tokens=fields.whole("output_tokens", 1, MAX_TOKENS),
        env_steps=fields.whole("env_steps", 0, MAX_STEPS, 0),
        wall_gap_s=fields.maybe_number("wall_gap_s", 0.0, MAX_SECONDS),
        brain_latency_s=fields.maybe_number("brain_latency_s", 0.0, MAX_SECONDS),
        new_images=fields.whole("new_images", 0, MAX_TOKENS, 0),
        chunks=fields.whole("chunks", 0, MAX_STEPS, 0),
        kept_tokens=kept,
    )


def _context_after(turn: TurnTrace, before: int) -> int:
    kept = before if turn.kept_tokens is None else turn.kept_tokens
    return kept + turn.new_tokens + turn.output_tokens


def _to_json(trace: EpisodeTrace) -> dict[str, Any]:
    content: dict[str, Any] = {
        name: getattr(trace, name) for name in _EPISODE_FIELDS if name != "turns"
    }
    content["turns"] = [
        {
            "index": place,
            **{
                name: value
                for name in _TURN_FIELDS[1:]
                if (value := getattr(turn, name)) is not None
            },
        }
        for place, turn in enumerate(trace.turns)
    ]
    return content
