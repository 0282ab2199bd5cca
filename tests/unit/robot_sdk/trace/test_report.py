"""The study's table from traces whose figures are known beforehand."""

from __future__ import annotations

import json

import pytest

from robot_sdk.telemetry import attributes as attr
from robot_sdk.trace import Report, build_report, join, read_folder
from robot_sdk.trace.stats import Summary
from robot_sdk.trace.table import render


def _report(run) -> Report:
    run.close()
    folder = read_folder(run.folder)
    return build_report(str(run.folder), folder, join(folder.spans))


def test_each_clock_is_measured_between_the_right_two_moments(make_run, turn) -> None:
    run = make_run()
    run.episode([turn(2.0, 40, 3.0), turn(4.0, 0, 1.0), turn(6.0, 10, 9.0)])

    clocks = _report(run).clocks_s

    assert clocks["brain_latency"].p50 == pytest.approx(4.0)
    # 40 and 0 steps at 20 Hz; the last turn's 10 steps belong to no interval.
    assert clocks["env_step_gap"].count == 2
    assert clocks["env_step_gap"].max == pytest.approx(2.0)
    assert clocks["wall_clock_gap"].max == pytest.approx(3.0)
    assert clocks["brain_plus_env_step_gap"].total == pytest.approx((2 + 2) + (4 + 0))
    assert clocks["brain_plus_wall_clock_gap"].total == pytest.approx((2 + 3) + (4 + 1))


def test_zero_step_intervals_are_counted_among_intervals_only(make_run, turn) -> None:
    run = make_run()
    run.episode([turn(1.0, 0, 1.0), turn(1.0, 5, 1.0), turn(1.0, 0, 1.0)])

    report = _report(run)

    assert (report.zero_step_intervals, report.intervals_with_steps) == (1, 2)


def test_intervals_do_not_cross_episodes(make_run, turn) -> None:
    run = make_run()
    run.episode([turn(1.0, 5, 1.0)], episode_id="a")
    run.clock.advance(100.0)
    run.episode([turn(1.0, 5, 1.0)], episode_id="b")

    assert _report(run).intervals == 0


def test_turn_and_chunk_shares_add_up_to_the_whole(make_run, turn) -> None:
    run = make_run(modelled_delay_s=0.2)
    run.episode([turn(1.0, 10, 2.0, chunks=3), turn(3.0, 0, 0.5)])

    report = _report(run)

    for breakdown in (report.turn, report.chunk):
        assert sum(part.share or 0.0 for part in breakdown.parts) == pytest.approx(1.0)
    shares = {part.name: part.share for part in report.chunk.parts}
    assert shares["vision"] == pytest.approx(0.2)
    assert shares["inference, not split"] == pytest.approx(0.05)
    assert "prefill" not in shares  # unknown, and not shown as 0
    turn_shares = {part.name: part.share for part in report.turn.parts}
    assert turn_shares["tools"] == pytest.approx(2.5 / 6.5)
    assert turn_shares["modelled delay"] == pytest.approx(0.4 / 6.5)


def test_ticks_outcome_and_queueing_come_from_the_episode(make_run, turn) -> None:
    run = make_run()
    run.episode([turn(1.0, 10, 1.0, chunks=1, starved_ticks=4), turn(1.0, 5, 1.0)])

    report = _report(run)

    (row,) = report.episodes
    assert (row.outcome, row.finished, row.turns, row.chunks) == ("success", True, 2, 1)
    assert (row.policy_steps, row.scripted_steps) == (10, 5)
    assert row.queued_s == 0.25
    assert report.ticks == {
        "acted": 11,
        "starved": 4,
        "start_wait": 0,
        "idle": 3,
        "overrun": None,
    }


def test_failed_brain_calls_and_chunks_are_counted_but_not_measured(make_run, turn) -> None:
    run = make_run()
    episode = run.episode([turn(1.0, 0, 1.0)], finish=False)
    run.robot.record_span(attr.SPAN_DECIDE, 60.0, 99.0, parent=episode, error="gave up")
    run.robot.record_span(
        attr.SPAN_CHUNK,
        60.0,
        99.0,
        parent=episode,
        attributes={attr.CHUNK_ERROR: "cancelled"},
        error="cancelled",
    )
    episode.end()

    report = _report(run)

    assert report.clocks_s["brain_latency"].max == pytest.approx(1.0)
    assert report.chunk.total.count == 0
    assert (report.episodes[0].failed_turns, report.episodes[0].failed_chunks) == (1, 1)


