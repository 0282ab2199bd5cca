from __future__ import annotations

from server.core import drain


def test_a_drain_is_over_when_nobody_is_inside_or_the_time_is_up() -> None:
    state = drain.begin(100.0, 30.0, "update")

    assert not state.is_over(129.9, num_active=1)
    assert state.is_over(100.0, num_active=0)
    assert state.is_over(130.0, num_active=1)


def test_a_second_drain_may_shorten_the_first_but_not_lengthen_it() -> None:
    first = drain.begin(0.0, 30.0, "update")

    assert drain.begin(5.0, 60.0, "again", first).deadline_at_s == first.deadline_at_s
    assert drain.begin(5.0, 1.0, "again", first).deadline_at_s == 6.0
