"""Starts the server as a process of its own and stops it again."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

from robot_sdk.clock import SYSTEM_CLOCK
from robot_sdk.errors import RobotSdkError
from server.launch import with_parent
from server.launch.ending import end_process

#: Loading the model workers takes a few seconds; a busy machine needs longer.
START_TIMEOUT_S = 90.0
_STOP_TIMEOUT_S = 15.0
_POLL_S = 0.05


class ServerProcess:
    """`python -m server` on a free port of this machine. A context manager.

    Args:
        settings: `section.key=value`, as for `--set`.
        folder: Gets the server's log and ready file.
        environment: Variables that it gets besides this process's own.
        start_timeout_s: How long it may take to load its models.

    Attributes:
        target: "host:port", once it is ready.
    """

    def __init__(
        self,
        settings: Sequence[str],
        folder: Path,
        environment: Mapping[str, str] | None = None,
        start_timeout_s: float = START_TIMEOUT_S,
    ) -> None:
        self._settings = ("server.port=0", *settings)
        self._folder = folder
        self._start_timeout_s = start_timeout_s
        self._environment = {**os.environ, **(environment or {})}
        self._process: subprocess.Popen[bytes] | None = None
        self.target = ""

    @property
    def log_path(self) -> Path:
        """What the server wrote."""
        return self._folder / "server.log"

    @property
    def exit_status(self) -> int | None:
        """None while it runs."""
        return None if self._process is None else self._process.poll()

    @property
    def pid(self) -> int | None:
        """Process id, None before it was started."""
        return None if self._process is None else self._process.pid

    def __enter__(self) -> ServerProcess:
        """Start it and wait until it serves.

        Raises:
            RobotSdkError: It ended or was not ready in time; the message holds its last words.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        ready = self._folder / "server.ready.json"
        ready.unlink(missing_ok=True)
        command = with_parent.command(["-m", "server", "--ready-file", str(ready)])
        for setting in self._settings:
            command += ["--set", setting]
        with self.log_path.open("wb") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=self._environment,
            )
        try:
            self._wait_ready(ready)
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """End it: politely first, then for good."""
        process = self._process
        if process is not None:
            end_process(process, _STOP_TIMEOUT_S)

    def _wait_ready(self, ready: Path) -> None:
        assert self._process is not None
        deadline_s = SYSTEM_CLOCK.now_s() + self._start_timeout_s
        while True:
            if self._process.poll() is not None:
                raise RobotSdkError(
                    f"the server ended with status {self._process.returncode}: {self._last_words()}"
                )
            if ready.exists():
                try:
                    told = json.loads(ready.read_text())
                except json.JSONDecodeError:
                    told = None  # half written; look again
                if told is not None:
                    self.target = f"{told['host']}:{told['port']}"
                    return
            if SYSTEM_CLOCK.now_s() >= deadline_s:
                raise RobotSdkError(
                    f"the server was not ready within {self._start_timeout_s:.0f} s: "
                    f"{self._last_words()}"
                )
            SYSTEM_CLOCK.sleep_until(SYSTEM_CLOCK.now_s() + _POLL_S)

    def _last_words(self) -> str:
        lines = self.log_path.read_text(errors="replace").strip().splitlines()
        return lines[-1] if lines else f"it wrote nothing (see {self.log_path})"
