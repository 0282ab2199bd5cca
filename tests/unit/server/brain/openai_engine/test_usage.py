from __future__ import annotations

import pytest

from server.brain.openai_engine.usage import ReportedUsage, token_usage
from tests.fakes.openai_endpoint import usage

KNOWN = ReportedUsage(100, 64, 20)


@pytest.mark.parametrize(
    ("counts", "cached"),
    [
        (usage(9, 1), None),
        (usage(9, 1, 0), 0),
        (usage(9, 1, 5), 5),
        ({**usage(9, 1), "prompt_tokens_details": None}, None),
        ({**usage(9, 1), "prompt_tokens_details": {"cached_tokens": None}}, None),
        ({**usage(9, 1), "prompt_tokens_details": {"cached_tokens": "5"}}, None),
        ({**usage(9, 1), "prompt_tokens_details": {"cached_tokens": True}}, None),
        ({**usage(9, 1), "prompt_cache_hit_tokens": 7}, 7),
        (usage(9, 1, 10), None),
    ],
)
def test_d6_zero_cached_tokens_and_unknown_ones_differ(counts, cached):
    told = token_usage(ReportedUsage().updated(counts), None, 0)

    assert told.cached_tokens == cached
    assert told.computed_tokens == (None if cached is None else 9 - cached)


def test_d6_later_counts_replace_earlier_ones_and_missing_ones_do_not():
    counts = [None, "x", usage(9, 1, 4), {"completion_tokens": 3}, {"prompt_tokens": -1}, {}]
    reported = ReportedUsage()
    for each in counts:
        reported = reported.updated(each)

    assert reported == ReportedUsage(9, 4, 3)


@pytest.mark.parametrize(
    ("previous", "new"),
    [
        (None, 100),
        (ReportedUsage(60, None, 10), 30),
        (ReportedUsage(60, None, 40), 0),
        (ReportedUsage(60, None, 41), None),
        (ReportedUsage(60, None, None), None),
        (ReportedUsage(), None),
    ],
)
def test_new_tokens_are_what_prompt_and_answer_of_the_last_turn_do_not_explain(previous, new):
    assert token_usage(KNOWN, previous, 2).new_tokens == new


def test_without_a_count_of_the_prompt_nothing_is_claimed():
    assert token_usage(ReportedUsage(None, 3, 4), None, 0) is None
