"""The report as one HTML page that needs nothing beside it."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path

from sim.paper.case import Case, Picture
from sim.paper.report import words
from sim.paper.report.collect import CaseResult
from sim.paper.report.published import FIGURES, TABLES, Published
from sim.paper.rows import Row

_STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; margin: 2em auto; max-width: 78em; padding: 0 1em;
  color: #222; }
h1, h2, h3 { line-height: 1.2; }
h2 { border-top: 1px solid #ccc; margin-top: 2.2em; padding-top: 0.8em; }
table { border-collapse: collapse; margin: 0.8em 0; font-size: 13px; }
th, td { border: 1px solid #ddd; padding: 0.25em 0.55em; text-align: left; vertical-align: top; }
th { background: #f4f4f4; }
td.n { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
tr.outside td.v { background: #fbdcd6; }
tr.inside td.v { background: #dcf1dc; }
figure { margin: 1em 0; }
img { max-width: 100%; border: 1px solid #ddd; }
figcaption, .small { color: #555; font-size: 13px; }
pre { background: #f7f7f7; overflow: auto; padding: 0.6em; font-size: 12px; }
code { background: #f4f4f4; padding: 0 0.2em; }
.warn { background: #fff3d0; padding: 0.4em 0.7em; }
"""

#: Figure 1 of the study is a drawing of the parts; this is ours.
_PARTS = """\
 robot (virtual in a replay) ── episode: asks at the door, lease ──▶ admission, leases, ledger
   │ agent loop ───────────── brain turns, context only grows ────▶ vLLM's scheduler, block pool
   │ control loop, f Hz ───── observations, chunks ───────────────▶ batcher, policy on its GPUs
 In a replay the right side is the server's own code in virtual time. The brain takes the time of
 a cost model fitted to the study's latencies, a policy that of the study's table. Nothing is
 rendered, and no network computes."""

#: Of a case with more rows, those that are not judged are folded away.
MOST_ROWS_SHOWN = 40

_KINDS = {
    "simulated": "in virtual time: real decisions and vLLM's real scheduler, modelled durations",
    "measured": "on a clock, on the machine named",
    "computed": "from a rule, without a run",
}


def page(
    results: Sequence[CaseResult],
    cases: Mapping[str, Case],
    missing: Mapping[str, Case],
    problems: Sequence[str],
    folder: Path,
) -> str:
    """The whole page.

    Args:
        results: In order.
        cases: All, by name; for their titles.
        missing: Those without a result.
        problems: Files that could not be read.
        folder: Of the pictures.
    """
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8"><title>The study beside ours</title>',
        f"<style>{_STYLE}</style></head><body>",
        "<h1>Serving Agentic Robot Fleets: the study beside ours</h1>",
        *_head(results),
        *(f'<p class="warn">{escape(problem)}</p>' for problem in problems),
        *_summary(results, cases, missing),
        *_figures(results, folder),
    ]
    for result in results:
        parts += _case(result, cases.get(result.name), folder)
    return "\n".join([*parts, "</body></html>", ""])


def _head(results: Sequence[CaseResult]) -> list[str]:
    machines = sorted({result.machine for result in results})
    versions = sorted({result.made_with for result in results})
    kinds = "".join(f"<li><b>{name}</b>: {escape(text)}</li>" for name, text in _KINDS.items())
    return [
        "<p>Each row has the study's figure, ours, and the difference: a ratio, or for shares and "
        "indices (hit rate, Jain) a plain difference. Against a range of the study's runs the "
        "nearer end counts. The study's figures were measured on H800 80 GB with vLLM 0.17.1 and "
        "Qwen3.6-27B, and pi0.5. Ours are</p>",
        f"<ul>{kinds}</ul>",
        "<p>A row is <b>inside</b> or <b>outside</b> the tolerance that its column allowed gives; "
        "<b>not judged</b> are rows that have none, because the study has no such figure or ours "
        "is not made to meet it (another engine, another setting, a run that is too short); <b>not "
        "run</b> are rows that need what was not there.</p>",
        f'<p class="small">Made with {escape(", ".join(versions) or "nothing yet")} on '
        f"{escape('; '.join(machines) or 'no machine yet')}. Each case names its own command, "
        "engine versions and seeds.</p>",
        *(
            [
                '<p class="warn">Some cases were made with --quick: few seeds, and runs too short '
                "for a fleet to collapse. How far such fleets are from the study means nothing.</p>"
            ]
            if any(result.quick for result in results)
            else []
        ),
    ]


