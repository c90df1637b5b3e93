"""Charts of results, the one module that needs matplotlib."""

from __future__ import annotations

import io
import math
import pathlib
from collections.abc import Sequence
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.ticker import StrMethodFormatter

from parallel_envs.benchmarking import contestants
from parallel_envs.benchmarking.contestants import SERIAL, Contestant
from parallel_envs.benchmarking.results import Comparison

_COLORS = {
    SERIAL.library.package: "#222222",
    "gymnasium": "#d04000",
    "stable_baselines3": "#808000",
    "tf_agents": "#e09000",
    "envpool": "#8040a0",
    "pufferlib": "#c02080",
    "supersuit": "#806050",
    "moolib": "#109040",
}
_COLORS_OF_OURS = {"cores": "#0050c8", "each": "#00a0c0", "here": "#80b0f0"}
_DASHES = ("-", "--", "-.", ":")
_MARKERS = ("o", "s", "^", "v", "D", "P")
_INCHES_OF_BAR = 0.27
_DPI = 144

# What types matplotlib has for its settings say less than they hide.
_settings: Any = vars(mpl)["rc_context"]


def bars(comparisons: Sequence[Comparison]) -> Figure:
    """Returns bars of steps per second, a panel for each comparison."""
    heights = [_INCHES_OF_BAR * (len(each.entries) + 3) for each in comparisons]
    figure = Figure(figsize=(9, sum(heights) + 0.4), layout="constrained")
    panels: Any = figure.subplots(
        len(comparisons), squeeze=False, height_ratios=heights
    )
    for axes, comparison in zip(panels[:, 0], comparisons, strict=True):
        _draw_bars(axes, comparison)
    return figure


def curves(comparisons: Sequence[Comparison]) -> Figure:
    """Returns steps per second over the cost of a step, a panel for each batch size."""
    sizes = sorted({each.num_envs for each in comparisons})
    figure = Figure(figsize=(10, 5.5 * len(sizes)), layout="constrained")
    panels: Any = figure.subplots(len(sizes), squeeze=False)
    for axes, size in zip(panels[:, 0], sizes, strict=True):
        _draw_curves(axes, [each for each in comparisons if each.num_envs == size])
    return figure


def save(figure: Figure, path: pathlib.Path) -> None:
    """Writes a PNG file."""
    _save(figure, path, format="png", dpi=_DPI)


def svg(figure: Figure) -> str:
    """Returns the chart as an element that can stand in a page."""
    text = io.StringIO()
    # Letters as text, of the page's own size; and the same chart gives the same text.
    with _settings({"svg.fonttype": "none", "svg.hashsalt": "chart"}):
        _save(figure, text, format="svg", metadata={"Date": None})
    return text.getvalue()[text.getvalue().index("<svg") :]


def _save(figure: Any, target: Any, **options: Any) -> None:
    figure.savefig(target, **options)


def _draw_bars(axes: Any, comparison: Comparison) -> None:
    entries = [each for each in comparison.entries if each.steps_per_second]
    names = [each.contestant.name for each in entries]
    rates = [each.steps_per_second or math.nan for each in entries]
    colors = [_color(each.contestant) for each in entries]
    drawn = axes.barh(names, rates, color=colors)
    axes.bar_label(drawn, [f" {rate:,.0f}" for rate in rates], fontsize=8)
    axes.set_title(comparison.title, loc="left")
    axes.set_xlabel("steps/s")
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    axes.invert_yaxis()
    axes.margins(x=0.12)
    axes.tick_params(labelsize=8)
    axes.spines[["top", "right"]].set_visible(False)
    if comparison.limit is not None and comparison.limit < 3 * max(rates, default=1):
        axes.axvline(comparison.limit, color="#222222", linestyle=":", label="limit")
        axes.legend(fontsize=8, frameon=False)


def _draw_curves(axes: Any, comparisons: Sequence[Comparison]) -> None:
    costs = [str(each.workload.compute_us) for each in comparisons]
    for index, entry in enumerate(comparisons[0].entries):
        rates = [
            each.entries[index].steps_per_second or math.nan for each in comparisons
        ]
        if not all(map(math.isnan, rates)):
            axes.plot(costs, rates, **_style(entry.contestant))
    limits = [each.limit or math.nan for each in comparisons]
    axes.plot(costs, limits, color="#222222", linestyle=":", label="limit")
    axes.set_yscale("log")
    axes.set_xlabel("microseconds that a step computes")
    axes.set_ylabel("steps/s")
    axes.set_title(f"{comparisons[0].num_envs} environments", loc="left")
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5), fontsize=8, frameon=False)


def _style(contestant: Contestant) -> dict[str, Any]:
    index = contestant.library.ways.index(contestant.way)
    return {
        "label": contestant.name,
        "color": _color(contestant),
        "linestyle": _DASHES[index % len(_DASHES)],
        "linewidth": 1.2 if contestant.is_peer else 2.0,
        "marker": _MARKERS[index % len(_MARKERS)],
        "markersize": 4,
    }


def _color(contestant: Contestant) -> str:
    if contestant.library is contestants.OURS:
        return _COLORS_OF_OURS[contestant.way.removesuffix("-views")]
    return _COLORS[contestant.library.package]
