"""Numbers of a benchmark: quantiles, their spread over blocks, and the machine they came from."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Quantiles:
    """Quantiles of the round trips of one block, milliseconds."""

    count: int
    p50_ms: float
    p90_ms: float
    p99_ms: float

    @staticmethod
    def of(latencies_ms: Sequence[float]) -> Quantiles:
        """Raises ValueError for an empty block: a block without an answer has no latency."""
        if not latencies_ms:
            raise ValueError("a block gave no answer at all; look at the server's output")
        p50, p90, p99 = np.percentile(np.asarray(latencies_ms), [50, 90, 99])
        return Quantiles(len(latencies_ms), float(p50), float(p90), float(p99))


@dataclass(frozen=True)
class Spread:
    """Median and extremes of one figure over several blocks."""

    median: float
    minimum: float
    maximum: float

    @staticmethod
    def of(values: Sequence[float]) -> Spread:
        return Spread(float(np.median(values)), min(values), max(values))

    def __str__(self) -> str:
        return f"{self.median:.2f} ({self.minimum:.2f}-{self.maximum:.2f})"


def machine_line() -> str:
    """One line that names the machine, for the head of a report."""
    try:
        load = ", ".join(f"{value:.2f}" for value in os.getloadavg())
    except OSError:
        load = "unknown"
    return (
        f"{os.cpu_count()} cores, {platform.system()} {platform.machine()}, "
        f"Python {platform.python_version()}, load average at start {load}"
    )
