"""Two fleets of the study that do not collapse, cut short, on the installed vLLM.

Whole rows and their seeds are `python -m sim paper sustained static-cap`; this only notices that
engine, costs, workload or door have moved.
"""

from __future__ import annotations

import pytest

from sim.fleet.replay.replay import run
from sim.fleet.replay.result import ReplayResult
from sim.fleet.replay.settings import ReplaySettings
from sim.paper.replay_rows import capped, engine

pytest.importorskip("vllm", reason="vLLM is not installed; see `make setup`")

pytestmark = [
    pytest.mark.vllm,
    # vLLM and what it imports warn about themselves.
    pytest.mark.filterwarnings("ignore"),
]

ENGINE = engine("installed")
#: One window to fill up, and two to look at.
DURATION_S = 360.0
FILLED_S = 120.0


def rps_once_filled(result: ReplayResult) -> float:
    windows = [window for window in result.windows if window.start_s >= FILLED_S]
    return sum(window.turns for window in windows) / (DURATION_S - FILLED_S)


@pytest.mark.parametrize(
    ("settings", "study_rps"),
    [
        (ReplaySettings.sustained(20, engine=ENGINE, duration_s=DURATION_S), 2.41),
        (
            ReplaySettings.sustained(
                32, engine=ENGINE, duration_s=DURATION_S, admission=capped(16)
            ),
            2.244,
        ),
    ],
    ids=["N20", "N32_K16"],
)
def test_a_fleet_below_the_cliff_keeps_its_prefixes_at_the_studys_rate(
    settings: ReplaySettings, study_rps: float
) -> None:
    result = run(settings, seed=0)
    assert result.hit == pytest.approx(1.0, abs=0.002)
    # Half a window more or less full than the study's 20 or 30 minutes.
    assert rps_once_filled(result) == pytest.approx(study_rps, rel=0.12)
