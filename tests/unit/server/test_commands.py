"""Commands beside serving: found by name, loaded only when run, errors in one line."""

from __future__ import annotations

import sys
import types

import pytest

from robot_sdk.errors import InvalidArgumentError, RobotSdkError
from server import commands
from server.__main__ import main
from server.commands import Command


@pytest.fixture
def command(monkeypatch):
    """Registers `demo`, which does what the test says."""
    module = types.ModuleType("commands_under_test")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(
        commands, "COMMANDS", {"demo": Command("commands_under_test:main", "a demo")}
    )

    def register(function):
        module.main = function

    return register


def test_a_command_gets_its_arguments_and_gives_its_exit_code(command):
    seen = []
    command(lambda arguments: seen.extend(arguments) or 5)
    assert main(["demo", "--flag", "value"]) == 5
    assert seen == ["--flag", "value"]


def test_an_unknown_command_is_refused_with_the_nearest_name(capsys):
    assert main(["plam"]) == 2
    error = capsys.readouterr().err
    assert "'plam'" in error
    assert "did you mean plan" in error


def test_help_lists_the_commands(capsys):
    with pytest.raises(SystemExit) as exit_info:
        main(["--help"])
    assert exit_info.value.code == 0
    shown = capsys.readouterr().out
    assert all(name in shown for name in ("plan", "cliff", "profile-policy"))


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (InvalidArgumentError("wrong", field="--n", value=0, allowed=("1 or more",)), 2),
        (RobotSdkError("the server refuses"), 1),
        (FileNotFoundError("no such file"), 2),
    ],
)
def test_an_error_of_a_command_is_one_line_and_an_exit_code(command, capsys, error, code):
    def fail(arguments):
        raise error

    command(fail)
    assert main(["demo"]) == code
    assert capsys.readouterr().err == f"error: {error}\n"


def test_ctrl_c_in_a_command_exits_130_without_a_traceback(command, capsys):
    def interrupted(arguments):
        raise KeyboardInterrupt

    command(interrupted)
    assert main(["demo"]) == 130
    assert capsys.readouterr().err == ""


def test_a_missing_extra_is_named_with_its_install_command(monkeypatch, capsys):
    monkeypatch.setattr(
        commands,
        "COMMANDS",
        {"demo": Command("no_such_library.thing:main", "a demo", extra="pi05")},
    )
    assert main(["demo"]) == 2
    assert "pip install -e '.[pi05]'" in capsys.readouterr().err


def test_a_module_of_ours_that_is_missing_is_no_missing_extra(monkeypatch):
    monkeypatch.setattr(commands, "COMMANDS", {"demo": Command("server.no_such:main", "a demo")})
    with pytest.raises(ModuleNotFoundError):
        main(["demo"])
