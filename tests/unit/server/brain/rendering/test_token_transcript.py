"""Drafts, commits, and what an output may hold."""

from __future__ import annotations

import pytest

from robot_sdk.errors import BadModelOutputError, ContextLimitError
from server.brain.rendering.interface import ContextPolicy
from server.brain.rendering.token_transcript import TokenTranscript
from server.brain.tiny_model import TOKENS_PER_IMAGE
from tests.unit.server.brain.rendering.tiny import (
    LOOK,
    SYSTEM,
    picture,
    renderer,
    result,
    tokenizer,
    user,
)

RENDERER = renderer()
TOKENIZER = tokenizer()
OUTPUT = [*TOKENIZER.encode("done"), RENDERER.end_token_id]


def begun(policy: ContextPolicy = ContextPolicy()) -> TokenTranscript:  # noqa: B008
    transcript = TokenTranscript(RENDERER, policy)
    transcript.commit(transcript.draft([SYSTEM, user("go")], [LOOK]), OUTPUT)
    return transcript


def test_a_turn_that_was_not_committed_is_drafted_again_alike() -> None:
    transcript = begun()

    first = transcript.draft([result("seen", picture("a"))])
    again = transcript.draft([result("seen", picture("a"))])

    assert first == again
    assert transcript.num_tokens == first.expected_prefix_tokens


def test_only_the_newest_draft_can_be_committed_and_once() -> None:
    transcript = begun()
    old = transcript.draft([user("a")])
    new = transcript.draft([user("b")])

    with pytest.raises(ValueError, match="newest"):
        transcript.commit(old, OUTPUT)
    transcript.commit(new, OUTPUT)
    with pytest.raises(ValueError, match="newest"):
        transcript.commit(new, OUTPUT)


def test_an_output_that_was_cut_is_kept_and_closed_by_the_next_prompt() -> None:
    transcript = begun()
    draft = transcript.draft([user("a")])
    cut = TOKENIZER.encode('<tool_call>\n{"name": "look", "argum')
    transcript.commit(draft, cut)

    prompt = list(transcript.draft([user("b")]).token_ids)

    behind = prompt[len(draft.token_ids) + len(cut) :]
    assert behind[0] == RENDERER.end_token_id
    assert TOKENIZER.decode(behind).startswith("<|im_end|>\n<|im_start|>user\nb<|im_end|>")


def test_an_output_of_no_token_is_closed_too() -> None:
    transcript = begun()
    draft = transcript.draft([user("a")])
    transcript.commit(draft, [])

    prompt = list(transcript.draft([user("b")]).token_ids)

    assert prompt[len(draft.token_ids)] == RENDERER.end_token_id


def test_an_output_with_a_pictures_placeholder_is_refused_and_changes_nothing() -> None:
    transcript = begun()
    before = transcript.num_ids
    draft = transcript.draft([user("a")])

    with pytest.raises(BadModelOutputError, match="placeholder"):
        transcript.commit(draft, [1, RENDERER.image_token_id, 2])

    assert transcript.num_ids == before
    transcript.commit(draft, OUTPUT)


def test_the_engines_count_of_a_prompt_corrects_the_expected_prefix_of_the_next() -> None:
    transcript = begun()
    draft = transcript.draft([user("a", picture("frame"))])
    transcript.commit(draft, OUTPUT, num_prompt_tokens=draft.num_prompt_tokens + 7)

    following = transcript.draft([user("b")])

    assert following.expected_prefix_tokens == draft.num_prompt_tokens + 7 + len(OUTPUT)


def test_new_tokens_are_what_stands_behind_the_expected_prefix() -> None:
    transcript = begun()

    draft = transcript.draft([user("a", picture("frame"))])

    new = len(draft.token_ids) - transcript.num_ids + TOKENS_PER_IMAGE - 1
    assert draft.new_tokens == new


def test_d8_a_conversation_at_the_limit_ends_with_the_figures_and_stays_as_it_was() -> None:
    transcript = begun()
    limit = transcript.num_tokens + 40
    bounded = begun(ContextPolicy("end", max_prompt_tokens=limit))
    before = bounded.num_ids

    with pytest.raises(ContextLimitError, match=f"at most {limit} tokens") as caught:
        bounded.draft([user("word " * 100)])

    assert str(transcript.draft([user("word " * 100)]).num_prompt_tokens) in str(caught.value)
    assert bounded.num_ids == before
    bounded.draft([user("short")])


def test_d11_work_for_a_turn_does_not_grow_with_the_history_of_forty_pictures() -> None:
    counting = tokenizer()
    transcript = TokenTranscript(renderer(counting), ContextPolicy())
    chars: list[int] = []
    for turn in range(40):
        before = counting.num_chars
        new = [user("go on", picture(f"frame-{turn}"))]
        transcript.commit(transcript.draft(new, [LOOK]), OUTPUT)
        chars.append(counting.num_chars - before)

    assert len(set(chars[1:])) == 1
