"""Checks of text before it leaves: what the wire could not carry is refused by name."""

from __future__ import annotations

from collections.abc import Mapping

from robot_sdk.errors import InvalidArgumentError

#: Names of things: robots, runs, policies, labels. Long enough for any UUID or path of names.
MAX_NAME_CHARS = 256
#: Bounds of OpenEpisode.labels.
MAX_LABELS = 32
MAX_LABEL_KEY_BYTES = 64
MAX_LABEL_VALUE_CHARS = 1024


def check_text(text: str, field: str) -> str:
    """Any Unicode text, of any length; returned as it is.

    Raises:
        InvalidArgumentError: Not a str, or it holds half a surrogate pair, which UTF-8 cannot say.
    """
    if not isinstance(text, str):
        raise InvalidArgumentError(
            f"{field} is not text", field=field, value=type(text).__name__, allowed=["str"]
        )
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InvalidArgumentError(
            f"{field} is not valid Unicode at character {error.start}",
            field=field,
            value=ascii(text[error.start : error.start + 1]),
        ) from None
    return text


def check_name(text: str, field: str, *, may_be_empty: bool = False) -> str:
    """One line of printable text in any script, at most `MAX_NAME_CHARS` characters.

    Raises:
        InvalidArgumentError: Empty, too long, or with line breaks or other control characters.
    """
    check_text(text, field)
    if not text and not may_be_empty:
        raise InvalidArgumentError(f"{field} is empty", field=field, allowed=["a name"])
    if len(text) > MAX_NAME_CHARS:
        raise InvalidArgumentError(
            f"{field} is {len(text)} characters long",
            field=field,
            value=ascii(text[:32]) + "...",
            allowed=[f"at most {MAX_NAME_CHARS} characters"],
        )
    if not text.isprintable():
        raise InvalidArgumentError(
            f"{field} holds a line break or another control character",
            field=field,
            value=ascii(text),
            allowed=["one line of printable text"],
        )
    return text


def check_labels(labels: Mapping[str, str]) -> dict[str, str]:
    """Labels within the bounds of the wire.

    Raises:
        InvalidArgumentError: Too many, or a key or value that is too long.
    """
    if len(labels) > MAX_LABELS:
        raise InvalidArgumentError(
            f"{len(labels)} labels are too many", field="labels", allowed=[f"at most {MAX_LABELS}"]
        )
    for key, value in labels.items():
        check_name(key, "labels key")
        if len(key.encode("utf-8")) > MAX_LABEL_KEY_BYTES:
            raise InvalidArgumentError(
                f"label key {key!r} is too long",
                field="labels",
                allowed=[f"at most {MAX_LABEL_KEY_BYTES} bytes"],
            )
        check_text(value, f"labels[{key!r}]")
        if len(value) > MAX_LABEL_VALUE_CHARS:
            raise InvalidArgumentError(
                f"labels[{key!r}] is {len(value)} characters long",
                field="labels",
                allowed=[f"at most {MAX_LABEL_VALUE_CHARS} characters"],
            )
    return dict(labels)
