"""Text of users and tools never becomes a control token.

A tokenizer finds its special tokens by their text: "<|im_end|>" in a tool result would end the
message, and what follows it could speak as the user. So such text is replaced before the template
runs by a mark that no tokenizer knows, and put back piece by piece when the text is encoded.
"""

from __future__ import annotations

import re
from typing import Any, Protocol

# Private-use characters: a mark is OPEN, the hidden text in hex, CLOSE.
_OPEN, _CLOSE = "\ue000", "\ue001"
_MARK = re.compile(f"{_OPEN}([0-9a-f]*){_CLOSE}")


class Tokenizer(Protocol):
    """What is used of a Hugging Face tokenizer."""

    def encode(self, text: str, *, add_special_tokens: bool) -> list[int]:
        """Tokens of a text, control tokens recognised by their text."""

    def get_added_vocab(self) -> dict[str, int]:
        """Control tokens: text to id."""


class ControlTokens:
    """Encodes text of templates, keeping text of others apart.

    Args:
        tokenizer: The model's.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        # Some tokenizers have such tokens for white space and single characters: no control tokens.
        vocab = {
            text: token_id
            for text, token_id in tokenizer.get_added_vocab().items()
            if len(text.strip()) > 1
        }
        self.ids = frozenset(vocab.values())
        texts = sorted({*vocab, _OPEN, _CLOSE}, key=len, reverse=True)
        self._hidden = re.compile("|".join(map(re.escape, texts)))
        # A token could also arise where a text meets the template's.
        self._beginnings = tuple({text[:n] for text in vocab for n in range(1, len(text))})
        self._endings = tuple({text[n:] for text in vocab for n in range(1, len(text))})

    def escape(self, text: str) -> str:
        """`text` for a template: no control token can be read out of it."""
        text = text.encode("utf-8", "replace").decode()
        parts: list[str] = []
        position = 0
        for match in self._hidden.finditer(text):
            parts += [self._escape_ends(text[position : match.start()]), _mark(match.group())]
            position = match.end()
        parts.append(self._escape_ends(text[position:]))
        return "".join(parts)

    def escape_json(self, value: Any) -> Any:
        """`escape` in every text of a JSON value, names of fields too."""
        if isinstance(value, str):
            return self.escape(value)
        if isinstance(value, dict):
            return {self.escape(name): self.escape_json(item) for name, item in value.items()}
        if isinstance(value, list):
            return [self.escape_json(item) for item in value]
        return value

    def encode(self, rendered: str) -> tuple[int, ...]:
        """Tokens of what a template wrote."""
        token_ids: list[int] = []
        for index, part in enumerate(_MARK.split(rendered)):
            if index % 2:
                token_ids += self._encode_plain(bytes.fromhex(part).decode())
            elif part:
                token_ids += self._tokenizer.encode(part, add_special_tokens=False)
        return tuple(token_ids)

    def _escape_ends(self, text: str) -> str:
        head, tail = "", ""
        if text.startswith(self._endings):
            head, text = _mark(text[0]), text[1:]
        if text.endswith(self._beginnings):
            text, tail = text[:-1], _mark(text[-1])
        return head + text + tail

    def _encode_plain(self, text: str) -> list[int]:
        token_ids = self._tokenizer.encode(text, add_special_tokens=False)
        if len(text) < 2 or self.ids.isdisjoint(token_ids):
            return token_ids
        # Half a control token is none.
        middle = len(text) // 2
        return self._encode_plain(text[:middle]) + self._encode_plain(text[middle:])


def _mark(text: str) -> str:
    return f"{_OPEN}{text.encode().hex()}{_CLOSE}"
