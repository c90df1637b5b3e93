"""Results as a page that needs no other file."""

from __future__ import annotations

from html import escape

from parallel_envs.benchmarking import columns
from parallel_envs.benchmarking.report import Report
from parallel_envs.benchmarking.results import Comparison

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 64em; margin: 2em auto;
       padding: 0 1em; color: #222; }
table { border-collapse: collapse; margin: 1em 0 2em; font-size: 14px; }
th, td { padding: .25em .8em; text-align: right; border-bottom: 1px solid #ddd; }
th:first-child, td:first-child { text-align: left; }
td.failure { text-align: left; color: #a00; }
tr.ours { background: #eef4fd; }
svg { max-width: 100%; height: auto; }
"""


def html(report: Report, svg: str) -> str:
    """Returns the page.

    Args:
        report: What it tells.
        svg: The chart, an element that is put into the page as it is.
    """
    facts = {"date": report.date, "command": report.command, **report.machine}
    versions = {f"{name} version": each for name, each in report.versions.items()}
    return "\n".join(
        [
            '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">',
            f"<title>parallel_envs bench</title><style>{_STYLE}</style></head><body>",
            "<h1>Environments stepped as a batch</h1>",
            svg,
            *map(_table, report.comparisons),
            "<h2>Measured</h2>",
            _facts({**facts, **versions}),
            "</body></html>",
        ]
    )


def _table(comparison: Comparison) -> str:
    headings = columns.headings()
    heads = "".join(f"<th>{escape(each)}</th>" for each in headings)
    rows: list[str] = []
    for line, entry in zip(comparison.lines, comparison.entries, strict=True):
        first, *others = columns.cells(line)
        if line.failure is None:
            rest = "".join(f"<td>{each}</td>" for each in others)
        else:
            span = f'class="failure" colspan="{len(others)}"'
            rest = f"<td {span}>{escape(line.failure)}</td>"
        library = entry.contestant.library.package
        kind = ' class="ours"' if library == "parallel_envs" else ""
        rows.append(f"<tr{kind}><td>{escape(first)}</td>{rest}</tr>")
    return "\n".join(
        [
            f"<h2>{escape(comparison.title)}</h2><table><tr>{heads}</tr>",
            *rows,
            f"</table><p>{escape(columns.legend(comparison))}</p>",
        ]
    )


def _facts(facts: dict[str, str]) -> str:
    rows = (
        f"<tr><td>{escape(name)}</td><td>{escape(value)}</td></tr>"
        for name, value in facts.items()
    )
    return f"<table>{''.join(rows)}</table>"
