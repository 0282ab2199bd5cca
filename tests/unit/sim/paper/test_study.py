from __future__ import annotations

import pytest

from robot_sdk.errors import InvalidArgumentError
from sim.paper import study


def test_an_entry_is_found_by_its_path() -> None:
    assert study.value("brain_tier/static_cap/N48_K20/hit") == 0.9995
    assert study.number("brain_tier/static_cap/N48_K20/jain") == 0.947


def test_several_runs_are_a_range() -> None:
    assert study.number("brain_tier/sustained_replay/N28/rps") == (0.66, 0.83)
    assert study.numbers("brain_tier/sustained_replay/N24/first_window_under_80pct_hit_s") == (
        480,
        960,
        1080,
        1200,
    )


def test_a_wrong_path_names_what_there_is() -> None:
    with pytest.raises(InvalidArgumentError, match=r"no 'N21' in brain_tier/static_cap.*N48_K20"):
        study.value("brain_tier/static_cap/N21")
    with pytest.raises(InvalidArgumentError, match="not a number"):
        study.number("brain_tier/static_cap/N48_K20")
