"""Pauses between tries."""

from __future__ import annotations

import pytest

from robot_sdk.backoff import Backoff


def test_a5_pauses_double_up_to_two_seconds_and_start_again_after_a_success():
    backoff = Backoff()
    assert [backoff.next_s() for _ in range(7)] == pytest.approx(
        [0.1, 0.2, 0.4, 0.8, 1.6, 2.0, 2.0]
    )
    backoff.reset()
    assert backoff.next_s() == pytest.approx(0.1)


def test_the_servers_own_wish_is_followed():
    assert Backoff().next_s(retry_after_s=7.0) == 7.0
    assert Backoff().next_s(retry_after_s=0.0) == pytest.approx(0.1)
