from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from sim.cli import paper
from sim.paper.case import Case, Workplace


def arguments(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    paper.add_arguments(parser)
    return parser.parse_args(words)


def case_that(run: object) -> dict[str, Case]:
    return {"some": Case("a case", 1.0, run)}  # type: ignore[arg-type]


def test_a_folder_that_cannot_be_written_is_told_before_anything_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ran: list[Workplace] = []
    monkeypatch.setattr(paper, "all_cases", lambda: case_that(ran.append))
    (tmp_path / "file").write_text("")

    assert paper.run(arguments("--out", str(tmp_path / "file" / "out"))) == 2
    assert "cannot write into" in capsys.readouterr().out
    assert ran == []


def test_an_interrupted_case_is_not_told_as_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(_: Workplace) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(paper, "all_cases", lambda: case_that(interrupted))

    assert paper.run(arguments("--out", str(tmp_path))) == 130
    told = capsys.readouterr().out
    assert "interrupted" in told
    assert "done" not in told
