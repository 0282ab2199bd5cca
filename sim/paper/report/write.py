"""Makes report.html of a folder's results, and the lines that sum it up."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from sim.files import write_whole
from sim.paper.case import Case
from sim.paper.registry import in_order
from sim.paper.report.collect import CaseResult, collect
from sim.paper.report.page import page

FILE = "report.html"


def write_report(folder: Path, cases: Mapping[str, Case]) -> list[str]:
    """Leaves report.html, one file with all pictures in it.

    Args:
        folder: Holds the cases' JSON files and pictures.
        cases: All there are, so that those without a result can be named.

    Returns:
        Lines for people: rows inside and outside their tolerance, and what was not run.

    Raises:
        OSError: It cannot be written.
    """
    results, problems = collect(folder)
    by_name = {result.name: result for result in results}
    ordered = [by_name[name] for name in in_order(by_name)]
    missing = {name: case for name, case in cases.items() if name not in by_name}
    path = folder / FILE
    write_whole(path, page(ordered, cases, missing, problems, folder))
    return [*_lines(ordered, missing), *problems, f"wrote {path}"]


def _lines(results: list[CaseResult], missing: Mapping[str, Case]) -> list[str]:
    lines = []
    for result in results:
        if result.partial:
            lines.append(f"{result.name:16} partial: {result.partial}")
            continue
        inside, outside = result.count("inside"), result.count("outside")
        judged = "no row judged"
        if inside + outside:
            judged = f"{inside} of {inside + outside} judged rows inside"
        lines.append(
            f"{result.name:16} {judged}, "
            f"{result.count('not judged')} not judged, {result.count('not run')} not run"
        )
        lines += [
            f"  outside: {row.row} {row.quantity} {row.variant}".rstrip()
            for row in result.rows
            if row.verdict == "outside"
        ]
    if missing:
        lines.append(f"not run: {', '.join(missing)}")
    return lines
