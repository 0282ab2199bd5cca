"""Puts the spans of all processes of a run together, by parent links alone.

Clocks of two hosts may differ by minutes, so order across processes follows parents, and times of
another process are moved only for drawing: by the measured clock offset where the episode has one,
and in any case into their parent.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from robot_sdk.telemetry import attributes as attr
from robot_sdk.trace.reader import SpanRecord


@dataclass
class EpisodeTrace:
    """One episode: its own span and everything below it.

    Attributes:
        root: The `episode` span; None while the episode is running, or if it was lost.
        spans: All spans of the episode without the root, by start within each process.
    """

    key: str
    root: SpanRecord | None
    spans: list[SpanRecord] = field(default_factory=list)

    @property
    def id(self) -> str:
        """The server's episode id; without one, the id of the span."""
        for span in self._all():
            text = span.text(attr.EPISODE_ID)
            if text:
                return text
        return self.key

    @property
    def control_hz(self) -> float | None:
        return None if self.root is None else self.root.number(attr.CONTROL_HZ)

    @property
    def clock_offset_s(self) -> float | None:
        """Server's monotonic clock minus the robot's."""
        return None if self.root is None else self.root.number(attr.CLOCK_OFFSET_S)

    @property
    def clock_bound_s(self) -> float | None:
        return None if self.root is None else self.root.number(attr.CLOCK_BOUND_S)

    def named(self, name: str) -> list[SpanRecord]:
        """Spans of one name, by start."""
        return [span for span in self.spans if span.name == name]

    @property
    def tools(self) -> list[SpanRecord]:
        """All tool calls, by start."""
        return [span for span in self.spans if span.name.startswith(attr.SPAN_TOOL_PREFIX)]

    def below(self, parent: SpanRecord) -> list[SpanRecord]:
        """Direct children of a span."""
        return [span for span in self.spans if span.parent_id == parent.span_id]

    def _all(self) -> Iterator[SpanRecord]:
        if self.root is not None:
            yield self.root
        yield from self.spans


@dataclass(frozen=True)
class JoinedRun:
    """All episodes of a run, and the spans that belong to none.

    Attributes:
        episodes: By their first span's start.
        orphans: Spans whose parent is in no file and whose trace holds no episode.
    """

    episodes: list[EpisodeTrace]
    orphans: list[SpanRecord]


def join(spans: Iterable[SpanRecord]) -> JoinedRun:
    """Group spans by the episode they descend from.

    An episode's own span is written when it ends. Until then its turns share a parent that is in no
    file; they make an episode without a root. A span that is cut off below that (its turn is still
    open) goes to the only episode of its trace, if there is exactly one.
    """
    records = list(spans)
    by_id = {(span.trace_id, span.span_id): span for span in records}
    groups: dict[tuple[str, str], EpisodeTrace] = {}
    cut_off: list[SpanRecord] = []
    for span in records:
        top = _top(span, by_id)
        if top.name == attr.SPAN_EPISODE:
            group = groups.setdefault(
                (top.trace_id, top.span_id), EpisodeTrace(top.span_id, root=top)
            )
            if span is not top:
                group.spans.append(span)
        elif top.name == attr.SPAN_TURN and top.parent_id is not None:
            key = (top.trace_id, top.parent_id)
            groups.setdefault(key, EpisodeTrace(top.parent_id, root=None)).spans.append(span)
        else:
            cut_off.append(span)

    in_trace: dict[str, list[EpisodeTrace]] = defaultdict(list)
    for (trace_id, _), group in groups.items():
        in_trace[trace_id].append(group)
    orphans: list[SpanRecord] = []
    for span in cut_off:
        candidates = in_trace[span.trace_id]
        if len(candidates) == 1:
            candidates[0].spans.append(span)
        else:
            orphans.append(span)

    episodes = list(groups.values())
    for episode in episodes:
        episode.spans.sort(key=lambda span: span.start_ns)
    episodes.sort(key=_first_ns)
    return JoinedRun(episodes, orphans)


def on_clock_of(parent: SpanRecord, span: SpanRecord, offset_s: float | None) -> tuple[int, int]:
    """Start and end of `span` in Unix ns on the clock of `parent`'s process, inside `parent`.

    Args:
        parent: A span of the robot's process.
        span: Its child, perhaps of another process.
        offset_s: The other process's monotonic clock minus the robot's; None: not measured.
    """
    start_ns = span.start_ns
    other, own = span.process, parent.process
    if (
        other != own
        and offset_s is not None
        and other.anchor_unix_ns is not None
        and other.anchor_monotonic_ns is not None
        and own.anchor_unix_ns is not None
        and own.anchor_monotonic_ns is not None
    ):
        others_ns = start_ns - other.anchor_unix_ns + other.anchor_monotonic_ns
        owns_ns = others_ns - round(offset_s * 1e9)
        start_ns = owns_ns - own.anchor_monotonic_ns + own.anchor_unix_ns
    duration_ns = min(span.end_ns - span.start_ns, parent.end_ns - parent.start_ns)
    start_ns = min(max(start_ns, parent.start_ns), parent.end_ns - duration_ns)
    return start_ns, start_ns + duration_ns


def _top(span: SpanRecord, by_id: dict[tuple[str, str], SpanRecord]) -> SpanRecord:
    """The nearest `episode` above, or the highest span whose parent is in no file."""
    visited: set[str] = set()
    while span.name != attr.SPAN_EPISODE and span.parent_id is not None:
        parent = by_id.get((span.trace_id, span.parent_id))
        if parent is None or parent.span_id in visited:  # a loop only in a forged file
            break
        visited.add(parent.span_id)
        span = parent
    return span


def _first_ns(episode: EpisodeTrace) -> int:
    starts = [span.start_ns for span in episode.spans]
    if episode.root is not None:
        starts.append(episode.root.start_ns)
    return min(starts)
