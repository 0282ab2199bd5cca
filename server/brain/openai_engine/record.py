"""What is kept of an episode between its turns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from server.brain.interface import ToolCall, Turn
from server.brain.openai_engine.pieces import Pieces
from server.brain.openai_engine.usage import ReportedUsage


@dataclass(frozen=True)
class Draft:
    """What a turn adds, before it counts.

    Attributes:
        num_turn_messages: Messages of the whole conversation, the new ones included.
        messages: The new messages as they were sent, without the answer.
        urls: Data URLs of their pictures.
        num_images: Pictures in the whole prompt, shown twice counted twice.
    """

    turn_index: int
    num_turn_messages: int
    messages: tuple[Pieces, ...]
    urls: Mapping[str, bytes]
    num_images: int
    answer: Pieces = ()
    tool_calls: Sequence[ToolCall] = ()
    usage: ReportedUsage = field(default_factory=ReportedUsage)


class EpisodeRecord:
    """The conversation as bytes. It grows at `commit` and never changes otherwise."""

    def __init__(self) -> None:
        self.messages: list[Pieces] = []
        self.urls: dict[str, bytes] = {}
        self.call_ids: set[str] = set()
        self.num_images = 0
        self.num_turn_messages = 0
        self.usage: ReportedUsage | None = None
        self.draft: Draft | None = None

    def fits(self, turn: Turn) -> bool:
        """Whether this is the conversation before the new messages of a turn."""
        return self.num_turn_messages == len(turn.messages) - turn.num_new_messages

    def commit(self, turn_index: int) -> None:
        """Add the draft of that turn. Without one, nothing happens: the turn was not ours."""
        draft = self.draft
        if draft is None or draft.turn_index != turn_index:
            return
        self.draft = None
        self.messages += [*draft.messages, draft.answer]
        self.urls.update(draft.urls)
        self.call_ids.update(call.tool_call_id for call in draft.tool_calls)
        self.num_images = draft.num_images
        self.num_turn_messages = draft.num_turn_messages + 1
        self.usage = draft.usage
