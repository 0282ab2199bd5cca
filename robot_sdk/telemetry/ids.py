"""Trace and span ids that do not depend on anybody's random seed."""

from __future__ import annotations

import random

from opentelemetry.sdk.trace.id_generator import IdGenerator

from robot_sdk.telemetry import fork


class PrivateRandomIds(IdGenerator):
    """Ids from a generator of our own, seeded by the operating system.

    OpenTelemetry's own draws from the `random` module. Robot programs seed that module for
    repeatable episodes, and then two robots with one seed would write the same ids. Asking the
    operating system for every id would give up the interpreter lock in the middle of a tick.
    """

    def __init__(self) -> None:
        self._random = random.Random()  # ids, not secrets
        fork.watch(self)

    def generate_span_id(self) -> int:
        return self._random.getrandbits(64) or 1

    def generate_trace_id(self) -> int:
        return self._random.getrandbits(128) or 1

    def is_trace_id_random(self) -> bool:
        return True

    def before_fork(self) -> None:
        """Nothing to hold: drawing an id is one step of the interpreter."""

    def after_fork_in_parent(self) -> None:
        """Nothing was held."""

    def after_fork_in_child(self) -> None:
        self._random.seed()
