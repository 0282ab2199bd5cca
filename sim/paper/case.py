"""What a case of `python -m sim paper` is, and what it works with."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from robot_sdk.clock import wall_unix_ns
from robot_sdk.version import __version__
from sim.files import write_whole
from sim.machine import machine
from sim.paper.parallel import in_processes
from sim.paper.rows import Row

if TYPE_CHECKING:
    from sim.fleet.replay.result import ReplayResult
    from sim.fleet.replay.runner import Job, WorkerPool

ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")

#: Results of replays in a workplace's folder, so that none is run twice.
REPLAY_STORE = "replays.jsonl"
_TELL_EVERY_S = 10.0


@dataclass(frozen=True)
class Picture:
    """A picture that a case leaves.

    Attributes:
        file: Its name in the workplace's folder.
        title: What it shows, one line.
        figure: The figure of the study that it is the counterpart of; None: the study has none.
    """

    file: str
    title: str
    figure: int | None = None


@dataclass(frozen=True)
class Workplace:
    """Where a case leaves its results, and how it computes.

    Attributes:
        folder: Exists.
        num_processes: Processes to compute with; 1: this one alone.
        say: Prints one line of progress.
        quick: The reader wants a result in a minute: fewer seeds, sizes, virtual minutes.
        study_folder: Holds the study's vLLM 0.17.1; None: it is not there.
        num_seeds: What the caller asked for; None: each case as it sees fit.
        pool: Processes of replays, kept from case to case; None: each case starts its own.
        finished: Plain values of what `map` and `replays` have given, by what it was, so that an
            interrupted case leaves them.
        draft: Likewise, rows and pictures that a case has made of what it has.
    """

    folder: Path
    num_processes: int
    say: Callable[[str], None]
    quick: bool = False
    study_folder: Path | None = None
    num_seeds: int | None = None
    pool: WorkerPool | None = field(default=None, compare=False)
    finished: dict[str, list[Any]] = field(default_factory=dict, compare=False)
    draft: dict[str, Any] = field(default_factory=dict, compare=False)

    @property
    def engine_versions(self) -> tuple[Literal["installed", "study"], ...]:
        """Of `EngineChoice`: those that can be run here, the study's first."""
        return ("installed",) if self.study_folder is None else ("study", "installed")

    def seeds(self, usual: int, quick: int) -> tuple[int, ...]:
        """Seeds to run, from 0: as many as the caller asked for, else `usual` or `quick`."""
        return tuple(range(self.num_seeds or (quick if self.quick else usual)))

    def map(
        self, function: Callable[[ItemT], ResultT], items: Sequence[ItemT], what: str
    ) -> Iterator[ResultT]:
        """`function` of every item, in order; says how far it is after each."""
        kept = self.finished.setdefault(what, [])
        results = in_processes(function, items, self.num_processes)
        for done, result in enumerate(results, start=1):
            kept.append(_plain(result))
            yield result
            self.say(f"{what}: {done} of {len(items)}")

    def replays(
        self,
        jobs: Sequence[Job],
        what: str,
        on_result: Callable[[int, ReplayResult], None] | None = None,
    ) -> list[ReplayResult]:
        """One result for each job, in order; those that were run before are read, not run again.

        Args:
            jobs: Each an object of its own.
            what: They are, for people.
            on_result: Told each result as soon as it is there and its place in `jobs`, so that an
                interrupted case can say what it has; also of runs that were cut off.
        """
        from sim.fleet.replay import runner

        told_s = 0.0
        places = {id(job): place for place, job in enumerate(jobs)}

        def place(job: Job, result: ReplayResult) -> None:
            if on_result is not None:
                on_result(places[id(job)], result)

        def tell(progress: runner.Progress) -> None:
            nonlocal told_s
            if progress.elapsed_s - told_s >= _TELL_EVERY_S or progress.done == progress.total:
                told_s = progress.elapsed_s
                self.say(f"{what}: {progress}")

        results = runner.run_many(
            jobs,
            processes=self.num_processes,
            study_folder=self.study_folder,
            store=self.folder / REPLAY_STORE,
            pool=self.pool,
            on_result=place,
            on_progress=tell,
        )
        kept = self.finished.setdefault(what, [])
        found = []
        for result in results:
            kept.append(_in_short(result))
            found.append(result)
        return found

    def write(self, name: str, content: Mapping[str, Any]) -> None:
        """Leave a JSON file; how it was made comes with it."""
        made = {
            "made_with": f"robot-sdk {__version__}",
            "made_on": machine(),
            "made_at": datetime.fromtimestamp(wall_unix_ns() / 1e9, timezone.utc).isoformat(),
        }
        path = self.folder / f"{name}.json"
        # A reader, and a report made of an interrupted run, never see half of it.
        write_whole(path, json.dumps({**made, **content}, indent=1) + "\n")
        self.say(f"wrote {path}")

    def write_case(
        self,
        name: str,
        rows: Sequence[Row],
        *,
        settings: Mapping[str, Any],
        pictures: Sequence[Picture] = (),
        **content: Any,
    ) -> None:
        """Leave NAME.json, which the report is made of.

        Args:
            name: Of the case.
            rows: Theirs and ours.
            settings: What it was made with: seeds, engine versions, durations, sizes, sources.
            pictures: Files that are there already.
            content: What else is worth keeping; `notes`, a list of sentences, is printed under the
                case's tables in the report.
        """
        self.write(
            name,
            {
                "case": name,
                "command": self.command(name),
                "partial": False,
                "quick": self.quick,
                "settings": dict(settings),
                "pictures": [asdict(picture) for picture in pictures],
                **content,
                "rows": [row.to_json() for row in rows],
            },
        )

    def keep_draft(
        self,
        rows: Sequence[Row],
        *,
        settings: Mapping[str, Any],
        pictures: Sequence[Picture] = (),
        notes: Sequence[str] = (),
    ) -> None:
        """What an interrupted case can say so far; `write_partial` leaves it."""
        self.draft.update(
            settings=dict(settings),
            pictures=[asdict(picture) for picture in pictures],
            notes=list(notes),
            rows=[row.to_json() for row in rows],
        )

    def write_partial(self, name: str, why: str) -> None:
        """Leave what an interrupted or failed case has finished, marked as partial.

        A complete result that an earlier run left is kept instead.
        """
        if self.has_complete(name):
            self.say(f"the earlier, complete {name}.json is kept")
            return
        self.write(
            name,
            {
                "case": name,
                "command": self.command(name),
                "partial": True,
                "why": why,
                "quick": self.quick,
                "finished": self.finished,
                "settings": {},
                "pictures": [],
                "rows": [],
                **self.draft,
            },
        )

    def command(self, name: str) -> str:
        """What makes this case again, folders left out."""
        seeds = "" if self.num_seeds is None else f" --seeds {self.num_seeds}"
        return f"python -m sim paper {name}{' --quick' if self.quick else ''}{seeds}"

    def has_complete(self, name: str) -> bool:
        """An earlier run has left the whole of it."""
        try:
            content = json.loads((self.folder / f"{name}.json").read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
            return False
        return isinstance(content, dict) and content.get("partial") is False


@dataclass(frozen=True)
class Case:
    """One table or figure.

    Attributes:
        title: What it shows, one line.
        minutes: How long it takes on two cores, about.
        run: Leaves its files in the workplace's folder.
        quick_minutes: The same with `quick`; None: as long.
        uses_study_engine: Some of its rows need the study's vLLM 0.17.1.
    """

    title: str
    minutes: float
    run: Callable[[Workplace], None]
    quick_minutes: float | None = None
    uses_study_engine: bool = False


def _plain(value: Any) -> Any:
    """As JSON keeps it; None: it cannot."""
    try:
        return json.loads(json.dumps(value))
    except (TypeError, ValueError):
        return None


def _in_short(result: ReplayResult) -> dict[str, Any]:
    """What a reader of an interrupted case needs; all of it is in the store of replays."""
    return {
        "seed": result.seed,
        "engine_version": result.engine_version,
        "is_partial": result.is_partial,
        "rps": result.rps,
        "hit": result.hit,
        "episodes_per_min": result.episodes_per_min,
        "jain": result.jain,
        "first_low_hit_s": result.first_low_hit_s,
    }
