from __future__ import annotations

from server.core.residency.forecast import FamilyHistories


def test_a_family_is_forecast_by_its_own_ended_episodes() -> None:
    histories = FamilyHistories()
    histories.ended("long", 150_000)
    histories.ended("long", 130_000)
    histories.ended("short", 20_000)

    forecast = histories.table.of("long")

    assert (forecast.num_ended, forecast.mean_peak_tokens) == (2, 140_000.0)


def test_a_new_family_is_forecast_by_all_of_them() -> None:
    histories = FamilyHistories()
    histories.ended("long", 100_000)
    histories.ended("short", 20_000)
    histories.grew("short", 1000)

    forecast = histories.table.of("new")

    assert forecast.num_ended == 0
    assert forecast.mean_peak_tokens == 60_000.0
    assert forecast.growth_tokens_per_turn == 1000.0


def test_nothing_is_forecast_before_an_episode_has_ended() -> None:
    histories = FamilyHistories()

    assert histories.table.of("any").mean_peak_tokens is None


def test_only_the_newest_episodes_count() -> None:
    histories = FamilyHistories()
    for _ in range(1000):
        histories.ended("a", 10)
    for _ in range(64):
        histories.ended("a", 30)

    assert histories.table.of("a").mean_peak_tokens == 30.0


def test_e5_families_that_robots_make_up_do_not_fill_the_memory() -> None:
    histories = FamilyHistories()
    for number in range(5000):
        histories.ended(f"family {number}", 10)

    assert len(histories.table.families) == 256
    assert "family 4999" in histories.table.families
