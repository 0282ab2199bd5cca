"""Runs cells in a process of its own: one version of vLLM, and nothing of it in the caller.

`python -m server.capacity.cliff.sweep_worker [FOLDER]` reads cells from stdin, one JSON object a
line, and writes {"version": ...} and then one outcome a line. FOLDER holds the study's vLLM. An
error is {"error": ...} and ends it.
"""

from __future__ import annotations

import json
import sys

from robot_sdk.errors import RobotSdkError
from server.capacity.cliff.protocol import Cell, run_cell
from server.capacity.engine import EngineSettings, SchedulerOnlyEngine
from server.capacity.engine_worker import load_library, take_standard_output


def main(study_folder: str | None) -> int:
    """Run the cells; returns the exit code."""
    out = take_standard_output()

    def write(content: object) -> None:
        out.write(json.dumps(content) + "\n")
        out.flush()

    try:
        library = load_library(study_folder)
        write({"version": library.version})

        def make_engine(settings: EngineSettings) -> SchedulerOnlyEngine:
            return SchedulerOnlyEngine(settings, library)

        for line in sys.stdin:
            write(run_cell(Cell(**json.loads(line)), make_engine).to_json())
    except RobotSdkError as error:
        write({"error": str(error)})
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else None))
