"""How a command line reaches a server as an operator: address, token file, TLS files."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import grpc

from robot_sdk.api.v1 import fleet_pb2_grpc
from robot_sdk.channel import ChannelConfig, TlsConfig, auth_metadata, open_channel
from robot_sdk.errors import InvalidArgumentError
from robot_sdk.grpc_errors import translate


@dataclass(frozen=True)
class Fleet:
    """An open connection to a server's FleetService.

    Attributes:
        metadata: Goes with every call; carries the token.
    """

    stub: fleet_pb2_grpc.FleetServiceStub
    metadata: tuple[tuple[str, str], ...]


def add_arguments(parser: argparse.ArgumentParser | argparse._ArgumentGroup) -> None:
    """Declare token and TLS arguments; the address is the command's own."""
    # Not the token itself: other users of the machine can read a command line.
    parser.add_argument("--token-file", type=Path, metavar="FILE", help="file that holds the token")
    parser.add_argument(
        "--ca-file", type=Path, metavar="FILE", help="connect with TLS; trust this authority (PEM)"
    )
    parser.add_argument(
        "--client-certificate-file",
        type=Path,
        metavar="FILE",
        help="connect with TLS and show this certificate (PEM), where the server wants one",
    )
    parser.add_argument(
        "--client-key-file", type=Path, metavar="FILE", help="private key of that certificate (PEM)"
    )


@contextmanager
def open_fleet(target: str, arguments: argparse.Namespace) -> Iterator[Fleet]:
    """Connect for the length of a `with` block.

    Raises:
        InvalidArgumentError: Bad address or file.
        RobotSdkError: The server cannot be reached or refuses; also made of what a call in the
            block raises.
    """
    with connect_fleet(target, tls_of(arguments), token_of(arguments)) as fleet:
        yield fleet


@contextmanager
def connect_fleet(
    target: str, tls: TlsConfig | None = None, token: str | None = None
) -> Iterator[Fleet]:
    """The same without a command line.

    Raises:
        InvalidArgumentError: Bad address, token or TLS file.
        RobotSdkError: As in `open_fleet`.
    """
    channel = open_channel(ChannelConfig(target, tls), sends_token=token is not None)
    try:
        with channel:
            yield Fleet(fleet_pb2_grpc.FleetServiceStub(channel), auth_metadata(token))
    except grpc.RpcError as error:
        raise translate(error, target) from None


def tls_of(arguments: argparse.Namespace) -> TlsConfig | None:
    """From the arguments of `add_arguments`.

    Raises:
        InvalidArgumentError: A certificate without its key, or a key without its certificate.
    """
    certificate, key = arguments.client_certificate_file, arguments.client_key_file
    if (certificate is None) != (key is None):
        raise InvalidArgumentError(
            "a client certificate needs its private key",
            field="--client-key-file" if key is None else "--client-certificate-file",
            hint="give --client-certificate-file and --client-key-file, or none of them",
        )
    if arguments.ca_file is None and certificate is None:
        return None
    return TlsConfig(arguments.ca_file, certificate, key)


def token_of(arguments: argparse.Namespace) -> str | None:
    """From the file that the arguments of `add_arguments` name; None: they name none.

    Raises:
        InvalidArgumentError: The file cannot be read.
    """
    path: Path | None = arguments.token_file
    if path is None:
        return None
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidArgumentError(
            f"cannot be read: {error}", field="--token-file", value=path
        ) from None
