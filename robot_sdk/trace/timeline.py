"""An episode as a picture: what the brain, the tools, the policy and the robot did, and when."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from robot_sdk.errors import MissingExtraError
from robot_sdk.plain_text import one_line
from robot_sdk.telemetry import attributes as attr
from robot_sdk.trace.join import EpisodeTrace, on_clock_of
from robot_sdk.trace.reader import SpanRecord
from robot_sdk.trace.report import Interval, answered, delivered, episode_clocks, unused

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: 1600 x 640 pixels.
WIDTH_IN, HEIGHT_IN, DPI = 16.0, 6.4, 100

# One hue per lane, told apart also in grey; failures and held steps are red.
_BRAIN, _BRAIN_SERVER = "#b7c9e8", "#3b6bb5"
_TOOL, _TOOL_STILL = "#3f9a6b", "#a9d6bd"
_CHUNK, _CHUNK_SERVER = "#f2cf9a", "#d08a1d"
MOVING, HELD = "#6f6f6f", "#d9534f"
_WAITING, _IDLE = "#d9d9d9", "#f0f0f0"
_FAILED = "#c0392b"

_LANES = ("brain", "tools", "policy chunks", "robot")
_HALF_HEIGHT = 0.36


def new_figure(width_in: float, height_in: float) -> Figure:
    """An empty figure that needs no display.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtraError(
            "pictures need matplotlib", hint="run: pip install 'robot-sdk[plot]'"
        ) from error
    figure = Figure(figsize=(width_in, height_in), dpi=DPI, layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def draw_timeline(episode: EpisodeTrace, path: Path) -> None:
    """Write a PNG of one episode, times in seconds from its first span.

    Raises:
        MissingExtraError: matplotlib is not installed.
        OSError: The file cannot be written.
    """
    figure = draw(episode)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)