def _summary(
    results: Sequence[CaseResult], cases: Mapping[str, Case], missing: Mapping[str, Case]
) -> list[str]:
    rows = []
    for result in results:
        counts = [result.count(v) for v in ("inside", "outside", "not judged", "not run")]
        state = f"partial: {result.partial}" if result.partial else ""
        rows.append(
            [
                f'<a href="#{escape(result.name)}">{escape(result.name)}</a>',
                escape(_title(cases.get(result.name))),
                *(str(count) for count in counts),
                escape(state or ("quick" if result.quick else "")),
            ]
        )
    rows += [
        [escape(name), escape(case.title), "", "", "", "", "not run"]
        for name, case in missing.items()
    ]
    totals = [
        str(sum(result.count(verdict) for result in results))
        for verdict in ("inside", "outside", "not judged", "not run")
    ]
    rows.append(["<b>all</b>", "", *(f"<b>{total}</b>" for total in totals), ""])
    head = ["case", "shows", "inside", "outside", "not judged", "not run", ""]
    outside = [(result, row) for result in results for row in result.rows]
    outside = [(result, row) for result, row in outside if row.verdict == "outside"]
    parts = ["<h2>Summary</h2>", "<p>Rows inside and outside their tolerance:</p>"]
    parts.append(_table(head, rows, numeric=range(2, 6)))
    if outside:
        parts.append("<h3>Outside</h3>")
        parts.append(
            _table(
                ["case", "row", "quantity", "study", "ours", "difference", "allowed", "variant"],
                [
                    [
                        escape(result.name),
                        escape(row.row),
                        escape(row.quantity),
                        words.beside(row),
                        words.number(row.ours),
                        words.difference(row),
                        words.allowed(row),
                        escape(row.variant),
                    ]
                    for result, row in outside
                ],
                numeric=range(3, 6),
            )
        )
    return parts


def _figures(results: Sequence[CaseResult], folder: Path) -> list[str]:
    """Where each of the study's figures and tables has its counterpart."""
    by_name = {result.name: result for result in results}
    rows = [
        [f"figure {figure.number}", escape(figure.shows), _counterpart(figure, by_name, folder)]
        for figure in FIGURES
    ]
    rows += [
        ["table", escape(table.shows), _counterpart(table, by_name, folder)] for table in TABLES
    ]
    return [
        "<h2>The study's figures and tables</h2>",
        _table(["", "shows", "counterpart"], rows),
        '<h3 id="parts">Figure 1: the parts</h3>',
        f"<pre>{escape(_PARTS)}</pre>",
    ]


def _counterpart(item: Published, results: Mapping[str, CaseResult], folder: Path) -> str:
    if not item.case:
        return '<a href="#parts">the parts, below</a>'
    result = results.get(item.case)
    if result is None or result.partial:
        return f"not made: <code>python -m sim paper {escape(item.case)}</code>"
    if item.number is None:
        return f'<a href="#{escape(item.case)}">{escape(item.case)}</a>'
    drawn = [
        picture
        for picture in result.pictures
        if picture.figure == item.number and (folder / picture.file).is_file()
    ]
    links = (f'<a href="#{escape(picture.file)}">{escape(picture.title)}</a>' for picture in drawn)
    return ", ".join(links) or f"no picture in {escape(item.case)}"


