"""Commands whose output nobody takes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.integration.server.harness import REPOSITORY

COMMAND = [sys.executable, "-m", "sim", "workload", "check"]


def test_whoever_stops_reading_ends_the_command_without_a_complaint() -> None:
    with subprocess.Popen(
        COMMAND, cwd=REPOSITORY, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.stderr is not None
        errors = process.stderr.read()
        assert process.wait(60) == 0
    assert errors == ""


def test_a_full_disk_is_told_in_one_line() -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            COMMAND, cwd=REPOSITORY, stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.returncode == 1
    assert done.stderr == "error: the disk is full: standard output\n"