def draw(episode: EpisodeTrace) -> Figure:
    """The picture of one episode.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    figure = new_figure(WIDTH_IN, HEIGHT_IN)
    axes = figure.add_subplot()
    lanes = _Lanes(axes, episode)
    lanes.queue()
    lanes.brain()
    lanes.tools()
    lanes.chunks()
    lanes.robot()
    lanes.finish()
    return figure


class _Lanes:
    """Draws the lanes of one episode into one pair of axes."""

    def __init__(self, axes: Axes, episode: EpisodeTrace) -> None:
        self._axes = axes
        self._episode = episode
        own = [span for span in episode.spans if not span.name.startswith("server.")]
        if episode.root is not None:
            own.append(episode.root)
        self._start_ns = min((span.start_ns for span in own or episode.spans), default=0)
        self._end_ns = max((span.end_ns for span in own or episode.spans), default=1)
        self._length_s = max(self._s(self._end_ns), 1e-3)
        self._axes.set_xlim(0, self._length_s)

    def queue(self) -> None:
        """The wait for admission, at the head of the brain's lane."""
        root = self._episode.root
        queued_s = None if root is None else root.number(attr.QUEUED_S)
        if root is None or not queued_s:
            return
        self._axes.barh(
            _LANES.index("brain"),
            queued_s,
            left=self._s(root.start_ns),
            height=2 * _HALF_HEIGHT,
            color="white",
            edgecolor=_WAITING,
            hatch="///",
            linewidth=0.8,
        )
        end_ns = root.start_ns + round(queued_s * 1e9)
        self._label("brain", root.start_ns, end_ns, f"queued {queued_s:.1f} s")

    def brain(self) -> None:
        for span in self._episode.named(attr.SPAN_DECIDE):
            self._bar("brain", span, _FAILED if span.error is not None else _BRAIN)
            dark = self._server_part("brain", span, attr.SPAN_SERVER_DECIDE, _BRAIN_SERVER)
            index = span.integer(attr.TURN_INDEX)
            if index is not None:
                color = "white" if dark else "black"
                self._label("brain", span.start_ns, span.end_ns, str(index), color)

    def tools(self) -> None:
        for span in self._episode.tools:
            failed = span.attributes.get(attr.TOOL_IS_ERROR) is True or span.error is not None
            moved = span.integer(attr.TOOL_STEPS) != 0
            color = _FAILED if failed else (_TOOL if moved else _TOOL_STILL)
            self._bar("tools", span, color)
            name = span.name.removeprefix(attr.SPAN_TOOL_PREFIX)
            color = "black" if not (failed or moved) else "white"
            self._label("tools", span.start_ns, span.end_ns, name, color)

    def chunks(self) -> None:
        bad = {span.span_id for span in unused(self._episode)}
        bad |= {span.span_id for span in self._episode.named(attr.SPAN_CHUNK) if span.error}
        for span in self._episode.named(attr.SPAN_CHUNK):
            self._bar("policy chunks", span, _FAILED if span.span_id in bad else _CHUNK)
            self._server_part("policy chunks", span, attr.SPAN_SERVER_CHUNK, _CHUNK_SERVER)

    def robot(self) -> None:
        self._axes.barh(
            _LANES.index("robot"), self._s(self._end_ns), height=2 * _HALF_HEIGHT, color=_IDLE
        )
        for span in self._episode.tools:
            steps = span.integer(attr.TOOL_STEPS)
            if steps is None:
                continue
            self._bar("robot", span, MOVING if steps else _WAITING)
            if not steps:
                continue
            held = _held_share(span, steps)
            if held:
                self._held(span, held)
            text = f"{steps} steps" + (f", {_percent(held)} held" if held else "")
            self._label("robot", span.start_ns, span.end_ns, text, color="white")

    def finish(self) -> None:
        axes = self._axes
        axes.set_yticks(range(len(_LANES)), _LANES)
        axes.set_ylim(len(_LANES) - 0.5, -0.5)
        axes.set_xlabel("seconds since the episode began (wall clock of the robot's process)")
        axes.grid(axis="x", color="#e4e4e4", linewidth=0.8)
        axes.set_axisbelow(True)
        for side in ("top", "right", "left"):
            axes.spines[side].set_visible(False)
        axes.tick_params(axis="y", length=0)
        axes.set_title(_title(self._episode), loc="left", fontsize=11, parse_math=False)
        self._legend()

    def _legend(self) -> None:
        from matplotlib.patches import Patch

        entries = [
            Patch(color=_BRAIN, label="brain call, seen by the robot"),
            Patch(color=_BRAIN_SERVER, label="its time on the server"),
            Patch(color=_TOOL, label="tool that moves"),
            Patch(color=_TOOL_STILL, label="tool without a step"),
            Patch(color=_CHUNK, label="chunk, seen by the robot"),
            Patch(color=_CHUNK_SERVER, label="its time on the server"),
            Patch(color=MOVING, label="robot acts"),
            Patch(color=HELD, label="held, no chunk (height: share of steps)"),
            Patch(color=_IDLE, label="no tool active"),
            Patch(color=_FAILED, label="failed"),
        ]
        self._axes.legend(
            handles=entries,
            loc="upper center",
            bbox_to_anchor=(0.5, -0.12),
            ncols=len(entries),
            frameon=False,
            fontsize=8,
            handlelength=1.2,
            columnspacing=1.2,
        )

    def _s(self, time_ns: int) -> float:
        return (time_ns - self._start_ns) / 1e9

    def _bar(self, lane: str, span: SpanRecord, color: str) -> None:
        # A white edge parts neighbours, but would swallow a bar of a few pixels.
        wide = self._px(span.end_ns - span.start_ns) > 4
        self._axes.barh(
            _LANES.index(lane),
            max(self._s(span.end_ns) - self._s(span.start_ns), self._s_of_px(1.5)),
            left=self._s(span.start_ns),
            height=2 * _HALF_HEIGHT,
            color=color,
            edgecolor="white",
            linewidth=0.4 if wide else 0.0,
        )

    def _px(self, duration_ns: int) -> float:
        """Width of a duration in the picture; the axes take about 93% of its width."""
        return duration_ns / 1e9 / self._length_s * WIDTH_IN * DPI * 0.93

    def _s_of_px(self, width_px: float) -> float:
        return width_px / (WIDTH_IN * DPI * 0.93) * self._length_s

    def _server_part(self, lane: str, span: SpanRecord, name: str, color: str) -> bool:
        """Draw the server's share of a call inside it. False if there is no span of it."""
        drawn = False
        for child in self._episode.below(span):
            if child.name == name:
                start_ns, end_ns = on_clock_of(span, child, self._episode.clock_offset_s)
                self._axes.barh(
                    _LANES.index(lane),
                    self._s(end_ns) - self._s(start_ns),
                    left=self._s(start_ns),
                    height=_HALF_HEIGHT,
                    color=color,
                )
                drawn = True
        return drawn

    def _held(self, span: SpanRecord, share: float) -> None:
        """The lower part of a tool's bar, as high as its share of held steps.

        As wide as the whole bar: spans say how many steps were held, not which.
        """
        height = 2 * _HALF_HEIGHT * share
        self._axes.barh(
            _LANES.index("robot") + _HALF_HEIGHT - height / 2,
            self._s(span.end_ns) - self._s(span.start_ns),
            left=self._s(span.start_ns),
            height=height,
            color=HELD,
        )

    def _label(
        self, lane: str, start_ns: int, end_ns: int, text: str, color: str = "black"
    ) -> None:
        """Text inside a bar if the bar is wide enough for it, about 6.7 px a character."""
        room = int(self._px(end_ns - start_ns) / 6.7)
        if room < 1 or (room < len(text) and room < 4):
            return
        shown = text if len(text) <= room else text[: room - 1] + "…"
        self._axes.text(
            (self._s(start_ns) + self._s(end_ns)) / 2,
            _LANES.index(lane),
            shown,
            ha="center",
            va="center",
            fontsize=8,
            color=color,
            clip_on=True,
            parse_math=False,
        )


