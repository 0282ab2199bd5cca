"""Where the request is cut that touches a prefix."""

from __future__ import annotations

from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.brain.rendering.interface import ImageRef, PromptDraft
from server.brain.vllm_engine.seen_prefix import SeenPrefix, Touch, seen_prompt, touch_of
from server.core.residency import full_prefix_boundary

BLOCK = 32
PICTURE = 9
TEXT = 1


def prompt(ids: list[int], *images: ImageRef) -> SeenPrefix:
    num_tokens = len(ids) + sum(image.num_tokens - 1 for image in images)
    return seen_prompt(PromptDraft(ids, images, num_tokens, 0), num_tokens, {})


def picture(name: str, num_tokens: int = 67) -> ImageRef:
    return ImageRef(name, 2, 2, num_tokens)


def expanded(touch: Touch) -> int:
    return len(touch.token_ids) + sum(image.num_tokens - 1 for image in touch.images)


def test_the_request_is_one_token_longer_than_what_can_be_found() -> None:
    seen = prompt(list(range(100)))

    touch = touch_of(seen, BLOCK, None, None)

    assert touch == Touch(array("i", range(97)), (), 96)


def test_a_committed_answer_is_part_of_what_the_next_turn_finds() -> None:
    seen = prompt(list(range(100))).with_output(list(range(100, 200)))

    touch = touch_of(seen, BLOCK, None, None)

    assert touch == Touch(array("i", range(193)), (), 192)


@pytest.mark.parametrize(("interval", "boundary"), [(0, 96), (64, 192), (128, 128)])
def test_a_hybrid_model_is_touched_where_its_snapshot_is(interval: int, boundary: int) -> None:
    seen = prompt([TEXT] * 100).with_output([TEXT] * 100)

    touch = touch_of(seen, BLOCK, interval, None)

    assert touch is not None
    assert (len(touch.token_ids), touch.boundary_tokens) == (boundary + 1, boundary)


@pytest.mark.parametrize("num_tokens", [1, BLOCK])
def test_a_prefix_shorter_than_a_block_is_not_touched(num_tokens: int) -> None:
    assert touch_of(prompt([TEXT] * num_tokens), BLOCK, None, None) is None


def test_a_picture_is_never_cut_and_those_behind_the_cut_are_left_out() -> None:
    a, b = picture("a"), picture("b")
    # 10 texts, then a up to 77, 10 texts, then b up to 154, 6 texts: 160 tokens.
    ids = [TEXT] * 10 + [PICTURE] + [TEXT] * 10 + [PICTURE] + [TEXT] * 6

    inside_b = touch_of(prompt(ids, a, b), BLOCK, None, PICTURE)
    behind_b = touch_of(prompt([*ids, TEXT], a, b), BLOCK, None, PICTURE)
    before_b = touch_of(prompt(ids, a, b), 80, None, PICTURE)

    assert inside_b == Touch(array("i", ids[:22]), (a, b), 128)
    assert behind_b == Touch(array("i", [*ids, TEXT]), (a, b), 160)
    assert before_b == Touch(array("i", ids[:15]), (a,), 80)


def test_where_the_engine_counts_pictures_otherwise_nothing_is_cut() -> None:
    ids = [TEXT] * 10 + [PICTURE] + [TEXT] * 100
    draft = PromptDraft(ids, (picture("a"),), 177, 0)

    touch = touch_of(seen_prompt(draft, 170, {}), BLOCK, None, PICTURE)

    assert touch == Touch(array("i", ids), (picture("a"),), 160)


@given(
    pieces=st.lists(st.one_of(st.integers(1, 60), st.sampled_from(["a", "b", "c"])), max_size=12),
    num_output=st.integers(1, 80),
    block_tokens=st.sampled_from([1, 16, 32, 80]),
    interval=st.sampled_from([None, 0, 160]),
)
def test_a_touch_ends_behind_the_boundary_and_within_what_was_seen(
    pieces: list[int | str], num_output: int, block_tokens: int, interval: int | None
) -> None:
    ids: list[int] = []
    images: list[ImageRef] = []
    for piece in pieces:
        if isinstance(piece, int):
            ids += [TEXT] * piece
        else:
            ids.append(PICTURE)
            images.append(picture(piece, 20))
    seen = prompt(ids, *images).with_output([TEXT] * num_output)
    boundary = full_prefix_boundary(
        seen.num_tokens,
        block_tokens,
        prompt_tokens=seen.prompt_tokens,
        snapshot_interval_tokens=interval,
    )

    touch = touch_of(seen, block_tokens, interval, PICTURE)

    if touch is None:
        assert boundary == 0
        return
    num_ids = len(touch.token_ids)
    assert touch.boundary_tokens == boundary
    assert boundary < expanded(touch) <= seen.num_tokens
    assert touch.token_ids == seen.token_ids[:num_ids]
    assert list(touch.token_ids).count(PICTURE) == len(touch.images)
    assert touch.images == seen.images[: len(touch.images)]
    # One token less is too short, or would cut a picture.
    assert expanded(touch) == boundary + 1 or touch.token_ids[-1] == PICTURE
