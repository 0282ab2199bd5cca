"""The study's table, computed from joined traces.

Definitions
    brain latency: one `brain.decide` that gave an answer, seen by the robot.
    interval n: from the answer of brain call n to the sending of call n+1 within one episode, so
        the last turn of an episode has none.
    env-step gap: control steps in the interval while a tool was active / control rate. Steps in
        which the robot was held (starved, start-wait, settling) are among them: the world went on.
    wall-clock gap: length of the interval on the wall.
    sums: latency of call n plus the interval n that follows it.
    zero-step interval: an interval in which no tool took a step.
Failed decisions and observations without an answer are counted but are in no distribution.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from typing import Any

from robot_sdk.telemetry import attributes as attr
from robot_sdk.trace.join import EpisodeTrace, JoinedRun
from robot_sdk.trace.reader import RunFolder, SpanRecord
from robot_sdk.trace.stats import Summary

#: Version of `Report.to_json`. Raised when a field changes its meaning or goes.
JSON_SCHEMA = "robot_sdk.trace/1"

#: Clocks in the order of the study's table.
CLOCK_NAMES = (
    "brain_latency",
    "env_step_gap",
    "wall_clock_gap",
    "brain_plus_env_step_gap",
    "brain_plus_wall_clock_gap",
)

_TURN_PARTS: Mapping[str, str] = {
    "unavailable": attr.BRAIN_UNAVAILABLE_S,
    "network": attr.BRAIN_NETWORK_S,
    "queue": attr.BRAIN_QUEUE_S,
    "preprocess": attr.BRAIN_PREPROCESS_S,
    "prefill": attr.BRAIN_PREFILL_S,
    "decode": attr.BRAIN_DECODE_S,
    "modelled delay": attr.BRAIN_MODELLED_DELAY_S,
}
_CHUNK_PARTS: Mapping[str, str] = {
    "network": attr.CHUNK_NETWORK_S,
    "batch wait": attr.CHUNK_BATCH_WAIT_S,
    "preprocess": attr.CHUNK_PREPROCESS_S,
    "vision": attr.CHUNK_VISION_S,
    "prefill": attr.CHUNK_PREFILL_S,
    "denoise": attr.CHUNK_DENOISE_S,
    "modelled delay": attr.CHUNK_MODELLED_DELAY_S,
}
_TURN_ORDER = (*_TURN_PARTS, "tools", "other")
_CHUNK_ORDER = (*_CHUNK_PARTS, "inference, not split", "other")
_TOKEN_COUNTS: Mapping[str, str] = {
    "input": attr.GEN_AI_INPUT_TOKENS,
    "new": attr.TOKENS_NEW,
    "cached": attr.TOKENS_CACHED,
    "computed": attr.TOKENS_COMPUTED,
    "output": attr.GEN_AI_OUTPUT_TOKENS,
    "images": attr.IMAGES,
}
_TICKS: Mapping[str, str] = {
    "acted": attr.TICKS_ACTED,
    "starved": attr.TICKS_STARVED,
    "start_wait": attr.TICKS_START_WAIT,
    "idle": attr.TICKS_IDLE,
    "overrun": attr.TICKS_OVERRUN,
}

_NUMBER = re.compile(r"-?\d+(\.\d+)?(e-?\d+)?|\b(nan|inf)\b")


@dataclass(frozen=True)
class Interval:
    """One interval between two brain calls, and the latency of the call before it. Seconds."""

    latency_s: float
    env_steps: int | None
    env_s: float | None
    wall_s: float


@dataclass(frozen=True)
class EpisodeClocks:
    """The samples of one episode. Seconds."""

    latencies_s: list[float]
    intervals: list[Interval]

    def samples(self, clock: str) -> list[float]:
        """Samples of one of `CLOCK_NAMES`; intervals whose steps are unknown are left out."""
        known = [(item, item.env_s) for item in self.intervals if item.env_s is not None]
        if clock == "brain_latency":
            return self.latencies_s
        if clock == "env_step_gap":
            return [env_s for _, env_s in known]
        if clock == "wall_clock_gap":
            return [item.wall_s for item in self.intervals]
        if clock == "brain_plus_env_step_gap":
            return [item.latency_s + env_s for item, env_s in known]
        return [item.latency_s + item.wall_s for item in self.intervals]


@dataclass(frozen=True)
class Part:
    """One part of a turn or chunk. `share` is its part of the summed time of all of them."""

    name: str
    summary: Summary
    share: float | None


@dataclass(frozen=True)
class Breakdown:
    """Where the time of turns or chunks went.

    Attributes:
        total: Of the whole thing.
        parts: Only those that at least one span reports. "other" is what no part explains.
    """

    total: Summary
    parts: list[Part]


@dataclass(frozen=True)
class EpisodeRow:
    """One episode. None: not recorded.

    Attributes:
        finished: Its own span was found; it is written when the episode ends.
        chunks: Chunks that arrived.
        unused_chunks: Of these, the ones of which no row was used.
        failed_chunks: Observations that got no chunk.
        steps: Control steps while a tool was active, held ones included: `policy_steps` +
            `scripted_steps`. `ticks["acted"]` are those with an action.
        clock_offset_s: Server's monotonic clock minus the robot's.
        clock_bound_s: Largest error of the offset.
        clocks_s: The three clocks and their sums within this episode.
    """

    id: str
    robot_id: str | None
    task: str | None
    suite: str | None
    task_index: int | None
    init_index: int | None
    finished: bool
    outcome: str | None
    end_reason: str | None
    duration_s: float | None
    queued_s: float | None
    turns: int
    failed_turns: int
    chunks: int
    unused_chunks: int
    failed_chunks: int
    steps: int | None
    policy_steps: int | None
    scripted_steps: int | None
    ticks: dict[str, int | None]
    clock_offset_s: float | None
    clock_bound_s: float | None
    clocks_s: dict[str, Summary]


@dataclass(frozen=True)
class ServerSpans:
    """How many of the robots' calls have the server's side in the files."""

    decides: int
    decides_with_server_span: int
    chunks: int
    chunks_with_server_span: int


@dataclass(frozen=True)
class Report:
    """Everything the command prints.

    Attributes:
        clocks_s: Summary by name of `CLOCK_NAMES`.
        zero_step_intervals: Those of `intervals_with_steps` in which no tool took a step.
        intervals_with_steps: Intervals whose control steps are known.
        ticks: Summed over the episodes that report them; None if none does.
        tokens: Counts per turn; summaries hold counts.
        tokens_estimated: At least one count is a rule of thumb.
        modelled_s: Summed delay that was added on purpose, in turns and in chunks.
        failed_chunk_reasons: Why observations got no chunk, and how many of them, most common
            first. Reasons that differ in numbers only are one, shown by its first example.
        orphan_span_names: Names of the spans of no episode, and how many of each.
    """

    folder: str
    files: list[str]
    services: list[str]
    num_spans: int
    clocks_s: dict[str, Summary]
    intervals: int
    intervals_with_steps: int
    zero_step_intervals: int
    turn: Breakdown
    chunk: Breakdown
    tokens: dict[str, Summary]
    tokens_estimated: bool
    modelled_s: dict[str, float]
    ticks: dict[str, int | None]
    episodes: list[EpisodeRow]
    server_spans: ServerSpans
    orphan_spans: int
    dropped_spans: int
    unfinished_lines: list[str]
    problems: list[str] = field(default_factory=list)
    failed_chunk_reasons: dict[str, int] = field(default_factory=dict)
    orphan_span_names: dict[str, int] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """This report as JSON values: `{"schema": JSON_SCHEMA, <the fields of Report>}`.

        Names and nesting are those of the dataclasses of this module. A summary is `{"count",
        "p50", "p90", "p99", "max", "total"}`, in seconds but for tokens, with null where there is
        no sample. Unknown values are null.
        """
        return {"schema": JSON_SCHEMA, **asdict(self)}


def build_report(folder: str, run: RunFolder, joined: JoinedRun) -> Report:
    """Compute the table of a run folder."""
    clocks = [episode_clocks(episode) for episode in joined.episodes]
    intervals = [interval for item in clocks for interval in item.intervals]
    steps = [item.env_steps for item in intervals if item.env_steps is not None]
    decides = [span for episode in joined.episodes for span in answered(episode)]
    chunks = [span for episode in joined.episodes for span in delivered(episode)]
    rows = [_row(episode, item) for episode, item in zip(joined.episodes, clocks, strict=True)]
    return Report(
        folder=folder,
        files=[path.name for path in run.files],
        services=sorted({span.process.service for span in run.spans}),
        num_spans=len(run.spans),
        clocks_s={
            name: Summary.of([sample for item in clocks for sample in item.samples(name)])
            for name in CLOCK_NAMES
        },
        intervals=len(intervals),
        intervals_with_steps=len(steps),
        zero_step_intervals=steps.count(0),
        turn=_breakdown(
            [_turn_parts(episode, span) for episode, span in _turns(joined)], _TURN_ORDER
        ),
        chunk=_breakdown([_chunk_parts(span) for span in chunks], _CHUNK_ORDER),
        tokens={
            name: Summary.of([value for span in decides if (value := span.number(key)) is not None])
            for name, key in _TOKEN_COUNTS.items()
        },
        tokens_estimated=any(
            span.attributes.get(attr.TOKENS_ESTIMATED) is True for span in decides
        ),
        modelled_s={
            "turns": _sum(decides, attr.BRAIN_MODELLED_DELAY_S),
            "chunks": _sum(chunks, attr.CHUNK_MODELLED_DELAY_S),
        },
        ticks={name: _total([row.ticks[name] for row in rows]) for name in _TICKS},
        episodes=rows,
        server_spans=_server_spans(joined, decides, chunks),
        orphan_spans=len(joined.orphans),
        dropped_spans=run.dropped_spans,
        unfinished_lines=[path.name for path in run.unfinished_lines],
        problems=list(run.problems),
        failed_chunk_reasons=_failed_chunk_reasons(joined),
        orphan_span_names=dict(Counter(span.name for span in joined.orphans).most_common()),
    )


def answered(episode: EpisodeTrace) -> list[SpanRecord]:
    """The decisions of an episode that gave an answer, by turn."""
    return [span for span in episode.named(attr.SPAN_DECIDE) if span.error is None]


def delivered(episode: EpisodeTrace) -> list[SpanRecord]:
    """The observations of an episode that got an answer, of use or not.

    Late ones belong to the distribution of round trips: without them it would look faster than it
    is just when it is slow.
    """
    return [
        span
        for span in episode.named(attr.SPAN_CHUNK)
        if attr.CHUNK_ROUND_TRIP_S in span.attributes or span.error is None
    ]


def unused(episode: EpisodeTrace) -> list[SpanRecord]:
    """The delivered chunks of which no row was used: late, outdated or refused."""
    return [
        span
        for span in delivered(episode)
        if attr.CHUNK_ERROR in span.attributes or span.error is not None
    ]


def episode_clocks(episode: EpisodeTrace) -> EpisodeClocks:
    """The three clocks of one episode."""
    decides = answered(episode)
    intervals: list[Interval] = []
    for before, after in pairwise(decides):
        env_steps = after.integer(attr.GAP_ENV_STEPS)
        env_s = after.number(attr.GAP_ENV_S)
        if env_s is None and env_steps is not None and episode.control_hz:
            env_s = env_steps / episode.control_hz
        wall_s = after.number(attr.GAP_WALL_S)
        if wall_s is None:
            wall_s = max(0.0, (after.start_ns - before.end_ns) / 1e9)
        intervals.append(Interval(before.duration_s, env_steps, env_s, wall_s))
    return EpisodeClocks([span.duration_s for span in decides], intervals)


def _turns(joined: JoinedRun) -> list[tuple[EpisodeTrace, SpanRecord]]:
    return [(episode, span) for episode in joined.episodes for span in answered(episode)]


def _turn_parts(episode: EpisodeTrace, decide: SpanRecord) -> tuple[float, dict[str, float]]:
    parts = _known(decide, _TURN_PARTS)
    tools_s = sum(
        tool.duration_s
        for tool in episode.tools
        if decide.parent_id is not None and tool.parent_id == decide.parent_id
    )
    turn = next((span for span in episode.spans if span.span_id == decide.parent_id), None)
    total_s = decide.duration_s + tools_s
    if turn is not None and turn.name == attr.SPAN_TURN:
        total_s = max(turn.duration_s, total_s)
    parts["tools"] = tools_s
    parts["other"] = max(0.0, total_s - sum(parts.values()))
    return total_s, parts


def _chunk_parts(chunk: SpanRecord) -> tuple[float, dict[str, float]]:
    parts = _known(chunk, _CHUNK_PARTS)
    infer_s = chunk.number(attr.CHUNK_INFER_S)
    if infer_s is not None:
        split_s = sum(parts.get(name, 0.0) for name in ("vision", "prefill", "denoise"))
        parts["inference, not split"] = max(0.0, infer_s - split_s)
    total_s = chunk.number(attr.CHUNK_ROUND_TRIP_S)
    total_s = chunk.duration_s if total_s is None else total_s
    parts["other"] = max(0.0, total_s - sum(parts.values()))
    return total_s, parts


def _known(span: SpanRecord, keys: Mapping[str, str]) -> dict[str, float]:
    return {name: value for name, key in keys.items() if (value := span.number(key)) is not None}


def _breakdown(
    samples: Sequence[tuple[float, dict[str, float]]], order: Sequence[str]
) -> Breakdown:
    total = Summary.of([total_s for total_s, _ in samples])
    parts: list[Part] = []
    for name in order:
        values = [parts_s[name] for _, parts_s in samples if name in parts_s]
        if values:
            summary = Summary.of(values)
            share = summary.total / total.total if total.total > 0 else None
            parts.append(Part(name, summary, share))
    return Breakdown(total, parts)


def _row(episode: EpisodeTrace, clocks: EpisodeClocks) -> EpisodeRow:
    root = episode.root
    decides = episode.named(attr.SPAN_DECIDE)
    chunks = episode.named(attr.SPAN_CHUNK)

    def text(key: str) -> str | None:
        return None if root is None else root.text(key)

    def integer(key: str) -> int | None:
        return None if root is None else root.integer(key)

    return EpisodeRow(
        id=episode.id,
        robot_id=text(attr.ROBOT_ID) or _service(episode),
        task=text(attr.TASK),
        suite=text(attr.SUITE),
        task_index=integer(attr.TASK_INDEX),
        init_index=integer(attr.INIT_INDEX),
        finished=root is not None,
        outcome=text(attr.OUTCOME),
        end_reason=text(attr.END_REASON) or (root.error if root is not None else None),
        duration_s=None if root is None else root.duration_s,
        queued_s=None if root is None else root.number(attr.QUEUED_S),
        turns=len(clocks.latencies_s),
        failed_turns=len(decides) - len(clocks.latencies_s),
        chunks=len(delivered(episode)),
        unused_chunks=len(unused(episode)),
        failed_chunks=len(chunks) - len(delivered(episode)),
        steps=integer(attr.STEPS_TOTAL),
        policy_steps=integer(attr.STEPS_POLICY),
        scripted_steps=integer(attr.STEPS_SCRIPTED),
        ticks={name: integer(key) for name, key in _TICKS.items()},
        clock_offset_s=episode.clock_offset_s,
        clock_bound_s=episode.clock_bound_s,
        clocks_s={name: Summary.of(clocks.samples(name)) for name in CLOCK_NAMES},
    )


def _service(episode: EpisodeTrace) -> str | None:
    for span in episode.spans:
        if span.name in (attr.SPAN_TURN, attr.SPAN_DECIDE):
            return span.process.service
    return None


def _server_spans(
    joined: JoinedRun, decides: Sequence[SpanRecord], chunks: Sequence[SpanRecord]
) -> ServerSpans:
    def parents(name: str) -> set[str | None]:
        spans = [span for episode in joined.episodes for span in episode.spans]
        return {span.parent_id for span in [*spans, *joined.orphans] if span.name == name}

    decided, served = parents(attr.SPAN_SERVER_DECIDE), parents(attr.SPAN_SERVER_CHUNK)
    return ServerSpans(
        decides=len(decides),
        decides_with_server_span=sum(span.span_id in decided for span in decides),
        chunks=len(chunks),
        chunks_with_server_span=sum(span.span_id in served for span in chunks),
    )


def _failed_chunk_reasons(joined: JoinedRun) -> dict[str, int]:
    counts: Counter[str] = Counter()
    examples: dict[str, str] = {}
    for episode in joined.episodes:
        known = {span.span_id for span in delivered(episode)}
        for span in episode.named(attr.SPAN_CHUNK):
            if span.span_id in known:
                continue
            text = span.text(attr.CHUNK_ERROR) or span.error or "unknown"
            kind = _NUMBER.sub("#", text)
            counts[kind] += 1
            examples.setdefault(kind, text)
    return {examples[kind]: count for kind, count in counts.most_common()}


def _sum(spans: Iterable[SpanRecord], key: str) -> float:
    return sum(span.number(key) or 0.0 for span in spans)


def _total(values: Sequence[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None
