"""Templates that cannot be used append-only are refused at once, with what they do."""

from __future__ import annotations

import pytest

from robot_sdk.errors import InvalidArgumentError
from server.brain.rendering.chat_renderer import ChatRenderer
from tests.unit.server.brain.rendering.tiny import template, tokenizer

ASK = "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}"
MESSAGE = "{{- '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}"
TOOLS = "{%- if tools %}{{- '<tools>' + (tools | tojson) + '</tools>' }}{%- endif %}"
EACH = "{%- for m in messages %}"
END = "{%- endfor %}"


@pytest.mark.parametrize(
    ("source", "does"),
    [
        ("{%- for m in messages[-2:] %}" + MESSAGE + END + ASK, "rewrites history"),
        (EACH + "{{- loop.revindex }}" + MESSAGE + END + ASK, "rewrites history"),
        (EACH + "{{- loop.index }}" + MESSAGE + END + ASK, "depending on those before it"),
        (EACH + MESSAGE + "{%- if loop.last %}" + TOOLS + "{%- endif %}" + END + ASK, "tools"),
        (EACH + MESSAGE + END, "does not begin an answer"),
        (EACH + MESSAGE + END + "{{- 'assistant: ' }}", "does not begin an answer"),
        (EACH + "{{- m.role + ': ' + m.content + '\\n' }}" + END + ASK, "with a control token"),
        (
            EACH + "{%- if m.role != 'assistant' %}" + MESSAGE + "{%- endif %}" + END + ASK,
            "does not write an answer",
        ),
        (EACH + MESSAGE.replace("m.content", "m.content | upper") + END + ASK, "as it is"),
        (EACH + MESSAGE + END + "{{- undefined_thing.field }}", "not there"),
        ("{%- for m in messages %}", "cannot be compiled"),
        ("{{- raise_exception('never') }}", "never"),
    ],
)
def test_a_template_that_cannot_be_used_is_refused_by_what_it_does(source: str, does: str) -> None:
    with pytest.raises(InvalidArgumentError, match=does):
        ChatRenderer(tokenizer(), source)


def test_a_template_without_pictures_is_refused_for_a_model_with_pictures() -> None:
    with pytest.raises(InvalidArgumentError, match="no placeholder for a picture"):
        ChatRenderer(
            tokenizer(),
            template().replace("'<image>'", "''"),
            image_token="<image>",
            image_tokens=lambda *_: 19,
        )


def test_a_placeholder_that_the_tokenizer_does_not_have_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="image_token"):
        ChatRenderer(tokenizer(), template(), image_token="<|img|>")


def test_blocks_that_mark_what_to_train_on_are_understood() -> None:
    marked = template().replace(
        "{{- '<|im_start|>assistant\\n' + answer -}}",
        "{% generation %}{{- '<|im_start|>assistant\\n' + answer -}}{% endgeneration %}",
    )

    assert "endgeneration" in marked
    ChatRenderer(tokenizer(), marked)
