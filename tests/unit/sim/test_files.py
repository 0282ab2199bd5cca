from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from sim.files import is_file, is_same_file, write_whole


def test_a_name_that_no_file_can_have_is_none(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.touch()
    assert is_file(path)
    assert not is_file(tmp_path)
    assert not is_file(Path("a" * 300))


def test_one_file_by_two_names_is_the_same(tmp_path: Path) -> None:
    path, link, other = tmp_path / "f", tmp_path / "link", tmp_path / "other"
    path.touch()
    other.touch()
    link.symlink_to(path)
    assert is_same_file(path, link)
    assert not is_same_file(path, other)
    assert not is_same_file(path, tmp_path / "none")


def test_a_new_text_takes_the_place_of_the_old_one_and_nothing_is_left_beside_it(
    tmp_path: Path,
) -> None:
    path = tmp_path / "f"
    path.write_text("older and longer")
    write_whole(path, "new")
    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    file, link = tmp_path / "file", tmp_path / "link"
    file.write_text("old")
    link.symlink_to(file)
    write_whole(link, "new")
    assert link.is_symlink()
    assert file.read_text() == "new"


def test_a_pipe_is_written_into_and_stays_one(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()), daemon=True)
    reader.start()
    write_whole(pipe, "new")
    reader.join(10.0)
    assert read == ["new"]
    assert pipe.is_fifo()


def test_what_cannot_be_put_in_place_is_taken_away_again(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    with pytest.raises(OSError, match="directory"):
        write_whole(folder, "text")
    with pytest.raises(OSError, match="too long"):
        write_whole(tmp_path / ("a" * 300), "text")
    assert list(tmp_path.iterdir()) == [folder]
