"""What is kept of an episode so that it can be replayed: lengths and times, no content."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Source = Literal["generated", "recorded", "imported"]


@dataclass(frozen=True)
class TurnTrace:
    """One brain turn and what the robot did until the next one.

    Attributes:
        new_tokens: Prompt tokens that were not in the previous prompt and its output; at a first
            turn the whole prompt. At least 1.
        output_tokens: Tokens generated. At least 1.
        env_steps: Control steps executed until the next turn; 0 where the tools moved nothing.
        wall_gap_s: The same interval on the wall clock; None: not known.
        brain_latency_s: How long the turn took where it was recorded; None: not known. A replay
            does not use it: it has its own brain.
        new_images: Pictures among what is new.
        chunks: Action chunks that were run until the next turn.
        kept_tokens: Leading tokens of the previous prompt and output that this prompt begins with;
            None: all of them, as in every append-only conversation. Fewer after a compaction.
    """

    new_tokens: int
    output_tokens: int
    env_steps: int = 0
    wall_gap_s: float | None = None
    brain_latency_s: float | None = None
    new_images: int = 0
    chunks: int = 0
    kept_tokens: int | None = None


@dataclass(frozen=True)
class EpisodeTrace:
    """One episode.

    Attributes:
        trace_id: Unique in its workload.
        task_family: What an admission policy may know of it, for example "libero_10_swap".
        task: The task's words or its number in the suite.
        control_hz: `env_steps` of a turn last `env_steps / control_hz` seconds.
        turns: In order; at least one. The last one's gap is not waited for.
        success: None: not known.
        source: "generated", "recorded" or "imported".
        tokens_estimated: Some of its token counts come from a rule of thumb, not from a tokenizer.
    """

    trace_id: str
    task_family: str
    turns: tuple[TurnTrace, ...]
    task: str = ""
    control_hz: float = 20.0
    success: bool | None = None
    source: Source = "generated"
    tokens_estimated: bool = False

    @property
    def prompt_tokens(self) -> tuple[int, ...]:
        """Length of each turn's whole prompt."""
        lengths = []
        context = 0
        for turn in self.turns:
            kept = context if turn.kept_tokens is None else min(turn.kept_tokens, context)
            lengths.append(kept + turn.new_tokens)
            context = lengths[-1] + turn.output_tokens
        return tuple(lengths)

    def env_gap_s(self, turn_index: int) -> float:
        """Robot's own time between a turn and the next."""
        return self.turns[turn_index].env_steps / self.control_hz

    def gap_s(self, turn_index: int, uses_wall: bool) -> float:
        """What is waited for between a turn and the next: the robot's own time, or the recorded
        wall clock where the trace has one.
        """
        wall_gap_s = self.turns[turn_index].wall_gap_s
        if uses_wall and wall_gap_s is not None:
            return wall_gap_s
        return self.env_gap_s(turn_index)
