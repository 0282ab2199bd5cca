"""What is started for somebody ends with him, whatever it is doing at that time."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.server.harness import REPOSITORY, wait_until

pytestmark = [
    pytest.mark.faultinjection,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="process descriptors"),
]

#: Watched as with_parent does it, with less patience.
WATCHED = """
import os, signal, subprocess, sys, time
from server.launch import watcher
watcher.watch(os.getppid(), grace_s=0.5, group={group})
"""
#: Starts a command given as text, tells its process id, and waits to be killed. The threads end one
#: by one when it is, and for each the kernel would send a parent-death signal.
PARENT = """
import subprocess, sys, threading, time
from server.launch import with_parent
for _ in range(30):
    threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
arguments = ["-c", sys.argv[2]]
command = with_parent.command(arguments) if sys.argv[1] == "bound" else [sys.executable, *arguments]
child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
print(child.pid, child.stdout.readline(), flush=True)
time.sleep(600)
"""


def killed_after_starting(body: str, tmp_path: Path, *, bound: bool = False) -> tuple[int, str]:
    """Start `body` below a parent and kill that; returns its process id and what it said first."""
    with (tmp_path / "log").open("w") as log:
        parent = subprocess.Popen(
            [sys.executable, "-c", PARENT, "bound" if bound else "bare", body],
            cwd=REPOSITORY,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
    assert parent.stdout is not None
    with parent.stdout:
        pid, _, said = parent.stdout.readline().partition(" ")
    parent.kill()
    parent.wait()
    return int(pid), said.strip()


def is_gone(pid: int) -> bool:
    """Not there, or dead and waiting for somebody to take notice."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def test_a_process_that_counts_is_asked_once_by_a_killed_parent_of_many_threads(
    tmp_path: Path,
) -> None:
    told = tmp_path / "told"
    body = f"""
import pathlib, signal, time
def asked(number, frame):
    with open({str(told)!r}, "a") as file:
        file.write("x")
signal.signal(signal.SIGTERM, asked)
print("up", flush=True)
while not pathlib.Path({str(told)!r}).exists():
    time.sleep(0.01)
time.sleep(1.0)  # for what else may come
"""

    pid, said = killed_after_starting(body, tmp_path, bound=True)

    assert said == "up"
    wait_until(lambda: is_gone(pid))
    assert told.read_text() == "x"


@pytest.mark.parametrize(
    "occupation",
    [
        "signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(600)",
        # A native call that keeps the interpreter: no Python code can run, so another process tells
        # that it is under way.
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit());"
        " subprocess.Popen(['sh', '-c', 'sleep 2; echo up']); sum(range(10**13))",
        # Stopped; only SIGKILL reaches it.
        "print('up', flush=True); os.kill(os.getpid(), signal.SIGSTOP)",
    ],
    ids=["ignores", "native", "stopped"],
)
def test_a_process_that_does_not_listen_is_killed_and_its_log_says_so(
    tmp_path: Path, occupation: str
) -> None:
    pid, _ = killed_after_starting(WATCHED.format(group=False) + occupation, tmp_path)

    wait_until(lambda: is_gone(pid))
    wait_until(lambda: f"process {pid} was killed" in (tmp_path / "log").read_text())


def test_what_a_leaving_process_leaves_in_its_group_is_killed(tmp_path: Path) -> None:
    body = WATCHED.format(group=True) + (
        "code = 'import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(600)'\n"
        "child = subprocess.Popen([sys.executable, '-c', code])\n"
        "print(child.pid, flush=True)\n"
        "os._exit(0)\n"
    )

    _, child = killed_after_starting(body, tmp_path)

    wait_until(lambda: is_gone(int(child)))


def test_nothing_is_started_for_a_parent_that_has_gone() -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()

    done = subprocess.run(
        [sys.executable, "-m", "server.launch.with_parent", str(gone.pid), "-c", "print('ran')"],
        cwd=REPOSITORY,
        capture_output=True,
        timeout=60,
        check=False,
    )

    assert (done.returncode, done.stdout) == (1, b"")


def test_the_end_of_a_process_is_seen_by_who_reads_from_it_and_its_watcher_leaves() -> None:
    start = (
        "import subprocess; from server.launch import with_parent\n"
        "code = 'import os; print(os.getpid())'\n"
        "print(subprocess.check_output(with_parent.command(['-c', code])).decode())"
    )

    done = subprocess.run(
        [sys.executable, "-c", start],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )

    pid = int(done.stdout)
    assert is_gone(pid)
    wait_until(lambda: not watchers_of(pid))


def watchers_of(pid: int) -> list[Path]:
    """Processes that hold a process descriptor of `pid`."""
    found = []
    for path in Path("/proc").glob("[0-9]*/fdinfo/*"):
        try:
            if f"Pid:\t{pid}\n" in path.read_text():
                found.append(path)
        except OSError:
            continue  # it ended while it was looked at
    return found
