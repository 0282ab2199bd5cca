"""The tokens of one episode, append-only."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass

from robot_sdk.errors import BadModelOutputError
from server.brain.interface import Message, Tool
from server.brain.rendering.compaction import Piece, fits, note_text, num_turns_to_drop
from server.brain.rendering.interface import ContextPolicy, PromptDraft, Rendered, Renderer

#: Token ids take four bytes each; Python integers in a list take forty.
_TYPECODE = "i"


@dataclass(frozen=True)
class _Plan:
    """What the commit of a draft does."""

    draft: PromptDraft
    new: Rendered
    dropped: int
    note: Rendered | None


class TokenTranscript:
    """Prompts of one episode: each begins with the previous prompt and the output to it.

    A draft changes nothing, and the next draft replaces it: a turn that failed is simply drafted
    again, from the same history. Not thread-safe.

    Args:
        renderer: Writes the messages.
        policy: What happens when the conversation grows too long.
    """

    def __init__(self, renderer: Renderer, policy: ContextPolicy) -> None:
        self._renderer = renderer
        self._policy = policy
        self._ids: array[int] = array(_TYPECODE)
        self._opening = Piece(0, 0)
        # Behind the opening: where the model begins to write, or a note about turns that are gone.
        self._head = Piece(0, 0)
        self._turns: list[Piece] = []
        self._last_output = Piece(0, 0)
        self._closed = False
        self._dropped = 0
        self._plan: _Plan | None = None

    @property
    def num_ids(self) -> int:
        """Token ids of the committed prompts and outputs."""
        return len(self._ids)

    @property
    def num_tokens(self) -> int:
        """The same as the model sees it, pictures expanded: the next expected prefix."""
        return self._all(self._turns).num_tokens

    @property
    def dropped_turns(self) -> int:
        """Turns that were taken out so far."""
        return self._dropped

    def draft(self, new_messages: Sequence[Message], tools: Sequence[Tool] = ()) -> PromptDraft:
        """The prompt of the next turn.

        Args:
            new_messages: What came after the last output; all messages on the first turn.
            tools: Written on the first turn only: they are part of the constant front.

        Raises:
            InvalidArgumentError: See `Renderer`.
            ContextLimitError: Too long, and the policy does not let it become shorter.
        """
        if not self._ids:
            plan = self._first(self._renderer.opening(new_messages, tools))
        else:
            plan = self._next(self._renderer.continuation(new_messages, self._closed))
        self._plan = plan
        return plan.draft

    def commit(
        self,
        draft: PromptDraft,
        output_token_ids: Sequence[int],
        num_prompt_tokens: int | None = None,
    ) -> None:
        """The turn counts: its prompt and output are history from here on.

        Args:
            draft: The newest one.
            output_token_ids: What the model wrote, with the token that ended it, if one did.
            num_prompt_tokens: Length of the prompt as the engine counted it, where it is known
                better than the draft says.

        Raises:
            BadModelOutputError: The output holds a picture's placeholder. Nothing has changed.
            ValueError: Another draft was made, or this one is committed.
        """
        plan = self._plan
        if plan is None or plan.draft is not draft:
            raise ValueError("only the newest draft can be committed, once")
        check_output(self._renderer, output_token_ids)
        surplus = 0 if num_prompt_tokens is None else num_prompt_tokens - draft.num_prompt_tokens
        new = _piece(plan.new, surplus)
        if not self._ids:
            head = len(self._renderer.generation_prompt)
            self._head = Piece(head, head)
            self._opening = Piece(
                new.num_ids - self._head.num_ids, new.num_tokens - self._head.num_tokens, new.images
            )
        else:
            self._drop(plan.dropped, plan.note)
            self._turns.append(self._last_output + new)
        self._ids.extend(plan.new.token_ids)
        self._ids.extend(output_token_ids)
        self._last_output = Piece(len(output_token_ids), len(output_token_ids))
        self._closed = bool(output_token_ids) and (
            output_token_ids[-1] == self._renderer.end_token_id
        )
        self._plan = None

    def _first(self, new: Rendered) -> _Plan:
        num_turns_to_drop(self._policy, _piece(new), (), 0)
        draft = PromptDraft(list(new.token_ids), new.images, new.num_tokens, 0)
        return _Plan(draft, new, 0, None)

    def _next(self, new: Rendered) -> _Plan:
        whole = self._all(self._turns) + _piece(new)
        if not fits(self._policy, whole):
            return self._shorter(new)
        token_ids = self._ids.tolist()
        token_ids += new.token_ids
        draft = PromptDraft(
            token_ids=token_ids,
            images=whole.images,
            num_prompt_tokens=whole.num_tokens,
            expected_prefix_tokens=whole.num_tokens - new.num_tokens,
            total_dropped_turns=self._dropped,
        )
        return _Plan(draft, new, 0, None)

    def _shorter(self, new: Rendered) -> _Plan:
        fixed = self._all(()) + _piece(new)
        longest_note = self._note(len(self._turns)).num_tokens
        dropped = num_turns_to_drop(self._policy, fixed, self._turns, longest_note)
        note = self._note(dropped)
        whole = self._all(self._turns[dropped:], head=_piece(note)) + _piece(new)
        unchanged = _common_length(note.token_ids, self._ids[self._opening.num_ids :])
        draft = PromptDraft(
            token_ids=[*self._without(dropped, note), *new.token_ids],
            images=whole.images,
            num_prompt_tokens=whole.num_tokens,
            expected_prefix_tokens=self._opening.num_tokens + unchanged,
            dropped_turns=dropped,
            total_dropped_turns=self._dropped + dropped,
        )
        return _Plan(draft, new, dropped, note)

    def _all(self, turns: Sequence[Piece], head: Piece | None = None) -> Piece:
        pieces = (self._opening, head or self._head, *turns, self._last_output)
        images = tuple(image for piece in pieces for image in piece.images)
        return Piece(
            sum(piece.num_ids for piece in pieces),
            sum(piece.num_tokens for piece in pieces),
            images,
        )

    def _note(self, dropped: int) -> Rendered:
        return self._renderer.note(note_text(self._dropped + dropped))

    def _without(self, dropped: int, note: Rendered) -> array[int]:
        """All tokens, the oldest turns taken out."""
        gone = sum(turn.num_ids for turn in self._turns[:dropped])
        first_kept = self._opening.num_ids + self._head.num_ids + gone
        ids = self._ids[: self._opening.num_ids]
        ids.extend(note.token_ids)
        ids.extend(self._ids[first_kept:])
        return ids

    def _drop(self, dropped: int, note: Rendered | None) -> None:
        if note is None:
            return
        self._ids = self._without(dropped, note)
        self._head = _piece(note)
        del self._turns[:dropped]
        self._dropped += dropped


def check_output(renderer: Renderer, output_token_ids: Sequence[int]) -> None:
    """Refuse an output that could not stand in a prompt.

    Raises:
        BadModelOutputError: It holds a picture's placeholder, for which there is no picture.
    """
    found = renderer.forbidden_output_ids.intersection(output_token_ids)
    if found:
        raise BadModelOutputError(
            "the model wrote the placeholder of a picture",
            field="output_token_ids",
            value=sorted(found),
            hint="ban these tokens in sampling",
        )


def _piece(rendered: Rendered, surplus: int = 0) -> Piece:
    return Piece(len(rendered.token_ids), rendered.num_tokens + surplus, rendered.images)


def _common_length(left: Sequence[int], right: Sequence[int]) -> int:
    for index, (one, other) in enumerate(zip(left, right, strict=False)):
        if one != other:
            return index
    return min(len(left), len(right))
