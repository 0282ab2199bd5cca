"""First contact over real gRPC: who is there, who are you, and what if not."""

from __future__ import annotations

import socket
import subprocess
import threading

import grpc
import pytest

from robot_sdk.channel import TlsConfig
from robot_sdk.client import connect
from robot_sdk.errors import (
    ClientClosedError,
    InvalidArgumentError,
    ServerUnavailableError,
    UnauthenticatedError,
)
from robot_sdk.testing import FakeServer
from tests.contract.grpc_server import GrpcFakeServer

ALT_NAMES = {"good": "DNS:localhost,IP:127.0.0.1", "other": "DNS:elsewhere.example"}


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    """A private authority, a good, an expired and a wrongly named certificate, and a stranger."""
    folder = tmp_path_factory.mktemp("certificates")
    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]

    def openssl(*arguments):
        subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)

    for name in ("ca", "stranger"):
        openssl(
            "req",
            "-x509",
            *key,
            "-keyout",
            f"{name}.key",
            "-out",
            f"{name}.pem",
            "-subj",
            f"/CN={name}",
            "-days",
            "2",
        )
    for name, days in (("good", "2"), ("other", "2"), ("expired", "-1")):
        names = ALT_NAMES.get(name, ALT_NAMES["good"])
        (folder / f"{name}.ext").write_text(f"subjectAltName={names}\n")
        openssl(
            "req", *key, "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={name}"
        )
        openssl(
            "x509",
            "-req",
            "-in",
            f"{name}.csr",
            "-CA",
            "ca.pem",
            "-CAkey",
            "ca.key",
            "-CAcreateserial",
            "-out",
            f"{name}.pem",
            "-days",
            days,
            "-extfile",
            f"{name}.ext",
        )
    return folder


@pytest.fixture
def serve(request):
    servers = []

    def start(**options):
        server = GrpcFakeServer(FakeServer(), **options)
        servers.append(server)
        return server

    yield start
    for server in servers:
        server.stop()


def credentials(folder, name, client_ca=None):
    pair = ((folder / f"{name}.key").read_bytes(), (folder / f"{name}.pem").read_bytes())
    return grpc.ssl_server_credentials(
        [pair],
        root_certificates=None if client_ca is None else (folder / client_ca).read_bytes(),
        require_client_auth=client_ca is not None,
    )


def test_an_encrypted_connection_works(serve, certificates):
    server = serve(credentials=credentials(certificates, "good"))
    with connect(server.target, tls=TlsConfig(ca_file=certificates / "ca.pem")) as client:
        assert client.server_info.server == "fake"


def test_a_client_certificate_is_shown_where_the_server_wants_one(serve, certificates):
    server = serve(credentials=credentials(certificates, "good", client_ca="ca.pem"))
    tls = TlsConfig(
        ca_file=certificates / "ca.pem",
        certificate_file=certificates / "good.pem",
        private_key_file=certificates / "good.key",
    )
    with connect(server.target, tls=tls) as client:
        assert client.server_info.server == "fake"
    with pytest.raises(ServerUnavailableError, match="client certificate"):
        connect(
            server.target,
            tls=TlsConfig(ca_file=certificates / "ca.pem"),
            connect_timeout_s=0.3,
        )


@pytest.mark.parametrize(
    ("certificate", "ca", "hint"),
    [
        ("expired", "ca.pem", "expired"),
        ("other", "ca.pem", "another name"),
        ("good", "stranger.pem", "not signed by"),
    ],
)
def test_a_certificate_that_does_not_verify_says_why(serve, certificates, certificate, ca, hint):
    server = serve(credentials=credentials(certificates, certificate))
    with pytest.raises(UnauthenticatedError, match=hint):
        connect(server.target, tls=TlsConfig(ca_file=certificates / ca))


def test_encryption_on_one_side_only_says_so(serve, certificates):
    encrypted = serve(credentials=credentials(certificates, "good"))
    with pytest.raises(ServerUnavailableError, match="wants TLS"):
        connect(encrypted.target, connect_timeout_s=0.3)
    plain = serve()
    with pytest.raises(ServerUnavailableError, match="one side uses TLS"):
        connect(plain.target, tls=TlsConfig(ca_file=certificates / "ca.pem"), connect_timeout_s=0.3)


@pytest.mark.parametrize("token", [None, "wrong"])
def test_a_wrong_token_is_an_error_at_once_and_is_not_shown(serve, token, caplog):
    server = serve(token="right")
    with pytest.raises(UnauthenticatedError) as caught:
        connect(server.target, token=token)
    assert "wrong" not in str(caught.value).replace("wrong token", "")
    assert "right" not in caplog.text
    with connect(server.target, token="right") as client:
        assert client.server_info.server == "fake"


@pytest.mark.parametrize("token", ["", "s3cr et", "s3cret\n", "пароль"])
def test_a13_a_token_that_cannot_be_a_header_is_refused_without_showing_it(token):
    with pytest.raises(InvalidArgumentError, match="token") as caught:
        connect("127.0.0.1:1", token=token)
    assert token == "" or token.strip() not in str(caught.value)


def test_an_absent_server_is_one_error_after_a_bounded_wait():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: refuses
        target = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(
            ServerUnavailableError, match=r"no answer within 0\.4 s.*python -m server"
        ):
            connect(target, connect_timeout_s=0.4)


def test_a_server_that_accepts_and_says_nothing_is_one_error_after_a_bounded_wait():
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen()
        target = f"127.0.0.1:{deaf.getsockname()[1]}"
        with pytest.raises(ServerUnavailableError, match=r"no answer within 0\.4 s"):
            connect(target, connect_timeout_s=0.4)


def test_a_server_that_comes_up_while_the_client_waits_is_found():
    with socket.socket() as finder:
        finder.bind(("127.0.0.1", 0))
        port = finder.getsockname()[1]
    servers = []
    timer = threading.Timer(0.3, lambda: servers.append(GrpcFakeServer(FakeServer(), port=port)))
    timer.start()
    try:
        with connect(f"127.0.0.1:{port}", connect_timeout_s=10.0) as client:
            assert client.server_info.server == "fake"
    finally:
        timer.join()
        for server in servers:
            server.stop()


@pytest.mark.parametrize("target", ["", "host", "host:", ":7400", "host:0", "host:65536", "a\nb:1"])
def test_an_address_that_is_none_is_refused_by_name(target):
    with pytest.raises(InvalidArgumentError, match="host:port"):
        connect(target)


def test_a_missing_or_wrong_tls_file_is_refused_by_name(tmp_path):
    with pytest.raises(InvalidArgumentError, match=r"tls\.ca_file.*No such file"):
        connect("127.0.0.1:1", tls=TlsConfig(ca_file=tmp_path / "none.pem"))
    (tmp_path / "ca.pem").write_text("not a certificate")
    with pytest.raises(InvalidArgumentError, match=r"tls\.ca_file.*not a PEM file"):
        connect("127.0.0.1:1", tls=TlsConfig(ca_file=tmp_path / "ca.pem"))
    with pytest.raises(InvalidArgumentError, match="set both or none"):
        connect("127.0.0.1:1", tls=TlsConfig(certificate_file=tmp_path / "ca.pem"))


def test_a_closed_client_says_so(serve):
    client = connect(serve().target)
    client.close()
    client.close()
    with pytest.raises(ClientClosedError):
        with client.episode(task="reach", robot_id="robot-0"):
            pytest.fail("must not be admitted")
