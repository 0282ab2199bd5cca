"""Names of a session's cache blocks, made without hashing its tokens."""

from __future__ import annotations

import hashlib


class SessionBlocks:
    """Block hashes of one append-only conversation.

    vLLM names a block by a hash over all tokens up to its end, so two prompts share a block exactly
    if they agree up to there. The prompts of one append-only session agree wherever both reach, and
    those of different sessions nowhere; the session and the position of the block say the same
    without looking at 100,000 tokens.

    A request of vLLM holds its block hashes as a list. All requests of a session get the same one,
    so that a turn costs what it adds and not what stands before it.
    """

    def __init__(self, session: str, block_tokens: int) -> None:
        self._session = session
        self._block_tokens = block_tokens
        self._hashes: list[bytes] = []

    def up_to(self, num_tokens: int) -> list[bytes]:
        """Names of at least the whole blocks among the first `num_tokens`; not to be changed.

        The list grows with the session. vLLM looks at as many as a request has tokens for.
        """
        for index in range(len(self._hashes), num_tokens // self._block_tokens):
            name = f"{self._session}/{index}".encode()
            self._hashes.append(hashlib.sha256(name).digest())
        return self._hashes

    def branch(self, session: str, kept_tokens: int) -> SessionBlocks:
        """A session that shares the first `kept_tokens` with this one and nothing after them."""
        other = SessionBlocks(session, self._block_tokens)
        other._hashes = self.up_to(kept_tokens)[: kept_tokens // self._block_tokens]
        return other
