"""Where the time goes, without holding up the GPU."""

from __future__ import annotations

import torch

from robot_sdk.clock import Clock


class StageTimer:
    """Marks between stages.

    On a GPU a mark is an event in the stream, and nothing waits until the durations are asked for:
    a clock on the host would only see how fast work is handed over. Elsewhere it is the clock.
    """

    def __init__(self, device: torch.device, clock: Clock) -> None:
        self._is_cuda = device.type == "cuda"
        self._clock = clock
        self._events: list[torch.cuda.Event] = []
        self._times_s: list[float] = []

    def mark(self) -> None:
        """The end of one stage and the beginning of the next."""
        if self._is_cuda:
            event = torch.cuda.Event(enable_timing=True)
            event.record()
            self._events.append(event)
        else:
            self._times_s.append(self._clock.now_s())

    def durations_s(self) -> list[float]:
        """Seconds between consecutive marks. On a GPU it waits for the last of them."""
        if not self._is_cuda:
            return [b - a for a, b in zip(self._times_s, self._times_s[1:], strict=False)]
        if self._events:
            self._events[-1].synchronize()
        return [
            a.elapsed_time(b) / 1e3 for a, b in zip(self._events, self._events[1:], strict=False)
        ]
