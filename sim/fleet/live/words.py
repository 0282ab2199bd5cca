"""Text of a known number of words that no other conversation has begun with.

The wire carries text and no token ids, because the conversation is the server's. Random words out
of a small vocabulary stand in for random ids: they are short and common, so that each is as many
tokens as any other (one in a large vocabulary, two in the tiny models': the space counts), and
nothing but their number matters.
"""

from __future__ import annotations

import random

#: Two conversations that begin with the same eight words by chance: one in 5e11.
# fmt: off
WORDS = (
    "the", "of", "and", "to", "in", "is", "it", "you", "that", "robot", "tool", "tools", "call",
    "name", "arguments", "type", "object", "number", "description", "function", "user", "open",
    "close", "move", "look", "place", "done", "not", "success",
)
# fmt: on


def random_words(num_words: int, key: str) -> str:
    """`num_words` words with single spaces; the same key gives the same text."""
    return " ".join(random.Random(key).choices(WORDS, k=num_words))
