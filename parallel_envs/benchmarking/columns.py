"""The columns of a table of results, for terminals and pages alike."""

from __future__ import annotations

from parallel_envs.benchmarking.results import Comparison, Line

_NOTHING = "-"


def headings() -> list[str]:
    """Returns what stands above the columns."""
    return [
        "contestant",
        "steps/s",
        "us a batch",
        "x peer",
        "x serial",
        "of limit",
        "start, s",
        "MB each",
    ]


def cells(line: Line) -> list[str]:
    """Returns the numbers of a contestant, in the order of `headings`."""
    return [
        line.name,
        _number(line.steps_per_second, ",.0f"),
        _number(line.us_per_batch, ",.1f"),
        _number(line.of_peer, ",.2f"),
        _number(line.of_serial, ",.2f"),
        _number(line.of_limit, ".0%"),
        _number(line.startup_seconds, ".2f"),
        _number(line.worker_megabytes, ".1f"),
    ]


def legend(comparison: Comparison) -> str:
    """Returns a sentence about what the columns compare with; "" if with nothing."""
    facts: list[str] = []
    if comparison.limit is not None:
        facts.append(f"The limit is {comparison.limit:,.0f} steps/s.")
    if comparison.first_peer is not None:
        facts.append(f"The peer is {comparison.first_peer.contestant.name}.")
    return " ".join(facts)


def _number(value: float | None, form: str) -> str:
    return _NOTHING if value is None else format(value, form)
