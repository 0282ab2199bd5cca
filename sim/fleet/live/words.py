"""Text of a known number of words that no other conversation has begun with.

The wire carries text and no token ids, because the conversation is the server's. Random words out
of a small vocabulary stand in for random ids: each is one token of the tiny models' tokenizer, and
of any large vocabulary that knows common English words, and nothing but their number matters.
"""

from __future__ import annotations

import random

#: 32 words, so that a block of 16 tokens has 80 random bits: no two robots share one by chance.
# fmt: off
WORDS = (
    "the", "of", "and", "to", "in", "is", "it", "you", "that", "a", "robot", "call", "name", "type",
    "object", "string", "number", "function", "user", "system", "error", "open", "close", "move",
    "look", "camera", "picture", "position", "place", "task", "done", "not",
)
# fmt: on


def random_words(num_words: int, key: str) -> str:
    """`num_words` words with single spaces; the same key gives the same text."""
    return " ".join(random.Random(key).choices(WORDS, k=num_words))
