"""The calls of one episode end together."""

from __future__ import annotations

import os
import threading

import pytest

from robot_sdk.episode_calls import EpisodeCalls
from robot_sdk.errors import EpisodeLostError, FencedError, ForkedProcessError
from robot_sdk.process import check_process


class Call:
    num_cancels = 0

    def cancel(self):
        self.num_cancels += 1


def test_the_end_cancels_every_running_call_and_tells_the_first_reason():
    calls, running, finished = EpisodeCalls(), Call(), Call()
    calls.add(running)
    calls.add(finished)
    calls.remove(finished)
    calls.check()
    calls.stop(EpisodeLostError("restarted"))
    calls.stop(FencedError("taken over"))
    assert (running.num_cancels, finished.num_cancels) == (1, 0)
    with pytest.raises(EpisodeLostError):
        calls.check()


def test_a_call_that_comes_too_late_is_cancelled_at_once():
    calls, late = EpisodeCalls(), Call()
    calls.stop(EpisodeLostError("restarted"))
    with pytest.raises(EpisodeLostError):
        calls.add(late)
    assert late.num_cancels == 1


def test_the_end_wakes_a_pause():
    calls = EpisodeCalls()
    raised = []

    def pause():
        try:
            calls.pause(60.0)
        except EpisodeLostError as error:
            raised.append(error)

    thread = threading.Thread(target=pause)
    thread.start()
    calls.stop(EpisodeLostError("restarted"))
    thread.join(5.0)
    assert len(raised) == 1


def test_a10_another_process_is_refused_by_name():
    check_process(os.getpid())
    with pytest.raises(ForkedProcessError, match="spawn"):
        check_process(os.getpid() + 1)
