from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from server.core.batching import (
    STUDY_TABLE,
    Accepted,
    DeadlineBatcher,
    LatencyLearner,
    LatencyRow,
    LatencyTable,
    Refused,
    StreamRate,
    Waiting,
)
from server.core.batching.deadline import DEFAULT_MARGIN_S
from server.core.batching.latency_learner import ENOUGH, WARMUPS_PER_SIZE
from server.core.batching.pacing import NOTICE_S
from server.core.batching.tier_admission import TierAdmission

RATE = StreamRate(20.0, executed_steps=5, horizon=10)


def study(**options: object) -> DeadlineBatcher[None]:
    return DeadlineBatcher(64, LatencyLearner(STUDY_TABLE), **options)  # type: ignore[arg-type]


def waiting(stream: int, step: int, arrived_s: float, buffered_steps: int = 5) -> Waiting[None]:
    return Waiting(stream, step, arrived_s, arrived_s + 0.5, None, step, buffered_steps)


def open_streams(batcher: DeadlineBatcher[None], num_streams: int) -> float:
    """Open them at time 0. Returns when their first observations are planned."""
    wishes = [batcher.open_stream(stream, RATE, 0.0) for stream in range(num_streams)]
    assert all(isinstance(wish, Accepted) for wish in wishes)
    first = wishes[0]
    assert isinstance(first, Accepted)
    assert first.next_observation_in_s is not None
    return first.next_observation_in_s


def test_observations_that_arrive_together_run_together() -> None:
    batcher = study()
    first_s = open_streams(batcher, 7)
    for stream in range(6):
        batcher.add(waiting(stream, 0, first_s, 0))
        batch = batcher.take(first_s)
        assert not batch.items
        assert batch.wake_at_s is not None
    batcher.add(waiting(6, 0, first_s, 0))
    assert len(batcher.take(first_s).items) == 7


def test_the_wait_for_a_missing_robot_ends_in_time_for_the_others() -> None:
    batcher = study(margin_s=0.002)
    first_s = open_streams(batcher, 7)
    for stream in range(6):
        batcher.add(waiting(stream, 0, first_s))
    wake_at_s = batcher.take(first_s).wake_at_s
    assert wake_at_s is not None
    batch = batcher.take(wake_at_s)
    assert len(batch.items) == 6
    assert wake_at_s + STUDY_TABLE.latency_s(6) <= first_s + 0.25


def test_one_slow_robot_joins_the_next_cycle_and_delays_nobody() -> None:
    batcher = study()
    first_s = open_streams(batcher, 7)
    for stream in range(6):
        batcher.add(waiting(stream, 0, first_s))
    start_s = first_s + 0.2
    assert len(batcher.take(start_s - 0.18).items) == 6
    batcher.add(waiting(6, 1, first_s + 0.05))
    free_s = first_s + 0.02 + STUDY_TABLE.latency_s(6)
    batcher.on_finished(0, 6, STUDY_TABLE.latency_s(6), free_s)
    assert not batcher.take(free_s).items
    for stream in range(6):
        batcher.add(waiting(stream, 5, first_s + 0.25))
    batch = batcher.take(first_s + 0.25)
    assert {item.stream for item in batch.items} == set(range(7))


def test_robots_are_told_to_ask_half_a_period_before_the_tick_that_is_wanted() -> None:
    batcher = study()
    first_s = open_streams(batcher, 1)
    batcher.add(waiting(0, 0, first_s))
    assert batcher.take(first_s).items
    done_s = first_s + 0.160
    assert batcher.next_observation_in_s(0, done_s) == pytest.approx(0.25 - 0.160 - 0.025)


def test_two_workers_share_robots_that_arrive_together() -> None:
    batcher = study(num_workers=2)
    batcher.on_ready(0, 0.0)
    batcher.on_ready(1, 0.0)
    first_s = open_streams(batcher, 14)
    for stream in range(14):
        batcher.add(waiting(stream, 0, first_s))
    assert [len(batcher.take(first_s, worker).items) for worker in (0, 1)] == [7, 7]


