"""Plots of numbers over increments, as SVG text that is in the page itself.

Rule: all plots of a pipeline have one axis, of all its increments, which names the day that stream time has come to.
Owns all contact with Altair and vl-convert. Altair is what Great Expectations draws with, so it is installed already;
vl-convert renders its charts (Vega-Lite) without a browser, so the page needs no script, opens from a bucket and
prints. Colours come from the page (`currentColor`) and from a palette that reads on light and dark paper.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import altair as alt
import vl_convert

Point = tuple[int, str, float]
"""Increment, series, value."""

PALETTE = ["#3b82c4", "#d97706", "#159957", "#c2415b", "#8b5cf6", "#0e9aa7", "#a3762e", "#7a8594", "#b0479b", "#5f8f1f"]
WIDTH, HEIGHT = 560, 150
SERIES_MAX, TICKS_MAX = 10, 20
POINTS_MAX = 400
"""A longer history is drawn in so many steps, each with the sum, or the largest, of its increments."""


def lines(
    points: Sequence[Point], unit: str, *, days: Mapping[int, str], marks: Mapping[float, str] | None = None
) -> str:
    """A line a series: the largest value of every step. ``days``: of all increments. ``marks``: names of values, where
    these differ by powers of ten; the axis has 0 and those up to the largest.
    """
    chart = _chart(_thinned(points, days, max), unit, days, marks=marks)
    return _svg(chart.mark_line(point=len(points) < 60, interpolate="linear"))


def bars(points: Sequence[Point], unit: str, *, days: Mapping[int, str]) -> str:
    """Bars, one series upon the other: sums."""
    return _svg(_chart(_thinned(points, days, sum), unit, days, is_stacked=True).mark_bar())


def distribution(counts: Sequence[tuple[str, str, int]], title: str, unit: str = "records") -> str:
    """Bars of (class, series, number), classes in the order in which they first come, one series upon the other."""
    rows = [{"class": name, "series": series, "records": number} for name, series, number in counts]
    chart = alt.Chart(alt.InlineData(values=rows)).encode(
        x=alt.X("class:O", title=title, sort=None, axis=alt.Axis(labelAngle=0)),
        # Not "log", which has no place for a class without records.
        y=alt.Y("sum(records):Q", title=unit, scale=alt.Scale(type="symlog")),
        color=alt.Color("series:N", title=None, legend=alt.Legend(labelLimit=260)),
    )
    return _svg(chart.mark_bar())


def _chart(
    points: Sequence[Point],
    unit: str,
    days: Mapping[int, str],
    *,
    is_stacked: bool = False,
    marks: Mapping[float, str] | None = None,
) -> Any:
    names = _largest(points)
    rows = [
        {"increment": increment, "series": name if name in names else "others", "value": value}
        for increment, name, value in points
    ]
    steps = list(dict.fromkeys(_steps(days).values()))
    ticks = steps[:: -(-len(steps) // TICKS_MAX)]
    labels = json.dumps({str(number): [str(number), days[number]] for number in ticks})
    axis = alt.Axis(values=ticks, labelAngle=0, labelExpr=f"({labels})[datum.value]", labelOverlap=True, grid=False)
    value, stack = ("sum(value):Q", True) if is_stacked else ("max(value):Q", None)
    y = alt.Y(value, title=unit, stack=stack, **_wide(points, marks))
    bars = alt.Scale(paddingInner=0.15, domain=steps)
    along = alt.Scale(zero=False, nice=False, domain=[steps[0], steps[-1]])
    kind, scale = ("O", bars) if is_stacked else ("Q", along)
    x = alt.X(f"increment:{kind}", title="increment, and the day of its stream time", scale=scale, axis=axis)
    color = alt.Color("series:N", title=None, legend=alt.Legend(symbolLimit=SERIES_MAX + 1, labelLimit=260))
    return alt.Chart(alt.InlineData(values=rows)).encode(x=x, y=y, color=color)


def _wide(points: Sequence[Point], marks: Mapping[float, str] | None) -> dict[str, Any]:
    """Scale and axis of values with ``marks``."""
    if marks is None:
        return {}
    most = max((value for _, _, value in points), default=0)
    names = json.dumps({f"{value:g}": name for value, name in marks.items()})
    axis = alt.Axis(values=[value for value in marks if value <= most], labelExpr=f"({names})[datum.value]")
    return {"scale": alt.Scale(type="symlog"), "axis": axis}


def _largest(points: Sequence[Point]) -> set[str]:
    """Names of the series with the largest sums; a page with a hundred colours says nothing."""
    sums: dict[str, float] = {}
    for _, name, value in points:
        sums[name] = sums.get(name, 0.0) + abs(value)
    return set(sorted(sums, key=lambda name: (-sums[name], name))[:SERIES_MAX])


def _steps(increments: Iterable[int]) -> dict[int, int]:
    """Of each increment the first one of the step in which it is drawn."""
    numbers = sorted(increments)
    width = -(-len(numbers) // POINTS_MAX)
    return {number: numbers[index - index % width] for index, number in enumerate(numbers)}


def _thinned(points: Sequence[Point], increments: Iterable[int], total: Any) -> list[Point]:
    step = _steps(increments)
    by_step: dict[tuple[int, str], list[float]] = {}
    for increment, name, value in points:
        by_step.setdefault((step[increment], name), []).append(value)
    return [(increment, name, total(values)) for (increment, name), values in by_step.items()]


def _svg(chart: Any) -> str:
    ink = {"labelColor": "currentColor", "titleColor": "currentColor"}
    axis = ink | {"domainColor": "currentColor", "tickColor": "currentColor", "gridColor": "currentColor"}
    spec = (
        chart.properties(width=WIDTH, height=HEIGHT, background="transparent")
        .configure_view(stroke=None)
        .configure_axis(**axis, gridOpacity=0.15, domainOpacity=0.4, tickOpacity=0.4)
        .configure_legend(**ink)
        .configure_range(category=PALETTE)
        .configure_bar(color=PALETTE[0])
        .to_dict(validate=False)
    )
    return str(vl_convert.vegalite_to_svg(spec))
