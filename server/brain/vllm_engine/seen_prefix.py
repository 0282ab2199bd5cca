"""What the engine has seen of a conversation, and the request that touches it once more."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from server.brain.rendering.interface import ImageRef, PromptDraft
from server.core.residency import full_prefix_boundary

#: Token ids take four bytes each; Python integers in a list take forty.
_TYPECODE = "i"


@dataclass(frozen=True)
class SeenPrefix:
    """A prompt that the engine has computed, with the answer to it once that counts.

    Attributes:
        token_ids: Unexpanded: one placeholder per picture.
        images: Its pictures, in the order of their placeholders.
        prompt_tokens: Length of the prompt as the engine counted it, pictures expanded.
        num_tokens: The same with the answer.
        trace_headers: W3C trace context of the turn that had this prompt.
    """

    token_ids: array[int]
    images: tuple[ImageRef, ...]
    prompt_tokens: int
    num_tokens: int
    trace_headers: Mapping[str, str] = field(default_factory=dict)

    def with_output(self, output_ids: Sequence[int]) -> SeenPrefix:
        """The turn counts, and the next prompt will begin with its answer, too."""
        return replace(
            self,
            token_ids=self.token_ids + array(_TYPECODE, output_ids),
            num_tokens=self.num_tokens + len(output_ids),
        )


def seen_prompt(
    draft: PromptDraft, num_prompt_tokens: int, trace_headers: Mapping[str, str]
) -> SeenPrefix:
    """The prompt of a turn whose first token is there."""
    ids = array(_TYPECODE, draft.token_ids)
    return SeenPrefix(ids, draft.images, num_prompt_tokens, num_prompt_tokens, trace_headers)


@dataclass(frozen=True)
class Touch:
    """A prompt whose cached part is everything that the next turn can find again.

    Attributes:
        token_ids: Unexpanded. At least one token behind the boundary: vLLM computes the last token
            of every prompt.
        images: The pictures in it.
        boundary_tokens: With fewer cached tokens than this, part of the prefix was lost.
    """

    token_ids: array[int]
    images: tuple[ImageRef, ...]
    boundary_tokens: int


def touch_of(
    seen: SeenPrefix,
    block_tokens: int,
    snapshot_interval_tokens: int | None,
    image_token_id: int | None,
) -> Touch | None:
    """The shortest prompt that touches the whole reusable prefix; None: there is none.

    Args:
        seen: Of one episode.
        block_tokens: Of the engine's cache.
        snapshot_interval_tokens: As of EngineInfo.
        image_token_id: Placeholder of a picture; None: the model takes none.
    """
    boundary = full_prefix_boundary(
        seen.num_tokens,
        block_tokens,
        prompt_tokens=seen.prompt_tokens,
        snapshot_interval_tokens=snapshot_interval_tokens,
    )
    if boundary == 0:
        return None
    if not seen.images or image_token_id is None:
        return Touch(seen.token_ids[: boundary + 1], (), boundary)
    num_ids, num_images = _front(seen, boundary + 1, image_token_id)
    return Touch(seen.token_ids[:num_ids], seen.images[:num_images], boundary)


def _front(seen: SeenPrefix, num_tokens: int, image_token_id: int) -> tuple[int, int]:
    """Ids and pictures of the shortest front of at least `num_tokens` expanded tokens.

    A picture is never cut: the front ends behind it.
    """
    ids = seen.token_ids
    if len(ids) + sum(image.num_tokens - 1 for image in seen.images) != seen.num_tokens:
        # The engine made more or less of a picture than was reckoned, and nobody knows of which.
        return len(ids), len(seen.images)
    num_ids = length = 0
    for index, image in enumerate(seen.images):
        place = ids.index(image_token_id, num_ids)
        if length + place - num_ids >= num_tokens:
            return num_ids + num_tokens - length, index
        length += place - num_ids + image.num_tokens
        num_ids = place + 1
        if length >= num_tokens:
            return num_ids, index + 1
    return num_ids + num_tokens - length, len(seen.images)
