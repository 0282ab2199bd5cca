"""Words for a number of tokens, measured at the server, and how well the lengths were kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from robot_sdk.messages import TokenUsage

#: Words of the turns that are asked to find out what a word costs: the last two tell it, and the
#: first and second what stands around the words of a first and of a later turn.
PROBE_WORDS = (16, 16, 144)


@dataclass(frozen=True)
class WordLengths:
    """What words become at this server.

    Attributes:
        tokens_per_word: Of the vocabulary in `sim.fleet.live.words`.
        first_overhead_tokens, later_overhead_tokens: What the chat format writes around the words
            of a first turn, and of a later one behind the answer before it.
    """

    tokens_per_word: float = 1.0
    first_overhead_tokens: float = 0.0
    later_overhead_tokens: float = 0.0

    def num_words(self, new_tokens: int, is_first: bool) -> int:
        """Words that come nearest to `new_tokens` more; at least one."""
        overhead = self.first_overhead_tokens if is_first else self.later_overhead_tokens
        return max(round((new_tokens - overhead) / self.tokens_per_word), 1)


def measured_lengths(usages: Sequence[TokenUsage]) -> WordLengths | None:
    """From the usage of turns with `PROBE_WORDS` words.

    Returns:
        None if the server does not count tokens, or counts no more for more words.
    """
    counts = []
    context_tokens = 0
    for usage in usages:
        if usage.input_tokens is None:
            return None
        new_tokens = usage.new_tokens
        if new_tokens is None:
            new_tokens = usage.input_tokens - context_tokens
        counts.append(new_tokens)
        context_tokens = usage.input_tokens + (usage.output_tokens or 0)
    first, second, third = counts
    per_word = (third - second) / (PROBE_WORDS[2] - PROBE_WORDS[1])
    if per_word <= 0:
        return None
    return WordLengths(
        tokens_per_word=per_word,
        first_overhead_tokens=first - per_word * PROBE_WORDS[0],
        later_overhead_tokens=second - per_word * PROBE_WORDS[1],
    )


@dataclass(frozen=True)
class LengthReport:
    """How the lengths of a run compare with those of its traces.

    Attributes:
        lengths: What was measured; None: the server told nothing, and a word was taken for a token.
        turns: Turns whose lengths the server told.
        trace_prompt_tokens, prompt_tokens: Sums over these turns of the whole prompts, of the
            traces and as the server counted them.
        worst_prompt_tokens: The largest difference of one prompt.
        trace_output_tokens, output_tokens: The same of what was generated. A model that ends its
            answer early makes them fewer: the wire has no way to forbid it.
        is_estimated: The server's counts come from a rule of thumb.
    """

    lengths: WordLengths | None
    turns: int = 0
    trace_prompt_tokens: int = 0
    prompt_tokens: int = 0
    worst_prompt_tokens: int = 0
    trace_output_tokens: int = 0
    output_tokens: int = 0
    is_estimated: bool = False

    @property
    def prompt_share(self) -> float | None:
        """Prompt tokens over those of the traces; None without a turn."""
        return self.prompt_tokens / self.trace_prompt_tokens if self.turns else None

    @property
    def output_share(self) -> float | None:
        """Generated tokens over those of the traces; None without a turn."""
        return self.output_tokens / self.trace_output_tokens if self.turns else None

    def with_turn(
        self, trace_prompt_tokens: int, trace_output_tokens: int, usage: TokenUsage
    ) -> LengthReport:
        """And one more turn; unchanged if the server does not tell its lengths."""
        if usage.input_tokens is None or usage.output_tokens is None:
            return self
        difference = abs(usage.input_tokens - trace_prompt_tokens)
        return LengthReport(
            lengths=self.lengths,
            turns=self.turns + 1,
            trace_prompt_tokens=self.trace_prompt_tokens + trace_prompt_tokens,
            prompt_tokens=self.prompt_tokens + usage.input_tokens,
            worst_prompt_tokens=max(self.worst_prompt_tokens, difference),
            trace_output_tokens=self.trace_output_tokens + trace_output_tokens,
            output_tokens=self.output_tokens + usage.output_tokens,
            is_estimated=self.is_estimated or usage.estimated,
        )

    def to_json(self) -> dict[str, Any]:
        """Plain values, with the shares."""
        return {
            **asdict(self),
            "prompt_share": self.prompt_share,
            "output_share": self.output_share,
        }

    def __str__(self) -> str:
        """One line for people."""
        if not self.turns:
            return "lengths: the server does not count tokens"
        words = "a word was taken for a token"
        if self.lengths is not None:
            words = f"{self.lengths.tokens_per_word:.3g} tokens a word"
        prompts, outputs = 100 * (self.prompt_share or 0.0), 100 * (self.output_share or 0.0)
        return (
            f"lengths: prompts {prompts:.1f}% of the traces' (one differed by "
            f"{self.worst_prompt_tokens} tokens), outputs {outputs:.1f}%; {words}"
            f"{'; the server estimates its counts' if self.is_estimated else ''}"
        )
