"""Memory that the front end and one worker share, for observations.

The front end writes the observations of one batch one after the other from the start; the worker
reads them where they lie. A worker runs one batch at a time, so nothing needs a lock. The file has
no name and lives as long as the two processes. Pages that were never written take no memory.
"""

from __future__ import annotations

import mmap
import os

#: After a batch larger than this, its pages are given back to the system.
_KEEP_BYTES = 32 * 1024 * 1024


class Arena:
    """A shared byte range.

    Args:
        descriptor: Descriptor of the memory file.
        size_bytes: Its length.
    """

    def __init__(self, descriptor: int, size_bytes: int) -> None:
        self._map = mmap.mmap(descriptor, size_bytes)
        self._size_bytes = size_bytes
        self._used_bytes = 0

    @staticmethod
    def create(size_bytes: int) -> int:
        """A new memory file of that length; returns its descriptor."""
        descriptor = os.memfd_create("policy-observations")
        os.ftruncate(descriptor, size_bytes)
        return descriptor

    def reset(self) -> None:
        """Forget what was written; called before each batch."""
        if self._used_bytes > _KEEP_BYTES:
            self._map.madvise(mmap.MADV_REMOVE)
        self._used_bytes = 0

    def write(self, data: bytes) -> tuple[int, int]:
        """Append; returns (offset, length).

        Raises:
            ValueError: It does not fit. The driver sizes the arena so that a full batch of the
                largest messages does.
        """
        offset = self._used_bytes
        end = offset + len(data)
        if end > self._size_bytes:
            raise ValueError(
                f"{len(data)} bytes at {offset} exceed the arena of {self._size_bytes}"
            )
        self._map[offset:end] = data
        self._used_bytes = end
        return offset, len(data)

    def read(self, offset: int, length: int) -> bytes:
        """A copy of what was written there."""
        return self._map[offset : offset + length]

    def close(self) -> None:
        self._map.close()
