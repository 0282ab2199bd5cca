"""Trace and span ids that do not depend on anybody's random seed."""

from __future__ import annotations

import os

from opentelemetry.sdk.trace.id_generator import IdGenerator


class SystemRandomIds(IdGenerator):
    """Ids from the operating system.

    The default generator draws from the `random` module. Robot programs seed that module for
    repeatable episodes, and then two robots with one seed would write the same ids.
    """

    def generate_span_id(self) -> int:
        return int.from_bytes(os.urandom(8), "big") or 1

    def generate_trace_id(self) -> int:
        return int.from_bytes(os.urandom(16), "big") or 1

    def is_trace_id_random(self) -> bool:
        return True
