"""Latencies of single brain turns as measured: what a cost model is fitted to.

A JSON file; the study's is `tables/measured/h800-tp4-qwen3.6-27b.json`:

    {"format": "robot-brain-latency/1", "name": ..., "model": ..., "device": ..., "source": ...,
     "block_tokens": 784, "step_tokens": 16384, "new_tokens": 3300, "output_tokens": 150,
     "context_tokens": [...], "ttft_evicted_s": [...], "ttft_retained_s": [...],
     "call_evicted_s": [...], "call_retained_s": [...]}

Evicted: a prompt of so many tokens of which nothing is cached. Retained: so many tokens are, and
`new_tokens` more are appended. A call is the time to first token and `output_tokens` - 1 decode
steps of a turn that is alone.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from robot_sdk.errors import InvalidArgumentError

FORMAT = "robot-brain-latency/1"
COLUMNS = ("ttft_evicted_s", "ttft_retained_s", "call_evicted_s", "call_retained_s")
#: Two constants describe a decode step and four the time to first token.
_FEWEST_ROWS = 3
_LEAST_S = 1e-6
_MOST_S = 3600.0
#: Steps of a prompt: beyond that its pieces take longer to count than they are worth.
_MOST_STEPS = 10_000
_MOST_TOKENS = 100_000_000


@dataclass(frozen=True)
class BrainLatencies:
    """A table of measured latencies.

    Attributes:
        block_tokens, step_tokens: Of the engine that was measured.
        new_tokens: Appended where the context is retained.
        output_tokens: Of a call.
        context_tokens: Ascending.
        ttft_evicted_s, ttft_retained_s, call_evicted_s, call_retained_s: One for each context.

    Raises:
        InvalidArgumentError: A hole, a value out of range or out of order; it is named.
    """

    name: str
    model: str
    device: str
    source: str
    block_tokens: int
    step_tokens: int
    new_tokens: int
    output_tokens: int
    context_tokens: tuple[int, ...]
    ttft_evicted_s: tuple[float, ...]
    ttft_retained_s: tuple[float, ...]
    call_evicted_s: tuple[float, ...]
    call_retained_s: tuple[float, ...]

    def __post_init__(self) -> None:
        for field in ("name", "model", "device", "source"):
            text = getattr(self, field)
            if not isinstance(text, str) or not text or not text.isprintable():
                raise InvalidArgumentError(
                    "not a text on one line", field=field, value=repr(text), allowed=("any text",)
                )
        for field in ("block_tokens", "step_tokens", "new_tokens"):
            _whole(field, getattr(self, field), 1)
        _whole("output_tokens", self.output_tokens, 2)
        _whole("step_tokens", self.step_tokens, self.block_tokens)
        contexts = self.context_tokens
        if len(contexts) < _FEWEST_ROWS:
            raise InvalidArgumentError(
                "too few contexts to fit a cost model to",
                field="context_tokens",
                value=len(contexts),
                allowed=(f"at least {_FEWEST_ROWS}",),
            )
        for index, tokens in enumerate(contexts):
            _whole(f"context_tokens[{index}]", tokens, 1)
            if index and tokens <= contexts[index - 1]:
                _refuse("contexts must ascend", f"context_tokens[{index}]", tokens)
        most_tokens = self.step_tokens * _MOST_STEPS
        if contexts[-1] + self.new_tokens > most_tokens:
            raise InvalidArgumentError(
                f"a prompt would take more than {_MOST_STEPS} steps of {self.step_tokens} tokens",
                field=f"context_tokens[{len(contexts) - 1}]",
                value=contexts[-1],
                allowed=(f"up to {most_tokens - self.new_tokens}",),
                hint="give larger step_tokens",
            )
        for name in COLUMNS:
            self._check_column(name)
        for kind in ("evicted", "retained"):
            pairs = zip(
                getattr(self, f"ttft_{kind}_s"), getattr(self, f"call_{kind}_s"), strict=True
            )
            for index, (first_s, whole_s) in enumerate(pairs):
                if whole_s <= first_s:
                    _refuse(
                        f"a call takes longer than its first token ({first_s} s)",
                        f"call_{kind}_s[{index}]",
                        whole_s,
                    )

    def _check_column(self, name: str) -> None:
        values = getattr(self, name)
        if len(values) != len(self.context_tokens):
            raise InvalidArgumentError(
                "a column has a hole: one value for each context",
                field=name,
                value=f"{len(values)} values",
                allowed=(len(self.context_tokens),),
            )
        for index, value in enumerate(values):
            is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
            if not is_number or not _LEAST_S <= value <= _MOST_S:  # nothing else is finite
                raise InvalidArgumentError(
                    "not seconds that a call can take",
                    field=f"{name}[{index}]",
                    value=value if is_number else repr(value),
                    allowed=(f"{_LEAST_S:g} to {_MOST_S:g} in every place",),
                )
            if index and value < values[index - 1]:
                _refuse("a longer context takes no less time", f"{name}[{index}]", value)

    def to_json(self) -> dict[str, Any]:
        """The content of the file."""
        content = {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in asdict(self).items()
        }
        return {"format": FORMAT, **content}


def read(path: Path) -> BrainLatencies:
    """A table from its file.

    Raises:
        InvalidArgumentError: There is no such file, or it is no such table; says what is wrong.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise InvalidArgumentError(
            f"a latency table cannot be read: {error}", field="table", value=str(path)
        ) from error
    return from_json(content)


def from_json(content: object) -> BrainLatencies:
    """A table from the content of its file.

    Raises:
        InvalidArgumentError: It is no such table; says what is wrong.
    """
    if not isinstance(content, Mapping) or content.get("format") != FORMAT:
        raise InvalidArgumentError(
            "not a table of brain latencies",
            field="format",
            value=content.get("format") if isinstance(content, Mapping) else type(content).__name__,
            allowed=(FORMAT,),
        )
    wanted = set(BrainLatencies.__dataclass_fields__)
    holes = sorted(name for name in wanted if content.get(name) is None)
    unknown = sorted(set(content) - wanted - {"format"})
    if holes or unknown:
        raise InvalidArgumentError(
            "a latency table has holes" if holes else "a latency table has fields nobody knows",
            field="table",
            value=", ".join(holes or unknown),
            allowed=sorted(wanted),
        )
    values = {name: content[name] for name in wanted}
    for name in ("context_tokens", *COLUMNS):
        if not isinstance(values[name], list):
            _refuse("a list with one value for each context", name, values[name])
        values[name] = tuple(values[name])
    return BrainLatencies(**values)


def _whole(name: str, value: object, least: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= _MOST_TOKENS:
        raise InvalidArgumentError(
            "out of range",
            field=name,
            value=value,
            allowed=(f"a whole number from {least} to {_MOST_TOKENS}",),
        )


def _refuse(why: str, field: str, value: object) -> None:
    raise InvalidArgumentError(why, field=field, value=value)
