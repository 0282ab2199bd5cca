"""Every finished span arrives, however the process ends. Each case is a real process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from robot_sdk.trace import read_folder

_PRELUDE = """
import multiprocessing, os, signal, sys, threading
from robot_sdk import telemetry

def span(name):
    source.record_span(name, 0.0, 1.0)

source = telemetry.start("robot", sys.argv[1])
"""


def _run(folder: Path, body: str, *, stop_with: signal.Signals | None = None) -> int:
    """Run a program; with `stop_with`, send that once it has printed a line."""
    program = _PRELUDE + textwrap.dedent(body)
    process = subprocess.Popen(
        [sys.executable, "-c", program, str(folder)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONWARNINGS": "default"},
    )
    try:
        if stop_with is not None:
            assert process.stdout is not None
            assert process.stdout.readline().strip() == "ready"
            process.send_signal(stop_with)
        process.communicate(timeout=30)
    finally:
        process.kill()
        process.wait()
    return process.returncode


def _names(folder: Path) -> list[str]:
    return sorted(span.name for span in read_folder(folder).spans)


def test_e2_all_spans_arrive_on_normal_exit(tmp_path: Path) -> None:
    assert _run(tmp_path, "for index in range(500): span(f'{index:03}')") == 0

    assert _names(tmp_path) == [f"{index:03}" for index in range(500)]


def test_e2_all_spans_arrive_on_sys_exit(tmp_path: Path) -> None:
    assert _run(tmp_path, "for index in range(10): span('turn')\nsys.exit(3)") == 3

    assert len(_names(tmp_path)) == 10


def test_e2_all_spans_arrive_when_an_exception_ends_the_program(tmp_path: Path) -> None:
    assert _run(tmp_path, "span('turn')\nraise RuntimeError('broken')") == 1

    assert _names(tmp_path) == ["turn"]


_WAIT = """
try:
    span("before")
    print("ready", flush=True)
    threading.Event().wait(20)
finally:
    span("episode")
"""


def test_e2_all_spans_arrive_on_sigint(tmp_path: Path) -> None:
    _run(tmp_path, _WAIT, stop_with=signal.SIGINT)

    assert _names(tmp_path) == ["before", "episode"]


def test_e2_all_spans_arrive_on_sigterm_that_is_turned_into_an_exit(tmp_path: Path) -> None:
    code = _run(tmp_path, "telemetry.exit_on_sigterm()\n" + _WAIT, stop_with=signal.SIGTERM)

    assert code == 143
    assert _names(tmp_path) == ["before", "episode"]


def test_e2_a_second_sigterm_does_not_break_off_the_exit_that_the_first_has_begun(
    tmp_path: Path,
) -> None:
    body = """
    telemetry.exit_on_sigterm()
    try:
        span("before")
        os.kill(os.getpid(), signal.SIGTERM)
        threading.Event().wait(20)
    finally:
        os.kill(os.getpid(), signal.SIGTERM)
        span("episode")
    """

    assert _run(tmp_path, body) == 143
    assert _names(tmp_path) == ["before", "episode"]


def test_e2_a_process_killed_on_the_spot_loses_only_what_had_not_ended(tmp_path: Path) -> None:
    body = """
    span("before")
    source.flush(5)
    source.start_span("open")
    print("ready", flush=True)
    threading.Event().wait(20)
    """

    assert _run(tmp_path, body, stop_with=signal.SIGKILL) == -signal.SIGKILL

    assert _names(tmp_path) == ["before"]


def test_e2_a_forked_child_writes_its_own_file_and_nothing_twice(tmp_path: Path) -> None:
    body = """
    span("parent before")
    pid = os.fork()
    if pid == 0:
        for index in range(20):
            span("child")
        sys.exit(0)
    os.waitpid(pid, 0)
    span("parent after")
    """

    assert _run(tmp_path, body) == 0

    assert _names(tmp_path) == ["child"] * 20 + ["parent after", "parent before"]
    run = read_folder(tmp_path)
    child = next(span.process for span in run.spans if span.name == "child")
    parent = next(span.process for span in run.spans if span.name == "parent after")
    assert sorted(path.name for path in run.files) == sorted(
        ["robot.trace.jsonl", f"robot-{child.pid}.trace.jsonl"]
    )
    assert child.pid != parent.pid
    assert child.instance != parent.instance


def test_a_parent_and_its_children_never_draw_the_same_ids(tmp_path: Path) -> None:
    body = """
    span("parent before")
    for _ in range(3):
        pid = os.fork()
        if pid == 0:
            span("child")
            sys.exit(0)
        os.waitpid(pid, 0)
    span("parent after")
    """

    assert _run(tmp_path, body) == 0

    spans = read_folder(tmp_path).spans
    assert len({span.trace_id for span in spans}) == 5


def test_e2_forking_while_spans_are_being_written_never_hangs(tmp_path: Path) -> None:
    body = """
    stop = threading.Event()
    def busy():
        while not stop.is_set():
            span("parent")
    thread = threading.Thread(target=busy)
    thread.start()
    for _ in range(20):
        pid = os.fork()
        if pid == 0:
            span("child")
            source.flush(10)
            os._exit(0)
        os.waitpid(pid, 0)
    stop.set()
    thread.join()
    """

    assert _run(tmp_path, body) == 0

    assert _names(tmp_path).count("child") == 20


@pytest.mark.parametrize("method", ["fork", "forkserver", "spawn"])
def test_e2_spans_of_multiprocessing_workers_arrive(tmp_path: Path, method: str) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        textwrap.dedent(
            """
            import multiprocessing, os, sys
            from robot_sdk import telemetry

            source = None

            def work(folder, index):
                global source
                if source is None:
                    source = telemetry.start(f"worker-{index}", folder)
                source.record_span(f"task {index}", 0.0, 1.0)

            if __name__ == "__main__":
                method, folder = sys.argv[1:]
                if method == "fork":
                    source = telemetry.start("robot", folder)
                context = multiprocessing.get_context(method)
                workers = [
                    context.Process(target=work, args=(folder, index)) for index in range(3)
                ]
                for worker in workers:
                    worker.start()
                for worker in workers:
                    worker.join(20)
            """
        )
    )

    subprocess.run(
        [sys.executable, str(program), method, str(tmp_path)],
        check=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
    )

    assert _names(tmp_path) == ["task 0", "task 1", "task 2"]
