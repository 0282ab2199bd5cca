"""One warning from us in place of a stream of them from an exporter."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_PREFIXES = ("opentelemetry.exporter", "opentelemetry.sdk.metrics", "urllib3")

_local = threading.local()


class _NotInMutedThread(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        return not getattr(_local, "muted", False)


_filter = _NotInMutedThread()


def install() -> None:
    """Put the filter on the loggers of the exporters imported so far. Safe to call again.

    The filter stops only records of threads that are inside `muted`, so the exporters of the
    program around us keep their voice.
    """
    for name in list(logging.root.manager.loggerDict):
        if name.startswith(_PREFIXES):
            logging.getLogger(name).addFilter(_filter)


@contextmanager
def muted() -> Iterator[None]:
    """While entered, this thread logs nothing through those loggers."""
    before = getattr(_local, "muted", False)
    _local.muted = True
    try:
        yield
    finally:
        _local.muted = before
