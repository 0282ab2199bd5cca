"""Ctrl-C during `python -m sim pacing`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

from robot_sdk.clock import SYSTEM_CLOCK
from tests.integration.server.harness import REPOSITORY


def processes_of(session: int) -> list[str]:
    """Names of the processes of a session that run, without those that wait to be collected."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            name, _, fields = stat.read_text().rpartition(")")
        except OSError:
            continue
        state, _, _, its_session = fields.split()[:4]
        if int(its_session) == session and state != "Z":
            found.append(name)
    return found


def test_ctrl_c_keeps_the_cases_that_ended_and_leaves_nothing_running(tmp_path: Path) -> None:
    file = tmp_path / "new" / "result.json"
    command = [sys.executable, "-m", "sim", "pacing", "--robots", "2", "--seconds", "4"]
    # Whoever runs the tests in the background may have them ignore the signal, and children inherit
    # that; a terminal does not.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    process = subprocess.Popen(
        [*command, "--paced", "--unpaced", "--json", str(file)],
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    signal.signal(signal.SIGINT, before)
    try:
        assert process.stdout is not None
        assert "paced" in process.stdout.readline()
        # Somewhere in the second case; wherever that is, the outcome must be the same.
        SYSTEM_CLOCK.sleep_until(SYSTEM_CLOCK.now_s() + 5.0)
        os.killpg(process.pid, signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    assert process.returncode == 130, errors
    assert "Traceback" not in errors
    assert [row["discipline"] for row in json.loads(file.read_text())["rows"]] == ["paced"]
    assert processes_of(process.pid) == []
