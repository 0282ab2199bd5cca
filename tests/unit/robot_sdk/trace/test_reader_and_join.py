"""Files in any state are read; processes are put together by parent links, not by clocks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from robot_sdk.errors import InvalidArgumentError
from robot_sdk.telemetry import attributes as attr
from robot_sdk.trace import join, read_folder
from robot_sdk.trace.join import on_clock_of
from robot_sdk.trace.reader import SpanRecord


def _one(spans: list[SpanRecord], name: str) -> SpanRecord:
    (span,) = [span for span in spans if span.name == name]
    return span


def _line(**span: object) -> str:
    full = {
        "traceId": "a" * 32,
        "spanId": "b" * 16,
        "name": "episode",
        "startTimeUnixNano": "1000",
        "endTimeUnixNano": "2000",
        **span,
    }
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [full]}]}]})


def test_a_missing_folder_names_its_neighbours(tmp_path: Path) -> None:
    (tmp_path / "demo").mkdir()

    with pytest.raises(InvalidArgumentError, match="allowed: demo"):
        read_folder(tmp_path / "demos")


def test_an_empty_folder_names_the_run_folders_below_it(tmp_path: Path) -> None:
    below = tmp_path / "runs" / "one"
    below.mkdir(parents=True)
    (below / "robot.trace.jsonl").write_text(_line() + "\n")

    with pytest.raises(InvalidArgumentError, match=r"runs/one"):
        read_folder(tmp_path)


def test_an_empty_folder_without_runs_below_says_what_is_expected(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match=r"\.trace\.jsonl"):
        read_folder(tmp_path)


def test_a_garbled_line_is_named_and_the_others_are_read(tmp_path: Path) -> None:
    path = tmp_path / "robot.trace.jsonl"
    path.write_text(f"{_line()}\n{{garbage\n[1, 2]\n{_line(spanId='c' * 16)}\n")

    run = read_folder(tmp_path)

    assert len(run.spans) == 2
    assert [problem.split(": ")[0] for problem in run.problems] == [f"{path}:2", f"{path}:3"]


def test_half_a_last_line_is_a_file_in_the_making_and_no_problem(tmp_path: Path) -> None:
    path = tmp_path / "robot.trace.jsonl"
    path.write_text(_line() + "\n" + _line()[:50])

    run = read_folder(tmp_path)

    assert (len(run.spans), run.problems, run.unfinished_lines) == (1, [], [path])


def test_binary_garbage_does_not_stop_the_reader(tmp_path: Path) -> None:
    (tmp_path / "x.trace.jsonl").write_bytes(b"\xff\xfe\x00\n" + _line().encode() + b"\n")

    run = read_folder(tmp_path)

    assert (len(run.spans), len(run.problems)) == (1, 1)


@pytest.mark.parametrize(
    "span",
    [
        {"startTimeUnixNano": "soon"},
        {"attributes": [{"value": {"intValue": "1"}}]},
        {"attributes": 5},
        {"status": []},
        {"attributes": [{"key": "k", "value": {"intValue": "1.5"}}]},
    ],
)
def test_wrong_types_in_a_line_are_a_named_problem(tmp_path: Path, span: dict) -> None:
    (tmp_path / "x.trace.jsonl").write_text(_line(**span) + "\n" + _line() + "\n")

    run = read_folder(tmp_path)

    assert (len(run.spans), len(run.problems)) == (1, 1)


def test_the_same_span_in_two_files_counts_once(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.trace.jsonl").write_text(_line() + "\n")

    assert len(read_folder(tmp_path).spans) == 1


def test_e7_dropped_spans_of_all_processes_are_summed(tmp_path: Path) -> None:
    def summary(instance: str, *counts: int) -> None:
        lines = [
            {
                "resourceSpans": [
                    {
                        "resource": {
                            "attributes": [
                                {
                                    "key": attr.SERVICE_INSTANCE_ID,
                                    "value": {"stringValue": instance},
                                }
                            ]
                        },
                        "scopeSpans": [
                            {
                                "spans": [
                                    {
                                        "traceId": "a" * 32,
                                        "spanId": f"{instance}{index}",
                                        "name": attr.SPAN_SUMMARY,
                                        "startTimeUnixNano": "1",
                                        "endTimeUnixNano": "1",
                                        "attributes": [
                                            {
                                                "key": attr.DROPPED_SPANS,
                                                "value": {"intValue": str(count)},
                                            }
                                        ],
                                    }
                                ]
                            }
                        ],
                    }
                ]
            }
            for index, count in enumerate(counts)
        ]
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (tmp_path / f"{instance}.trace.jsonl").write_text(text)

    summary("one", 3, 5)
    summary("two", 4)

    run = read_folder(tmp_path)

    assert (run.dropped_spans, run.spans) == (9, [])


def test_a_span_of_no_episode_is_an_orphan(tmp_path: Path) -> None:
    lines = [_line(), _line(traceId="d" * 32, name=attr.SPAN_SERVER_CHUNK, parentSpanId="e" * 16)]
    (tmp_path / "x.trace.jsonl").write_text("\n".join(lines) + "\n")

    joined = join(read_folder(tmp_path).spans)

    assert [len(joined.episodes), len(joined.orphans)] == [1, 1]


def test_a_span_cut_off_from_the_only_episode_of_its_trace_joins_it(tmp_path: Path) -> None:
    lines = [_line(), _line(spanId="c" * 16, name=attr.SPAN_DECIDE, parentSpanId="f" * 16)]
    (tmp_path / "x.trace.jsonl").write_text("\n".join(lines) + "\n")

    joined = join(read_folder(tmp_path).spans)

    assert [span.name for span in joined.episodes[0].spans] == [attr.SPAN_DECIDE]
    assert joined.orphans == []


def test_parents_in_a_circle_do_not_hang_the_reader(tmp_path: Path) -> None:
    lines = [
        _line(spanId="1" * 16, parentSpanId="2" * 16, name="turn"),
        _line(spanId="2" * 16, parentSpanId="1" * 16, name="turn"),
    ]
    (tmp_path / "x.trace.jsonl").write_text("\n".join(lines) + "\n")

    join(read_folder(tmp_path).spans)


def test_e6_a_server_an_hour_ahead_is_placed_by_the_measured_offset(make_run, turn) -> None:
    run = make_run(server_offset_s=3600.0)
    run.episode([turn(10.0, 0, 1.0)])
    run.close()
    spans = read_folder(run.folder).spans
    decide, served = _one(spans, attr.SPAN_DECIDE), _one(spans, attr.SPAN_SERVER_DECIDE)

    start_ns, end_ns = on_clock_of(decide, served, 3600.0)

    assert start_ns - decide.start_ns == pytest.approx(0.5e9, abs=1e6)
    assert end_ns - start_ns == 9_000_000_000


def test_e6_without_an_offset_a_child_is_moved_into_its_parent(make_run, turn) -> None:
    run = make_run()
    run.episode([turn(10.0, 0, 1.0)])
    run.close()
    spans = read_folder(run.folder).spans
    decide, served = _one(spans, attr.SPAN_DECIDE), _one(spans, attr.SPAN_SERVER_DECIDE)
    shifted = SpanRecord(
        **{
            **vars(served),
            "start_ns": served.start_ns - 3_600 * 10**9,
            "end_ns": served.end_ns - 3_600 * 10**9,
        }
    )

    start_ns, end_ns = on_clock_of(decide, shifted, None)

    assert start_ns == decide.start_ns
    assert end_ns - start_ns == 9_000_000_000
