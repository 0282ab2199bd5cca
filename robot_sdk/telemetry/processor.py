"""Hands finished spans to one writer thread. Ending a span never waits for anything.

The SDK's own processors either export in the thread that ends the span or hold up the exit of the
process for as long as their exporter does. This one owns a bounded queue and a daemon thread;
whatever the sink does (a full disk, a collector that never answers) costs the program a few
microseconds a span, and spans that find the queue full are counted.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Sequence
from typing import Protocol

from opentelemetry.context import Context
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor

from robot_sdk.clock import SYSTEM_CLOCK, Clock
from robot_sdk.telemetry import fork

_logger = logging.getLogger(__name__)

#: Spans that may wait. 16 robots at 20 Hz with a slow disk fill it in 25 s.
DEFAULT_CAPACITY = 8192
#: Spans handed over at once: few enough that encoding them holds the interpreter for about 2 ms.
DEFAULT_BATCH = 64


class Sink(Protocol):
    """Where spans go. Called by one thread at a time, and allowed to be slow."""

    def write(self, spans: Sequence[ReadableSpan], dropped: int) -> int:
        """Write `spans`; returns how many of them are lost.

        Args:
            spans: Finished spans, oldest first.
            dropped: Spans that this process lost before these.
        """

    def close(self, dropped: int) -> None:
        """Write what is left to say and free everything. No write comes after."""

    def abandon(self) -> None:
        """Say that a write did not end in time. Called from another thread than `write`."""

    def after_fork_in_child(self) -> None:
        """Forget the parent's file or connection without touching it."""


class QueueProcessor(SpanProcessor):
    """A span processor with a bounded queue, one daemon thread and one sink.

    The thread starts with the first span. A forked child starts with an empty queue and its own
    thread: what the parent had queued is the parent's to write. A child that leaves through
    `os._exit` must call `flush` before, unless it is a worker of `multiprocessing`.
    """

    def __init__(
        self,
        sink: Sink,
        *,
        name: str,
        capacity: int = DEFAULT_CAPACITY,
        batch: int = DEFAULT_BATCH,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._sink = sink
        self._name = name
        self._capacity = capacity
        self._batch = batch
        self._clock = clock
        # Reentrant: a signal handler may end a span while its own thread is ending one.
        self._condition = threading.Condition(threading.RLock())
        self._queue: deque[ReadableSpan] = deque()
        self._thread: threading.Thread | None = None
        self._accepted = 0
        self._handled = 0
        self._dropped = 0
        self._closing = False
        self._closed = False
        fork.watch(self)

    @property
    def dropped_spans(self) -> int:
        """Finished spans of this process that were or will be written nowhere."""
        with self._condition:
            return self._dropped

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        """Nothing to do: only finished spans are written."""

    def on_end(self, span: ReadableSpan) -> None:
        with self._condition:
            if self._closing or len(self._queue) >= self._capacity:
                self._dropped += 1
                return
            self._queue.append(span)
            self._accepted += 1
            if self._thread is None:
                self._start_thread()
            elif len(self._queue) == 1:
                self._condition.notify_all()

    def force_flush(self, timeout_millis: int = 30000) -> bool:
        return self.flush(timeout_millis / 1000)

    def flush(self, timeout_s: float) -> bool:
        """Wait until every span that has ended so far is written. False if the time ran out."""
        deadline_s = self._clock.now_s() + timeout_s
        with self._condition:
            target = self._accepted
            while self._handled < target:
                if self._thread is None or not self._thread.is_alive():
                    self._drain()
                    break
                remaining_s = deadline_s - self._clock.now_s()
                if remaining_s <= 0:
                    return False
                self._clock.wait(self._condition, remaining_s)
            return True

    def shutdown(self) -> None:
        self.close(5.0)

    def close(self, timeout_s: float) -> bool:
        """Write what is queued and stop. False if the time ran out; what is left is then dropped.

        Spans that end afterwards are counted as dropped. A second call does nothing.
        """
        with self._condition:
            if self._closing:
                return self._closed
            self._closing = True
            thread = self._thread
            self._condition.notify_all()
        if thread is not None and thread.is_alive():
            thread.join(timeout_s)
        with self._condition:
            if self._closed:
                return True
            if thread is not None and thread.is_alive():
                # The thread is stuck in the sink, which therefore must not be touched.
                self._dropped += self._accepted - self._handled
                self._queue.clear()
                self._sink.abandon()
                return False
            # No span was ever ended, or the interpreter was too far gone to start the thread.
            self._drain()
            self._finish()
            return True

    def before_fork(self) -> None:
        self._condition.acquire()

    def after_fork_in_parent(self) -> None:
        self._condition.release()

    def after_fork_in_child(self) -> None:
        self._condition = threading.Condition(threading.RLock())
        self._queue = deque()
        self._thread = None
        self._accepted = 0
        self._handled = 0
        self._dropped = 0
        self._sink.after_fork_in_child()

    def _start_thread(self) -> None:
        fork.at_worker_exit(self.shutdown)
        self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
        try:
            self._thread.start()
        except RuntimeError:
            self._thread = None  # no new threads at interpreter exit: close() writes what is left

    def _run(self) -> None:
        while True:
            with self._condition:
                while not self._queue and not self._closing:
                    self._clock.wait(self._condition, None)
                if not self._queue:
                    self._finish()
                    return
                batch = self._take()
                dropped = self._dropped
            lost, refused = self._write(batch, dropped)
            with self._condition:
                self._settle(len(batch), lost)
                if refused and self._closing:
                    # At exit one refusal is enough: do not wait for the rest to fail one by one.
                    self._settle(len(self._queue), len(self._queue))
                    self._queue.clear()

    def _take(self) -> list[ReadableSpan]:
        return [self._queue.popleft() for _ in range(min(self._batch, len(self._queue)))]

    def _write(self, batch: Sequence[ReadableSpan], dropped: int) -> tuple[int, bool]:
        """How many of the batch are lost, and whether the sink itself said so."""
        try:
            lost = self._sink.write(batch, dropped)
        except Exception:
            _logger.warning("%s: %d spans lost", self._name, len(batch), exc_info=True)
            return len(batch), False
        return lost, lost > 0

    def _settle(self, num_handled: int, num_lost: int) -> None:
        self._handled += num_handled
        self._dropped += num_lost
        self._condition.notify_all()

    def _drain(self) -> None:
        while self._queue:
            batch = self._take()
            lost, _ = self._write(batch, self._dropped)
            self._settle(len(batch), lost)

    def _finish(self) -> None:
        self._closed = True
        try:
            self._sink.close(self._dropped)
        except Exception:
            _logger.warning("%s: closing failed", self._name, exc_info=True)
