"""Memory of the SDK in a robot's process.

    python tests/bench/memory.py [--quick] [--json FILE]

Resident memory (RSS) of a process that is connected and idle, and of one that runs 200 episodes in
a row against a real server, with its threads and open files. Aims are printed, not asserted.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from _support_process import BENCH_FOLDER, Child, num_open_fds, num_threads, rss_bytes
from _support_product import start_product_server
from _support_stats import machine_line

IDLE_AIM_MB = 80.0
#: Growth from the first 20 episodes to the last that counts as none: allocator noise.
GROWTH_AIM_MB = 3.0
_IDLE_S = 6.0


def measure_idle(address: str) -> dict[str, Any]:
    """A process that imports the SDK, connects, opens an episode and does nothing."""
    robot = Child([sys.executable, str(BENCH_FOLDER / "_support_robot.py"), "idle", address])
    try:
        states = [robot.answer(30.0), robot.answer(30.0)]
        time.sleep(_IDLE_S)
        states.append(robot.ask({}, 10.0))
    finally:
        robot.close()
    for state in states:
        print(f"  {_figures(state)}  {state['state']}")
    rss_mb = states[-1]["rss_mb"]
    met = rss_mb < IDLE_AIM_MB
    print(f"  aim: under {IDLE_AIM_MB:g} MB: {'met' if met else 'NOT met'}")
    return {"states": states, "aim_mb": IDLE_AIM_MB, "met": met}


def measure_episodes(address: str, server_pid: int, count: int) -> dict[str, Any]:
    """A process that runs `count` episodes."""
    script = str(BENCH_FOLDER / "_support_robot.py")
    robot = Child([sys.executable, script, "episodes", address, str(count)])
    states = []
    try:
        while not states or states[-1]["episodes"] < count:
            state = robot.answer(120.0)
            state["server"] = {
                "rss_mb": rss_bytes(server_pid) / 1e6,
                "threads": num_threads(server_pid),
                "open_fds": num_open_fds(server_pid),
            }
            states.append(state)
            print(
                f"  {_figures(state)}  after {state['episodes']} episodes; "
                f"server {_figures(state['server'])}",
                flush=True,
            )
    finally:
        robot.close()
    by_count = {state["episodes"]: state for state in states}
    growth_mb = states[-1]["rss_mb"] - by_count[min(20, count)]["rss_mb"]
    met = growth_mb <= GROWTH_AIM_MB
    print(
        f"  growth from episode {min(20, count)} to {count}: {growth_mb:+.1f} MB; "
        f"aim: at most {GROWTH_AIM_MB:g}: {'met' if met else 'NOT met'}"
    )
    return {"states": states, "growth_mb": growth_mb, "aim_mb": GROWTH_AIM_MB, "met": met}


def _figures(state: dict[str, Any]) -> str:
    return (
        f"{state['rss_mb']:6.1f} MB, {state['threads']:2} threads, {state['open_fds']:2} open files"
    )


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--quick", action="store_true", help="40 episodes")
    parser.add_argument("--json", type=Path, default=None, metavar="FILE")
    arguments = parser.parse_args(argv)
    report: dict[str, Any] = {"machine": machine_line()}
    print(report["machine"])
    server, address = start_product_server(brain="_support_planner:make_planner")
    try:
        print("connected and idle:")
        report["idle"] = measure_idle(address)
        count = 40 if arguments.quick else 200
        print(f"{count} episodes in one process:")
        report["episodes"] = measure_episodes(address, server.pid, count)
    finally:
        server.close()
    if arguments.json is not None:
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        arguments.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
