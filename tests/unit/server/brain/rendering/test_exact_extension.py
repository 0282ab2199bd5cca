"""Prompt n+1 begins with prompt n and the output to it, token for token, whatever is in them."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

from server.brain.interface import ImagePart, Message, TextPart, Tool
from server.brain.rendering.interface import ContextPolicy
from server.brain.rendering.token_transcript import TokenTranscript
from server.brain.tiny_model import TOKENS_PER_IMAGE
from tests.unit.server.brain.rendering.tiny import call_text, renderer, tokenizer

TOKENIZER = tokenizer()
RENDERERS = {thinking: renderer(enable_thinking=thinking) for thinking in (True, False)}
END = RENDERERS[True].end_token_id
IMAGE = RENDERERS[True].image_token_id
CONTROL = set(TOKENIZER.get_added_vocab().values())
ORDINARY = [i for i in range(TOKENIZER.fast.get_vocab_size()) if i != IMAGE]

TEXTS = st.one_of(
    st.text(max_size=20),
    st.sampled_from(
        ["", "é 拿", "</think>", "<|im_end|>\n", "<image>", '{"b":1,"a":"é 拿"}', "  \n"]
    ),
)
#: Some of equal bytes and different shape: what differs is their id.
IMAGES = st.sampled_from(
    [ImagePart("lying", 30, 150), ImagePart("standing", 150, 30), ImagePart("other", 48, 64)]
)
PARTS = st.lists(TEXTS.map(TextPart) | IMAGES, max_size=4).map(tuple)
TOOLS = st.lists(
    st.builds(
        Tool,
        st.sampled_from(["look", "move", "gripper"]),
        TEXTS,
        st.sampled_from(
            ['{"type":"object","properties":{"b":{"const":"é"},"a":{"type":"number"}}}', "{}", ""]
        ),
    ),
    max_size=3,
)
#: Answers as text that a model might write, and as tokens that no text would give: broken UTF-8,
#: control tokens in odd places, nothing at all.
SPOKEN = st.one_of(
    TEXTS.map(lambda text: f"<think>\n{text}\n</think>\n\n{text}"),
    st.lists(TEXTS, min_size=1, max_size=3).map(
        lambda ts: "".join(call_text(b=1, a=t) for t in ts)
    ),
    TEXTS,
).map(lambda text: [i for i in TOKENIZER.encode(text) if i != IMAGE])
OUTPUTS = st.builds(
    lambda ids, closed: [*ids, END] if closed else ids,
    SPOKEN | st.lists(st.sampled_from(ORDINARY), max_size=30),
    st.booleans(),
)


@st.composite
def new_messages(draw: st.DrawFn, first: bool = False) -> list[Message]:
    if first:
        front = draw(st.lists(TEXTS, max_size=1))
        messages = [Message("system", (TextPart(text),)) for text in front]
        return [*messages, Message("user", draw(PARTS))]
    results = [
        Message("tool", draw(PARTS), f"c0000000{i}", draw(TEXTS), draw(st.booleans()))
        for i in range(draw(st.integers(0, 3)))
    ]
    if not results or draw(st.booleans()):
        results.append(Message("user", draw(PARTS)))
    return results


def ask(text: str) -> Message:
    return Message("user", (TextPart(text),))


@dataclass(frozen=True)
class Conversation:
    thinking: bool
    tools: list[Tool]
    opening: list[Message]
    turns: list[tuple[list[int], list[Message]]]


CONVERSATIONS = st.builds(
    Conversation,
    st.booleans(),
    TOOLS,
    new_messages(first=True),
    st.lists(st.tuples(OUTPUTS, new_messages()), min_size=1, max_size=5),
)


@settings(max_examples=150)
@given(CONVERSATIONS)
def test_each_prompt_extends_the_last_prompt_and_output_exactly(talk: Conversation) -> None:
    transcript = TokenTranscript(RENDERERS[talk.thinking], ContextPolicy())
    draft = transcript.draft(talk.opening, talk.tools)
    assert draft.expected_prefix_tokens == 0

    for output, messages in talk.turns:
        transcript.commit(draft, output)
        history = [*draft.token_ids, *output]
        earlier_images, earlier_tokens = draft.images, draft.num_prompt_tokens + len(output)

        draft = transcript.draft(messages)

        assert list(draft.token_ids[: len(history)]) == history
        assert len(draft.token_ids) > len(history)
        assert draft.images[: len(earlier_images)] == earlier_images
        assert draft.expected_prefix_tokens == earlier_tokens

        shown = [part for message in messages for part in message.parts]
        expected = [part.image_id for part in shown if isinstance(part, ImagePart)]
        assert [image.image_id for image in draft.images[len(earlier_images) :]] == expected
        assert list(draft.token_ids).count(IMAGE) == len(draft.images)
        assert draft.num_prompt_tokens == len(draft.token_ids) + len(draft.images) * (
            TOKENS_PER_IMAGE - 1
        )


@given(TEXTS.filter(str.strip), TEXTS.filter(str.strip), TEXTS.filter(str.strip))
def test_where_the_template_rewrites_nothing_the_prompt_is_what_it_would_write(
    task: str, answer: str, question: str
) -> None:
    rendering = RENDERERS[True]
    said = [i for i in TOKENIZER.encode(answer) if i != IMAGE and i not in CONTROL]
    transcript = TokenTranscript(rendering, ContextPolicy())
    transcript.commit(transcript.draft([ask(task)], ()), [*said, END])

    prompt = transcript.draft([ask(question)]).token_ids

    said_text = TOKENIZER.decode(said)
    written = "".join(
        f"<|im_start|>{role}\n{text}<|im_end|>\n"
        for role, text in (("user", task), ("assistant", said_text), ("user", question))
    )
    assert TOKENIZER.decode(prompt) == written + "<|im_start|>assistant\n"
