from __future__ import annotations

import os
from pathlib import Path

import pytest

from robot_sdk.errors import InvalidArgumentError
from server.result_path import check_result_path


def test_a_folder_is_made_and_no_empty_file_is_left(tmp_path: Path) -> None:
    path = tmp_path / "new" / "result.json"

    check_result_path(path, "--json")

    assert path.parent.is_dir()
    assert not path.exists()


def test_an_older_result_stays_until_there_is_a_new_one(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    path.write_text("older")

    check_result_path(path, "--json")

    assert path.read_text() == "older"


def test_a_path_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    for path in (tmp_path, tmp_path / "file" / "result.json", tmp_path / ("a" * 300)):
        with pytest.raises(InvalidArgumentError, match=r"--json.*cannot be written"):
            check_result_path(path, "--json")


def test_a_pipe_that_nobody_reads_from_yet_does_not_hold_up(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    check_result_path(pipe, "--json")
    assert pipe.is_fifo()
