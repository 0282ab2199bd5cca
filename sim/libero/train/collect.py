"""Record demonstrations for the flow policy.

    python -m sim.libero.train.collect --suites libero_object_swap --episodes 12 --out demos.npz

Every episode starts from a random reset, never from a fixed initial state, which are kept for
evaluation. With `--policy CHECKPOINT` that policy drives part of the time while the expert says
what it would have done.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from robot_sdk.clock import MonotonicClock
from server.policy.flow.features import INPUT_WIDTHS
from server.policy.flow.policy import FlowPolicy
from sim.libero.env import LiberoEnv
from sim.libero.suites import NUM_TASKS
from sim.libero.train.episodes import Disturbance, record
from sim.libero.train.ranges import parse_range


def main(arguments: list[str] | None = None) -> int:
    """Command line; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--suites", nargs="+", default=["libero_object", "libero_object_swap"])
    parser.add_argument("--tasks", default=f"0-{NUM_TASKS - 1}", help="for example 0-9 or 1,4")
    parser.add_argument("--episodes", type=int, default=12, help="per suite and task")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--pick-only", type=float, default=0.4, help="share without a place")
    parser.add_argument("--policy", type=Path, help="checkpoint that drives part of the time")
    parser.add_argument("--policy-share", type=float, default=0.7)
    options = parser.parse_args(arguments)

    policy = FlowPolicy.load(options.policy) if options.policy else None
    drive = (lambda inputs: policy.infer(inputs)[0]) if policy else None
    disturbance = Disturbance(pick_only_share=options.pick_only)
    clock = MonotonicClock()
    start_s = clock.now_s()
    columns: dict[str, list[NDArray[np.float32]]] = {key: [] for key in INPUT_WIDTHS}
    actions: list[NDArray[np.float32]] = []
    num_tried = 0
    for suite in options.suites:
        for task_index in parse_range(options.tasks, "tasks"):
            rng = np.random.default_rng([options.seed, task_index, *suite.encode()])
            num_kept = 0
            with LiberoEnv(suite, task_index, init_index=None, gl="off") as env:
                for _ in range(options.episodes):
                    demo = record(env, rng, disturbance, drive, options.policy_share)
                    num_tried += 1
                    if not demo.success:
                        continue
                    num_kept += 1
                    for key, rows in demo.inputs.items():
                        columns[key].append(rows)
                    actions.append(demo.actions)
            if actions:  # after every task, so that an interrupted run leaves something
                _save(options.out, columns, actions)
            print(
                f"{suite} task {task_index}: kept {num_kept} of {options.episodes}, "
                f"{sum(map(len, actions))} steps, {clock.now_s() - start_s:.0f} s",
                flush=True,
            )
    if not actions:
        print("no demonstration succeeded; nothing written", file=sys.stderr)
        return 1
    print(f"{options.out}: {len(actions)} of {num_tried} demonstrations", flush=True)
    return 0


def _save(
    path: Path,
    columns: dict[str, list[NDArray[np.float32]]],
    actions: list[NDArray[np.float32]],
) -> None:
    arrays: dict[str, NDArray[np.generic]] = {
        key: np.concatenate(rows) for key, rows in columns.items()
    }
    arrays["actions"] = np.concatenate(actions)
    arrays["episode"] = np.repeat(np.arange(len(actions)), [len(rows) for rows in actions])
    np.savez_compressed(path, **arrays)  # type: ignore[arg-type]


if __name__ == "__main__":
    sys.exit(main())