def _case(result: CaseResult, case: Case | None, folder: Path) -> list[str]:
    parts = [
        f'<h2 id="{escape(result.name)}">{escape(result.name)}: {escape(_title(case))}</h2>',
        f"<p><code>{escape(result.command)}</code> "
        f'<span class="small">{escape(result.made_at[:16])} UTC, {escape(result.made_with)}, '
        f"{escape(result.machine)}</span></p>",
    ]
    if result.partial:
        done = ", ".join(f"{count} of {what}" for what, count in result.finished.items())
        parts.append(
            f'<p class="warn">Partial: {escape(result.partial)}. Finished: '
            f"{escape(done or 'nothing')}. The same command goes on from there where it can.</p>"
        )
    parts += _tables(result.rows)
    parts += [f"<p>{_prose(note)}</p>" for note in result.notes]
    parts += [_figure(picture, folder) for picture in result.pictures]
    if result.settings:
        settings = json.dumps(result.settings, indent=1, ensure_ascii=False)
        parts.append(f"<details><summary>Settings</summary><pre>{escape(settings)}</pre></details>")
    return parts


def _tables(rows: Sequence[Row]) -> list[str]:
    """All rows; of many, those that nobody judges only where a reader asks for them."""
    judged = [row for row in rows if row.verdict in ("inside", "outside")]
    if not rows:
        return []
    others = [row for row in rows if row.verdict not in ("inside", "outside")]
    if len(rows) <= MOST_ROWS_SHOWN or not judged or not others:
        return [_rows(rows)]
    return [
        _rows(judged),
        f"<details><summary>{len(others)} rows that are not judged</summary>",
        _rows(others),
        "</details>",
    ]


def _rows(rows: Sequence[Row]) -> str:
    head = [
        *("row", "quantity", "unit", "study", "ours", "difference", "allowed", "verdict"),
        *("seeds: range (number)", "kind", "variant", "note"),
    ]
    columns: list[list[str]] = [
        [escape(row.row) for row in rows],
        [escape(row.quantity) for row in rows],
        [escape(row.unit) for row in rows],
        [words.beside(row) for row in rows],
        [words.number(row.ours) for row in rows],
        [words.difference(row) for row in rows],
        [words.allowed(row) for row in rows],
        [str(row.verdict) for row in rows],
        [words.seeds(row) for row in rows],
        [str(row.kind) for row in rows],
        [escape(row.variant) for row in rows],
        [_prose(row.note) for row in rows],
    ]
    # A column that says nothing anywhere is left out.
    kept = [place for place, column in enumerate(columns) if set(column) - {"", words.NOTHING}]
    numeric = {place for place, index in enumerate(kept) if index in (3, 4, 5, 8)}
    cells = [[columns[index][line] for index in kept] for line in range(len(rows))]
    return _table(
        [head[index] for index in kept],
        cells,
        numeric=numeric,
        classes=[row.verdict.replace(" ", "-") for row in rows],
        judged=kept.index(7),
    )


def _figure(picture: Picture, folder: Path) -> str:
    counterpart = f" (the study's figure {picture.figure})" if picture.figure else ""
    caption = f"<figcaption>{escape(picture.title)}{counterpart}</figcaption>"
    try:
        data = base64.b64encode((folder / picture.file).read_bytes()).decode("ascii")
    except OSError:
        return f'<p class="warn">The picture {escape(picture.file)} is not there.</p>'
    return (
        f'<figure id="{escape(picture.file)}"><img alt="{escape(picture.title)}" '
        f'src="data:image/png;base64,{data}">{caption}</figure>'
    )


def _table(
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    numeric: Iterable[int] = (),
    classes: Sequence[str] = (),
    judged: int | None = None,
) -> str:
    """Cells are HTML already."""
    right = set(numeric)
    lines = ["<table><tr>" + "".join(f"<th>{escape(name)}</th>" for name in head) + "</tr>"]
    for line, row in enumerate(rows):
        name = f' class="{classes[line]}"' if classes else ""
        cells = "".join(
            f"<td{_cell_class(place in right, place == judged)}>{cell}</td>"
            for place, cell in enumerate(row)
        )
        lines.append(f"<tr{name}>{cells}</tr>")
    return "\n".join([*lines, "</table>"])


def _cell_class(is_number: bool, is_verdict: bool) -> str:
    return ' class="n"' if is_number else ' class="v"' if is_verdict else ""


def _prose(text: str) -> str:
    """A sentence in which commands stand between backticks."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))


def _title(case: Case | None) -> str:
    return case.title if case is not None else ""
