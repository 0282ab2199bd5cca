"""Memory of large messages is used again instead of being taken from the system anew."""

from __future__ import annotations

import subprocess
import sys

import pytest

_NUM_ROUNDS = 50
_BUFFER_BYTES = 600_000
_PAGE_BYTES = 4096

# Four buffers live at once and then none, as with the messages of one batch after another.
_SCRIPT = f"""
import resource, sys
if sys.argv[1] == "keep":
    from server.worker.allocator import keep_freed_memory
    keep_freed_memory()
def one_round():
    buffers = [b"x" * {_BUFFER_BYTES} for _ in range(4)]
one_round()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range({_NUM_ROUNDS}):
    one_round()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def _new_pages_of_a_round(mode: str) -> float:
    result = subprocess.run(
        [sys.executable, "-c", _SCRIPT, mode], capture_output=True, text=True, check=True
    )
    return int(result.stdout) / _NUM_ROUNDS


def test_freed_buffers_are_used_again_without_new_pages() -> None:
    pages = 4 * _BUFFER_BYTES / _PAGE_BYTES
    if _new_pages_of_a_round("default") < pages / 2:
        pytest.skip("this C library keeps freed memory by itself")
    assert _new_pages_of_a_round("keep") < pages / 20
