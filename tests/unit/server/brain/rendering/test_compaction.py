"""Conversations that outgrow the model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from robot_sdk.errors import ContextLimitError
from server.brain.interface import Message
from server.brain.rendering.compaction import Piece, note_text, num_turns_to_drop
from server.brain.rendering.interface import ContextPolicy, PromptDraft
from server.brain.rendering.token_transcript import TokenTranscript
from tests.unit.server.brain.rendering.tiny import (
    LOOK,
    SYSTEM,
    call_text,
    picture,
    renderer,
    result,
    tokenizer,
    user,
)

RENDERER = renderer()
TOKENIZER = tokenizer()
END = RENDERER.end_token_id
BLOCK_TOKENS = 16
VOCAB = TOKENIZER.get_added_vocab()


@dataclass
class BlockCache:
    """A prefix cache without a bound: the blocks of every prompt and output it has seen."""

    seen: set[tuple[object, ...]] = field(default_factory=set)

    def cached_tokens(self, tokens: Sequence[object]) -> int:
        count = 0
        while tuple(tokens[: count + BLOCK_TOKENS]) in self.seen and count < len(tokens):
            count += BLOCK_TOKENS
        return count

    def add(self, tokens: Sequence[object]) -> None:
        for stop in range(BLOCK_TOKENS, len(tokens) + 1, BLOCK_TOKENS):
            self.seen.add(tuple(tokens[:stop]))


def expanded(draft: PromptDraft) -> list[object]:
    """The prompt as an engine sees it: a picture is as many tokens of its own."""
    images = iter(draft.images)
    tokens: list[object] = []
    for token_id in draft.token_ids:
        if token_id == RENDERER.image_token_id:
            image = next(images)
            tokens += [(image.image_id, k) for k in range(image.num_tokens)]
        else:
            tokens.append(token_id)
    return tokens


@dataclass(frozen=True)
class Turn:
    draft: PromptDraft
    output: list[int]
    new: list[Message]


def run_episode(policy: ContextPolicy, num_turns: int) -> list[Turn]:
    """Calls that are answered with a frame each."""
    transcript = TokenTranscript(RENDERER, policy)
    turns: list[Turn] = []
    new = [SYSTEM, user("pick the milk")]
    for index in range(num_turns):
        draft = transcript.draft(new, [LOOK])
        output = [*TOKENIZER.encode(call_text(a=f"turn {index}")), END]
        turns.append(Turn(draft, output, new))
        transcript.commit(draft, output)
        new = [result(f"result of {index}", picture(f"frame-{index}"))]
    return turns


def hit_rate(turns: Sequence[Turn]) -> float:
    """Share of turns after the first that find the whole previous prompt and output cached."""
    cache = BlockCache()
    hits = 0
    previous: list[object] = []
    for turn in turns:
        tokens = expanded(turn.draft)
        assert len(tokens) == turn.draft.num_prompt_tokens
        reusable = len(previous) // BLOCK_TOKENS * BLOCK_TOKENS
        hits += bool(previous) and cache.cached_tokens(tokens) >= reusable
        previous = [*tokens, *turn.output]
        cache.add(previous)
    return hits / (len(turns) - 1)


def test_d5_sixty_turns_past_the_budget_keep_their_prefix_but_for_rare_rebuilds() -> None:
    turns = run_episode(ContextPolicy("compact", max_prompt_tokens=1500, keep_share=0.5), 60)

    assert max(turn.draft.num_prompt_tokens for turn in turns) <= 1500
    assert turns[-1].draft.total_dropped_turns > 30
    rebuilds = sum(turn.draft.dropped_turns > 0 for turn in turns)
    assert hit_rate(turns) == 1 - rebuilds / 59
    assert rebuilds <= 6


def test_d5_dropping_just_enough_would_lose_the_prefix_again_and_again() -> None:
    turns = run_episode(ContextPolicy("compact", max_prompt_tokens=1500, keep_share=1.0), 60)

    assert hit_rate(turns[25:]) <= 0.5


def test_d5_a_bound_on_pictures_is_kept_the_same_way() -> None:
    turns = run_episode(ContextPolicy("compact", max_images=8, keep_share=0.5), 60)

    assert max(len(turn.draft.images) for turn in turns) == 8
    assert sum(turn.draft.dropped_turns > 0 for turn in turns) <= 60 / 4


def test_d8_thirty_turns_with_pictures_fit_a_model_of_2048_tokens() -> None:
    output_tokens = 256

    turns = run_episode(ContextPolicy("compact", max_prompt_tokens=2048 - output_tokens), 30)

    assert max(turn.draft.num_prompt_tokens for turn in turns) + output_tokens <= 2048
    # Counted as placeholders they would have fitted, and the engine would have refused them.
    assert turns[-1].draft.total_dropped_turns > 0
    assert turns[-1].draft.num_prompt_tokens > len(turns[-1].draft.token_ids)


def test_opening_and_task_stay_and_a_note_says_how_much_is_gone() -> None:
    turns = run_episode(ContextPolicy("compact", max_prompt_tokens=1000), 40)
    first, last = turns[0].draft, turns[-1].draft

    text = TOKENIZER.decode(last.token_ids)

    opening = TOKENIZER.decode(first.token_ids).removesuffix("<|im_start|>assistant\n")
    note = f"<|im_start|>user\n{note_text(last.total_dropped_turns)}<|im_end|>\n"
    assert text.startswith(opening + note)
    assert text.count("Steps left out") == 1


def test_what_stays_are_the_very_tokens_and_pictures_that_were_there() -> None:
    turns = run_episode(ContextPolicy("compact", max_prompt_tokens=1000), 40)
    rebuilt = [
        (before, after) for before, after in zip(turns, turns[1:]) if after.draft.dropped_turns
    ]

    assert rebuilt
    for before, after in rebuilt:
        new = RENDERER.continuation(after.new, previous_closed=True)
        note = RENDERER.note(note_text(after.draft.total_dropped_turns))
        front = len(turns[0].draft.token_ids) - len(RENDERER.generation_prompt)
        kept = after.draft.token_ids[front + len(note.token_ids) : -len(new.token_ids)]
        history = [*before.draft.token_ids, *before.output]
        assert kept
        assert history[-len(kept) :] == kept
        assert (*before.draft.images, *new.images)[-len(after.draft.images) :] == after.draft.images


TURN_SIZES = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 3)), min_size=1, max_size=25)


@settings(max_examples=60)
@given(TURN_SIZES, st.integers(150, 700), st.integers(2, 12), st.floats(0.1, 1.0))
def test_no_prompt_passes_a_limit_or_holds_half_a_turn(
    sizes: list[tuple[int, int]], tokens: int, images: int, share: float
) -> None:
    policy = ContextPolicy("compact", tokens, images, share)
    transcript = TokenTranscript(RENDERER, policy)
    new = [SYSTEM, user("go")]
    previous: list[object] = []
    for turn, (words, num_images) in enumerate(sizes):
        try:
            draft = transcript.draft(new, [LOOK])
        except ContextLimitError:
            return
        shown = expanded(draft)
        assert len(shown) == draft.num_prompt_tokens <= tokens
        assert len(draft.images) <= images
        ids = list(draft.token_ids)
        # One call outside the front for each result, in turn.
        marks = [i for i in ids if i in (VOCAB["<tool_call>"], VOCAB["<tool_response>"])][1:]
        assert marks == [VOCAB["<tool_call>"], VOCAB["<tool_response>"]] * (len(marks) // 2)
        prefix = draft.expected_prefix_tokens
        assert shown[:prefix] == previous[:prefix]
        assert (prefix == len(previous)) == (draft.dropped_turns == 0)
        output = [*TOKENIZER.encode(call_text(a=str(turn))), END]
        transcript.commit(draft, output)
        previous = [*shown, *output]
        new = [result("w " * words, *(picture(f"{turn}-{i}") for i in range(num_images)))]


def pieces(*num_tokens: int) -> list[Piece]:
    return [Piece(n, n) for n in num_tokens]


def test_a_compaction_goes_down_to_the_configured_share() -> None:
    policy = ContextPolicy("compact", max_prompt_tokens=100, keep_share=0.5)

    assert num_turns_to_drop(policy, Piece(20, 20), pieces(10, 10, 10, 10, 10, 10, 10), 0) == 0
    assert num_turns_to_drop(policy, Piece(20, 20), pieces(*[10] * 9), 5) == 7


@pytest.mark.parametrize("mode", ["end", "compact"])
def test_what_cannot_become_short_enough_is_an_error_with_the_figures(mode: str) -> None:
    policy = ContextPolicy(mode, max_prompt_tokens=100, max_images=5)

    with pytest.raises(ContextLimitError, match="120 tokens with 0 pictures"):
        num_turns_to_drop(policy, Piece(120, 120), (), 0)
