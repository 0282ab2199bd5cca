"""Tiny models, written once, and a client for each test."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from server.brain.tiny_model import write_tiny_text_model, write_tiny_vl_model
from tests.integration.server.harness import Client, Server


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The servers import vLLM, this process does not: it takes a while."""
    if find_spec("vllm") is not None:
        return
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.skip(reason="vLLM is not installed; see `make setup`"))


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
