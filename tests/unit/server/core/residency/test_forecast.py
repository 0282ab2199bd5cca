from __future__ import annotations

from server.core.residency.forecast import FamilyHistories


def test_a_family_is_forecast_by_the_mean_of_its_own_ended_episodes() -> None:
    histories = FamilyHistories()
    for peak_tokens in (150_000, 130_000) * 4:
        histories.ended("long", peak_tokens)
    histories.ended("short", 20_000)

    forecast = histories.table.of("long")

    assert (forecast.num_ended, forecast.peak_tokens) == (8, 140_000.0)


def test_while_few_have_ended_the_longest_of_them_counts() -> None:
    histories = FamilyHistories()
    for peak_tokens in (90_000, 60_000, 50_000):
        histories.ended("sort", peak_tokens)

    assert histories.table.of("sort").peak_tokens == 90_000.0


def test_a_new_family_is_forecast_like_the_longest_of_all() -> None:
    histories = FamilyHistories()
    for _ in range(20):
        histories.ended("short", 20_000)
    histories.ended("long", 100_000)
    histories.grew("short", 1000)
    histories.grew("new", 3000)

    new, unheard = histories.table.of("new"), histories.table.of("unheard of")

    assert (new.num_ended, new.peak_tokens, new.growth_tokens_per_turn) == (0, 100_000.0, 3000.0)
    assert (unheard.peak_tokens, unheard.growth_tokens_per_turn) == (100_000.0, 1100.0)
    assert histories.table.num_ended == 21


def test_nothing_is_forecast_before_an_episode_has_ended() -> None:
    histories = FamilyHistories()

    assert histories.table.of("any").peak_tokens is None


def test_only_the_newest_episodes_count() -> None:
    histories = FamilyHistories()
    for _ in range(1000):
        histories.ended("a", 10)
    for _ in range(64):
        histories.ended("a", 30)

    assert histories.table.of("a").peak_tokens == 30.0


def test_e5_families_that_robots_make_up_do_not_fill_the_memory() -> None:
    histories = FamilyHistories()
    for number in range(5000):
        histories.ended(f"family {number}", 10)

    assert len(histories.table.families) == 256
    assert "family 4999" in histories.table.families
