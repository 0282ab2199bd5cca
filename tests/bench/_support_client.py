"""A client process of the chunk benchmark: `python _support_client.py SIDE`.

Reads one JSON command a line from standard input and answers each with one JSON line:
`connect` {address, robots}, `run` {a Block}, `disconnect`. Ends with its standard input.
The structure is the same for every side; only the session class differs.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import asdict
from typing import Any

from _support_load import Block, Sample, Session, make_samples, run_block


def open_session(side: str, address: str, robot: int) -> Session:
    """Connect one robot. Imports only what its own side needs."""
    if side == "openpi":
        from _support_openpi import OpenpiSession

        return OpenpiSession(address)
    if side == "product":
        from _support_product import ProductSession

        return ProductSession(address, robot)
    if side in ("aio", "threads"):
        from _support_front_end import FrontEndSession

        return FrontEndSession(address)
    raise ValueError(f"side is {side!r}; allowed are openpi, product, aio, threads")


class Client:
    """The sessions of this process, by command."""

    def __init__(self, side: str) -> None:
        self._side = side
        self._samples: list[list[Sample]] = []
        self._sessions: list[Session] = []

    def handle(self, command: dict[str, Any]) -> dict[str, Any]:
        operation = command.pop("op")
        if operation == "connect":
            robots = command["robots"]
            if len(self._samples) != len(robots):
                self._samples = [make_samples(robot) for robot in robots]
            self._sessions = [
                open_session(self._side, command["address"], robot) for robot in robots
            ]
            return {}
        if operation == "run":
            cpu_s = time.process_time()
            results = run_block(self._sessions, self._samples, Block(**command))
            return {
                "robots": [asdict(result) for result in results],
                "cpu_s": time.process_time() - cpu_s,
            }
        if operation == "disconnect":
            for session in self._sessions:
                session.close()
            self._sessions = []
            return {}
        raise ValueError(f"op is {operation!r}; allowed are connect, run, disconnect")


def main() -> None:
    client = Client(sys.argv[1])
    for line in sys.stdin:
        print(json.dumps(client.handle(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
