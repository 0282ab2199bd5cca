"""What the server calls for `kind = "openpi"`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from robot_sdk.clock import SYSTEM_CLOCK
from server.policy.extra import needs_extra
from server.policy.openpi.options import parse_options, read_api_key

if TYPE_CHECKING:
    from server.policy.openpi.policy import OpenpiPolicy

#: Packages of the extra.
_NEEDED = ("msgspec", "websockets")


def create(**options: Any) -> OpenpiPolicy:
    """The policy. It is usable before the remote server is.

    Args:
        options: See `OpenpiOptions`.

    Raises:
        InvalidArgumentError: An option is missing or wrong, by name.
        MissingExtraError: Not installed.
    """
    parsed = parse_options(options)
    with needs_extra("openpi", _NEEDED):
        from server.policy.openpi.policy import OpenpiPolicy
    return OpenpiPolicy(parsed, read_api_key(parsed), SYSTEM_CLOCK)
