"""Fixtures for π0.5."""

from __future__ import annotations

from pathlib import Path

import pytest

from server.policy.pi05.policy import Pi05Policy
from tests.unit.server.policy.pi05.helpers import tiny_policy, train_tokenizer


@pytest.fixture(scope="session")
def tokenizer_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train_tokenizer(tmp_path_factory.mktemp("tokenizer"))


@pytest.fixture(scope="session")
def policy(tokenizer_path: Path) -> Pi05Policy:
    """Tiny, random weights, lerobot's recipe for LIBERO."""
    return tiny_policy(tokenizer_path)
