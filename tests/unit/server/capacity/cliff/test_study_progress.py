"""What the study's sweep writes while it runs."""

from __future__ import annotations

import io
import sys

import pytest

from server.capacity.cliff import study


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown(monkeypatch: pytest.MonkeyPatch, stream: io.StringIO, total: int) -> str:
    monkeypatch.setattr(sys, "stderr", stream)
    for done in range(1, total + 1):
        study._show_progress(done, total)
    return stream.getvalue()


def test_a_terminal_sees_one_line_that_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shown(monkeypatch, Terminal(), 3) == "\r1 of 3 runs\r2 of 3 runs\r3 of 3 runs\n"


@pytest.mark.parametrize(("total", "num_lines"), [(3, 3), (260, 10)])
def test_a_file_gets_whole_lines_and_few(
    monkeypatch: pytest.MonkeyPatch, total: int, num_lines: int
) -> None:
    lines = shown(monkeypatch, io.StringIO(), total).splitlines()

    assert len(lines) == num_lines
    assert lines[-1] == f"{total} of {total} runs"
    assert not any("\r" in line for line in lines)
