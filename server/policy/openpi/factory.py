"""What the server calls for `kind = "openpi"`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from robot_sdk.clock import SYSTEM_CLOCK
from robot_sdk.errors import MissingExtraError
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
    try:
        from server.policy.openpi.policy import OpenpiPolicy
    except ImportError as error:
        if error.name is None or error.name.partition(".")[0] not in _NEEDED:
            raise
        raise MissingExtraError(
            f"an openpi policy needs {error.name}, which is not installed",
            hint="run: pip install -e '.[openpi]'",
        ) from error
    return OpenpiPolicy(parsed, read_api_key(parsed), SYSTEM_CLOCK)
