"""Settings of a channel that both ends rely on."""

from __future__ import annotations

import grpc
import pytest

from robot_sdk.channel import ChannelConfig, TlsConfig, auth_metadata, check_target, open_channel
from robot_sdk.errors import InvalidArgumentError


@pytest.fixture
def options(monkeypatch):
    """What a channel was opened with."""
    seen = {}

    def insecure_channel(target, options):
        seen.update(options)
        return object()

    monkeypatch.setattr(grpc, "insecure_channel", insecure_channel)
    return seen


def test_a1_messages_of_64_mib_pass_in_both_directions(options):
    open_channel(ChannelConfig("127.0.0.1:1"))
    assert options["grpc.max_send_message_length"] == 64 * 1024 * 1024
    assert options["grpc.max_receive_message_length"] == 64 * 1024 * 1024


def test_a2_pings_are_rarer_than_the_ten_seconds_a_server_permits_and_never_without_a_call(options):
    open_channel(ChannelConfig("127.0.0.1:1"))
    assert options["grpc.keepalive_time_ms"] == 60_000
    assert options["grpc.keepalive_permit_without_calls"] == 0
    assert options["grpc.http2.max_pings_without_data"] == 0


def test_a5_a_lost_server_is_tried_again_soon(options):
    open_channel(ChannelConfig("127.0.0.1:1"))
    assert options["grpc.initial_reconnect_backoff_ms"] == 100
    assert options["grpc.max_reconnect_backoff_ms"] <= 2000
    assert options["grpc.min_reconnect_backoff_ms"] <= 2000


def test_every_client_has_a_connection_of_its_own(options):
    open_channel(ChannelConfig("127.0.0.1:1"))
    assert options["grpc.use_local_subchannel_pool"] == 1


def test_a_token_in_the_clear_is_warned_of_without_showing_it(options, caplog):
    open_channel(ChannelConfig("127.0.0.1:1"), sends_token=True)
    open_channel(ChannelConfig("localhost:1"), sends_token=True)
    assert caplog.text == ""
    open_channel(ChannelConfig("10.0.0.5:7400"), sends_token=True)
    assert "unencrypted to 10.0.0.5:7400" in caplog.text


def test_a10_grpcs_own_fork_support_is_warned_of(options, caplog, monkeypatch):
    monkeypatch.setenv("GRPC_ENABLE_FORK_SUPPORT", "1")
    open_channel(ChannelConfig("127.0.0.1:1"))
    assert "GRPC_ENABLE_FORK_SUPPORT" in caplog.text


def test_the_token_travels_as_a_bearer_and_is_part_of_no_printed_form():
    assert auth_metadata("s3cret") == (("authorization", "Bearer s3cret"),)
    assert auth_metadata(None) == ()
    assert "token" not in repr(ChannelConfig("127.0.0.1:1", TlsConfig()))


@pytest.mark.parametrize("target", ["10.0.0.5:7400", "robot-server.local:1", "[::1]:65535"])
def test_an_address_is_host_and_port(target):
    assert check_target(target) == target


@pytest.mark.parametrize("target", ["", "host", "host:", ":1", "host:0", "host:x", "a\nb:1"])
def test_what_is_no_address_is_refused(target):
    with pytest.raises(InvalidArgumentError, match="host:port"):
        check_target(target)
