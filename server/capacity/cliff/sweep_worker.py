"""Runs cells in a process of its own: one version of vLLM, and nothing of it in the caller.

`python -m server.capacity.cliff.sweep_worker [FOLDER]` reads cells from stdin, one JSON object a
line, and writes {"version": ...} and then one outcome a line. FOLDER holds the study's vLLM. An
error is {"error": ...} and ends it.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from robot_sdk.errors import RobotSdkError
from server.capacity.cliff.protocol import Cell, run_cell
from server.capacity.engine import EngineSettings, SchedulerOnlyEngine
from server.capacity.engine import library as vllm_library


def main(arguments: list[str]) -> int:
    """Run the cells; returns the exit code."""
    # vLLM and what it imports may print; only our lines go to the caller.
    lines, sys.stdout = sys.stdout, sys.stderr

    def write(content: object) -> None:
        lines.write(json.dumps(content) + "\n")
        lines.flush()

    try:
        library = _library(arguments)
        write({"version": library.version})

        def make_engine(settings: EngineSettings) -> SchedulerOnlyEngine:
            return SchedulerOnlyEngine(settings, library)

        for line in sys.stdin:
            write(run_cell(Cell(**json.loads(line)), make_engine).to_json())
    except RobotSdkError as error:
        write({"error": str(error)})
        return 1
    return 0


def _library(arguments: list[str]) -> vllm_library.Library:
    if not arguments:
        return vllm_library.load()
    from server.capacity.engine import study_version

    return study_version.load(Path(arguments[0]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
