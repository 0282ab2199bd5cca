"""The conversation of one episode: append-only, kept on the server.

New messages are first checked against what is there (`Transcript.draft`, which changes nothing) and
appended only at the commit of their turn, together with the answer. Bytes of a picture are kept
once, however often it is shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from robot_sdk.api.v1 import brain_pb2, common_pb2
from robot_sdk.errors import ContextLimitError, InvalidArgumentError
from robot_sdk.images import image_id, read_header
from robot_sdk.messages import TokenUsage
from server.brain.interface import (
    ImagePart,
    Message,
    Role,
    StoredImage,
    TextPart,
    Tool,
    ToolCall,
)
from server.brain.tokens import message_tokens, num_images, text_tokens, tool_tokens

#: A part costs memory and time however short its text is; a 64 MiB request could hold millions.
MAX_PARTS_PER_MESSAGE = 1024
#: Of one turn.
MAX_NEW_MESSAGES = 1024
#: Of one picture, however small its file is: pixels are held decoded, and a file of 400 KB can be
#: half a gigabyte of them. No uncompressed picture that fits into a message has more.
MAX_PICTURE_PIXELS = 32 * 1024 * 1024
#: Of the pictures that one turn sends, all together; decoded they are 384 MiB.
MAX_NEW_PIXELS = 128 * 1024 * 1024
#: Messages and tools without pictures. All of it is copied at every turn. The longest conversation
#: of the study, 215,000 tokens, is about 1 MiB.
MAX_CONVERSATION_BYTES = 64 * 1024 * 1024
#: Pictures of one episode as they came, which all are kept. The longest conversation of the study
#: had 141; raw, at 1920 x 1080, those are 0.82 GiB.
MAX_KEPT_PICTURE_BYTES = 1024 * 1024 * 1024

_ROLES: dict[int, Role] = {
    brain_pb2.ROLE_SYSTEM: "system",
    brain_pb2.ROLE_USER: "user",
    brain_pb2.ROLE_TOOL: "tool",
}


@dataclass(frozen=True)
class Draft:
    """What a turn adds to the conversation before the model answers."""

    messages: tuple[Message, ...]
    images: Mapping[str, StoredImage]
    tools: tuple[Tool, ...]
    num_bytes: int
    prompt_tokens: int
    num_images: int


@dataclass(frozen=True)
class Output:
    """What the model answered."""

    text: str
    reasoning: str
    tool_calls: tuple[ToolCall, ...]

    @property
    def tokens(self) -> int:
        """Estimated, see `server.brain.tokens`."""
        return (
            text_tokens(self.text)
            + text_tokens(self.reasoning)
            + sum(text_tokens(c.name) + text_tokens(c.arguments_json) for c in self.tool_calls)
        )


class Transcript:
    """Messages, tools and pictures of one episode."""

    def __init__(self) -> None:
        self._messages: list[Message] = []
        self._tools: tuple[Tool, ...] = ()
        self._images: dict[str, StoredImage] = {}
        self._num_bytes = 0
        self._total_tokens = 0
        self._num_images = 0

    @property
    def messages(self) -> Sequence[Message]:
        return tuple(self._messages)

    @property
    def tools(self) -> tuple[Tool, ...]:
        return self._tools

    @property
    def image_bytes(self) -> int:
        """Bytes of all pictures that are kept."""
        return sum(len(image.data) for image in self._images.values())

    def image(self, name: str) -> StoredImage | None:
        """A picture by its id."""
        return self._images.get(name)

    def draft(
        self,
        turn_index: int,
        new_messages: Sequence[brain_pb2.Message],
        tools: Sequence[brain_pb2.ToolSpec],
    ) -> Draft:
        """Check what a turn adds. Changes nothing.

        Raises:
            InvalidArgumentError: Names the message and the field that is wrong.
            ContextLimitError: The conversation would pass MAX_CONVERSATION_BYTES, or its pictures
                MAX_KEPT_PICTURE_BYTES.
        """
        if turn_index > 0 and tools:
            raise InvalidArgumentError(
                "tools are told in turn 0 only: they are the constant front of the conversation",
                field="tools",
                value=f"{len(tools)} tools in turn {turn_index}",
            )
        if not new_messages:
            raise InvalidArgumentError(
                "a turn needs at least one new message", field="new_messages"
            )
        _check_counts(new_messages)
        images: dict[str, StoredImage] = {}
        messages = tuple(
            self._message(message, f"new_messages[{index}]", images)
            for index, message in enumerate(new_messages)
        )
        self._check_tool_answers(messages)
        _check_pixels(images.values())
        self._check_kept_bytes(images)
        new_tools = tuple(Tool(t.name, t.description, t.parameters_json) for t in tools)
        num_bytes = _num_bytes((*messages, *new_tools))
        if self._num_bytes + num_bytes > MAX_CONVERSATION_BYTES:
            raise ContextLimitError(
                "the conversation has become too long for this server",
                field="new_messages",
                value=f"{self._num_bytes + num_bytes} bytes",
                allowed=(f"at most {MAX_CONVERSATION_BYTES} bytes",),
            )
        return Draft(
            messages=messages,
            num_bytes=num_bytes,
            images=images,
            tools=new_tools,
            prompt_tokens=sum(map(message_tokens, messages)) + tool_tokens(new_tools),
            num_images=num_images(messages),
        )

    def usage(self, draft: Draft, output: Output) -> TokenUsage:
        """Estimated tokens of a turn; what was cached and computed is unknown."""
        return TokenUsage(
            input_tokens=self._total_tokens + draft.prompt_tokens,
            output_tokens=output.tokens,
            new_tokens=draft.prompt_tokens,
            num_images=self._num_images + draft.num_images,
            estimated=True,
        )

    def append(self, draft: Draft, output: Output) -> None:
        """Commit a turn: its new messages and its answer."""
        answer = Message("assistant", (TextPart(output.text),), tool_calls=output.tool_calls)
        self._messages.extend(draft.messages)
        self._messages.append(answer)
        self._num_bytes += draft.num_bytes + _num_bytes((answer,))
        self._images.update(draft.images)
        if draft.tools:
            self._tools = draft.tools
        self._total_tokens += draft.prompt_tokens + output.tokens
        self._num_images += draft.num_images

    def _message(
        self, message: brain_pb2.Message, where: str, images: dict[str, StoredImage]
    ) -> Message:
        role = _ROLES.get(message.role)
        if role is None:
            raise InvalidArgumentError(
                "a client adds messages of these roles only",
                field=f"{where}.role",
                value=message.role,
                allowed=_ROLES.values(),
            )
        parts: list[TextPart | ImagePart] = []
        for index, part in enumerate(message.parts):
            if part.WhichOneof("part") == "image":
                parts.append(self._image_part(part.image, f"{where}.parts[{index}]", images))
            else:
                parts.append(TextPart(part.text))
        return Message(
            role, tuple(parts), message.tool_call_id, message.tool_name, message.is_error
        )

    def _image_part(
        self, image: common_pb2.Image, where: str, images: dict[str, StoredImage]
    ) -> ImagePart:
        if not image.data:
            known = images.get(image.image_id) or self._images.get(image.image_id)
            if known is None:
                raise InvalidArgumentError(
                    "a picture without bytes must name one that was sent before",
                    field=f"{where}.image_id",
                    value=image.image_id,
                )
            return ImagePart(image.image_id, known.height, known.width, image.camera)
        _check_picture(image, where)
        name = image_id(image.encoding, image.height, image.width, image.data)
        if image.image_id not in ("", name):
            raise InvalidArgumentError(
                "image_id is not the digest of encoding, height, width and data",
                field=f"{where}.image_id",
                value=image.image_id,
                allowed=(name,),
            )
        images[name] = StoredImage(image.encoding, image.height, image.width, image.data)
        return ImagePart(name, image.height, image.width, image.camera)

    def _check_kept_bytes(self, images: Mapping[str, StoredImage]) -> None:
        new = (image.data for name, image in images.items() if name not in self._images)
        num_bytes = self.image_bytes + sum(map(len, new))
        if num_bytes > MAX_KEPT_PICTURE_BYTES:
            raise ContextLimitError(
                "the conversation has become too long for this server",
                field="new_messages",
                value=f"{num_bytes} bytes of pictures",
                allowed=(f"at most {MAX_KEPT_PICTURE_BYTES} bytes of pictures",),
                hint="send pictures as JPEG or PNG files",
            )

    def _check_tool_answers(self, messages: Sequence[Message]) -> None:
        calls = self._messages[-1].tool_calls if self._messages else ()
        wanted = [call.tool_call_id for call in calls]
        found = [m.tool_call_id for m in messages if m.role == "tool"]
        if sorted(wanted) != sorted(found):
            raise InvalidArgumentError(
                "there must be one TOOL message for every tool call of the last turn",
                field="new_messages.tool_call_id",
                value=", ".join(found) or "none",
                allowed=wanted or ("none",),
            )


def _num_bytes(items: Iterable[Message | Tool]) -> int:
    """Size on the way to a worker. Makes the bytes, so that no turn has to make them again."""
    return sum(len(item.as_json) for item in items)


def _check_counts(messages: Sequence[brain_pb2.Message]) -> None:
    if len(messages) > MAX_NEW_MESSAGES:
        raise InvalidArgumentError(
            "a turn brings too many new messages",
            field="new_messages",
            value=len(messages),
            allowed=(f"at most {MAX_NEW_MESSAGES}",),
        )
    for index, message in enumerate(messages):
        if len(message.parts) > MAX_PARTS_PER_MESSAGE:
            raise InvalidArgumentError(
                "a message has too many parts",
                field=f"new_messages[{index}].parts",
                value=len(message.parts),
                allowed=(f"at most {MAX_PARTS_PER_MESSAGE}",),
            )


def _check_pixels(images: Iterable[StoredImage]) -> None:
    pixels = sum(image.height * image.width for image in images)
    if pixels > MAX_NEW_PIXELS:
        raise InvalidArgumentError(
            "a turn brings too many pixels",
            field="new_messages",
            value=f"{pixels} pixels",
            allowed=(f"at most {MAX_NEW_PIXELS}",),
            hint="send smaller pictures, or fewer in one turn",
        )


def _check_picture(image: common_pb2.Image, where: str) -> None:
    if image.height * image.width > MAX_PICTURE_PIXELS:
        raise InvalidArgumentError(
            "the picture has too many pixels",
            field=f"{where}.image",
            value=f"{image.height}x{image.width}",
            allowed=(f"at most {MAX_PICTURE_PIXELS} pixels",),
        )
    if image.encoding == common_pb2.IMAGE_ENCODING_RGB8:
        expected_bytes = image.height * image.width * 3
        if len(image.data) != expected_bytes or expected_bytes == 0:
            raise InvalidArgumentError(
                f"{where} has {len(image.data)} bytes, but {image.height}x{image.width} RGB needs "
                f"{expected_bytes}",
                field=f"{where}.image",
                value=len(image.data),
                allowed=(expected_bytes,),
            )
        return
    if read_header(image.data, where) != (image.encoding, image.height, image.width):
        raise InvalidArgumentError(
            "the picture is of another kind or size than its message says",
            field=f"{where}.image",
            value=f"{image.height}x{image.width}",
        )
