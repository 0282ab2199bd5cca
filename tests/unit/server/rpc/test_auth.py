from __future__ import annotations

from pathlib import Path

import pytest

from robot_sdk.errors import PermissionDeniedError, UnauthenticatedError
from server.config import AuthSection, ConfigError
from server.rpc.auth import (
    Authenticator,
    Identity,
    check_exposure,
    load_tokens,
    warn_of_plain_tokens,
)

ROBOT = Identity("acme", "robot")
AUTH = Authenticator([("secret", ROBOT)])


@pytest.mark.parametrize("scheme", ["Bearer", "bearer"])
def test_a_known_token_gives_tenant_and_role(scheme: str) -> None:
    assert AUTH.identify([("authorization", f"{scheme} secret")]) == ROBOT


@pytest.mark.parametrize(
    "metadata", [[], [("authorization", "secret")], [("authorization", "Bearer secret2")]]
)
def test_anything_else_is_unauthenticated_and_not_echoed(
    metadata: list[tuple[str, str | bytes]],
) -> None:
    with pytest.raises(UnauthenticatedError) as caught:
        AUTH.identify(metadata)
    assert "secret" not in str(caught.value)


def test_operations_need_the_admin_role() -> None:
    metadata = [("authorization", "Bearer secret")]

    AUTH.allow("/robot_sdk.api.v1.FleetService/Status", metadata)
    with pytest.raises(PermissionDeniedError, match="admin"):
        AUTH.allow("/robot_sdk.api.v1.FleetService/Drain", metadata)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.9", "::1", "[::1]", "localhost"])
def test_without_tokens_loopback_is_served_as_admin(host: str) -> None:
    open_server = Authenticator([])
    check_exposure(host, open_server, allow_anonymous=False)

    assert open_server.identify([]).role == "admin"


@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.1.5", "::", "robots.example"])
def test_without_tokens_other_addresses_are_refused_unless_allowed(host: str) -> None:
    with pytest.raises(ConfigError, match=r"auth\.allow_anonymous"):
        check_exposure(host, Authenticator([]), allow_anonymous=False)
    check_exposure(host, Authenticator([]), allow_anonymous=True)
    check_exposure(host, AUTH, allow_anonymous=False)


def test_a_caller_without_a_token_learns_where_to_give_it() -> None:
    with pytest.raises(UnauthenticatedError) as caught:
        AUTH.identify([])
    for way in ("connect(..., token=...)", "--token-file", "authorization: Bearer"):
        assert way in str(caught.value)


@pytest.mark.parametrize(
    ("host", "authenticator", "has_tls", "warned"),
    [
        ("0.0.0.0", AUTH, False, True),
        ("robots.example", AUTH, False, True),
        ("0.0.0.0", AUTH, True, False),
        ("127.0.0.1", AUTH, False, False),
        ("0.0.0.0", Authenticator([]), False, False),
    ],
)
def test_tokens_that_travel_unencrypted_are_warned_of(
    host: str,
    authenticator: Authenticator,
    has_tls: bool,
    warned: bool,
    caplog: pytest.LogCaptureFixture,
) -> None:
    warn_of_plain_tokens(host, authenticator, has_tls)

    assert ["tls.certificate_file" in r.getMessage() for r in caplog.records] == [True] * warned


def test_tokens_come_from_a_file_and_a_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "tokens"
    path.write_text("# who\n\none acme robot\n")
    monkeypatch.setenv("TOKENS", "two acme admin;three beta robot")

    tokens = load_tokens(AuthSection(tokens_file=str(path), tokens_env="TOKENS"))

    assert [token for token, _ in tokens] == ["one", "two", "three"]
    assert tokens[1][1] == Identity("acme", "admin")


@pytest.mark.parametrize("line", ["secret", "secret acme", "secret acme root", "a b c d"])
def test_a_wrong_line_is_named_by_its_number_and_never_printed(tmp_path: Path, line: str) -> None:
    path = tmp_path / "tokens"
    path.write_text(f"ok acme robot\n{line}\n")

    with pytest.raises(ConfigError, match=r"tokens:2") as caught:
        load_tokens(AuthSection(tokens_file=str(path)))
    assert "secret" not in str(caught.value)


def test_configured_but_empty_is_no_open_server(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    path.write_text("# nothing\n")

    with pytest.raises(ConfigError, match="none was found"):
        load_tokens(AuthSection(tokens_file=str(path)))


def test_a_tokens_file_that_is_no_text_is_named_and_not_quoted(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    path.write_bytes(b"secret\xff acme robot\n")

    with pytest.raises(ConfigError, match="tokens is not UTF-8 text") as caught:
        load_tokens(AuthSection(tokens_file=str(path)))
    assert "secret" not in str(caught.value)
