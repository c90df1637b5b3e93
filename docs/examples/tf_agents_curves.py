"""Draws the runs that one of the programs beside this one has written, as a PNG.

python tf_agents_curves.py ppo.jsonl ppo.png
"""

import argparse
import json

from matplotlib.figure import Figure

STYLES = {"parallel_envs": "C0-", "tf_agents": "C1--"}
MARKERS = "osx^"  # Of the seeds.


def draw(runs):
    figure = Figure(figsize=(9, 3.5), layout="constrained")
    by_seconds, by_steps = figure.subplots(1, 2, sharey=True)
    for run in sorted(runs, key=lambda run: run["batch"]):
        returns = [point["mean_return"] for point in run["curve"]]
        style = STYLES[run["batch"]]
        for axes, name in (by_seconds, "seconds"), (by_steps, "steps"):
            values = [point[name] for point in run["curve"]]
            label = f"{run['batch']}, seed {run['seed']}"
            marker = MARKERS[run["seed"] % len(MARKERS)]
            axes.plot(values, returns, style, marker=marker, ms=3, label=label)
            axes.set_xlabel(name)
            axes.grid(alpha=0.3)
    by_seconds.set_ylabel("mean return of 20 episodes")
    lines = dict(zip(*reversed(by_steps.get_legend_handles_labels()), strict=True))
    by_steps.legend(lines.values(), lines.keys(), loc="lower right")
    return figure


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("runs")
parser.add_argument("picture")
flags = parser.parse_args()
with open(flags.runs) as file:
    draw([json.loads(line) for line in file]).savefig(flags.picture, dpi=100)
