"""Processes that compute for a case of `python -m sim paper`, when that is killed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.server.harness import wait_until

ROOT = Path(__file__).parents[3]
#: Two processes; tells their ids, then holds them idle until it is killed.
CASE = """
import sys, time
from multiprocessing import active_children
from sim.paper.parallel import in_processes

if __name__ == "__main__":
    results = in_processes(abs, range(8), 2)
    next(results)
    print(*(child.pid for child in active_children()), flush=True)
    sys.stdin.read()
"""


def runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.faultinjection
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_a_killed_case_takes_its_processes_with_it(tmp_path: Path) -> None:
    program = tmp_path / "case.py"
    program.write_text(CASE)
    case = subprocess.Popen(
        [sys.executable, str(program)],
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert case.stdout is not None
    children = [int(pid) for pid in case.stdout.readline().split()]
    assert len(children) == 2

    case.kill()
    case.communicate()

    wait_until(lambda: not any(map(runs, children)))
