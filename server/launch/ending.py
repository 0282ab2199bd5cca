"""How a child process is ended."""

from __future__ import annotations

import subprocess


def end_process(process: subprocess.Popen[str] | subprocess.Popen[bytes], timeout_s: float) -> None:
    """Ask it to end, and end it for good `timeout_s` later. One that has ended is left alone."""
    process.terminate()
    await_end(process, timeout_s)


def await_end(process: subprocess.Popen[str] | subprocess.Popen[bytes], timeout_s: float) -> int:
    """Wait for one that is about to end, and end it for good `timeout_s` later; its exit status."""
    try:
        return process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()
