"""What may be in a name, and what may be in a text."""

from __future__ import annotations

import pytest

from robot_sdk.errors import InvalidArgumentError
from robot_sdk.text import check_labels, check_name, check_text


@pytest.mark.parametrize("name", ["robot-0", "机器人", "🦾", "a b", "x" * 256])
def test_a13_a_name_may_be_in_any_script(name):
    assert check_name(name, "robot_id") == name


@pytest.mark.parametrize("name", ["", "a\nb", "a\tb", "\x00", "x" * 257, "\ud83d", 7])
def test_a13_a_bad_name_is_refused_with_its_field(name):
    with pytest.raises(InvalidArgumentError, match="robot_id"):
        check_name(name, "robot_id")


@pytest.mark.parametrize("text", ["", "line\nline", "拿 🥣", "x" * 100_000, "\x00"])
def test_a13_a_text_may_be_anything(text):
    assert check_text(text, "task") == text


def test_labels_have_bounds():
    assert check_labels({"suite": "对象"}) == {"suite": "对象"}
    with pytest.raises(InvalidArgumentError, match="at most 64 bytes"):
        check_labels({"对" * 22: "v"})
    with pytest.raises(InvalidArgumentError, match="at most 1024"):
        check_labels({"k": "v" * 1025})
