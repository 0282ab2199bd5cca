"""Fixtures for π0.5."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from server.policy.pi05.policy import Pi05Policy

#: `make setup` gets the extra [pi05] through vLLM's CPU build, which not every machine can have.
collect_ignore_glob = (
    [] if all(map(find_spec, ("torch", "safetensors", "sentencepiece"))) else ["test_*.py"]
)


@pytest.fixture(scope="session")
def tokenizer_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from tests.unit.server.policy.pi05.helpers import train_tokenizer

    return train_tokenizer(tmp_path_factory.mktemp("tokenizer"))


@pytest.fixture(scope="session")
def policy(tokenizer_path: Path) -> Pi05Policy:
    """Tiny, random weights, lerobot's recipe for LIBERO."""
    from tests.unit.server.policy.pi05.helpers import tiny_policy

    return tiny_policy(tokenizer_path)
