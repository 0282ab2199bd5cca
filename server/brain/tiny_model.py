"""Tiny models with random weights, written to a folder without a network.

For tests, examples and the `cliff` command: real tokenizer, real chat template, real architecture,
no weights (`load_format = "dummy"`). What they say means nothing; what the engine does with their
tokens and its cache is what it does with a large model's.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

END_TOKEN = "<|im_end|>"
#: Placeholder of a picture, and what stands around it when it is expanded.
IMAGE_TOKEN = "<image>"
_AROUND_IMAGE_TOKENS = ("<fake_token_around_image>", "<global-img>")
#: Control tokens, most of them those of the Qwen family, by whether a decoder may skip them.
_SPECIAL_TOKENS = (
    "<|endoftext|>",
    "<|im_start|>",
    END_TOKEN,
    IMAGE_TOKEN,
    *_AROUND_IMAGE_TOKENS,
)
_PLAIN_TOKENS = (
    "<tool_call>",
    "</tool_call>",
    "<tool_response>",
    "</tool_response>",
    "<think>",
    "</think>",
)
#: Beginnings of these words are tokens. With them a text can be cut into tokens in more than one
#: way, as with a real vocabulary, and a conversation has a plausible length.
_WORDS = (
    "the of and to in is it you that a robot tool tools call name arguments type object string "
    "number description parameters properties required function user assistant system error "
    "gripper open close move look camera picture position grasp place task done not success"
)
_PIECES = ('{"', '":', '", "', '"}', '"}}', "\n\n")

#: Pictures are fitted into squares of this side, cut into patches, and four patches are a token.
_IMAGE_SIDE_PIXELS = 112
_PATCH_SIDE_PIXELS = 14
_PATCHES_PER_TOKEN_SIDE = 2
_IMAGE_TOKENS = (_IMAGE_SIDE_PIXELS // _PATCH_SIDE_PIXELS // _PATCHES_PER_TOKEN_SIDE) ** 2
#: What the placeholder of a picture grows to, whatever its size: itself, one token before and after
#: it, and one that says that it is whole.
TOKENS_PER_IMAGE = _IMAGE_TOKENS + 3

_TEMPLATE = Path(__file__).with_name("tiny_chat_template.jinja")


def write_tiny_text_model(folder: Path, *, max_context_tokens: int = 32_768) -> Path:
    """A Qwen3 of two layers.

    Args:
        folder: Made if it is not there.
        max_context_tokens: The longest context the configuration allows.

    Returns:
        `folder`.
    """
    vocab = _write_tokenizer(folder, max_context_tokens)
    _write_json(
        folder / "config.json",
        {
            "architectures": ["Qwen3ForCausalLM"],
            "dtype": "bfloat16",
            "bos_token_id": vocab["<|endoftext|>"],
            "eos_token_id": vocab[END_TOKEN],
            **_text_config(len(vocab), max_context_tokens),
        },
    )
    return folder


def write_tiny_vl_model(folder: Path, *, max_context_tokens: int = 32_768) -> Path:
    """An Idefics3 of two layers with a vision tower of two layers.

    This family needs no torchvision, which has no build beside the CPU's torch. Each picture is
    TOKENS_PER_IMAGE tokens, whatever its size.

    Args:
        folder: Made if it is not there.
        max_context_tokens: The longest context the configuration allows.

    Returns:
        `folder`.
    """
    vocab = _write_tokenizer(folder, max_context_tokens)
    ids = {
        "bos_token_id": vocab["<|endoftext|>"],
        "eos_token_id": vocab[END_TOKEN],
        "pad_token_id": vocab["<|endoftext|>"],
    }
    text_config = _text_config(len(vocab), max_context_tokens)
    _write_json(
        folder / "config.json",
        {
            "architectures": ["Idefics3ForConditionalGeneration"],
            "model_type": "idefics3",
            "dtype": "bfloat16",
            "image_token_id": vocab[IMAGE_TOKEN],
            "scale_factor": _PATCHES_PER_TOKEN_SIDE,
            "tie_word_embeddings": False,
            **ids,
            "text_config": {**text_config, "model_type": "llama", **ids},
            "vision_config": {
                "model_type": "idefics3_vision",
                "hidden_size": 64,
                "intermediate_size": 128,
                "num_hidden_layers": 2,
                "num_attention_heads": 2,
                "image_size": _IMAGE_SIDE_PIXELS,
                "patch_size": _PATCH_SIDE_PIXELS,
            },
        },
    )
    _write_json(
        folder / "preprocessor_config.json",
        {
            "image_processor_type": "Idefics3ImageProcessor",
            "do_image_splitting": False,
            "size": {"longest_edge": _IMAGE_SIDE_PIXELS},
            "max_image_size": {"longest_edge": _IMAGE_SIDE_PIXELS},
        },
    )
    _write_json(
        folder / "processor_config.json",
        {"processor_class": "Idefics3Processor", "image_seq_len": _IMAGE_TOKENS},
    )
    return folder


def _text_config(vocab_size: int, max_context_tokens: int) -> dict[str, Any]:
    return {
        "model_type": "qwen3",
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "head_dim": 32,
        "vocab_size": vocab_size,
        "max_position_embeddings": max_context_tokens,
        "rms_norm_eps": 1e-6,
        "rope_theta": 10_000.0,
        "hidden_act": "silu",
        "attention_bias": False,
        "tie_word_embeddings": False,
    }


def _write_tokenizer(folder: Path, max_context_tokens: int) -> dict[str, int]:
    """Byte-level BPE: every byte, some words, and the control tokens. Returns text to id."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    vocab = {letter: i for i, letter in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    merges: list[tuple[str, str]] = []
    words = _WORDS.split()
    for text in (*words, *(f" {word}" for word in words), *_PIECES):
        _add_word(text.replace(" ", "Ġ").replace("\n", "Ċ"), vocab, merges)
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(
        [AddedToken(text, special=True, normalized=False) for text in _SPECIAL_TOKENS]
    )
    tokenizer.add_tokens(
        [AddedToken(text, special=False, normalized=False) for text in _PLAIN_TOKENS]
    )
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    _write_json(
        folder / "tokenizer_config.json",
        {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "eos_token": END_TOKEN,
            "pad_token": "<|endoftext|>",
            "clean_up_tokenization_spaces": False,
            "model_max_length": max_context_tokens,
        },
    )
    (folder / "chat_template.jinja").write_text(_TEMPLATE.read_text(), encoding="utf-8")
    whole: dict[str, int] = tokenizer.get_vocab()
    return whole


def _add_word(word: str, vocab: dict[str, int], merges: list[tuple[str, str]]) -> None:
    """Make `word` one token, letter by letter from the left."""
    for end in range(2, len(word) + 1):
        if word[:end] not in vocab:
            vocab[word[:end]] = len(vocab)
            merges.append((word[: end - 1], word[end - 1]))


def _write_json(path: Path, value: dict[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")
