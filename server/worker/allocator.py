"""Keeps the memory of large messages in the process instead of giving it back after each one."""

from __future__ import annotations

import ctypes

# Names and numbers of glibc's mallopt(3).
_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
#: The largest value that glibc takes.
_MMAP_THRESHOLD_BYTES = 32 * 1024 * 1024
_TRIM_THRESHOLD_BYTES = 128 * 1024 * 1024


def keep_freed_memory() -> None:
    """Ask the C library to hold on to freed memory up to 128 MiB.

    An observation is a few buffers of some 100 kB. By default glibc returns each to the system as
    it is freed, and every new one is then zeroed page by page: measured, that is half the CPU time
    of a chunk. Without effect where the C library has no mallopt.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, _MMAP_THRESHOLD_BYTES)
        mallopt(_M_TRIM_THRESHOLD, _TRIM_THRESHOLD_BYTES)
