"""Bytes that are no message, at every method."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import grpc
import pytest

from robot_sdk.errors import InvalidArgumentError, from_rpc_error
from tests.integration.server.harness import PATIENCE_S, Client, Robot, Server

METHODS = [
    "EpisodeService/Run",
    "BrainService/Decide",
    "PolicyService/Chunks",
    "ControlService/Handshake",
    "ControlService/Exchange",
    "FleetService/Status",
    "FleetService/Watch",
    "FleetService/EndEpisode",
    "FleetService/Drain",
    "FleetService/SetCap",
]
#: A field that ends too early, and a wire type that is none. Bad for every kind of message.
GARBAGE = [b"\x0a\x7fabc", b"\x0f"]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = Server(tmp_path_factory.mktemp("server"), "[policies]\n")
    yield server
    server.close()


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("garbage", GARBAGE)
def test_bytes_that_are_no_message_are_the_callers_mistake(
    method: str, garbage: bytes, server: Server, connect: Callable[..., Client]
) -> None:
    # The wire is the same for every shape of call.
    call = connect(server).channel.stream_stream(
        f"/robot_sdk.api.v1.{method}", request_serializer=None, response_deserializer=None
    )

    with pytest.raises(grpc.RpcError) as caught:
        list(call(iter([garbage]), timeout=PATIENCE_S))

    error = from_rpc_error(caught.value)
    assert isinstance(error, InvalidArgumentError)
    assert error.field == "message"
    assert "Traceback" not in server.log


def test_garbage_in_an_open_stream_ends_it_and_not_its_episode(
    server: Server, connect: Callable[..., Client]
) -> None:
    robot = Robot(connect(server), policies=[])
    robot.admitted()
    run = robot.client.channel.stream_stream(
        "/robot_sdk.api.v1.EpisodeService/Run", request_serializer=None, response_deserializer=None
    )
    opening = b"\x0a" + bytes([robot.open.ByteSize()]) + robot.open.SerializeToString()

    with pytest.raises(grpc.RpcError) as caught:
        list(run(iter([opening, GARBAGE[0]]), timeout=PATIENCE_S))

    assert isinstance(from_rpc_error(caught.value), InvalidArgumentError)
    robot.reopen()
    assert robot.admitted().epoch == 3
    robot.end()
