from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.core.residency.refresh import INTERVAL_S, MOST_PER_INTERVAL, PrefixRefresher


def test_what_is_closest_to_being_dropped_is_touched_first() -> None:
    refresher = PrefixRefresher()

    assert refresher.choose({"a": 90, "b": 120, "c": 110, "d": 130}, 100, 0.0) == ["d", "b"]


def test_what_is_being_touched_is_not_chosen_again_and_takes_a_place() -> None:
    refresher = PrefixRefresher()
    refresher.choose({"a": 130, "b": 120}, 100, 0.0)

    assert refresher.choose({"a": 140, "b": 130, "c": 120}, 100, 1.0) == []
    refresher.done("a", True, 1.5)
    assert refresher.choose({"b": 130, "c": 120}, 100, 2.0) == ["c"]


def test_it_is_due_once_an_interval() -> None:
    refresher = PrefixRefresher()
    assert refresher.is_due(0.0)
    refresher.choose({}, 100, 0.0)

    assert not refresher.is_due(INTERVAL_S - 0.01)
    assert refresher.is_due(INTERVAL_S)


def test_where_there_was_nothing_to_touch_the_others_come_first_for_a_while() -> None:
    refresher = PrefixRefresher()
    assert refresher.choose({"a": 200}, 100, 0.0) == ["a"]
    assert refresher.done("a", None, 0.5) is None

    needed = {"a": 200, "b": 120, "c": 110}
    assert refresher.choose(needed, 100, 1.0) == ["b", "c"]
    refresher.done("b", True, 1.1)
    refresher.done("c", True, 1.1)
    assert refresher.choose(needed, 100, 4.0) == ["a", "b"]


def test_a_refresh_tells_what_the_prefix_needed_when_it_began() -> None:
    refresher = PrefixRefresher()
    refresher.choose({"a": 120}, 100, 0.0)

    refreshed = refresher.done("a", False, 2.0)

    assert refreshed is not None
    assert (refreshed.needed_blocks, refreshed.found, refreshed.ended_s) == (120, False, 2.0)
    assert refresher.done("a", True, 3.0) is None


def ended(refresher: PrefixRefresher, *found: bool | None) -> None:
    """Refreshes one after the other, the last of which ends at 0."""
    for one in found:
        refresher.choose({"a": 200}, 100, -10.0)
        refresher.done("a", one, 0.0)


@pytest.mark.parametrize(
    ("found", "is_losing"),
    [
        ([False] * 4, True),
        ([True, *[False] * 4], True),
        ([False] * 3, False),
        ([False] * 3 + [True] + [False] * 3, False),
    ],
)
def test_many_lost_ones_in_a_row_say_that_prefixes_are_being_lost(
    found: list[bool], is_losing: bool
) -> None:
    refresher = PrefixRefresher()
    ended(refresher, *found)

    assert refresher.is_losing(59.0) is is_losing
    assert not refresher.is_losing(60.0)


@given(
    st.lists(
        st.tuples(
            st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 200)),
            st.sets(st.sampled_from("abcdef")),
            st.sampled_from([True, False, None]),
        ),
        max_size=30,
    )
)
def test_never_more_at_once_than_allowed_and_none_twice(
    looks: list[tuple[dict[str, int], set[str], bool | None]],
) -> None:
    refresher, running, now_s = PrefixRefresher(), set(), 0.0
    for needed, ended, found in looks:
        for name in ended & running:
            refresher.done(name, found, now_s)
        running -= ended
        chosen = refresher.choose(needed, 100, now_s)
        assert not running & set(chosen)
        assert all(needed[name] > 100 for name in chosen)
        running |= set(chosen)
        assert len(running) <= MOST_PER_INTERVAL
        now_s += INTERVAL_S
