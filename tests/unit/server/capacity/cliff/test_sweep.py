"""Cells go to processes and their outcomes come back; the processes are stand-ins."""

from __future__ import annotations

import subprocess
import sys

import pytest

from robot_sdk.errors import RobotSdkError
from server.capacity.cliff import sweep as module
from server.capacity.cliff.protocol import Cell
from server.capacity.cliff.sweep import Sweep, run_sweeps

#: Answers every cell with more text than the cell has.
ANSWERS = """
import json, sys
print(json.dumps({"version": "1.2.3"}), flush=True)
for line in sys.stdin:
    outcome = {"kept_by_round": [1], "kept": 1, "recomputed_tokens": 0, "prefill_pieces": 1.0}
    print(json.dumps({**outcome, **json.loads(line), "padding": "." * 1000}), flush=True)
"""
FAILS = """
import json, sys
sys.stdin.readline()
print(json.dumps({"error": "no such engine"}), flush=True)
"""


def use(monkeypatch: pytest.MonkeyPatch, program: str) -> None:
    def start(_sweep: Sweep) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-c", program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    monkeypatch.setattr(module, "_start", start)


def cells(num: int) -> list[Cell]:
    return [Cell(4270, sessions, "batch") for sessions in range(1, num + 1)]


@pytest.mark.timeout(60)
def test_more_cells_than_both_pipes_hold_come_back_in_their_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    use(monkeypatch, ANSWERS)
    sweep = Sweep(cells(1000))
    told: list[tuple[int, int]] = []
    run_sweeps([sweep], lambda done, total: told.append((done, total)))
    assert [outcome.cell for outcome in sweep.outcomes] == cells(1000)
    assert sweep.version == "1.2.3"
    assert told == [(done, 1000) for done in range(1, 1001)]


@pytest.mark.timeout(60)
def test_a_worker_s_error_is_that_of_the_sweep(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, FAILS)
    with pytest.raises(RobotSdkError, match="no such engine"):
        run_sweeps([Sweep(cells(3))], lambda _done, _total: None)
