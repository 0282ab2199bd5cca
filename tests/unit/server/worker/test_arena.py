from __future__ import annotations

import os

import pytest

from server.worker.arena import Arena


def test_the_other_side_reads_what_was_written() -> None:
    descriptor = Arena.create(4096)
    ours, theirs = Arena(descriptor, 4096), Arena(os.dup(descriptor), 4096)

    places = [ours.write(b"one"), ours.write(b"twoo")]

    assert [theirs.read(*place) for place in places] == [b"one", b"twoo"]


def test_a_new_batch_starts_at_the_beginning() -> None:
    arena = Arena(Arena.create(4096), 4096)
    arena.write(b"x" * 4000)

    arena.reset()

    assert arena.write(b"y" * 4096) == (0, 4096)


def test_what_does_not_fit_is_refused() -> None:
    arena = Arena(Arena.create(4096), 4096)

    with pytest.raises(ValueError, match="4097 bytes"):
        arena.write(b"x" * 4097)


def test_memory_of_a_huge_batch_is_given_back() -> None:
    size = 64 * 1024 * 1024
    descriptor = Arena.create(size)
    arena = Arena(descriptor, size)
    arena.write(b"x" * (40 * 1024 * 1024))
    assert os.fstat(descriptor).st_blocks * 512 >= 40 * 1024 * 1024

    arena.reset()

    assert os.fstat(descriptor).st_blocks == 0
