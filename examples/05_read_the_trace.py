"""Where did the time go? Runs an episode with traces on, then reads them back.

Shows the three clocks (brain latency, env-step gap, wall-clock gap) from the files that every run
leaves, in Python. `python -m robot_sdk trace FOLDER` prints the same as a table. With a folder as
argument it reads that one and runs nothing.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from toy import POLICY, ToyRobot, ToyTools, local_server

from robot_sdk import telemetry as robot_telemetry
from robot_sdk.client import connect
from robot_sdk.errors import InvalidArgumentError
from robot_sdk.runner import EpisodeOptions, run_episode
from robot_sdk.tools import ToolRegistry, finish
from robot_sdk.trace.join import join
from robot_sdk.trace.reader import read_folder
from robot_sdk.trace.report import build_report
from robot_sdk.trace.table import render


def record(folder: Path) -> None:
    robot = ToyRobot()
    telemetry = robot_telemetry.start("toy-0", run_folder=folder)
    with (
        local_server(f'telemetry.run_folder="{folder}"', "brain.delay_s=0.2") as target,
        connect(target, telemetry=telemetry) as client,
    ):
        run_episode(
            client,
            robot,
            lambda running: ToolRegistry(ToyTools(robot, running), finish),
            "put the ball in the box",
            EpisodeOptions(robot_id="toy-0", policies=(POLICY,)),
        )
    telemetry.shutdown()


def show(folder: Path) -> None:
    run = read_folder(folder)
    joined = join(run.spans)
    print(render(build_report(folder.name, run, joined)))
    for episode in joined.episodes:
        if episode.tools:
            slowest = max(episode.tools, key=lambda span: span.duration_s)
            what = f"{slowest.name}, {slowest.duration_s:.2f} s"
            print(f"\nslowest tool of episode {episode.id[:8]}: {what}")


def main(arguments: list[str]) -> int:
    if arguments:
        try:
            show(Path(arguments[0]))
        except InvalidArgumentError as error:
            print(f"error: {error}", file=sys.stderr)
            return 2
        return 0
    with tempfile.TemporaryDirectory() as folder:
        record(Path(folder))
        show(Path(folder))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
