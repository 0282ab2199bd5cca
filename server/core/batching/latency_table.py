"""How long a policy takes by batch size, as measured on one machine.

The file is what `python -m server profile-policy` writes and what the batcher and the replay read:

    {"format": "robot-latency-table/1", "policy": ..., "device": ..., "dtype": ...,
     "measured_on": ..., "num_warmups": ..., "num_runs": ...,
     "rows": [{"batch": 1, "p50_s": 0.16, "p90_s": null, "p99_s": null, "vision_s": ...,
               "prefill_s": ..., "denoise_s": ..., "denoise_step_s": ..., "memory_bytes": ...}]}
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

FORMAT = "robot-latency-table/1"


@dataclass(frozen=True)
class LatencyRow:
    """One batch size. Seconds; None: not measured.

    Attributes:
        p50_s, p90_s, p99_s: Quantiles of the whole inference.
        vision_s, prefill_s, denoise_s: Its parts; denoise_s is all steps.
        denoise_step_s: One denoising step.
        memory_bytes: Peak memory on the device.
    """

    batch: int
    p50_s: float
    p90_s: float | None = None
    p99_s: float | None = None
    vision_s: float | None = None
    prefill_s: float | None = None
    denoise_s: float | None = None
    denoise_step_s: float | None = None
    memory_bytes: int | None = None


@dataclass(frozen=True)
class LatencyTable:
    """Latency by batch size.

    Attributes:
        policy: Name of the policy or checkpoint.
        device: What computed it, for example "NVIDIA H200".
        measured_on: Where the figures come from: host and day, or a publication.
        num_warmups, num_runs: Runs thrown away and counted per batch size.
        rows: At least one, by ascending batch size.

    Raises:
        ValueError: A value is missing, of the wrong type or out of range; it is named.
    """

    policy: str
    device: str
    dtype: str
    measured_on: str
    num_warmups: int
    num_runs: int
    rows: tuple[LatencyRow, ...]

    def __post_init__(self) -> None:
        if not self.rows:
            raise ValueError("rows: empty; a latency table has at least one batch size")
        for before, after in zip(self.rows, self.rows[1:], strict=False):
            if after.batch <= before.batch:
                raise ValueError(
                    f"rows: batch {after.batch} comes after batch {before.batch}; "
                    "batch sizes must ascend"
                )

    @property
    def largest_batch(self) -> int:
        """Largest batch size that was measured."""
        return self.rows[-1].batch

    def latency_s(self, batch: int) -> float:
        """Median latency of a batch, linear in the batch size between measured sizes.

        Below the smallest measured size the smallest one's latency counts, which is never too low.

        Raises:
            ValueError: Larger than the largest measured batch: how latency grows there is unknown.
        """
        if not 1 <= batch <= self.largest_batch:
            raise ValueError(
                f"batch size {batch} was not measured; the table of {self.policy} covers 1 to "
                f"{self.largest_batch}"
            )
        index = bisect.bisect_left(self.rows, batch, key=lambda row: row.batch)
        upper = self.rows[index]
        if upper.batch == batch or index == 0:
            return upper.p50_s
        lower = self.rows[index - 1]
        share = (batch - lower.batch) / (upper.batch - lower.batch)
        return lower.p50_s + share * (upper.p50_s - lower.p50_s)

    def to_json(self) -> dict[str, Any]:
        """The content of the file."""
        content: dict[str, Any] = {"format": FORMAT}
        for field in fields(self):
            if field.name != "rows":
                content[field.name] = getattr(self, field.name)
        content["rows"] = [
            {field.name: getattr(row, field.name) for field in fields(LatencyRow)}
            for row in self.rows
        ]
        return content

    @classmethod
    def from_json(cls, content: object) -> LatencyTable:
        """Read the content of a file.

        Raises:
            ValueError: What is wrong and where, with the value found and what is allowed.
        """
        if not isinstance(content, Mapping):
            raise ValueError(f"a latency table is an object, not {_kind(content)}")
        if content.get("format") != FORMAT:
            raise ValueError(f"format is {content.get('format')!r}; this version reads {FORMAT!r}")
        known = {"format", *(field.name for field in fields(cls))}
        _refuse_unknown(content, known, "the table")
        rows = content.get("rows")
        if not isinstance(rows, list):
            raise ValueError(f"rows is {_kind(rows)}; a list with one object per batch size")
        return cls(
            policy=_text(content, "policy"),
            device=_text(content, "device"),
            dtype=_text(content, "dtype"),
            measured_on=_text(content, "measured_on"),
            num_warmups=_count(content, "num_warmups", 0),
            num_runs=_count(content, "num_runs", 1),
            rows=tuple(_row(row, f"rows[{index}]") for index, row in enumerate(rows)),
        )


def _row(content: object, where: str) -> LatencyRow:
    if not isinstance(content, Mapping):
        raise ValueError(f"{where} is {_kind(content)}; it must be an object")
    names = [field.name for field in fields(LatencyRow)]
    _refuse_unknown(content, set(names), where)
    p50_s = _seconds(content, "p50_s", where)
    if p50_s is None:
        raise ValueError(f"{where}.p50_s is missing; every batch size needs its median latency")
    memory_bytes = (
        _count(content, "memory_bytes", 0, where)
        if content.get("memory_bytes") is not None
        else None
    )
    return LatencyRow(
        batch=_count(content, "batch", 1, where),
        p50_s=p50_s,
        memory_bytes=memory_bytes,
        **{
            name: _seconds(content, name, where)
            for name in names
            if name not in ("batch", "p50_s", "memory_bytes")
        },
    )


def _refuse_unknown(content: Mapping[Any, Any], known: set[str], where: str) -> None:
    unknown = sorted(str(name) for name in content if name not in known)
    if unknown:
        raise ValueError(
            f"{where} has unknown fields {', '.join(unknown)}; known: {', '.join(sorted(known))}"
        )


def _text(content: Mapping[Any, Any], name: str) -> str:
    value = content.get(name)
    if not isinstance(value, str):
        raise ValueError(f"{name} is {_kind(value)}; it must be text")
    return value


def _count(content: Mapping[Any, Any], name: str, least: int, where: str = "") -> int:
    value = content.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        place = f"{where}.{name}" if where else name
        raise ValueError(f"{place} is {value!r}; it must be a whole number, at least {least}")
    return value


def _seconds(content: Mapping[Any, Any], name: str, where: str) -> float | None:
    value = content.get(name)
    if value is None:
        return None
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not is_number or not math.isfinite(value) or value <= 0:
        raise ValueError(f"{where}.{name} is {value!r}; it must be seconds above 0, or null")
    return float(value)


def _kind(value: object) -> str:
    return "missing" if value is None else f"a {type(value).__name__}"


#: The table of the study that this system follows: pi0.5 with 5 denoising steps on its GPU, median
#: of 50 runs after 10 warm-ups. Only three of its seven batch sizes are published.
STUDY_TABLE = LatencyTable(
    policy="pi0.5, 5 denoising steps",
    device="the study's GPU",
    dtype="unknown",
    measured_on="the study's published table",
    num_warmups=10,
    num_runs=50,
    rows=(
        LatencyRow(
            1, 0.160, vision_s=0.019, prefill_s=0.019, denoise_s=0.115, denoise_step_s=0.023
        ),
        LatencyRow(8, 0.249),
        LatencyRow(64, 1.030),
    ),
)
