"""`python -m robot_sdk status` against a real gRPC server."""

from __future__ import annotations

import shutil
import socket
import subprocess
from collections.abc import Iterator
from concurrent import futures
from pathlib import Path

import grpc
import pytest

from robot_sdk.__main__ import main
from robot_sdk.api.v1 import fleet_pb2, fleet_pb2_grpc


class _Fleet(fleet_pb2_grpc.FleetServiceServicer):
    def __init__(self) -> None:
        self.token = ""

    def Status(self, request, context):
        self._remember(context)
        if self.token == "Bearer wrong":
            context.abort(grpc.StatusCode.UNAUTHENTICATED, "the token is not known")
        return fleet_pb2.StatusResponse(status=fleet_pb2.FleetStatus(server_boot_id="boot"))

    def Watch(self, request, context):
        for uptime_s in (1.0, 2.0):
            status = fleet_pb2.FleetStatus(server_boot_id="boot", uptime_s=uptime_s)
            yield fleet_pb2.WatchResponse(status=status)

    def _remember(self, context) -> None:
        self.token = dict(context.invocation_metadata()).get("authorization", "")


@pytest.fixture
def fleet() -> Iterator[tuple[_Fleet, str]]:
    server = grpc.server(futures.ThreadPoolExecutor(2))
    servicer = _Fleet()
    fleet_pb2_grpc.add_FleetServiceServicer_to_server(servicer, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield servicer, f"127.0.0.1:{port}"
    server.stop(None).wait(10)


def test_status_prints_the_table_and_sends_the_token(fleet, tmp_path: Path, capsys) -> None:
    servicer, target = fleet
    (tmp_path / "token").write_text("secret\n")

    assert main(["status", target, "--token-file", str(tmp_path / "token")]) == 0

    assert "server boot, up 0 s" in capsys.readouterr().out
    assert servicer.token == "Bearer secret"


def test_watch_prints_every_update_until_the_server_ends(fleet, capsys) -> None:
    assert main(["status", fleet[1], "--watch"]) == 0

    out = capsys.readouterr().out
    assert "up 1 s" in out
    assert "up 2 s" in out


def test_a_refused_token_exits_with_1_and_the_reason(fleet, tmp_path: Path, capsys) -> None:
    (tmp_path / "token").write_text("wrong")

    assert main(["status", fleet[1], "--token-file", str(tmp_path / "token")]) == 1

    assert "token is not known" in capsys.readouterr().err


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[Path, Path]:
    """One self-signed pair that serves as authority, server and client."""
    if shutil.which("openssl") is None:
        pytest.skip("needs the openssl command")
    pair = tmp_path / "pair.pem", tmp_path / "pair.key"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"),
            *("-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"),
            *("-out", str(pair[0]), "-keyout", str(pair[1])),
        ],
        check=True,
        capture_output=True,
    )
    return pair


def test_a_client_certificate_is_shown_where_the_server_wants_one(certificate, capsys) -> None:
    pem, key = certificate
    server = grpc.server(futures.ThreadPoolExecutor(2))
    fleet_pb2_grpc.add_FleetServiceServicer_to_server(_Fleet(), server)
    pair = (key.read_bytes(), pem.read_bytes())
    credentials = grpc.ssl_server_credentials([pair], pem.read_bytes(), require_client_auth=True)
    port = server.add_secure_port("127.0.0.1:0", credentials)
    server.start()
    command = ["status", f"127.0.0.1:{port}", "--ca-file", str(pem)]
    shown = ["--client-certificate-file", str(pem), "--client-key-file", str(key)]
    try:
        assert main(command) == 1
        assert main([*command, *shown]) == 0
    finally:
        server.stop(None).wait(10)

    assert "server boot, up 0 s" in capsys.readouterr().out


def test_a_server_that_is_not_there_exits_with_1_and_the_address(capsys) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        target = f"127.0.0.1:{taken.getsockname()[1]}"

        assert main(["status", target]) == 1

    assert target in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        ["nonsense"],
        ["127.0.0.1:1", "--interval", "0"],
        ["127.0.0.1:1", "--token-file", "nowhere"],
        ["127.0.0.1:1", "--client-key-file", "key.pem"],
        ["127.0.0.1:1", "--client-certificate-file", "certificate.pem"],
    ],
)
def test_bad_arguments_exit_with_2(arguments: list[str], capsys) -> None:
    assert main(["status", *arguments]) == 2

    assert capsys.readouterr().err.startswith("error: ")
