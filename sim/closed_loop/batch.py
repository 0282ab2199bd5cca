"""Many episodes of one task, one after the other, kept as they end."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from robot_sdk.client import connect
from robot_sdk.errors import InvalidArgumentError
from sim.closed_loop.chunk_load import ChunkLoad
from sim.closed_loop.delays import EpisodeDelays
from sim.closed_loop.episode import ClosedLoopRecord, run_closed_loop
from sim.code_meaning import digest_of, files_of
from sim.libero.env import LiberoEnv
from sim.libero.tools import POLICY

#: For a server that only these episodes use. One observation at a time, so that the same one always
#: gets the same chunk, bit by bit; and robots that share a busy machine must not lose their lease.
SERVER_SETTINGS = (
    f"policies.{POLICY}.max_batch=1",
    f'policies.{POLICY}.batcher="fifo"',
    "episodes.lease_ttl_s=3600.0",
)

_ROOT = Path(__file__).parents[2]
#: What an episode's course depends on.
_CODE = (
    "robot_sdk",
    "server/brain/demo_planner.py",
    "server/brain/history.py",
    "server/brain/task_words.py",
    "server/core/batching",
    "server/policy/flow",
    "sim/closed_loop/body.py",
    "sim/closed_loop/chunk_load.py",
    "sim/closed_loop/delays.py",
    "sim/closed_loop/episode.py",
    "sim/closed_loop/fleet_clock.py",
    "sim/closed_loop/resting.py",
    "sim/closed_loop/slow_brain.py",
    "sim/fleet/action.py",
    "sim/fleet/action_robot.py",
    "sim/fleet/action_tier.py",
    "sim/fleet/disciplines.py",
    "sim/fleet/event_loop.py",
    "sim/fleet/network.py",
    "sim/fleet/rows_from_arrival.py",
    "sim/libero",
)


@dataclass(frozen=True)
class Trial:
    """One episode under one condition.

    Attributes:
        condition: Name of what the episode goes through.
        init: Initial state of the task.
        seed: Of the fleet at the action tier.
    """

    condition: str
    init: int
    delays: EpisodeDelays
    load: ChunkLoad
    seed: int = 0


@dataclass(frozen=True)
class TaskBatch:
    """Episodes of one task.

    Attributes:
        target: The server, started with `SERVER_SETTINGS`.
        kept: Results are appended to this file and taken from it. Empty: they are not kept.
    """

    target: str
    suite: str
    task: int
    trials: tuple[Trial, ...]
    kept: str = ""


@dataclass(frozen=True)
class TrialRecord:
    """A trial's outcome."""

    condition: str
    record: ClosedLoopRecord


def run_batch(batch: TaskBatch) -> list[TrialRecord]:
    """Run what was not run before, in order.

    Raises:
        InvalidArgumentError: The file holds something else than kept episodes.
        RobotSdkError: The server was lost; what ended before is kept.
    """
    store = _Store(Path(batch.kept) if batch.kept else None)
    records: dict[str, ClosedLoopRecord] = {}
    missing: list[tuple[str, Trial]] = []
    for trial in batch.trials:
        key = _key(batch, trial)
        known = store.find(key)
        if known is None:
            missing.append((key, trial))
        else:
            records[key] = known
    if missing:
        first = missing[0][1].init
        with (
            connect(batch.target) as client,
            LiberoEnv(batch.suite, batch.task, first, gl="off") as env,
        ):
            for key, trial in missing:
                env.reset(trial.init)
                records[key] = run_closed_loop(client, env, trial.delays, trial.load, trial.seed)
                store.add(key, trial.condition, records[key])
    return [TrialRecord(trial.condition, records[_key(batch, trial)]) for trial in batch.trials]


class _Store:
    """Lines of JSON; a last one that was cut off is dropped.

    Records of other code may have other fields: only those that are asked for are looked into.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._known: dict[str, Any] = {}
        if path is None or not path.exists():
            return
        text = path.read_text(encoding="utf-8")
        whole = text[: text.rfind("\n") + 1]
        if whole != text:
            path.write_text(whole, encoding="utf-8")
        for number, line in enumerate(whole.splitlines(), start=1):
            try:
                content = json.loads(line)
                self._known[content["key"]] = content["record"]
            except (ValueError, KeyError, TypeError) as error:
                raise InvalidArgumentError(
                    f"line {number} is no kept episode: {error!r}",
                    field="kept episodes",
                    value=path,
                    hint="remove the line, or the file",
                ) from None

    def find(self, key: str) -> ClosedLoopRecord | None:
        return ClosedLoopRecord(**self._known[key]) if key in self._known else None

    def add(self, key: str, condition: str, record: ClosedLoopRecord) -> None:
        if self._path is None:
            return
        line = json.dumps({"key": key, "condition": condition, "record": asdict(record)})
        with self._path.open("a", encoding="utf-8") as file:
            file.write(line + "\n")


def _key(batch: TaskBatch, trial: Trial) -> str:
    """Changes with whatever the episode's course depends on; its condition's name is none."""
    what = {**asdict(trial), "condition": "", "suite": batch.suite, "task": batch.task}
    what["load"]["table"] = trial.load.table.to_json()
    text = json.dumps({"what": what, "code": _code_digest()}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


@lru_cache
def _code_digest() -> str:
    return digest_of((file for part in _CODE for file in files_of(_ROOT / part)), _ROOT)
