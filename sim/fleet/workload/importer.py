"""Episode traces out of token counts of other agents: coding, browsing, whatever calls a model.

One JSON object a line, one line a call, a session's calls in order; sessions may alternate:

    {"session": "a", "prompt_tokens": 12000, "output_tokens": 210, "start_s": 0.0, "end_s": 3.5}
    {"session": "a", "prompt_tokens": 12900, "output_tokens": 90, "start_s": 5.0, "end_s": 6.1}

Tokens: `prompt_tokens`, the whole prompt, or `new_tokens`, what the call adds to the previous
prompt and output; with both, the difference is what the prompt keeps. A prompt that is not longer
than what was before is a compaction: it keeps `kept_tokens` where the line says so, else what the
caller says that compactions keep.

Times: `start_s` and `end_s` of the call on one clock, or `gap_s`, from the end of the session's
previous call to this one; a session has one kind. Optional: `task_family`, `images` (new ones).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

from robot_sdk.errors import InvalidArgumentError
from sim.fleet.workload.json_fields import Fields, read_lines
from sim.fleet.workload.trace import EpisodeTrace, TurnTrace
from sim.fleet.workload.trace_file import MAX_EPISODES, MAX_SECONDS, MAX_TOKENS, MAX_TURNS

#: Gaps become steps of a millisecond, so that a replay waits for them as for a robot's.
CONTROL_HZ = 1000.0

_MAX_CLOCK_S = 1e11
_FIELDS = (
    "session",
    "prompt_tokens",
    "new_tokens",
    "kept_tokens",
    "output_tokens",
    "start_s",
    "end_s",
    "gap_s",
    "task_family",
    "images",
)


@dataclass(frozen=True)
class Imported:
    """What a file gave.

    Attributes:
        traces: One a session, in the order of their first calls.
        num_compactions: Prompts that keep less than everything before them.
        num_kept_assumed: Those of them of which the file does not say what they keep.
    """

    traces: tuple[EpisodeTrace, ...]
    num_compactions: int
    num_kept_assumed: int


@dataclass
class _Session:
    name: str
    family: str
    has_clock: bool
    turns: list[TurnTrace] = field(default_factory=list)
    context: int = 0
    end_s: float = 0.0


def import_calls(path: Path, family: str, compaction_keeps: int = 0) -> Imported:
    """Read a file of calls.

    Args:
        path: JSON lines as above.
        family: Task family of sessions that name none.
        compaction_keeps: Leading tokens that a compaction keeps where its line does not say so,
            for example those of the instructions; as many as there are, at most.

    Raises:
        InvalidArgumentError: The file is not there or not valid; it names line, field and value.
    """
    sessions: dict[str, _Session] = {}
    num_compactions = num_assumed = 0
    for number, content in read_lines(path):
        fields = Fields(content, f"{path}:{number}", _FIELDS)
        name = fields.text("session")
        session = sessions.get(name)
        if session is None:
            if len(sessions) == MAX_EPISODES:
                raise fields.wrong("session", "too many sessions", f"at most {MAX_EPISODES}")
            own = fields.text("task_family", family)
            session = sessions[name] = _Session(name, own, has_clock="start_s" in fields)
        elif fields.text("task_family", session.family) != session.family:
            raise fields.wrong("task_family", "another family than before", session.family)
        if len(session.turns) == MAX_TURNS:
            raise fields.wrong("session", "too many calls", f"at most {MAX_TURNS}")
        new, kept, is_assumed = _split_prompt(fields, session.context, compaction_keeps)
        num_compactions += kept is not None
        num_assumed += is_assumed
        _add(session, fields, new, kept)
    if not sessions:
        raise InvalidArgumentError("there is no call in the file", field="FILE", value=path)
    traces = tuple(
        EpisodeTrace(
            trace_id=session.name,
            task_family=session.family,
            turns=tuple(session.turns),
            control_hz=CONTROL_HZ,
            source="imported",
        )
        for session in sessions.values()
    )
    return Imported(traces, num_compactions, num_assumed)


def _split_prompt(fields: Fields, context: int, keeps: int) -> tuple[int, int | None, bool]:
    """New tokens, kept ones (None: all that was before), whether `keeps` was used."""
    said = fields.maybe_whole("kept_tokens", 0, context)
    if "prompt_tokens" not in fields:
        if "new_tokens" not in fields:
            raise InvalidArgumentError(
                "there is neither 'prompt_tokens' nor 'new_tokens'", field=fields.where
            )
        new = fields.whole("new_tokens", 1, MAX_TOKENS)
        return new, None if said == context else said, False
    prompt = fields.whole("prompt_tokens", 1, MAX_TOKENS)
    if "new_tokens" in fields:
        new = fields.whole("new_tokens", 1, prompt)
        kept = prompt - new
        if kept > context:
            raise fields.wrong(
                "new_tokens",
                f"the rest of the prompt is longer than the {context} tokens before it",
                f"{prompt - context} to {prompt}",
            )
        if said not in (None, kept):
            raise fields.wrong("kept_tokens", "not the prompt less its new tokens", kept)
        return new, None if kept == context else kept, False
    if said is None and prompt > context:
        return prompt - context, None, False
    kept = min(keeps, context, prompt - 1) if said is None else said
    if kept >= prompt:
        raise fields.wrong("kept_tokens", "as long as the prompt", f"0 to {prompt - 1}")
    return prompt - kept, None if kept == context else kept, said is None


def _add(session: _Session, fields: Fields, new: int, kept: int | None) -> None:
    if session.has_clock:
        start_s = fields.number("start_s", -_MAX_CLOCK_S, _MAX_CLOCK_S)
        end_s = fields.number("end_s", -_MAX_CLOCK_S, _MAX_CLOCK_S)
        if end_s < start_s:
            raise fields.wrong("end_s", "before the call's start", f"{start_s} or more")
        if session.turns and start_s < session.end_s:
            raise fields.wrong(
                "start_s",
                "before the end of the session's previous call; lines must be sorted",
                f"{session.end_s} or more",
            )
        if "gap_s" in fields:
            raise fields.wrong("gap_s", "this session has start_s and end_s", "no gap_s")
        gap_s = start_s - session.end_s
        latency_s: float | None = end_s - start_s
        session.end_s = end_s
    else:
        for name in ("start_s", "end_s"):
            if name in fields:
                raise fields.wrong(name, "this session began without start_s", "gap_s")
        gap_s = fields.number("gap_s", 0.0, MAX_SECONDS, None if session.turns else 0.0)
        latency_s = None
    if session.turns:
        if gap_s > MAX_SECONDS:
            raise fields.wrong("start_s", f"{gap_s} s after the call before", f"{MAX_SECONDS:g} s")
        before = session.turns[-1]
        session.turns[-1] = replace(before, env_steps=round(gap_s * CONTROL_HZ), wall_gap_s=gap_s)
    turn = TurnTrace(
        new_tokens=new,
        output_tokens=fields.whole("output_tokens", 1, MAX_TOKENS),
        brain_latency_s=latency_s,
        new_images=fields.whole("images", 0, MAX_TOKENS, 0),
        kept_tokens=kept,
    )
    session.turns.append(turn)
    session.context = (session.context if kept is None else kept) + new + turn.output_tokens
    if session.context > MAX_TOKENS:
        raise fields.wrong("output_tokens", "prompt and output are too long", f"{MAX_TOKENS}")
