"""The three clocks: the study's, those of the traces we replay, and those of episodes run here."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from sim.fleet.workload.figures import draw_gaps
from sim.fleet.workload.generator import generate
from sim.fleet.workload.marginals import marginals
from sim.fleet.workload.recorder import record
from sim.fleet.workload.trace import EpisodeTrace
from sim.fleet.workload.trace_file import write_traces
from sim.paper.case import Case, Picture, Workplace
from sim.paper.cases.workload import CLOCK_QUANTITIES, marginal_rows
from sim.paper.plot import pyplot
from sim.paper.rows import Row

SUITE = "libero_object_swap"
TASKS = "0-2"
RUN_LIMIT_S = 420.0
RECORDED = "recorded, this machine"
RECORDED_FILE = "three-clocks-recorded.jsonl"

_NOTES = (
    "Brain latency of the study is that of a hosted model, not of the brain it replays with; a "
    "replay has its own brain and takes only the gaps from a trace.",
    "Independent clocks would give 15.7 s for P90 of brain latency + env-step gap, 2% over the "
    "study's; the generator makes long thoughts and long motions meet a little less often.",
    f"'{RECORDED}': {SUITE}, tasks {TASKS}, run with our own server and simulator in lockstep and "
    "turned into traces by `python -m sim workload record`. Its brain is the rule-based planner, "
    "which answers in milliseconds, and its tools are not the study's, so its figures are not to "
    "be near the study's: it shows that a real run gives all three clocks.",
)


def run(workplace: Workplace) -> None:
    """Leaves three-clocks.json, three-clocks.png and, in the full set, the recorded traces."""
    seeds = workplace.seeds(usual=20, quick=3)
    drawn = [generate(seed) for seed in seeds]
    recorded, why_not = ((), "not in the quick set") if workplace.quick else _record(workplace)
    rows = [*marginal_rows(drawn, clocks=True), *recorded_rows(recorded, why_not)]
    picture = Picture(
        "three-clocks.png", "gaps between two brain calls, robot time and wall clock", figure=3
    )
    _draw(workplace, picture.file, drawn[0], recorded)
    workplace.write_case(
        "three-clocks",
        rows,
        settings={"seeds": seeds, "recorded": {"suite": SUITE, "tasks": TASKS}},
        pictures=[picture],
        notes=list(_NOTES),
    )


def recorded_rows(traces: Sequence[EpisodeTrace], why_not: str) -> list[Row]:
    """The same quantities of real episodes; not judged, because theirs is another robot program."""
    wanted = (*CLOCK_QUANTITIES, "intervals", "zero_step_fraction")
    return [
        Row(
            of.row,
            of.quantity,
            "share" if of.quantity == "zero_step_fraction" else of.unit,
            None,
            of.ours if traces else None,
            kind="measured",
            variant=RECORDED,
            note=why_not,
        )
        for of in marginals(traces)
        if of.quantity in wanted
    ]


def _record(workplace: Workplace) -> tuple[tuple[EpisodeTrace, ...], str]:
    """A few episodes, run and recorded; or none and the reason."""
    if importlib.util.find_spec("mujoco") is None:
        return (), "the simulator is not installed"
    workplace.say(f"running {SUITE}, tasks {TASKS}, in lockstep")
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "sim", "run", "--suite", SUITE, "--tasks", TASKS]
        try:
            done = subprocess.run(
                [*command, "--pace", "lockstep", "--run-folder", folder],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=RUN_LIMIT_S,
                check=False,
                env={**os.environ, "OMP_NUM_THREADS": "1"},
            )
        except subprocess.TimeoutExpired:
            return (), f"the run took longer than {RUN_LIMIT_S:.0f} s"
        if done.returncode != 0:
            return (), f"the run ended with exit code {done.returncode}: {_last_line(done.stderr)}"
        recording = record(Path(folder))
    if not recording.traces:
        return (), "; ".join(recording.left_out.values()) or "the run left no episode"
    write_traces(workplace.folder / RECORDED_FILE, recording.traces)
    workplace.say(f"wrote {workplace.folder / RECORDED_FILE}")
    return recording.traces, ""


def _last_line(text: str) -> str:
    return next((line for line in reversed(text.splitlines()) if line.strip()), "no message")[:200]


def _draw(
    workplace: Workplace,
    file: str,
    drawn: Sequence[EpisodeTrace],
    recorded: Sequence[EpisodeTrace],
) -> None:
    plt = pyplot()
    panels = [("generated, one draw; crosses: the study", drawn)]
    if recorded:
        panels.append((f"{RECORDED}: {len(recorded)} episodes of {SUITE}", recorded))
    figure, all_axes = plt.subplots(
        1,
        len(panels),
        figsize=(7 * len(panels), 4.5),
        layout="constrained",
        squeeze=False,
        sharex=True,
    )
    for axes, (title, traces) in zip(all_axes[0], panels, strict=True):
        draw_gaps(axes, traces)
        axes.set_title(title, fontsize=10)
    for of in marginals(()):
        if of.row in ("env_step_gap", "simulator_wall_gap"):
            share = {"p50": 0.5, "p90": 0.9, "max": 1.0}[of.quantity]
            all_axes[0][0].plot([of.study], [share], "k+", markersize=10, zorder=4)
    figure.savefig(workplace.folder / file, dpi=120)
    plt.close(figure)
    workplace.say(f"wrote {workplace.folder / file}")


CASE = Case("brain latency, robot time and wall clock between two calls", 0.7, run, 0.05)
