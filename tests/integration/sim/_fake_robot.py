"""A robot process for tests: what it does with an episode depends on the episode's task."""

from __future__ import annotations

import json
import signal
import sys
import threading

from sim.cli.plan import Job
from sim.cli.record import failed_record

SUCCEEDS, CRASHES, FALLS_SILENT, STANDS_STILL, WAITS_AT_THE_DOOR = range(5)


def say(event: str, **values: object) -> None:
    print(json.dumps({"event": event, **values}), flush=True)


def main() -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    for line in sys.stdin:
        job = Job(**json.loads(line))
        say("started")
        if job.task_index == CRASHES:
            sys.exit(9)
        if job.task_index == FALLS_SILENT:
            threading.Event().wait()
        if job.task_index in (STANDS_STILL, WAITS_AT_THE_DOOR):
            tool = "move_to" if job.task_index == STANDS_STILL else ""
            while True:
                say("progress", step=7, tool=tool)
                threading.Event().wait(0.05)
        say("done", record=failed_record(job, "fake", "").to_json())


if __name__ == "__main__":
    main()