def test_reasons_of_failed_chunks_are_counted_by_kind_and_the_table_names_the_commonest(
    make_run, turn
) -> None:
    run = make_run()
    episode = run.episode([turn(1.0, 0, 1.0)], finish=False)
    errors = ("no room", "no answer to sequence 7", "no answer to sequence 12", "no answer to -0.5")
    for error in errors:
        run.robot.record_span(
            attr.SPAN_CHUNK,
            60.0,
            61.0,
            parent=episode,
            attributes={attr.CHUNK_ERROR: error},
            error=error,
        )
    episode.end()

    report = _report(run)

    assert list(report.failed_chunk_reasons.items()) == [
        ("no answer to sequence 7", 2),
        ("no room", 1),
        ("no answer to -0.5", 1),
    ]
    assert "2 observations without an answer: no answer to sequence 7" in render(report)


def test_a_late_chunk_stays_in_the_distribution_of_round_trips(make_run, turn) -> None:
    run = make_run()
    episode = run.episode([turn(1.0, 0, 1.0)], finish=False)
    run.robot.record_span(
        attr.SPAN_CHUNK,
        60.0,
        63.0,
        parent=episode,
        attributes={attr.CHUNK_ERROR: "late", attr.CHUNK_ROUND_TRIP_S: 3.0},
        error="late",
    )
    episode.end()

    report = _report(run)

    assert report.chunk.total.max == pytest.approx(3.0)
    (row,) = report.episodes
    assert (row.chunks, row.unused_chunks, row.failed_chunks) == (1, 1, 0)


def test_an_episode_that_still_runs_is_shown_with_what_it_has(make_run, turn) -> None:
    run = make_run()
    run.episode([turn(1.0, 10, 2.0), turn(1.0, 10, 2.0)], finish=False)

    report = _report(run)

    (row,) = report.episodes
    assert (row.finished, row.outcome, row.turns) == (False, None, 2)
    assert row.robot_id == "robot-0"
    assert report.clocks_s["wall_clock_gap"].count == 1
    assert report.orphan_spans == 0


def test_e7_missing_server_spans_are_stated(make_run, turn) -> None:
    run = make_run(with_server=False)
    run.episode([turn(1.0, 10, 2.0, chunks=2)])

    spans = _report(run).server_spans

    assert (spans.decides, spans.decides_with_server_span) == (1, 0)
    assert (spans.chunks, spans.chunks_with_server_span) == (2, 0)


def test_server_spans_are_found_by_parent_links(make_run, turn) -> None:
    run = make_run()
    run.episode([turn(1.0, 10, 2.0, chunks=2)])

    spans = _report(run).server_spans

    assert (spans.decides_with_server_span, spans.chunks_with_server_span) == (1, 2)


def test_estimated_tokens_and_modelled_delays_are_labelled(make_run, turn) -> None:
    run = make_run(modelled_delay_s=0.5)
    run.episode([turn(1.0, 10, 2.0), turn(1.0, 0, 1.0)])

    report = _report(run)

    assert report.tokens_estimated
    assert report.modelled_s == {"turns": 1.0, "chunks": 0}
    assert report.tokens["cached"].count == 0  # nobody reported it


def test_json_holds_every_field_and_survives_a_round_trip(make_run, turn) -> None:
    run = make_run()
    run.episode([turn(1.0, 10, 2.0, chunks=1), turn(1.0, 0, 1.0)])

    document = json.loads(json.dumps(_report(run).to_json(), allow_nan=False))

    assert document["schema"] == "robot_sdk.trace/1"
    assert document["clocks_s"]["brain_latency"]["count"] == 2
    assert document["episodes"][0]["clocks_s"]["env_step_gap"]["p50"] == pytest.approx(0.5)


def test_quantiles_interpolate_linearly_and_say_when_p99_is_thin() -> None:
    ten = Summary.of([float(value) for value in range(1, 11)])

    assert (ten.p50, ten.p90, ten.p99) == (5.5, pytest.approx(9.1), pytest.approx(9.91))
    assert ten.p99_is_thin
    assert not Summary.of([1.0] * 100).p99_is_thin


def test_no_samples_give_no_quantiles_instead_of_zero() -> None:
    assert Summary.of([]) == Summary(0, None, None, None, None, 0.0)
