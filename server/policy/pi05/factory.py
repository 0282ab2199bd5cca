"""What the server calls for `kind = "pi05"`. Imports nothing heavy until it is called."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from robot_sdk.errors import MissingExtraError
from server.policy.pi05.options import parse_options

if TYPE_CHECKING:
    from server.policy.pi05.policy import Pi05Policy

#: Packages of the extra.
_NEEDED = ("torch", "safetensors", "sentencepiece")


def create(**options: Any) -> Pi05Policy:
    """The policy, loaded and warm.

    Args:
        options: See `Pi05Options`.

    Raises:
        InvalidArgumentError: An option, a file or a weight is missing or wrong, by name.
        MissingExtraError: Not installed.
    """
    parsed = parse_options(options)
    try:
        from server.policy.pi05.policy import Pi05Policy
    except ImportError as error:
        if error.name is None or error.name.partition(".")[0] not in _NEEDED:
            raise
        raise MissingExtraError(
            f"a pi05 policy needs {error.name}, which is not installed",
            hint="run: pip install -e '.[pi05]'",
        ) from error
    return Pi05Policy.load(parsed)
