"""What a case of `python -m sim paper` is, and what it works with."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeVar

from robot_sdk.version import __version__
from sim.cli.result_file import machine

ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")


@dataclass(frozen=True)
class Workplace:
    """Where a case leaves its results, and how it computes.

    Attributes:
        folder: Exists.
        num_processes: Processes to compute with; 1: this one alone.
        say: Prints one line of progress.
    """

    folder: Path
    num_processes: int
    say: Callable[[str], None]

    def map(
        self, function: Callable[[ItemT], ResultT], items: Sequence[ItemT], what: str
    ) -> Iterator[ResultT]:
        """`function` of every item, in order; says how far it is after each."""
        if self.num_processes == 1:
            for done, item in enumerate(items, start=1):
                yield function(item)
                self.say(f"{what}: {done} of {len(items)}")
            return
        with ProcessPoolExecutor(self.num_processes, mp_context=get_context("spawn")) as pool:
            for done, result in enumerate(pool.map(function, items), start=1):
                yield result
                self.say(f"{what}: {done} of {len(items)}")

    def write(self, name: str, content: dict[str, Any]) -> None:
        """Leave a JSON file; how it was made comes with it."""
        made = {"made_with": f"robot-sdk {__version__}", "made_on": machine()}
        path = self.folder / f"{name}.json"
        path.write_text(json.dumps({**made, **content}, indent=1) + "\n", encoding="utf-8")
        self.say(f"wrote {path}")


@dataclass(frozen=True)
class Case:
    """One table or figure.

    Attributes:
        title: What it shows, one line.
        minutes: How long it takes on two cores, about.
        run: Leaves its files in the workplace's folder.
    """

    title: str
    minutes: float
    run: Callable[[Workplace], None]
