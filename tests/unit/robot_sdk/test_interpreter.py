from __future__ import annotations

from pathlib import Path

import pytest

from robot_sdk.interpreter import python_command


@pytest.mark.parametrize(
    ("executable", "printed"),
    [
        ("/checkout/.venv/bin/python", ".venv/bin/python"),
        ("/checkout/../checkout/.venv/bin/python", ".venv/bin/python"),
        ("/usr/bin/python3", "/usr/bin/python3"),
        ("/checkout-2/bin/python", "/checkout-2/bin/python"),
        ("/my files/bin/python", "'/my files/bin/python'"),
        ("", "python"),
    ],
)
def test_the_interpreter_is_short_and_fit_for_a_shell(executable: str, printed: str) -> None:
    assert python_command(executable, Path("/checkout")) == printed


def test_a_virtual_environment_s_link_is_not_followed(tmp_path: Path) -> None:
    link = tmp_path / "env" / "python"
    link.parent.mkdir()
    link.symlink_to("/usr/bin/python3")

    assert python_command(str(link), tmp_path) == "env/python"
