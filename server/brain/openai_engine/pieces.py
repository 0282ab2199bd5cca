"""Bodies of requests as pieces of bytes that are shared between turns.

A conversation with pictures is megabytes; copying it whole at every turn, or writing it as JSON
again, would hold up the event loop for nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

Pieces = tuple[bytes, ...]

#: Small pieces are put together to about this size for sending.
_BLOCK_BYTES = 64 * 1024


def num_bytes(pieces: Iterable[bytes]) -> int:
    return sum(len(piece) for piece in pieces)


def joined_by_commas(items: Iterable[Pieces]) -> Iterator[bytes]:
    """The pieces of all items, with a comma between two items."""
    for index, item in enumerate(items):
        if index:
            yield b","
        yield from item


def blocks(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The same bytes in fewer pieces. Large pieces are passed on as they are."""
    small: list[bytes] = []
    size = 0
    for piece in pieces:
        if len(piece) >= _BLOCK_BYTES:
            if small:
                yield b"".join(small)
                small, size = [], 0
            yield piece
            continue
        small.append(piece)
        size += len(piece)
        if size >= _BLOCK_BYTES:
            yield b"".join(small)
            small, size = [], 0
    if small:
        yield b"".join(small)
