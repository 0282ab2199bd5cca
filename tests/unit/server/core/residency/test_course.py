"""How conversations go on, learned from turns and ends."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.core.residency import HORIZON_TURNS
from server.core.residency.course import Course, CourseHistory


def seen(num_turns: int, first: int = 18_000, later: int = 3_000) -> list[int]:
    return [first, *([later] * (num_turns - 1))]


def learned(*conversations: list[int], running: int = 0) -> CourseHistory:
    """The last `running` of them have not ended."""
    history = CourseHistory()
    for place, grown in enumerate(conversations):
        for index, tokens in enumerate(grown):
            history.turn(index, tokens)
        if place < len(conversations) - running:
            history.end(len(grown))
    return history


def ahead(course: Course, num_turns: int, context: int) -> dict[int, float]:
    tokens, _ = course.expected_tokens([num_turns], [context])
    return dict(zip(HORIZON_TURNS, tokens[0], strict=True))


def test_nothing_is_expected_of_what_nobody_has_seen() -> None:
    assert ahead(CourseHistory().course(), 0, 0)[40] == 0.0


def test_a_young_conversation_grows_like_those_before_it() -> None:
    expected = ahead(learned(*[seen(20)] * 8).course(), 1, 18_000)

    assert expected[0] == 18_000
    assert expected[10] == pytest.approx(18_000 + 10 * 3_000)


def test_one_longer_than_usual_keeps_what_it_has_and_grows_on() -> None:
    expected = ahead(learned(*[seen(20)] * 8).course(), 4, 90_000)

    assert expected[4] == pytest.approx(90_000 + 4 * 3_000)


def test_it_counts_less_once_such_conversations_have_ended() -> None:
    course = learned(*[seen(20)] * 60).course()
    expected = ahead(course, 10, 45_000)

    assert expected[8] == pytest.approx(45_000 + 8 * 3_000)
    assert expected[10] < 0.1 * expected[8]


def test_long_tasks_show_before_the_first_of_them_has_ended() -> None:
    others = learned(*[seen(20)] * 40).course()
    long = learned(*[seen(25)] * 20, running=20).course(others)

    assert ahead(long, 10, 45_000)[12] > 0.85 * (45_000 + 12 * 3_000)
    assert ahead(others, 10, 45_000)[12] < 0.2 * (45_000 + 12 * 3_000)


def test_a_newcomer_is_taken_to_live_longer_than_the_others() -> None:
    others = learned(*[seen(20)] * 40).course()

    assert ahead(others.of_a_newcomer(), 10, 45_000)[12] > ahead(others, 10, 45_000)[12]


def test_what_turns_add_far_ahead_is_not_what_the_first_ones_added() -> None:
    grown = [18_000, *[9_800] * 4, *[2_500] * 10]
    others = learned(grown, grown).course()
    young = learned(grown[:3], running=1).course(others)

    assert ahead(young, 3, 37_600)[40] < 37_600 + 2 * 9_800 + 40 * 2_500


@given(
    st.lists(st.lists(st.integers(0, 50_000), min_size=1, max_size=600), max_size=6),
    st.integers(0, 3),
    st.lists(st.tuples(st.integers(0, 700), st.integers(0, 10**6)), min_size=1, max_size=5),
)
def test_no_course_is_negative_or_without_bound(
    conversations: list[list[int]], running: int, episodes: list[tuple[int, int]]
) -> None:
    course = learned(*conversations, running=running).course()

    tokens, alive = course.expected_tokens(
        [turns for turns, _ in episodes], [context for _, context in episodes]
    )

    assert np.isfinite(tokens).all()
    assert (tokens >= 0).all()
    assert ((alive >= 0) & (alive <= 1)).all()
    assert (np.diff(alive, axis=1) <= 1e-12).all()
