from __future__ import annotations

from robot_sdk.overrun_watch import OverrunWatch


def test_the_first_skipped_tick_is_told_at_once_and_later_ones_every_ten_seconds() -> None:
    watch = OverrunWatch(control_hz=10.0)

    said = [watch.note(2 * tick, now_s=0.25 * tick) for tick in range(100)]

    assert [0.25 * index for index, text in enumerate(said) if text] == [0.25, 10.25, 20.25]
    assert "skipped 2 ticks" in said[1]
    assert "period of 100 ms" in said[1]
    assert "skipped 80 ticks" in said[41]


def test_ticks_that_were_all_run_say_nothing() -> None:
    watch = OverrunWatch(control_hz=10.0)

    assert not any(watch.note(0, now_s=float(tick)) for tick in range(30))


def test_ticks_skipped_for_a_call_are_excused() -> None:
    watch = OverrunWatch(control_hz=10.0)
    watch.excuse(5)

    assert watch.note(5, now_s=1.0) == ""
    assert "skipped 1 ticks" in watch.note(6, now_s=1.1)
