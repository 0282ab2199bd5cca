"""What lies between a conversation in messages and a model that reads and writes tokens.

    transcript = TokenTranscript(renderer, policy)          # one per episode
    draft = transcript.draft(turn.new_messages, turn.tools) # every turn; changes nothing
    parser = parsers.for_turn(turn.tools, turn.turn_index)
    parser.feed(text, token_ids) -> [Text | Reasoning]      # while the model writes
    parser.finish(finish_reason) -> ParsedOutput
    transcript.commit(draft, output_token_ids)              # once the turn counts

History is never rendered again: prompt n+1 is prompt n, the tokens that the model wrote, and the
tokens of the new messages. `TokenTranscript` keeps the tokens, a `Renderer` writes the new ones,
an `OutputParser` reads what the model wrote. Nothing here needs a model; only the parsers and
structured output need vLLM, and import it when they are made.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from server.brain.interface import FinishReason, Message, Reasoning, Text, Tool, ToolCall

ContextMode = Literal["end", "compact"]
#: How tool calls are forced: "off" leaves the model free; "auto" lets it write text, and holds a
#: call that it starts to the schema; "required" lets it write exactly one valid call and no text.
ToolCallMode = Literal["off", "auto", "required"]


@dataclass(frozen=True)
class ImageRef:
    """A picture in a prompt. Size in pixels; `num_tokens` is what its placeholder grows to."""

    image_id: str
    height: int
    width: int
    num_tokens: int


@dataclass(frozen=True)
class Rendered:
    """Tokens of some messages.

    Attributes:
        token_ids: Each picture is one placeholder token (`Renderer.image_token_id`), which the
            engine expands; this unexpanded form is what history keeps.
        images: The pictures, in the order of their placeholders.
    """

    token_ids: tuple[int, ...]
    images: tuple[ImageRef, ...] = ()

    @property
    def num_tokens(self) -> int:
        """Tokens that the model will see: placeholders counted as what they grow to."""
        return len(self.token_ids) + sum(image.num_tokens - 1 for image in self.images)


class Renderer(Protocol):
    """Writes messages as tokens, in the model's own chat format. Keeps nothing between calls."""

    @property
    def end_token_id(self) -> int:
        """The token with which the model ends its answer."""

    @property
    def generation_prompt(self) -> tuple[int, ...]:
        """The last tokens of every prompt: where the model begins to write."""

    @property
    def image_token_id(self) -> int | None:
        """Placeholder of a picture; None: the model takes none."""

    @property
    def forbidden_output_ids(self) -> frozenset[int]:
        """Tokens that a model must not write (placeholders of pictures): ban them in sampling."""

    def opening(self, messages: Sequence[Message], tools: Sequence[Tool]) -> Rendered:
        """The first prompt of an episode, up to where the model begins to write.

        Constant text comes first: system prompt and tools, then the other messages.

        Raises:
            InvalidArgumentError: A picture in the system message (it would part the constant text
                of two episodes), a picture for a model without pictures, or messages that the
                template does not take.
        """

    def continuation(self, new_messages: Sequence[Message], previous_closed: bool) -> Rendered:
        """Exactly the tokens that follow prompt and output of the last turn.

        Args:
            new_messages: Tool results and user messages, oldest first.
            previous_closed: The output ended with `end_token_id`. If not (cut at its limit,
                another stop token), the tokens start with it.

        Raises:
            InvalidArgumentError: As of `opening`.
        """

    def note(self, text: str) -> Rendered:
        """A user message of our own, where turns were taken out (see `ContextPolicy`).

        Returns:
            What follows an opening without its `generation_prompt`; it ends with that itself.
        """


@dataclass(frozen=True)
class ContextPolicy:
    """What happens when a conversation grows past the model's limit.

    Attributes:
        mode: "end": ContextLimitError, which ends the episode with a reason. "compact": the oldest
            turns are taken out.
        max_prompt_tokens: Longest prompt: the model's limit less the longest output. None: no
            bound.
        max_images: Most pictures in a prompt. None: no bound. What passes it is handled as a
            prompt that is too long.
        keep_share: A compaction goes on until the prompt is no longer than this share of
            `max_prompt_tokens` (and of `max_images`), so that the next one is many turns away:
            each costs the whole prefix behind the opening.
    """

    mode: ContextMode = "end"
    max_prompt_tokens: int | None = None
    max_images: int | None = None
    keep_share: float = 0.5


@dataclass(frozen=True)
class PromptDraft:
    """The prompt of one turn. Belongs to the state of the transcript in which it was made.

    Attributes:
        token_ids: The whole prompt, unexpanded: one placeholder per picture.
        images: All pictures of the prompt, in the order of their placeholders.
        num_prompt_tokens: Length with pictures expanded, as the engine will count it.
        expected_prefix_tokens: How many of these, from the front, are the previous prompt and
            output; 0 on the first turn. On a rebuild turn only the unchanged front counts.
        dropped_turns: Turns taken out for this prompt; more than 0 makes it a rebuild turn.
        total_dropped_turns: All turns that are no longer in it.
    """

    token_ids: Sequence[int]
    images: tuple[ImageRef, ...]
    num_prompt_tokens: int
    expected_prefix_tokens: int
    dropped_turns: int = 0
    total_dropped_turns: int = 0

    @property
    def new_tokens(self) -> int:
        """Prompt tokens behind the expected prefix: `TokenUsage.new_tokens`."""
        return self.num_prompt_tokens - self.expected_prefix_tokens


@dataclass(frozen=True)
class ParsedOutput:
    """What an answer held.

    Attributes:
        events: The rest of the text and thinking, held back until the end.
        tool_calls: Every call that the model wrote, in its order, arguments as it wrote them. A
            call that cannot be read is among them, with the name "" (or the name, if that could be
            read) and the raw text as its arguments: no tool takes it, so it is answered with an
            error like any other wrong call, and the model gets to know.
        problem: What was wrong with a call, in words; None if nothing was.
    """

    events: tuple[Text | Reasoning, ...] = ()
    tool_calls: tuple[ToolCall, ...] = ()
    problem: str | None = None


class OutputParser(Protocol):
    """Reads the output of one turn. Not thread-safe."""

    def feed(self, delta_text: str, delta_token_ids: Sequence[int]) -> list[Text | Reasoning]:
        """Take what the model wrote since the last call; return what can be shown of it.

        Args:
            delta_text: As the engine detokenised it, with special tokens not skipped.
            delta_token_ids: The same as tokens.
        """

    def finish(self, finish_reason: FinishReason) -> ParsedOutput:
        """The answer is complete, or cut ("length")."""


class OutputParsers(Protocol):
    """Makes the parser of each turn."""

    def for_turn(self, tools: Sequence[Tool], turn_index: int) -> OutputParser:
        """A parser for one answer.

        Args:
            tools: What may be called.
            turn_index: Part of the ids of calls, which are unique within an episode.
        """
