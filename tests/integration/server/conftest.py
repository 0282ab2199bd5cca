"""Servers and clients for the tests in this folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.integration.server.harness import Client, Robot, Server

#: Two engines that need no weights.
ENGINES = """
[policies.fake]
kind = "factory"
factory = "tests.fakes.policies:StepPolicy"
"""


@pytest.fixture
def start_server(tmp_path: Path) -> Iterator[Callable[..., Server]]:
    """Starts servers that the test's end stops."""
    servers: list[Server] = []

    def start(toml: str = ENGINES, *arguments: str, wait: bool = True) -> Server:
        folder = tmp_path / f"server-{len(servers)}"
        folder.mkdir()
        server = Server(folder, toml, *arguments, wait=wait)
        servers.append(server)
        return server

    yield start
    for server in servers:
        server.close()


@pytest.fixture
def connect() -> Iterator[Callable[..., Client]]:
    """Makes clients that the test's end closes."""
    clients: list[Client] = []

    def make(server: Server, token: str | None = None) -> Client:
        client = Client(server.address, token)
        clients.append(client)
        return client

    yield make
    for client in clients:
        client.close()


@pytest.fixture
def robot(start_server: Callable[..., Server], connect: Callable[..., Client]) -> Iterator[Robot]:
    """An admitted robot on a server of its own."""
    robot = Robot(connect(start_server()))
    robot.admitted()
    robot.keep_alive()
    yield robot
    robot.drop()