def _title(episode: EpisodeTrace) -> str:
    root = episode.root
    parts = [f"episode {episode.id[:16]}"]
    if root is not None:
        parts += [
            text
            for text in (
                root.text(attr.ROBOT_ID),
                root.text(attr.TASK),
                root.text(attr.OUTCOME),
                root.text(attr.PACE),
            )
            if text
        ]
    else:
        parts.append("still running, or lost")
    first = "  ·  ".join(one_line(part, 80) for part in parts)
    clocks = episode_clocks(episode)
    steps = sum(item.env_steps or 0 for item in clocks.intervals)
    second = f"{len(answered(episode))} turns, {len(delivered(episode))} chunks"
    if clocks.intervals:
        second += (
            f"; between brain calls {steps} steps while a tool was active, held ones included; "
            f"none in {_zero(clocks.intervals)} intervals"
        )
    if any(span.number(attr.BRAIN_MODELLED_DELAY_S) for span in episode.spans):
        second += "; brain calls include a modelled delay"
    if any(span.number(attr.CHUNK_MODELLED_DELAY_S) for span in episode.spans):
        second += "; chunks include a modelled delay"
    return f"{first}\n{second}"


def _held_share(span: SpanRecord, steps: int) -> float:
    """The share of a tool's steps in which the robot was held because no chunk was there, 0..1."""
    held = (span.integer(attr.TOOL_STARVED_TICKS) or 0) + (
        span.integer(attr.TOOL_START_WAIT_TICKS) or 0
    )
    return min(1.0, held / steps)


def _percent(share: float) -> str:
    """Rounded, but never to 0% or 100% unless it is just that."""
    if 0.0 < share < 1.0:
        return f"{min(99, max(1, round(100 * share)))}%"
    return f"{share:.0%}"


def _zero(intervals: list[Interval]) -> str:
    zero = sum(item.env_steps == 0 for item in intervals)
    return f"{zero} of {len(intervals)}"
