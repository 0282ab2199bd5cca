"""Which host memories do as well as a cap, said from the runs."""

from __future__ import annotations

import json
from dataclasses import dataclass
from types import SimpleNamespace

import pytest

from sim.paper.case import Workplace
from sim.paper.cases import offload as case


def result(rps, hit=1.0):
    return SimpleNamespace(rps=rps, hit=hit, episodes_per_min=5.0)


@dataclass(frozen=True)
class Rehearsal(Workplace):
    """Gives the same result of every run without running anything."""

    def replays(self, jobs, what, on_result=None):
        return [result(2.4) for _ in jobs]


PLAIN, CAPPED = case.Setting(32, 0, None), case.Setting(32, 0, None, case.CAP)
SMALL_SLOW, LARGE_FAST = case.Setting(32, 2_000, 25.0), case.Setting(32, 8_000, 200.0)


def test_the_smallest_host_memory_that_reaches_the_cap_is_named():
    runs = {
        PLAIN: result(0.6),
        CAPPED: result(2.4),
        SMALL_SLOW: result(1.0),
        LARGE_FAST: result(2.5),
    }
    (sentence,) = case.findings(runs)
    assert "1 of 2 sizes and speeds" in sentence
    assert LARGE_FAST.words in sentence.split("smallest")[1].split(";")[0]
    assert "worst 1.00" in sentence


def test_it_is_said_where_none_reaches_the_cap():
    runs = {PLAIN: result(0.6), CAPPED: result(2.4), SMALL_SLOW: result(1.0)}
    assert "No size and speed" in case.findings(runs)[0]


def test_only_the_fleet_without_host_memory_stands_beside_the_study():
    plain = case.rows_of(PLAIN, result(0.6), "study", is_short=False)
    modelled = case.rows_of(LARGE_FAST, result(2.5), "study", is_short=False)
    assert [row.study for row in plain if row.quantity == "rps"] == [0.598]
    assert {row.study for row in modelled} == {None}
    assert {row.note for row in modelled} == {"a model, not measured"}


def test_nothing_of_the_study_stands_beside_a_run_that_is_too_short_to_collapse():
    plain = case.rows_of(PLAIN, result(2.4), "study", is_short=True)
    modelled = case.rows_of(LARGE_FAST, result(2.5), "study", is_short=True)
    assert {row.study for row in (*plain, *modelled)} == {None}
    assert {row.note for row in plain} == {"too short to collapse"}
    assert {row.note for row in modelled} == {"a model, not measured; too short to collapse"}


@pytest.mark.parametrize("quick", [True, False])
def test_a_quick_run_concludes_nothing_and_says_why(quick, tmp_path):
    pytest.importorskip("matplotlib")
    said = []
    case.run(Rehearsal(tmp_path, 1, said.append, quick=quick))
    notes = json.loads((tmp_path / "offload.json").read_text())["notes"]
    assert (case.TOO_SHORT in notes, case.TOO_SHORT in said) == (quick, quick)
    assert any("do as well as the cap" in note for note in notes) == (not quick)


def test_each_fleet_is_run_without_host_memory_with_a_cap_and_in_every_size_and_speed():
    chosen = case.settings_of(is_quick=False, pool_blocks=4270)
    per_fleet = 2 + len(case.HOST_POOLS) * len(case.GIGABYTES_PER_S)
    assert len(set(chosen)) == len(chosen) == per_fleet * len(case.ROBOTS)
    assert len(case.settings_of(is_quick=True, pool_blocks=4270)) == 6
