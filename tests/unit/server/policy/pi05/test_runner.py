from __future__ import annotations

import numpy as np
import pytest

from robot_sdk.clock import VirtualClock
from server.policy.pi05.bucket import Shape
from server.policy.pi05.config import TINY
from server.policy.pi05.runner import Row, Runner
from tests.unit.server.policy.pi05.helpers import HORIZON, SIDE_PX, tiny_model

NUM_TOKENS = 8


def rows(count: int) -> list[Row]:
    rng = np.random.default_rng(0)
    return [
        Row(
            (rng.integers(0, 256, (SIDE_PX, SIDE_PX, 3), dtype=np.uint8),),
            list(rng.integers(3, 400, 3 + index % 4)),
            rng.standard_normal((HORIZON, TINY.action_width), dtype=np.float32),
        )
        for index in range(count)
    ]


def runner(**options: object) -> Runner:
    settings: dict[str, object] = {"buckets": (), "prefix_batch": 4, "rotate_180": (False,)}
    settings |= options
    return Runner(
        tiny_model(),
        Shape(len(settings["rotate_180"]), NUM_TOKENS, HORIZON),  # type: ignore[arg-type]
        antialias=True,
        num_steps=2,
        **settings,  # type: ignore[arg-type]
    )


@pytest.mark.parametrize(
    "options",
    [
        {"buckets": (1, 2, 4, 8, 16)},
        {"buckets": (8,), "prefix_batch": 3},
        {"buckets": (2,)},
        {"prefix_batch": 1},
    ],
    ids=["padded", "groups that do not divide", "several runs", "one by one"],
)
def test_buckets_and_groups_change_nothing(options: dict[str, object]) -> None:
    batch = rows(5)
    expected = runner().run(batch).actions

    found = runner(**options).run(batch).actions

    assert found.shape == (5, HORIZON, TINY.action_width)
    assert np.allclose(found, expected, atol=1e-5)


def test_pictures_are_turned_camera_by_camera() -> None:
    (row,) = rows(1)
    picture = row.pictures[0]
    both = Row((picture, picture), row.tokens, row.noise)
    second_turned = Row((picture, picture[::-1, ::-1]), row.tokens, row.noise)

    turning = runner(rotate_180=(False, True)).run([both]).actions
    plain = runner(rotate_180=(False, False))

    assert np.allclose(turning, plain.run([second_turned]).actions, atol=1e-6)
    assert not np.allclose(turning, plain.run([both]).actions, atol=1e-6)


def test_nothing_of_an_earlier_batch_is_left() -> None:
    one = runner(buckets=(4,))
    batch = rows(4)
    expected = runner().run(batch[3:]).actions

    one.run(batch)
    found = one.run(batch[3:]).actions

    assert np.allclose(found, expected, atol=1e-5)


def test_a_result_is_not_overwritten_by_the_next() -> None:
    one = runner(buckets=(2,))
    batch = rows(4)

    first = one.run(batch[:2]).actions
    kept = first.copy()
    one.run(batch[2:])

    assert np.array_equal(first, kept)


def test_the_same_row_gives_bitwise_the_same_chunk() -> None:
    one = runner()
    batch = rows(1)

    assert np.array_equal(one.run(batch).actions, one.run(batch).actions)


def test_stages_are_measured_by_the_clock() -> None:
    class Ticking(VirtualClock):
        """Every look at it takes a second."""

        def now_s(self) -> float:
            self.advance(1.0)
            return super().now_s()

    result = runner(clock=Ticking()).run(rows(1))

    assert (result.vision_s, result.prefill_s, result.denoise_s) == (1.0, 1.0, 1.0)
