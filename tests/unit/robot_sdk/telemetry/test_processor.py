"""The queue between the program and a slow or broken exporter. No test here sleeps."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider

from robot_sdk import telemetry
from robot_sdk.telemetry import attributes as attr
from robot_sdk.telemetry.processor import QueueProcessor
from robot_sdk.trace import read_folder


class _Gate:
    """A sink that stands still until it is opened."""

    def __init__(self) -> None:
        self.open = threading.Event()
        self.entered = threading.Event()
        self.names: list[str] = []
        self.closed_with: int | None = None
        self.abandoned = False

    def write(self, spans: Sequence[ReadableSpan], dropped: int) -> int:
        self.entered.set()
        self.open.wait(10)
        self.names += [span.name for span in spans]
        return 0

    def close(self, dropped: int) -> None:
        self.closed_with = dropped

    def abandon(self) -> None:
        self.abandoned = True

    def after_fork_in_child(self) -> None:
        pass


def _queue(sink, **arguments) -> tuple[QueueProcessor, TracerProvider]:
    processor = QueueProcessor(sink, name="test", **arguments)
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(processor)
    return processor, provider


def _end(provider: TracerProvider, *names: str) -> None:
    tracer = provider.get_tracer("test")
    for name in names:
        tracer.start_span(name).end()


def test_e7_spans_that_find_the_queue_full_are_counted_and_the_rest_arrives() -> None:
    gate = _Gate()
    processor, provider = _queue(gate, capacity=4)

    _end(provider, "in the sink")
    gate.entered.wait(10)
    _end(provider, *(f"{index}" for index in range(7)))
    assert processor.dropped_spans == 3
    gate.open.set()

    assert processor.close(10.0)
    assert gate.names == ["in the sink", "0", "1", "2", "3"]
    assert gate.closed_with == 3


def test_e1_ending_a_span_returns_while_the_sink_stands_still() -> None:
    gate = _Gate()
    processor, provider = _queue(gate)

    _end(provider, *("span" for _ in range(100)))  # would hang here if it waited

    assert gate.names == []
    gate.open.set()
    processor.close(10.0)
    assert len(gate.names) == 100


def test_flush_and_close_give_up_when_their_time_is_over() -> None:
    gate = _Gate()
    processor, provider = _queue(gate)
    _end(provider, "a", "b")

    assert not processor.flush(0.01)
    assert not processor.close(0.01)

    assert processor.dropped_spans == 2
    assert gate.abandoned
    gate.open.set()


def test_flush_waits_for_what_has_ended_before_it() -> None:
    gate = _Gate()
    gate.open.set()
    processor, provider = _queue(gate)
    _end(provider, "a", "b", "c")

    assert processor.flush(10.0)

    assert gate.names == ["a", "b", "c"]
    processor.close(10.0)


def test_a_span_that_ends_after_close_is_counted_as_dropped() -> None:
    gate = _Gate()
    gate.open.set()
    processor, provider = _queue(gate)
    processor.close(10.0)

    _end(provider, "late")

    assert processor.dropped_spans == 1


def test_a_sink_that_raises_loses_its_spans_and_not_the_thread(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Broken(_Gate):
        def write(self, spans: Sequence[ReadableSpan], dropped: int) -> int:
            if spans[0].name == "bad":
                raise RuntimeError("boom")
            self.names += [span.name for span in spans]
            return 0

    sink = Broken()
    processor, provider = _queue(sink, batch=1)
    _end(provider, "bad", "good")
    processor.close(10.0)

    assert sink.names == ["good"]
    assert processor.dropped_spans == 1
    assert len(caplog.records) == 1


def test_at_exit_one_failed_write_is_enough() -> None:
    class Dead(_Gate):
        calls = 0

        def write(self, spans: Sequence[ReadableSpan], dropped: int) -> int:
            self.entered.set()
            self.open.wait(10)
            self.calls += 1
            return len(spans)

    sink = Dead()
    processor, provider = _queue(sink, batch=1)
    _end(provider, "first")
    sink.entered.wait(10)
    _end(provider, *("later" for _ in range(50)))
    closer = threading.Thread(target=processor.close, args=(10.0,))
    closer.start()
    while not processor._closing:
        os.sched_yield()
    sink.open.set()
    closer.join(10)

    assert sink.calls == 1
    assert processor.dropped_spans == 51


def test_without_a_thread_close_writes_in_the_callers(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_threads(self: threading.Thread) -> None:
        raise RuntimeError("can't create new thread at interpreter shutdown")

    gate = _Gate()
    gate.open.set()
    processor, provider = _queue(gate)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", no_threads)
        _end(provider, "a", "b")

    assert processor.close(10.0)
    assert gate.names == ["a", "b"]


def test_a_folder_that_cannot_be_written_gives_one_warning_and_counts(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("")  # a file where the folder should be
    source = telemetry.start("robot", tmp_path / "file" / "run")

    for _ in range(3):
        source.record_span("turn", 0.0, 1.0)
        source.flush(10.0)
    source.shutdown()

    assert source.dropped_spans == 3
    assert len(caplog.records) == 1
    assert "cannot write spans" in caplog.text


def test_a_full_disk_loses_spans_until_there_is_room_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    source = telemetry.start("robot", tmp_path)
    source.record_span("before", 0.0, 1.0)
    source.flush(10.0)
    write = os.write

    def half_then_full(descriptor: int, data: memoryview) -> int:
        if len(data) > 100:
            return write(descriptor, data[:100])
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", half_then_full)
        source.record_span("lost", 0.0, 1.0)
        source.flush(10.0)
    source.record_span("after", 0.0, 1.0)
    source.shutdown()

    run = read_folder(tmp_path)
    assert sorted(span.name for span in run.spans) == ["after", "before"]
    assert run.dropped_spans == 1
    assert len(run.problems) == 1  # the half line
    assert len(caplog.records) == 1


def test_a_file_that_ends_in_half_a_line_is_continued_on_a_new_one(tmp_path: Path) -> None:
    (tmp_path / "robot.trace.jsonl").write_text('{"resourceSpans": [{"res')
    source = telemetry.start("robot", tmp_path)

    source.record_span("turn", 0.0, 1.0)
    source.shutdown()

    assert [span.name for span in read_folder(tmp_path).spans] == ["turn"]


def test_two_processes_of_one_name_share_a_file(tmp_path: Path) -> None:
    for _ in range(2):
        source = telemetry.start("robot", tmp_path)
        source.record_span("turn", 0.0, 1.0)
        source.shutdown()

    run = read_folder(tmp_path)
    assert len(run.files) == 1
    assert len({span.process.instance for span in run.spans}) == 2


def test_the_summary_counts_written_and_dropped_spans(tmp_path: Path) -> None:
    source = telemetry.start("robot", tmp_path)
    for _ in range(3):
        source.record_span("turn", 0.0, 1.0)
    source.shutdown()

    last = (tmp_path / "robot.trace.jsonl").read_text().splitlines()[-1]
    assert attr.SPAN_SUMMARY in last
    assert f'"{attr.WRITTEN_SPANS}","value":{{"intValue":"3"}}' in last


def test_a_service_name_becomes_a_file_name_inside_the_folder(tmp_path: Path) -> None:
    source = telemetry.start("../../lab/robot 1", tmp_path)
    source.record_span("turn", 0.0, 1.0)
    source.shutdown()

    assert [path.name for path in tmp_path.iterdir()] == ["_.._lab_robot_1.trace.jsonl"]


def test_an_unused_source_leaves_no_file(tmp_path: Path) -> None:
    telemetry.start("robot", tmp_path).shutdown()

    assert list(tmp_path.iterdir()) == []
