"""The plot: records a second by workload and system, on a logarithmic axis."""

from pathlib import Path

from .comparison import OURS, Line


def draw(lines: list[Line], path: Path) -> None:
    """Write a PNG with a group of bars a workload, ours first, each with its rate; lines without one have no bar."""
    from matplotlib.figure import Figure

    workloads = list(dict.fromkeys(line.workload for line in lines))
    bars = {name: [line for line in lines if line.workload == name and line.rate] for name in workloads}
    systems = sorted(
        {line.name for of in bars.values() for line in of}, key=lambda label: (not label.startswith(OURS), label)
    )
    figure = Figure(figsize=(max(6.0, 0.35 * sum(len(of) + 1 for of in bars.values()) + 3), 5))
    axes = figure.subplots()
    at, ticks, seen = 0.0, [], set()
    for name in workloads:
        first = at
        for line in sorted(bars[name], key=lambda line: systems.index(line.name)):
            rate, colour = line.rate or 0.0, f"C{systems.index(line.name) % 10}"
            axes.bar(at, rate, color=colour, label=None if line.name in seen else line.name)
            axes.text(at, rate, f" {_short(rate)}", rotation=90, ha="center", va="bottom", fontsize=7)
            seen.add(line.name)
            at += 1
        ticks.append((first + at - 1) / 2)
        at += 1
    axes.set_yscale("log")
    axes.margins(y=0.2)
    axes.set_xticks(ticks, workloads)
    axes.set_ylabel("records a second")
    axes.legend(fontsize=7, bbox_to_anchor=(1.01, 1), loc="upper left")
    figure.savefig(path, dpi=130, bbox_inches="tight")


def _short(rate: float) -> str:
    return f"{rate / 1e6:.2g} M" if rate >= 1e6 else f"{rate / 1e3:.3g} k"
