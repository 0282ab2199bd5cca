"""A renderer from a model's folder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from robot_sdk.errors import InvalidArgumentError, MissingExtraError
from server.brain.rendering.chat_renderer import ChatRenderer
from server.brain.rendering.image_tokens import ImageTokens, image_tokens_of

#: Other media of known models; a model that wrote one would ask the engine for what is not there.
_OTHER_MEDIA_TOKENS = ("<|video_pad|>", "<|audio_pad|>", "<video>", "<audio>")


@dataclass(frozen=True)
class RendererOptions:
    """What a configuration may say about rendering.

    Attributes:
        chat_template: Jinja text, or the path of a file of it. Empty: the model's own.
        variables: Template variables, such as {"enable_thinking": False}.
        tokens_per_image: Tokens of every picture, for models whose processor does not tell. 0: ask
            the processor.
        trust_remote_code: Run code that comes with the model.
    """

    chat_template: str = ""
    variables: Mapping[str, Any] = field(default_factory=dict)
    tokens_per_image: int = 0
    trust_remote_code: bool = False


def load_renderer(
    model: str, options: RendererOptions, tokenizer: Any = None, processor: Any = None
) -> ChatRenderer:
    """The renderer of a model.

    Args:
        model: Folder, or name of a model that is in the local cache.
        options: See there.
        tokenizer: The model's, if the caller has it; else it is loaded.
        processor: The model's, if the caller has it; else it is loaded for models with pictures.

    Raises:
        InvalidArgumentError: There is no chat template, or it cannot be used; says why.
        MissingExtraError: transformers is not installed.
    """
    auto_config, auto_processor, auto_tokenizer = _transformers()
    trust = options.trust_remote_code
    if tokenizer is None:
        tokenizer = auto_tokenizer.from_pretrained(model, trust_remote_code=trust)
    image_token, image_tokens = None, None
    config = auto_config.from_pretrained(model, trust_remote_code=trust)
    image_id = getattr(config, "image_token_id", None) or getattr(config, "image_token_index", None)
    if image_id is not None:
        image_token = tokenizer.convert_ids_to_tokens(image_id)
        image_tokens = _fixed(options.tokens_per_image)
        if image_tokens is None:
            processor = processor or auto_processor.from_pretrained(model, trust_remote_code=trust)
            image_tokens = image_tokens_of(processor)
    return ChatRenderer(
        tokenizer,
        _template_text(options.chat_template) or _own_template(tokenizer, model),
        image_token=image_token,
        image_tokens=image_tokens,
        other_media_tokens=_OTHER_MEDIA_TOKENS,
        variables={**tokenizer.special_tokens_map, **options.variables},
    )


def _transformers() -> tuple[Any, Any, Any]:
    try:
        from transformers import AutoConfig, AutoProcessor, AutoTokenizer
    except ImportError as error:
        raise MissingExtraError(
            "rendering a model's prompts needs transformers",
            hint="pip install -e '.[vllm]'",
        ) from error
    return AutoConfig, AutoProcessor, AutoTokenizer


def _fixed(tokens_per_image: int) -> ImageTokens | None:
    return None if tokens_per_image == 0 else lambda _height, _width: tokens_per_image


def _template_text(template: str) -> str:
    if not template or "{" in template:
        return template
    path = Path(template)
    if not path.is_file():
        raise InvalidArgumentError(
            "there is no such chat template",
            field="chat_template",
            value=template,
            allowed=["jinja text", "the path of a file of it"],
        )
    return path.read_text(encoding="utf-8")


def _own_template(tokenizer: Any, model: str) -> str:
    template = tokenizer.chat_template
    if isinstance(template, dict):
        template = template.get("tool_use", template.get("default"))
    if isinstance(template, str):
        return template
    raise InvalidArgumentError(
        "the model has no chat template of its own",
        field="chat_template",
        value=model,
        hint="give the server one",
    )
