"""Tiny models, written once, and a client for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("vllm", reason="vLLM is not installed; see `make setup`")

from server.brain.tiny_model import write_tiny_text_model, write_tiny_vl_model
from tests.integration.server.harness import Client, Server


@pytest.fixture(scope="session")
def text_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_text_model(tmp_path_factory.mktemp("text-model"))


@pytest.fixture(scope="session")
def vl_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_vl_model(tmp_path_factory.mktemp("vl-model"))


@pytest.fixture
def client(server: Server) -> Iterator[Client]:
    """Of the module's own `server`."""
    client = Client(server.address)
    yield client
    client.close()
