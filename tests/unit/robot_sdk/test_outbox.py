"""The way into an outgoing stream."""

from __future__ import annotations

import threading

from robot_sdk.outbox import Outbox


def test_messages_keep_their_order_and_the_newest_observation_replaces_the_older():
    outbox = Outbox()
    outbox.put("open")
    assert outbox.put_newest("first") is None
    assert outbox.put_newest("second") == "first"
    outbox.put("end")
    outbox.close()
    assert list(outbox) == ["open", "second", "end"]


def test_an_observation_that_has_left_is_not_replaced():
    outbox = Outbox()
    outbox.put_newest("first")
    assert next(outbox) == "first"
    assert outbox.put_newest("second") is None


def test_a15_a_reader_that_stands_still_costs_one_item():
    outbox = Outbox()
    replaced = [outbox.put_newest(number) for number in range(1000)]
    assert replaced == [None, *range(999)]
    outbox.close()
    assert list(outbox) == [999]


def test_closing_wakes_a_blocked_reader_and_ends_every_later_one():
    outbox = Outbox()
    found = []
    thread = threading.Thread(target=lambda: found.extend(outbox))
    thread.start()
    outbox.close()
    outbox.close()
    thread.join(5.0)
    assert not thread.is_alive()
    outbox.put("late")
    assert outbox.put_newest("late") is None
    assert list(outbox) == []
