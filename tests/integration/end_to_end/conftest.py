"""Server processes that the test's end stops."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.integration.server.harness import Server

Start = Callable[..., Server]


@pytest.fixture
def start_server(tmp_path: Path) -> Iterator[Start]:
    """Starts `python -m server` on a free port, or on the `port` of one that was killed."""
    servers: list[Server] = []

    def start(toml: str, *, port: int = 0, wait: bool = True) -> Server:
        folder = tmp_path / f"server-{len(servers)}"
        folder.mkdir()
        server = Server(folder, toml, "--set", f"server.port={port}", wait=wait)
        servers.append(server)
        return server

    yield start
    for server in servers:
        server.close()
