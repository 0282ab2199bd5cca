"""A span that has started and that somebody will end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Union

from opentelemetry import trace

from robot_sdk.clock import Clock
from robot_sdk.telemetry.anchor import TimeAnchor

AttributeValue = Union[str, bool, int, float]
#: Attributes of a span. A value of None is unknown, and is left off.
Attributes = Mapping[str, Union[AttributeValue, None]]


class OpenSpan:
    """A span that has started. Made by `Telemetry.start_span`; `end` must be called once.

    It is never put into the running context: pass it (or `context`) as the `parent` of others.
    """

    def __init__(self, span: trace.Span, anchor: TimeAnchor, clock: Clock, start_s: float) -> None:
        self._span = span
        self._anchor = anchor
        self._clock = clock
        self._start_s = start_s

    @property
    def context(self) -> trace.SpanContext:
        """Ids of this span, to be passed as a parent or to `trace_context`."""
        return self._span.get_span_context()

    @property
    def start_s(self) -> float:
        """When it started, in seconds of the process's monotonic clock."""
        return self._start_s

    def set(self, attributes: Attributes) -> None:
        """Add attributes. Values of None are left off."""
        for key, value in attributes.items():
            if value is not None:
                self._span.set_attribute(key, value)

    def end(
        self,
        end_s: float | None = None,
        *,
        attributes: Attributes | None = None,
        error: BaseException | str | None = None,
    ) -> None:
        """End the span. Never blocks; a second call is ignored.

        Args:
            end_s: Seconds of the process's monotonic clock; None: now. A time before the start
                counts as the start.
            attributes: Added before it ends.
            error: Marks the span as failed, with this text.
        """
        if not self._span.is_recording():
            return
        if attributes:
            self.set(attributes)
        if error is not None:
            text = f"{type(error).__name__}: {error}" if isinstance(error, BaseException) else error
            self._span.set_status(trace.Status(trace.StatusCode.ERROR, text))
        end_s = self._clock.now_s() if end_s is None else end_s
        self._span.end(self._anchor.to_unix_ns(max(end_s, self._start_s)))


def known(attributes: Attributes) -> dict[str, AttributeValue]:
    """`attributes` without those whose value is None."""
    return {key: value for key, value in attributes.items() if value is not None}
