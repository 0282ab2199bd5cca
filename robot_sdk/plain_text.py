"""Text from a file or a robot, made safe to show."""

from __future__ import annotations


def one_line(text: str, max_chars: int) -> str:
    """`text` on one line, without control characters, cut to `max_chars`.

    A task or an error message is anybody's text: it may hold line breaks, or escape sequences that
    a terminal would obey.
    """
    shown = "".join(char if char.isprintable() else " " for char in text[: 4 * max_chars])
    shown = " ".join(shown.split())
    return shown if len(shown) <= max_chars else shown[: max_chars - 1] + "…"


def counted(count: int, noun: str) -> str:
    """A number with a regular English noun: 1 robot, 2 robots."""
    return f"{count} {noun}" + ("" if count == 1 else "s")
