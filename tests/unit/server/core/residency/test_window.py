from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from server.core.residency import PrefixOutcome, TurnFootprint
from server.core.residency.window import PrefixWindow

turns = st.lists(
    st.tuples(
        st.floats(0, 40),
        st.sampled_from(PrefixOutcome),
        st.none() | st.integers(0, 1000),
        st.integers(0, 100),
    ),
    max_size=60,
)


def turn(at_s: float, computed: int | None = 50, output: int = 5) -> TurnFootprint:
    return TurnFootprint(at_s, 100, 61, 60, 60, computed, output)


def test_only_hits_and_misses_enter_the_rate() -> None:
    window = PrefixWindow()
    for outcome in PrefixOutcome:
        window.add(turn(1.0), outcome)

    assert (window.sums.num_hits, window.sums.num_misses, window.sums.num_unknown) == (1, 1, 1)
    assert window.sums.full_prefix_hit == 0.5


def test_an_empty_window_knows_no_rate_and_no_ratio() -> None:
    window = PrefixWindow()

    assert window.sums.full_prefix_hit is None
    assert window.sums.computed_per_generated is None


def test_a_turn_leaves_after_two_minutes() -> None:
    window = PrefixWindow()
    window.add(turn(0.5), PrefixOutcome.MISS)

    window.expire(119.9)
    assert window.sums.num_misses == 1
    window.expire(121.0)
    assert window.sums.num_misses == 0


def test_turns_of_unknown_work_leave_the_ratio_alone() -> None:
    window = PrefixWindow()
    window.add(turn(0.0, computed=30, output=10), PrefixOutcome.HIT)
    window.add(turn(0.0, computed=None, output=1000), PrefixOutcome.UNKNOWN)

    assert window.sums.computed_per_generated == 3.0


@given(turns)
def test_the_sums_are_those_of_the_turns_still_inside(
    items: list[tuple[float, PrefixOutcome, int | None, int]],
) -> None:
    window = PrefixWindow(window_s=60.0)
    now_s = 0.0
    kept: list[tuple[float, PrefixOutcome, int | None, int]] = []
    for gap_s, outcome, computed, output in items:
        now_s += gap_s
        window.add(turn(now_s, computed, output), outcome)
        kept.append((now_s, outcome, computed, output))
        kept = [item for item in kept if int(item[0]) > int(now_s) - 60]

    sums = window.sums
    assert sums.num_hits == sum(o is PrefixOutcome.HIT for _, o, _, _ in kept)
    assert sums.num_misses == sum(o is PrefixOutcome.MISS for _, o, _, _ in kept)
    assert sums.computed_tokens == sum(c for _, _, c, _ in kept if c is not None)
    assert sums.generated_tokens == sum(g for _, _, c, g in kept if c is not None)
    assert sums.full_prefix_hit is None or 0.0 <= sums.full_prefix_hit <= 1.0


def test_many_turns_take_no_more_memory_than_the_seconds_of_the_window() -> None:
    window = PrefixWindow()
    for number in range(20_000):
        window.add(turn(number / 50.0), PrefixOutcome.HIT)

    assert len(window._slots) <= 121
