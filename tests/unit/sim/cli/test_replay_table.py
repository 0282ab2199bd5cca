from __future__ import annotations

from dataclasses import replace

import pytest

from sim.cli.replay_table import show, summary, warning_lines
from tests.fakes.replay_worker import result

RUN = result(1, "0.32.0")
WITH_ACTION = replace(RUN, starved_fraction=0.02, starved_fraction_worst=0.3, policy_share=0.5)
SHORT = "300 s are too short: the slowest episode takes {} s, so run {} s or more; see 127.0.0.1:{}"


def cells(text: str, heading: str) -> list[str]:
    """What stands under a heading, right-aligned, line by line."""
    lines = text.splitlines()
    header = next(line for line in lines if line.startswith("seed"))
    end = header.index(heading) + len(heading)
    return [line[:end].split()[-1] for line in lines[lines.index(header) + 1 :][:3]]


def test_an_action_tier_has_columns_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    show([WITH_ACTION, replace(WITH_ACTION, seed=2, starved_fraction=0.04)], "heading")
    shown = capsys.readouterr().out
    assert cells(shown, "starved") == ["0.0200", "0.0400", "0.0300"]
    assert cells(shown, "starved max")[0] == "0.3000"
    assert cells(shown, "policy share")[0] == "0.500"
    assert summary([WITH_ACTION])["starved max"]["mean"] == 0.3


def test_refreshes_are_shown_per_minute_where_there_were_some(
    capsys: pytest.CaptureFixture[str],
) -> None:
    run = replace(RUN, duration_s=120.0, refreshes=30, refreshes_lost=3)
    show([run, replace(run, seed=2, refreshes=0, refreshes_lost=0)], "heading")
    shown = capsys.readouterr().out
    assert cells(shown, "refresh/min") == ["15.00", "0.00", "7.50"]
    assert cells(shown, "lost/min") == ["1.50", "0.00", "0.75"]
    assert summary([run])["refresh/min"]["mean"] == 15.0


@pytest.mark.parametrize("refreshes", [None, 0])
def test_without_tier_and_refreshes_nothing_is_said_of_them(
    refreshes: int | None, capsys: pytest.CaptureFixture[str]
) -> None:
    run = replace(RUN, refreshes=refreshes, refreshes_lost=refreshes)
    show([run], "heading")
    shown = capsys.readouterr().out
    assert "starved" not in shown
    assert "refresh" not in shown
    assert not {"starved", "refresh/min"} & set(summary([run]))


def test_seconds_are_called_so_and_a_missing_value_is_explained(
    capsys: pytest.CaptureFixture[str],
) -> None:
    show([replace(RUN, lowest_window_hit_after_warm_up=None)], "heading")
    shown = capsys.readouterr().out
    assert "turn p50 [s] turn p99 [s] door p90 [s] low hit at [s]" in shown
    assert "after the warm-up (-: none did)" in shown


def test_a_warning_is_said_once_with_the_seeds_that_it_is_of() -> None:
    runs = [
        replace(RUN, seed=seed, warnings=(SHORT.format(613 + seed, 1226.5 + seed, 7),))
        for seed in (0, 1, 2, 5)
    ]
    runs[1] = replace(runs[1], warnings=(*runs[1].warnings, "broke"))
    runs.append(replace(RUN, seed=9))
    assert warning_lines(runs) == [
        f"warning (seeds 0-2,5): {SHORT.format('613 to 618', '1226.5 to 1231.5', 7)}",
        "warning (seed 1): broke",
    ]


def test_the_warning_of_a_single_run_stays_as_it_is() -> None:
    text = SHORT.format(613, 1226, 7)
    assert warning_lines([replace(RUN, warnings=(text,))]) == [f"warning: {text}"]


def test_addresses_are_no_numbers() -> None:
    runs = [
        replace(RUN, seed=seed, warnings=(f"the server at 127.0.0.1:{port} has gone",))
        for seed, port in enumerate((1, 2))
    ]
    assert len(warning_lines(runs)) == 2
