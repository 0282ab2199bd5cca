"""The command line of a benchmark that is measured once and told once."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any


def run_script(
    description: str | None,
    quick_help: str,
    measure: Callable[[bool], dict[str, Any]],
    report: Callable[[dict[str, Any]], None],
) -> None:
    """Measure, print, and write the results where `--json` says.

    Args:
        description: Of the script, as it stands there.
        quick_help: What `--quick`, which `measure` is given, leaves out.
    """
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help=quick_help)
    parser.add_argument("--json", type=Path, help="write the results there, too")
    options = parser.parse_args()
    result = measure(options.quick)
    report(result)
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + "\n")
