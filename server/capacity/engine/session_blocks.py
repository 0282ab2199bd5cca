"""Names of a session's cache blocks, made without hashing its tokens."""

from __future__ import annotations

import hashlib
from typing import Any


class SessionBlocks:
    """Block hashes of one append-only conversation.

    vLLM names a block by a hash over all tokens up to its end, so two prompts share a block exactly
    if they agree up to there. The prompts of one append-only session agree wherever both reach, and
    those of different sessions nowhere; the session and the position of the block say the same
    without looking at 100,000 tokens.

    vLLM takes the function that names blocks as an argument of a request, so no part of it is
    replaced for this.
    """

    def __init__(self, session: str, block_tokens: int) -> None:
        self._session = session
        self._block_tokens = block_tokens
        self._hashes: list[bytes] = []

    def __call__(self, request: Any) -> list[bytes]:
        """Hashes of the whole blocks that a vLLM request has and that are not in it yet."""
        whole_blocks = request.num_tokens // self._block_tokens
        for index in range(len(self._hashes), whole_blocks):
            name = f"{self._session}/{index}".encode()
            self._hashes.append(hashlib.sha256(name).digest())
        return self._hashes[len(request.block_hashes) : whole_blocks]

    def branch(self, session: str, kept_tokens: int) -> SessionBlocks:
        """A conversation that begins with this one's first tokens and then goes its own way.

        Args:
            session: Its name; no other session's.
            kept_tokens: How many it shares with this one.
        """
        other = SessionBlocks(session, self._block_tokens)
        other._hashes = self._hashes[: kept_tokens // self._block_tokens]
        return other
