"""Telling a lack of memory from other faults of a policy."""

from __future__ import annotations

_CLASSES = frozenset({"MemoryError", "OutOfMemoryError"})
#: torch's allocator for the CPU raises a plain RuntimeError that holds its name.
_CPU_ALLOCATOR = "DefaultCPUAllocator"


def is_out_of_memory(error: BaseException) -> bool:
    """Of the host or of a device. torch's own class is known by its name, so as not to need it."""
    names = {cls.__name__ for cls in type(error).__mro__}
    return bool(names & _CLASSES) or _CPU_ALLOCATOR in str(error)
