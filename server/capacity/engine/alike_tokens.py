"""A prompt whose tokens are all alike, in the same few bytes whatever its length."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import overload


class AlikeTokens(Sequence[int]):
    """Stands where vLLM wants a list of token ids, which it copies for every request.

    Its scheduler looks at lengths alone: blocks are told apart by their hashes, and those come from
    `SessionBlocks`. A list would make each turn as dear as its context is long.
    """

    TOKEN = 0

    def __init__(self, length: int) -> None:
        self._length = length

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> int: ...

    @overload
    def __getitem__(self, index: slice) -> list[int]: ...

    def __getitem__(self, index: int | slice) -> int | list[int]:
        if isinstance(index, slice):
            return [self.TOKEN] * len(range(*index.indices(self._length)))
        if not -self._length <= index < self._length:
            raise IndexError(index)
        return self.TOKEN

    def copy(self) -> AlikeTokens:
        """Another one of this length."""
        return AlikeTokens(self._length)

    def append(self, _token: int) -> None:
        """One more."""
        self._length += 1

    def extend(self, tokens: Iterable[int]) -> None:
        """So many more."""
        self._length += len(list(tokens))
