from __future__ import annotations

import pytest

from server.core.residency import (
    QUEUEING_THRASH,
    SILENT_ENGINE,
    WORKING_SET_FORECAST,
    WORKING_SET_THRASH,
    AlertBoard,
    AlertFinding,
    CapacityEstimate,
    EngineGauges,
    LedgerSnapshot,
    WindowSums,
    find_alerts,
)


def snapshot(
    hits: int,
    misses: int,
    ratio: float = 25.0,
    baseline: float | None = 25.0,
    forecast_blocks: int | None = None,
    least_ratio: float = 25.0,
) -> LedgerSnapshot:
    return LedgerSnapshot(
        window=WindowSums(
            num_hits=hits,
            num_misses=misses,
            num_measured=hits + misses,
            computed_tokens=int(100 * ratio),
            least_computed_tokens=int(100 * least_ratio),
            generated_tokens=100,
        ),
        baseline_computed_per_generated=baseline,
        num_live=28,
        forecast_blocks=forecast_blocks,
        pool_blocks=4270,
        block_tokens=784,
        capacity=CapacityEstimate(3500, 4000),
    )


def names(snapshot: LedgerSnapshot, usage: float | None = None) -> list[str]:
    return [alert.name for alert in find_alerts(snapshot, EngineGauges(kv_cache_usage=usage))]


def test_a_healthy_fleet_has_no_alert() -> None:
    assert names(snapshot(hits=99, misses=1), usage=0.3) == []


def test_low_hits_and_much_prompt_work_advise_to_lower_k() -> None:
    (alert,) = find_alerts(snapshot(40, 60, ratio=38.0), EngineGauges(kv_cache_usage=0.9))

    assert alert.name == WORKING_SET_THRASH
    assert alert.advice.endswith("lower K")
    assert "hit 0.40" in alert.evidence


def test_low_hits_and_low_usage_advise_not_to_raise_k() -> None:
    (alert,) = find_alerts(snapshot(40, 60, ratio=37.0), EngineGauges(kv_cache_usage=0.69))

    assert alert.name == QUEUEING_THRASH
    assert alert.advice.endswith("do not raise K")


def test_the_study_s_collapse_raises_both() -> None:
    # N=32: 1.5M computed and 4k generated tokens a minute against 700k and 27k at N=20.
    thrash = snapshot(hits=47, misses=53, ratio=375.0, baseline=26.0)

    assert names(thrash, usage=0.5) == [WORKING_SET_THRASH, QUEUEING_THRASH]


@pytest.mark.parametrize(("hits", "misses"), [(80, 20), (4, 5)])
def test_hits_at_the_line_or_of_a_few_turns_only_raise_nothing(hits: int, misses: int) -> None:
    assert names(snapshot(hits, misses, ratio=100.0), usage=0.1) == []


def test_unknown_usage_is_not_low_usage() -> None:
    assert names(snapshot(40, 60, ratio=25.0), usage=None) == []


def test_a_server_that_came_up_overloaded_is_measured_against_what_nothing_lost_would_cost() -> (
    None
):
    overloaded = snapshot(40, 60, ratio=200.0, baseline=None, least_ratio=30.0)

    (alert,) = find_alerts(overloaded, SILENT_ENGINE)

    assert alert.name == WORKING_SET_THRASH
    assert "30 with nothing lost" in alert.evidence


def test_the_forecast_warns_before_a_prefix_is_lost() -> None:
    (alert,) = find_alerts(snapshot(100, 0, forecast_blocks=3700), SILENT_ENGINE)

    assert alert.name == WORKING_SET_FORECAST
    assert "3700 blocks" in alert.evidence
    assert "admit nobody" in alert.advice


def test_a_forecast_that_fits_or_is_unknown_warns_of_nothing() -> None:
    assert names(snapshot(100, 0, forecast_blocks=3600)) == []
    assert names(snapshot(100, 0, forecast_blocks=None)) == []


def test_an_alert_that_comes_back_starts_anew() -> None:
    board = AlertBoard()
    finding = AlertFinding("a", "", "")
    board.update([finding], 1.0)
    board.update([AlertFinding("a", "more", "")], 5.0)
    assert [(alert.finding.evidence, alert.since_s) for alert in board.standing] == [("more", 1.0)]

    board.update([], 6.0)
    assert board.standing == ()
    board.update([finding], 7.0)

    assert board.standing[0].since_s == 7.0
