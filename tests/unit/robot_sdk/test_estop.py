from __future__ import annotations

import pytest

from robot_sdk.errors import EstopError
from robot_sdk.estop import EstopLatch


def test_set_latch_refuses_work_with_the_reason():
    latch = EstopLatch()
    latch.set("person in the cell")
    with pytest.raises(EstopError, match="person in the cell"):
        latch.enter()


def test_rearmed_latch_accepts_work_of_a_new_epoch_only():
    latch = EstopLatch()
    epoch = latch.enter()
    latch.set("stop")
    latch.rearm()
    assert latch.enter() != epoch
    assert not latch.is_set