def test_a_worker_that_was_lost_is_no_longer_counted_on() -> None:
    batcher = study(num_workers=2)
    batcher.on_ready(0, 0.0)
    batcher.on_ready(1, 0.0)
    batcher.on_lost(1, 0.0)
    first_s = open_streams(batcher, 8)
    for stream in range(8):
        batcher.add(waiting(stream, 0, first_s, 9))
    assert len(batcher.take(first_s, 0).items) == 8


def test_the_eighth_robot_at_20_hz_is_refused_and_told_what_would_fit() -> None:
    batcher = study()
    open_streams(batcher, 7)
    verdict = batcher.open_stream(7, RATE, 0.0)
    assert isinstance(verdict, Refused)
    assert "carry 7 robots" in verdict.reason
    assert verdict.sustainable_control_hz is None
    assert "no control rate would fit" in verdict.reason
    assert batcher.status(0.0).num_refused == 1


def test_the_rate_that_a_refusal_names_is_accepted() -> None:
    batcher = study()
    for stream in range(5):
        assert isinstance(batcher.open_stream(stream, RATE, 0.0), Accepted)
    fast = StreamRate(50.0, 5, 10)
    verdict = batcher.open_stream(9, fast, 0.0)
    assert isinstance(verdict, Refused)
    assert verdict.sustainable_control_hz is not None
    slower = StreamRate(verdict.sustainable_control_hz, 5, 10)
    assert isinstance(batcher.open_stream(9, slower, 0.0), Accepted)


def test_a_robot_that_leaves_makes_room_for_another() -> None:
    batcher = study()
    open_streams(batcher, 7)
    batcher.close_stream(3)
    assert isinstance(batcher.open_stream(7, RATE, 0.0), Accepted)


def test_latency_that_was_learned_decides_who_is_let_in() -> None:
    batcher = study()
    for _ in range(WARMUPS_PER_SIZE + ENOUGH):
        batcher.on_finished(0, 1, 0.240, 0.0)
    assert isinstance(batcher.open_stream(0, RATE, 0.0), Accepted)
    assert isinstance(batcher.open_stream(1, RATE, 0.0), Refused)


def test_while_no_latency_is_known_everybody_is_let_in_and_served_at_once() -> None:
    batcher: DeadlineBatcher[None] = DeadlineBatcher(4)
    open_streams(batcher, 50)
    for stream in range(6):
        batcher.add(waiting(stream, 0, 0.0))
    assert [len(batcher.take(0.0).items) for _ in range(2)] == [4, 2]


def test_streams_that_were_never_opened_are_served_too() -> None:
    batcher = study()
    batcher.add(waiting(3, 0, 0.0))
    assert [item.stream for item in batcher.take(0.0).items] == [3]
    assert batcher.next_observation_in_s(3, 0.1) is None


def test_without_pacing_robots_ask_when_they_want_to() -> None:
    batcher = study(paces=False)
    assert batcher.open_stream(0, RATE, 0.0) == Accepted(None)
    batcher.add(waiting(0, 0, 0.0))
    assert batcher.take(0.0).items
    assert batcher.next_observation_in_s(0, 0.2) is None
    assert batcher.status(0.2).cycle_s is None


def test_the_status_tells_cycle_latencies_and_what_one_more_robot_could_have() -> None:
    batcher = study()
    open_streams(batcher, 4)
    status = batcher.status(0.0)
    assert (status.name, status.num_streams, status.cycle_s) == ("deadline", 4, 0.25)
    assert status.sustainable_control_hz is not None
    assert status.sustainable_control_hz >= 20.0
    assert [row.batch_size for row in status.latencies] == [1, 8, 64]


