from __future__ import annotations

from sim.fleet.event_loop import EventLoop


def test_events_run_in_the_order_of_their_times_and_then_of_their_setting() -> None:
    loop, seen = EventLoop(), []
    for name, at_s in (("c", 2.0), ("a", 1.0), ("d", 2.0), ("b", 1.5)):
        loop.at(at_s, lambda name=name: seen.append((name, loop.clock.now_s())))

    loop.run_until(3.0)

    assert seen == [("a", 1.0), ("b", 1.5), ("c", 2.0), ("d", 2.0)]
    assert loop.clock.now_s() == 3.0


def test_an_event_for_a_time_that_has_passed_runs_now() -> None:
    loop, seen = EventLoop(), []
    loop.at(1.0, lambda: loop.at(0.5, lambda: seen.append(loop.clock.now_s())))
    loop.run_until(2.0)
    assert seen == [1.0]


def test_what_is_due_after_the_end_does_not_run() -> None:
    loop, seen = EventLoop(), []
    loop.at(2.0, lambda: seen.append("late"))
    loop.run_until(1.0)
    assert seen == []
