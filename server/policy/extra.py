"""Loading a policy whose packages come with an extra."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager

from robot_sdk.errors import MissingExtraError


@contextmanager
def needs_extra(extra: str, packages: Collection[str]) -> Iterator[None]:
    """Imports in the block need `packages` of the extra, which has the policy's kind as its name.

    Raises:
        MissingExtraError: One is not installed. Any other import error passes as it is.
    """
    try:
        yield
    except ImportError as error:
        if error.name is None or error.name.partition(".")[0] not in packages:
            raise
        raise MissingExtraError(
            f"{'an' if extra[0] in 'aeiou' else 'a'} {extra} policy needs {error.name}, "
            "which is not installed",
            hint=f"run: pip install -e '.[{extra}]'",
        ) from error
