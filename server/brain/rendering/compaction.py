"""Which turns leave a conversation that has grown too long.

The tokens of a conversation are pieces that can be taken out as wholes:

    opening | head | turn 1: output, messages | turn 2: output, messages | ... | last output | new

The results of a turn's calls are in the same piece as the calls, so what is left has no call
without a result and no result without a call. Every piece before an output ends where the model
begins to write, so an output may follow any of them. The tokens that stay are the very ones that
were there: nothing is rendered again.

Turns leave in bulk and rarely. A conversation that lost its oldest picture at every turn would be
computed anew at every turn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from robot_sdk.errors import ContextLimitError
from server.brain.rendering.interface import ContextPolicy, ImageRef


@dataclass(frozen=True)
class Piece:
    """Some tokens of a conversation.

    Attributes:
        num_ids: Token ids, a picture's placeholder counted as one.
        num_tokens: Tokens that the model sees.
        images: Pictures among them.
    """

    num_ids: int
    num_tokens: int
    images: tuple[ImageRef, ...] = ()

    def __add__(self, other: Piece) -> Piece:
        return Piece(
            self.num_ids + other.num_ids,
            self.num_tokens + other.num_tokens,
            self.images + other.images,
        )


def note_text(dropped_turns: int) -> str:
    """Stands where turns were taken out. The number comes last: what is before it stays cached."""
    return (
        "The oldest steps of this conversation were left out to keep it short; the task above "
        f"still holds. Steps left out: {dropped_turns}"
    )


def fits(policy: ContextPolicy, prompt: Piece) -> bool:
    """Whether a prompt is within the limits."""
    return not (
        _passes(prompt.num_tokens, policy.max_prompt_tokens)
        or _passes(len(prompt.images), policy.max_images)
    )


def num_turns_to_drop(
    policy: ContextPolicy, fixed: Piece, turns: Sequence[Piece], note_tokens: int
) -> int:
    """How many of the oldest turns must go before the next prompt; 0 if it fits.

    Args:
        policy: The limits.
        fixed: What stays in any case: opening, head, last output and new messages.
        turns: Oldest first.
        note_tokens: What the note adds, at most.

    Raises:
        ContextLimitError: The prompt is too long and turns may not go, or not enough of them are
            there.
    """
    num_tokens = fixed.num_tokens + sum(turn.num_tokens for turn in turns)
    num_images = len(fixed.images) + sum(len(turn.images) for turn in turns)
    too_long = _passes(num_tokens, policy.max_prompt_tokens)
    too_many = _passes(num_images, policy.max_images)
    if not too_long and not too_many:
        return 0
    if policy.mode == "end":
        raise _limit_error(policy, num_tokens, num_images, "")
    token_aim = _aim(policy.max_prompt_tokens, policy.keep_share if too_long else 1.0)
    image_aim = _aim(policy.max_images, policy.keep_share if too_many else 1.0)
    num_tokens += note_tokens
    dropped = 0
    while dropped < len(turns) and (
        _passes(num_tokens, token_aim) or _passes(num_images, image_aim)
    ):
        num_tokens -= turns[dropped].num_tokens
        num_images -= len(turns[dropped].images)
        dropped += 1
    if _passes(num_tokens, policy.max_prompt_tokens) or _passes(num_images, policy.max_images):
        raise _limit_error(policy, num_tokens, num_images, ", even without all turns but the last")
    return dropped


def _passes(amount: int, limit: int | None) -> bool:
    return limit is not None and amount > limit


def _aim(limit: int | None, share: float) -> int | None:
    return None if limit is None else int(limit * share)


def _limit_error(
    policy: ContextPolicy, num_tokens: int, num_images: int, even: str
) -> ContextLimitError:
    allowed = []
    if policy.max_prompt_tokens is not None:
        allowed.append(f"at most {policy.max_prompt_tokens} tokens")
    if policy.max_images is not None:
        allowed.append(f"at most {policy.max_images} pictures")
    return ContextLimitError(
        f"the conversation has become too long for the model{even}",
        field="new_messages",
        value=f"{num_tokens} tokens with {num_images} pictures",
        allowed=allowed,
    )
