from __future__ import annotations

from robot_sdk.report_limiter import ReportLimiter


def test_the_first_is_reported_at_once_and_the_rest_together_once_an_interval() -> None:
    limiter = ReportLimiter(interval_s=10.0)

    assert [limiter.add(now_s) for now_s in (100.0, 101.0, 109.9)] == [1, 0, 0]
    assert limiter.add(110.0, count=5) == 7
    assert limiter.add(110.1) == 0


def test_nothing_happened_is_never_reported_and_does_not_delay_the_first() -> None:
    limiter = ReportLimiter(interval_s=10.0)

    assert limiter.add(0.0, count=0) == 0
    assert limiter.add(1.0) == 1
