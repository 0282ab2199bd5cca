from __future__ import annotations

from server.core.residency.healthy_ratio import HealthyRatio
from server.core.residency.window import WindowSums


def sums(hits: int, misses: int, computed_per_generated: int) -> WindowSums:
    return WindowSums(
        num_hits=hits,
        num_misses=misses,
        computed_tokens=100 * computed_per_generated,
        generated_tokens=100,
    )


def test_the_first_healthy_window_is_the_baseline() -> None:
    ratio = HealthyRatio(120.0)
    ratio.look(sums(100, 0, 25), 0.0)
    assert ratio.baseline is None

    ratio.look(sums(100, 0, 25), 120.0)

    assert ratio.baseline == 25.0


def test_a_thrashing_window_teaches_nothing() -> None:
    ratio = HealthyRatio(120.0)
    ratio.look(sums(100, 0, 25), 0.0)
    ratio.look(sums(100, 0, 25), 120.0)
    for minute in range(2, 60):
        ratio.look(sums(94, 6, 375), 120.0 * minute)

    assert ratio.baseline == 25.0


def test_windows_that_overlap_count_once() -> None:
    ratio = HealthyRatio(120.0)
    ratio.look(sums(100, 0, 20), 0.0)
    ratio.look(sums(100, 0, 20), 120.0)
    for second in range(121, 239):
        ratio.look(sums(100, 0, 30), float(second))
    assert ratio.baseline == 20.0

    ratio.look(sums(100, 0, 30), 240.0)

    assert ratio.baseline == 22.0


def test_a_handful_of_turns_is_no_window() -> None:
    ratio = HealthyRatio(120.0)
    ratio.look(sums(3, 0, 25), 0.0)
    ratio.look(sums(3, 0, 25), 500.0)

    assert ratio.baseline is None
