"""What turns a prompt into token ids, and a stand-in for where there is no tokenizer file."""

from __future__ import annotations

from typing import Protocol

from robot_sdk.errors import InvalidArgumentError

#: Ids below are padding, end and beginning, as in PaliGemma's vocabulary.
_FIRST_BYTE_ID = 3
_NUM_IDS = _FIRST_BYTE_ID + 256


class PromptEncoder(Protocol):
    """A tokenizer, as far as a policy needs one."""

    @property
    def begin(self) -> int:
        """Id of the token that begins a prompt."""

    @property
    def longest_piece(self) -> int:
        """Characters that one token stands for at most."""

    def encode(self, text: str) -> list[int]:
        """Ids of a text, without beginning or end."""


class ByteEncoder:
    """One token for each byte of UTF-8: the same text always gives the same ids.

    A stand-in beside random weights. No published checkpoint was trained with these ids.

    Args:
        vocabulary_size: Rows of the model's embedding table.

    Raises:
        InvalidArgumentError: The table has too few rows.
    """

    begin = 2
    longest_piece = 1

    def __init__(self, vocabulary_size: int) -> None:
        if vocabulary_size < _NUM_IDS:
            raise InvalidArgumentError(
                "the model has too few embeddings for prompts without a tokenizer",
                field="size: vocabulary_size",
                value=vocabulary_size,
                allowed=(f"{_NUM_IDS} or more",),
                hint="name a tokenizer",
            )

    def encode(self, text: str) -> list[int]:
        """Ids of a text, without beginning or end."""
        return [_FIRST_BYTE_ID + value for value in text.encode("utf-8", "surrogatepass")]
