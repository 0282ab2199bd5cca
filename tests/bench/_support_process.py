"""Child processes of a benchmark: started, spoken to line by line, ended by their own handle."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

BENCH_FOLDER = Path(__file__).resolve().parent
CHECKOUT = BENCH_FOLDER.parent.parent
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class Child:
    """A child process with piped standard streams; standard error goes through to ours."""

    def __init__(
        self, arguments: Sequence[str], environment: Mapping[str, str] | None = None
    ) -> None:
        paths = [str(CHECKOUT), str(BENCH_FOLDER)]
        variables = dict(os.environ) | {"PYTHONPATH": os.pathsep.join(paths)}
        # One thread of arithmetic for each process: the comparison is of transports.
        variables |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        variables |= dict(environment or {})
        self._process = subprocess.Popen(
            list(arguments),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
            cwd=CHECKOUT,
            env=variables,
        )
        self.pid = self._process.pid

    def read_line(self, timeout_s: float) -> str:
        """The next line it writes. RuntimeError: it ended. TimeoutError: it wrote none in time."""
        assert self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], timeout_s)
        if not ready:
            raise TimeoutError(f"{self._process.args!r} wrote nothing for {timeout_s} s")
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self._process.args!r} ended with {self._process.wait()}")
        return line.strip()

    def post(self, command: Mapping[str, Any]) -> None:
        """Send one JSON command."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(command) + "\n")
        self._process.stdin.flush()

    def answer(self, timeout_s: float) -> dict[str, Any]:
        """The JSON answer to the last command."""
        answer: dict[str, Any] = json.loads(self.read_line(timeout_s))
        return answer

    def ask(self, command: Mapping[str, Any], timeout_s: float) -> dict[str, Any]:
        """Send one JSON command and wait for its answer."""
        self.post(command)
        return self.answer(timeout_s)

    def close(self, timeout_s: float = 15.0) -> None:
        """Ask it to end (end of input, then SIGTERM), and kill it if it does not."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process.terminate()
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            print(f"pid {self.pid} did not end in {timeout_s} s; killed", file=sys.stderr)
            self._process.kill()
            self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()


def process_tree(pid: int) -> list[int]:
    """`pid` and all its descendants, from /proc; what has ended meanwhile is left out."""
    children = Path(f"/proc/{pid}/task").glob("*/children")
    found = [pid]
    for listing in children:
        try:
            for child in listing.read_text().split():
                found += process_tree(int(child))
        except FileNotFoundError:
            continue
    return found


def cpu_s(pid: int) -> float:
    """CPU seconds that the tree of `pid` has used, user and system."""
    return sum(own_cpu_s(member) for member in process_tree(pid))


def own_cpu_s(pid: int) -> float:
    """CPU seconds that one process has used, all its threads; 0 if it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except FileNotFoundError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S


def rss_bytes(pid: int) -> int:
    """Resident memory of one process."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE_BYTES


def num_threads(pid: int) -> int:
    """Threads of one process."""
    return len(list(Path(f"/proc/{pid}/task").iterdir()))


def num_open_fds(pid: int) -> int:
    """Open file descriptors of one process."""
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))
