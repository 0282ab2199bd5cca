from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from robot_sdk.errors import InvalidArgumentError
from server.capacity.engine_worker import load_library

PROGRAM = """
import os
from server.capacity.engine_worker import take_standard_output

out = take_standard_output()
print("a library's word", flush=True)
os.write(1, b"a word from C\\n")
out.write("ours\\n")
out.flush()
"""


def test_what_libraries_print_does_not_come_between_our_lines() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60, check=True
    )
    assert ended.stdout == "ours\n"
    assert "a library's word" in ended.stderr
    assert "a word from C" in ended.stderr


def test_a_folder_that_does_not_hold_the_study_s_version_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="does not hold the study's vLLM"):
        load_library(str(tmp_path))