@settings(max_examples=80, deadline=None)
@given(st.dictionaries(st.integers(0, 19), st.integers(4, 30), min_size=1), st.integers(1, 8))
def test_those_whose_rows_run_out_first_go_first(rows: dict[int, int], max_batch: int) -> None:
    batcher: DeadlineBatcher[None] = DeadlineBatcher(
        max_batch, LatencyLearner(STUDY_TABLE), refuses=False
    )
    for stream in rows:
        batcher.open_stream(stream, StreamRate(5.0, 5, 40), 0.0)
    for stream, buffered_steps in rows.items():
        batcher.add(Waiting(stream, 0, 0.0, None, None, 0, buffered_steps))
    taken = [item.stream for item in batcher.take(0.0).items]
    left = rows.keys() - set(taken)
    assert len(taken) <= max_batch
    if left:
        assert max(rows[stream] for stream in taken) <= min(rows[stream] for stream in left)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"max_batch": 0}, "max_batch is 0"),
        ({"max_batch": 1, "num_workers": 0}, "num_workers is 0"),
        ({"max_batch": 1, "margin_s": -1.0}, "margin_s is -1.0"),
    ],
)
def test_settings_that_cannot_be_are_refused(options: dict[str, float], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        DeadlineBatcher(**options)  # type: ignore[arg-type]


def test_after_a_batch_that_took_too_long_its_robots_are_waited_for_together() -> None:
    batcher = study(margin_s=0.001)
    first_s = open_streams(batcher, 7)
    for stream in range(7):
        batcher.add(waiting(stream, 0, first_s, 0))
    assert len(batcher.take(first_s).items) == 7
    # 20 ms more than the table says: all miss their tick after 250 ms and ask at the next.
    batcher.on_finished(0, 7, 0.256, first_s + 0.256)
    sizes = []
    for stream in range(7):
        arrived_s = first_s + 0.3 + 0.0001 * stream
        batcher.add(waiting(stream, 6, arrived_s, 4))
        sizes.append(len(batcher.take(arrived_s).items))
    assert sizes == [0] * 6 + [7]


def test_simulations_that_wait_for_their_chunks_shut_nobody_out_and_wait_for_nobody_long() -> None:
    batcher = study()
    open_streams(batcher, 3)
    now_s = 0.0
    for cycle in range(40):
        for stream in range(3):
            batcher.add(waiting(stream, 5 * cycle, now_s, buffered_steps=0))
            batch = batcher.take(now_s)
            if batch.wake_at_s is not None:
                assert batch.wake_at_s - now_s <= RATE.cycle_s
            if batch.items:
                now_s += 0.16
                batcher.on_finished(0, len(batch.items), 0.16, now_s)
        # Rendering: five steps of 0.05 s each took 1 s of the server's time.
        now_s += 1.0
    assert isinstance(batcher.open_stream(9, RATE, now_s), Accepted)


def too_slow_for_one(**options: object) -> DeadlineBatcher[None]:
    """A batch takes 0.4 s: one robot at 20 Hz needs a chunk every 0.25 s, at 5 Hz every 1 s."""
    rows = (LatencyRow(1, 0.4), LatencyRow(64, 0.8))
    table = LatencyTable(**{**vars(STUDY_TABLE), "rows": rows})
    return DeadlineBatcher(64, LatencyLearner(table), **options)  # type: ignore[arg-type]


def test_a_robot_alone_is_accepted_and_told_that_it_will_starve() -> None:
    batcher = too_slow_for_one()
    verdict = batcher.open_stream(0, RATE, 0.0)
    assert isinstance(verdict, Accepted)
    assert verdict.next_observation_in_s is not None
    assert verdict.too_slow is not None
    highest_hz = verdict.too_slow.sustainable_control_hz
    assert highest_hz == pytest.approx(5 / (0.4 + DEFAULT_MARGIN_S))
    assert f"{highest_hz:.3g} Hz would fit" in verdict.too_slow.reason
    status = batcher.status(0.0)
    assert (status.num_streams, status.num_refused) == (1, 0)


def test_the_rate_that_a_robot_alone_is_told_does_not_starve_it() -> None:
    verdict = too_slow_for_one().open_stream(0, RATE, 0.0)
    assert isinstance(verdict, Accepted)
    assert verdict.too_slow is not None
    highest_hz = verdict.too_slow.sustainable_control_hz
    assert highest_hz is not None
    slower = too_slow_for_one().open_stream(0, StreamRate(highest_hz, 5, 10), 0.0)
    assert isinstance(slower, Accepted)
    assert slower.too_slow is None


def test_beside_a_robot_that_starves_alone_nobody_is_let_in_until_it_leaves() -> None:
    batcher = too_slow_for_one()
    slower = StreamRate(5.0, 5, 10)
    assert isinstance(batcher.open_stream(0, RATE, 0.0), Accepted)
    verdict = batcher.open_stream(1, slower, 0.0)
    assert isinstance(verdict, Refused)
    assert "carry 1 robots" in verdict.reason
    assert batcher.status(0.0).num_refused == 1
    batcher.close_stream(0)
    assert batcher.open_stream(1, slower, 0.0) == Accepted(pytest.approx(NOTICE_S), None)


def test_a_robot_that_starves_alone_is_paced_to_ask_as_soon_as_its_chunk_is_there() -> None:
    batcher = too_slow_for_one()
    first_s = open_streams(batcher, 1)
    batcher.add(waiting(0, 0, first_s, 0))
    assert batcher.take(first_s).items
    done_s = first_s + 0.4
    batcher.on_finished(0, 1, 0.4, done_s)
    assert batcher.next_observation_in_s(0, done_s) == 0.0
    batcher.add(waiting(0, 8, done_s, 0))
    assert batcher.take(done_s).items


def test_a_stream_that_is_not_alone_is_not_called_too_slow_where_nobody_is_refused() -> None:
    batcher = too_slow_for_one(refuses=False)
    verdicts = [batcher.open_stream(stream, RATE, 0.0) for stream in range(2)]
    notes = [verdict.too_slow for verdict in verdicts if isinstance(verdict, Accepted)]
    assert [note is not None for note in notes] == [True, False]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.sampled_from([1.0, 3.0, 10.0, 20.0, 50.0]), min_size=1, max_size=6),
    st.sampled_from([0.02, 0.16, 0.4, 3.0]),
)
def test_the_first_is_always_accepted_and_later_ones_only_if_all_fit_together(
    rates_hz: list[float], latency_s: float
) -> None:
    rows = (LatencyRow(1, latency_s), LatencyRow(64, 2 * latency_s))
    latencies = LatencyLearner(LatencyTable(**{**vars(STUDY_TABLE), "rows": rows}))
    batcher: DeadlineBatcher[None] = DeadlineBatcher(64, latencies)
    admission = TierAdmission(latencies, 64, lambda: DEFAULT_MARGIN_S)
    held: list[StreamRate] = []
    for stream, control_hz in enumerate(rates_hz):
        rate = StreamRate(control_hz, 5, 10)
        verdict = batcher.open_stream(stream, rate, 0.0)
        fits = admission.fits([*held, rate], 1)
        assert isinstance(verdict, Accepted) == (fits or not held)
        if isinstance(verdict, Accepted):
            assert (verdict.too_slow is None) == fits
            held.append(rate)
    assert batcher.status(0.0).num_streams == len(held)


def test_a_robot_that_a_batch_takes_thousands_of_steps_of_is_expected_without_a_search() -> None:
    rows = (LatencyRow(1, 1e9), LatencyRow(64, 1e9))
    table = LatencyTable(**{**vars(STUDY_TABLE), "rows": rows})
    batcher: DeadlineBatcher[None] = DeadlineBatcher(64, LatencyLearner(table))
    batcher.open_stream(0, StreamRate(1e4, 5, 10), 0.0)
    batcher.add(waiting(0, 0, 0.02, 0))
    assert len(batcher.take(0.02).items) == 1
