"""A process that replays what it is given, one run at a time, on one version of vLLM.

Runs come in as lines of JSON, results and progress go out the same way. An interrupt ends the run
that is on, whose result is then a partial one.
"""

from __future__ import annotations

import json
import sys
from typing import Any, TextIO

from robot_sdk.errors import RobotSdkError
from server.capacity.engine.library import Library
from server.capacity.engine_worker import load_library, take_standard_output
from sim.fleet.replay import replay
from sim.fleet.replay.settings import ReplaySettings

#: Virtual seconds between two words of progress.
_PROGRESS_S = 30


def main(study_folder: str | None) -> int:
    """Work until the input ends; returns 0, or 1 if vLLM cannot be loaded."""
    out = take_standard_output()
    try:
        library = load_library(study_folder)
        _tell(out, ready=library.version)
        for line in sys.stdin:
            _work(json.loads(line), library, out)
    except RobotSdkError as error:
        _tell(out, error=str(error))
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


def _work(order: dict[str, Any], library: Library, out: TextIO) -> None:
    def on_progress(now_s: float) -> None:
        if now_s % _PROGRESS_S == 0:
            _tell(out, now_s=now_s)

    settings = ReplaySettings.from_json(order["settings"])
    result = replay.run(settings, order["seed"], library=library, on_progress=on_progress)
    _tell(out, result=result.to_json())


def _tell(out: TextIO, **values: Any) -> None:
    out.write(json.dumps(values) + "\n")
    out.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else None))
