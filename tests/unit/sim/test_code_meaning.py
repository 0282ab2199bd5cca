from __future__ import annotations

from pathlib import Path

import pytest

from sim.code_meaning import digest_of, files_of

CODE = "def f():\n    return 1\n"


def digest(folder: Path, code: str) -> str:
    (folder / "a.py").write_text(code)
    return digest_of(files_of(folder), folder)


def test_comments_docstrings_and_layout_have_no_meaning(tmp_path: Path) -> None:
    before = digest(tmp_path, CODE)
    told = '"""A."""\n\n\ndef f():  # why\n    """One."""\n    return 1\n'
    assert digest(tmp_path, told) == before


@pytest.mark.parametrize("code", ["def f():\n    return 2\n", "def g():\n    return 1\n"])
def test_other_code_has_another_meaning(tmp_path: Path, code: str) -> None:
    assert digest(tmp_path, code) != digest(tmp_path, CODE)


def test_weights_and_tables_beside_code_count_as_they_are(tmp_path: Path) -> None:
    before = digest(tmp_path, CODE)
    (tmp_path / "weights.npz").write_bytes(b"1")
    with_weights = digest(tmp_path, CODE)
    (tmp_path / "weights.npz").write_bytes(b"2")
    assert len({before, with_weights, digest(tmp_path, CODE)}) == 3


def test_a_file_of_another_name_is_other_code(tmp_path: Path) -> None:
    before = digest(tmp_path, CODE)
    (tmp_path / "a.py").rename(tmp_path / "b.py")
    assert digest_of(files_of(tmp_path), tmp_path) != before
