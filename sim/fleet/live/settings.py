"""How a live replay differs from a virtual one, and what it may do at most."""

from __future__ import annotations

import ipaddress
from dataclasses import asdict, dataclass
from typing import Any

from robot_sdk.channel import check_target
from robot_sdk.errors import InvalidArgumentError
from sim.fleet.replay.checks import check_settings
from sim.fleet.replay.settings import ReplaySettings

#: Each robot has three threads here, and its episode a stream.
MOST_ROBOTS = 256
LONGEST_S = 24 * 3600.0
#: Least and most.
TOKEN_SCALES = (1e-4, 10.0)
_TIME_SCALES = (0.01, 100.0)
_TURN_TIMEOUTS_S = (0.1, 3600.0)
#: What a running server has of its own: parts of `ReplaySettings` that must be left alone, and the
#: options that they come from.
_SERVERS_OWN = {
    "admission": "--policy, --set, --told-pool-share",
    "engine": "--engine, --pool-blocks, --block-tokens, --state-groups, --step-tokens, "
    "--retention-tokens",
    "cost": "--cost",
    "round_trip_s": "--round-trip-ms",
    "offload": "--host-blocks",
    "action": "--action-gpus",
}


@dataclass(frozen=True)
class LiveSettings:
    """Where to, and how the traces are made to fit.

    Attributes:
        address: The server, "host:port".
        token_scale: Multiplies new and output tokens of every turn, each at least 1 afterwards.
        time_scale: Multiplies what a robot waits between two turns.
        turn_timeout_s: Bound of one brain turn.
        allows_remote: The address may be of another machine.
    """

    address: str
    token_scale: float = 1.0
    time_scale: float = 1.0
    turn_timeout_s: float = 600.0
    allows_remote: bool = False

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


def robots_own(settings: ReplaySettings) -> dict[str, Any]:
    """Settings without those that are the server's, as plain values."""
    return {name: value for name, value in settings.to_json().items() if name not in _SERVERS_OWN}


def check_live(live: LiveSettings, settings: ReplaySettings, seed: int) -> None:
    """Raises:
    InvalidArgumentError: A value is out of range, the address is of another machine, or a
        setting is the server's own business.
    """
    _check_address(live)
    _number("token_scale", live.token_scale, *TOKEN_SCALES)
    _number("time_scale", live.time_scale, *_TIME_SCALES)
    _number("turn_timeout_s", live.turn_timeout_s, *_TURN_TIMEOUTS_S)
    untouched = ReplaySettings(settings.fleet)
    for name, options in _SERVERS_OWN.items():
        if getattr(settings, name) != getattr(untouched, name):
            raise InvalidArgumentError(
                "a running server has its own, which cannot be chosen from here",
                field=name,
                hint=f"leave {options} out; what the server runs is in its configuration",
            )
    check_settings(settings, seed)
    _number("duration_s", settings.duration_s, 1.0, LONGEST_S)
    for point in settings.fleet:
        if point.num_robots > MOST_ROBOTS:
            raise InvalidArgumentError(
                "too many robots for one process",
                field="robots",
                value=point.num_robots,
                allowed=(f"1 to {MOST_ROBOTS}",),
            )


def is_loopback(address: str) -> bool:
    """Whether host:port is of this machine by its very text. No name but localhost is looked up."""
    host = address.rpartition(":")[0].strip("[]")
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _check_address(live: LiveSettings) -> None:
    check_target(live.address)
    if not (live.allows_remote or is_loopback(live.address)):
        raise InvalidArgumentError(
            "a replay is a load test, and this address is not of this machine",
            field="--live",
            value=live.address,
            allowed=("127.0.0.1:PORT", "localhost:PORT", "[::1]:PORT"),
            hint="with --allow-remote it may be another machine's; ask its operator first",
        )


def _number(name: str, value: float, least: float, most: float) -> None:
    if not least <= value <= most:
        raise InvalidArgumentError(
            "out of range", field=name, value=value, allowed=(f"{least:g} to {most:g}",)
        )
