"""First contact with a server: wait for it, agree with it, compare clocks."""

from __future__ import annotations

import sys

from robot_sdk.api.v1 import control_pb2
from robot_sdk.backoff import Backoff
from robot_sdk.channel import KEEPALIVE_INTERVAL_S
from robot_sdk.clock import SYSTEM_CLOCK
from robot_sdk.errors import (
    DeadlineExceededError,
    RetryableError,
    RobotSdkError,
    ServerUnavailableError,
    UnsupportedError,
    WorkerUnavailableError,
)
from robot_sdk.server_info import ServerInfo, decode_server_info
from robot_sdk.timesync import ClockExchange
from robot_sdk.transport import Transport
from robot_sdk.version import __version__

PROTOCOLS = ("v1",)
#: Rounds of the first comparison of clocks. The best one counts, and on a quiet network the bound
#: hardly falls after the first few.
NUM_EXCHANGES = 8
_PAUSE_MAX_S = 0.5
_TRY_TIMEOUT_S = 3.0


def shake_hands(transport: Transport, timeout_s: float) -> ServerInfo:
    """Ask until the server answers, at most `timeout_s` of real time.

    Raises:
        ServerUnavailableError: Nobody answered; says why and what to check.
        UnauthenticatedError: Its certificate or our token is not accepted.
        UnsupportedError: It speaks another protocol, or tolerates fewer pings than we send.
    """
    request = control_pb2.HandshakeRequest(
        client=f"robot_sdk/{__version__} python/{sys.version_info[0]}.{sys.version_info[1]}",
        protocols=PROTOCOLS,
        keepalive_interval_s=KEEPALIVE_INTERVAL_S,
    )
    end_s = SYSTEM_CLOCK.now_s() + timeout_s
    backoff = Backoff()
    while True:
        remaining_s = end_s - SYSTEM_CLOCK.now_s()
        try:
            response = transport.handshake(request, max(0.05, min(remaining_s, _TRY_TIMEOUT_S)))
        except RetryableError as error:
            if isinstance(error, DeadlineExceededError):
                error = ServerUnavailableError(
                    "something accepts connections there and does not answer",
                    hint="is it a robot_sdk server, and is it stopped or overloaded?",
                )
            pause_s = min(backoff.next_s(error.retry_after_s), _PAUSE_MAX_S)
            if SYSTEM_CLOCK.now_s() + pause_s >= end_s:
                raise _with_wait(error, timeout_s) from None
            SYSTEM_CLOCK.sleep_until(SYSTEM_CLOCK.now_s() + pause_s)
        else:
            return _agree(decode_server_info(response))


def measure_clock(transport: Transport, timeout_s: float) -> list[ClockExchange]:
    """Exchange time stamps `NUM_EXCHANGES` times."""
    return [transport.exchange(timeout_s) for _ in range(NUM_EXCHANGES)]


def _agree(info: ServerInfo) -> ServerInfo:
    if info.protocol not in PROTOCOLS:
        raise UnsupportedError(
            "the server speaks another protocol",
            field="protocol",
            value=info.protocol,
            allowed=PROTOCOLS,
            hint="install the robot_sdk version that belongs to the server",
        )
    if info.min_keepalive_interval_s > KEEPALIVE_INTERVAL_S:
        raise UnsupportedError(
            "the server would break off connections for pinging too often",
            field="min_keepalive_interval_s",
            value=info.min_keepalive_interval_s,
            allowed=[f"at most {KEEPALIVE_INTERVAL_S:g}"],
        )
    return info


def _with_wait(error: RobotSdkError, timeout_s: float) -> RobotSdkError:
    what = "not ready" if isinstance(error, WorkerUnavailableError) else "no answer"
    return type(error)(
        f"{what} within {timeout_s:g} s: {error.message}",
        field=error.field,
        value=error.value,
        allowed=error.allowed,
        hint=error.hint,
        retry_after_s=error.retry_after_s,
    )
