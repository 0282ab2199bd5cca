"""What the server calls for `kind = "pi05"`. Imports nothing heavy until it is called."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from server.policy.extra import needs_extra
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
    with needs_extra("pi05", _NEEDED):
        from server.policy.pi05.policy import Pi05Policy
    return Pi05Policy.load(parsed)
