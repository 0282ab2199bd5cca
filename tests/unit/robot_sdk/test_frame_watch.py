from __future__ import annotations

import pytest

from robot_sdk.errors import InvalidArgumentError, StaleObservationError
from robot_sdk.frame_watch import FrameWatch
from robot_sdk.observation import Observation


def _seen(**frame_ids: int) -> Observation:
    return Observation(frame_ids=frame_ids)


def test_a16_frame_id_that_stays_for_five_steps_is_stale():
    watch = FrameWatch()
    for step in range(5):
        watch.check(step, _seen(wrist=7))
    with pytest.raises(StaleObservationError, match=r"wrist \(5 steps\)"):
        watch.check(5, _seen(wrist=7))


def test_a16_sparse_observations_notice_a_camera_that_froze_in_between():
    watch = FrameWatch()
    watch.check(0, _seen(wrist=7))
    with pytest.raises(StaleObservationError):
        watch.check(40, _seen(wrist=7))


def test_a16_first_new_frame_passes_again():
    watch = FrameWatch()
    watch.check(0, _seen(wrist=7))
    with pytest.raises(StaleObservationError):
        watch.check(9, _seen(wrist=7))
    watch.check(10, _seen(wrist=8))


def test_a16_one_frozen_camera_among_live_ones_is_named_alone():
    watch = FrameWatch()
    watch.check(0, _seen(front=0, wrist=0))
    with pytest.raises(StaleObservationError, match="wrist") as caught:
        watch.check(5, _seen(front=5, wrist=0))
    assert "front" not in str(caught.value)


def test_world_that_stands_still_is_not_a_frozen_camera():
    watch = FrameWatch()
    for _ in range(100):
        watch.check(3, _seen(wrist=7))


def test_slow_camera_passes_with_a_larger_limit():
    watch = FrameWatch(max_same_steps=20)
    for step in range(100):
        watch.check(step, _seen(wrist=step // 10))


def test_cameras_that_are_not_listed_are_not_watched():
    watch = FrameWatch()
    watch.check(0, _seen())
    watch.check(100, _seen())


def test_limit_below_one_step_is_refused():
    with pytest.raises(InvalidArgumentError):
        FrameWatch(0)
