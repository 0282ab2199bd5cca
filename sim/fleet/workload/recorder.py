"""Episode traces out of the run folder of a real run, whatever ran it.

Everything comes from the spans that robots leave (`robot_sdk.telemetry.attributes`): new and
output tokens, pictures, control steps, both gaps and the brain's latency from `brain.decide`,
chunks from `policy.chunk`. A brain without a tokenizer (the rule-based planner) reports counts by
rule of thumb: such traces are marked `tokens_estimated`. An episode whose brain reports no counts
gives no trace: unknown is not zero.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from robot_sdk.telemetry import attributes as attr
from robot_sdk.trace import SpanRecord, join, read_folder
from robot_sdk.trace.join import EpisodeTrace as EpisodeSpans
from robot_sdk.trace.report import Interval, answered, episode_clocks
from sim.fleet.workload.json_fields import MAX_TEXT_CHARS
from sim.fleet.workload.trace import EpisodeTrace, TurnTrace

_OUTCOMES = {"success": True, "failure": False}


@dataclass(frozen=True)
class Recording:
    """What a run folder gave.

    Attributes:
        traces: One for each episode that can be replayed, by start.
        left_out: The other episodes' ids, with the reason.
        notes: What else a reader of the traces must know.
    """

    traces: tuple[EpisodeTrace, ...]
    left_out: dict[str, str]
    notes: tuple[str, ...]


class _CannotReplay(Exception):
    """Why an episode gives no trace."""


def record(folder: Path) -> Recording:
    """Traces of all finished episodes in a run folder.

    Raises:
        InvalidArgumentError: There is no such folder, or no trace file in it.
    """
    run = read_folder(folder)
    traces: list[EpisodeTrace] = []
    left_out: dict[str, str] = {}
    for episode in join(run.spans).episodes:
        try:
            traces.append(_trace(episode))
        except _CannotReplay as reason:
            left_out[episode.id] = str(reason)
    notes = [*run.problems]
    notes += [f"{path.name} ends in half a line" for path in run.unfinished_lines]
    if run.dropped_spans:
        notes.append(f"{run.dropped_spans} spans were dropped while running: turns may be missing")
    if any(trace.tokens_estimated for trace in traces):
        notes.append("token counts are estimated: the brain has no tokenizer")
    return Recording(tuple(traces), left_out, tuple(notes))


def _trace(episode: EpisodeSpans) -> EpisodeTrace:
    root = episode.root
    if root is None:
        raise _CannotReplay("it had not ended when the files were read")
    if not episode.control_hz:
        raise _CannotReplay("the run does not say its control rate")
    decides = answered(episode)
    if not decides:
        raise _CannotReplay("it had no turn")
    _check_order(decides)
    intervals: list[Interval | None] = [*episode_clocks(episode).intervals, None]
    chunks = _chunks_by_turn(episode)
    turns: list[TurnTrace] = []
    context = 0
    for span, interval in zip(decides, intervals, strict=True):
        turn = _turn(span, interval, chunks[span.parent_id], context)
        # After the last turn there is no interval, but its tools may have moved the robot.
        last_steps = _tool_steps(episode, span.parent_id) if interval is None else turn.env_steps
        turns.append(replace(turn, env_steps=last_steps))
        kept = context if turn.kept_tokens is None else turn.kept_tokens
        context = kept + turn.new_tokens + turn.output_tokens
    return EpisodeTrace(
        trace_id=episode.id,
        task_family=_one_line(root.text(attr.TASK_FAMILY) or root.text(attr.SUITE)) or "unknown",
        turns=tuple(turns),
        task=_one_line(root.text(attr.TASK)),
        control_hz=episode.control_hz,
        success=_OUTCOMES.get(root.text(attr.OUTCOME) or ""),
        source="recorded",
        tokens_estimated=any(
            span.attributes.get(attr.TOKENS_ESTIMATED) is True for span in decides
        ),
    )


def _check_order(decides: Sequence[SpanRecord]) -> None:
    for place, span in enumerate(decides):
        index = span.integer(attr.TURN_INDEX)
        if index is not None and index != place:
            raise _CannotReplay(f"turn {place} is missing; its span was lost or its call failed")


def _turn(span: SpanRecord, interval: Interval | None, chunks: int, context: int) -> TurnTrace:
    new, kept = _split_prompt(span, context)
    output = span.integer(attr.GEN_AI_OUTPUT_TOKENS)
    if not output or output < 1:
        what = "0 output tokens" if output == 0 else "no output token count"
        raise _CannotReplay(f"{_name(span)} reports {what}")
    if interval is not None and interval.env_steps is None:
        raise _CannotReplay(f"the run does not say how many steps followed {_name(span)}")
    return TurnTrace(
        new_tokens=new,
        output_tokens=output,
        env_steps=0 if interval is None else interval.env_steps or 0,
        wall_gap_s=None if interval is None else interval.wall_s,
        brain_latency_s=span.duration_s,
        new_images=span.integer(attr.IMAGES_NEW) or 0,
        chunks=chunks,
        kept_tokens=kept,
    )


def _split_prompt(span: SpanRecord, context: int) -> tuple[int, int | None]:
    """New tokens of a prompt, and how many it keeps of what was before: None: all.

    Where only the whole prompt is counted, a longer one is taken to keep everything before it.
    """
    prompt = span.integer(attr.GEN_AI_INPUT_TOKENS)
    new = span.integer(attr.TOKENS_NEW)
    if prompt is None and new is None:
        raise _CannotReplay(f"{_name(span)} reports no token counts")
    if new is None:
        assert prompt is not None
        new = prompt - context
        if new < 1:
            raise _CannotReplay(
                f"the prompt of {_name(span)} is not longer than what was before, and the run does "
                "not say what it kept"
            )
        return new, None
    if new < 1:
        raise _CannotReplay(f"{_name(span)} reports {new} new tokens; a replay needs at least 1")
    if prompt is None or prompt - new == context:
        return new, None
    # Words that a chat template adds or takes away between turns change what is kept.
    kept = min(max(prompt - new, 0), context)
    return max(prompt - kept, 1), None if kept == context else kept


def _chunks_by_turn(episode: EpisodeSpans) -> Counter[str | None]:
    """Chunks of which rows were executed, by the turn whose tool asked for them."""
    turn_of_tool = {tool.span_id: tool.parent_id for tool in episode.tools}
    return Counter(
        turn_of_tool.get(span.parent_id or "")
        for span in episode.named(attr.SPAN_CHUNK)
        if attr.CHUNK_APPLIED_STEP in span.attributes
    )


def _tool_steps(episode: EpisodeSpans, turn_id: str | None) -> int:
    """Steps of the tools of a turn: what an episode's last turn moved."""
    return sum(
        tool.integer(attr.TOOL_STEPS) or 0 for tool in episode.tools if tool.parent_id == turn_id
    )


def _name(span: SpanRecord) -> str:
    return f"turn {span.integer(attr.TURN_INDEX)}"


def _one_line(text: str | None) -> str:
    """A task may be told in several lines, and in more words than a trace needs."""
    words = " ".join((text or "").split())
    return "".join(char for char in words if char.isprintable())[:MAX_TEXT_CHARS]
