"""Environments shared by the tests that need the simulator (each takes seconds to build)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sim.libero.env import LiberoEnv

pytest.importorskip("libero", reason="the simulator is not installed")


@pytest.fixture(scope="module")
def pudding_env() -> Iterator[LiberoEnv]:
    """libero_object_swap task 8, initial state 0, without pictures."""
    with LiberoEnv("libero_object_swap", 8, 0, gl="off") as env:
        yield env
