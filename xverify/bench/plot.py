"""A plot of one group of cases, as SVG: elements per second over size, one line a peer."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from typing import Any

from xverify.bench.present import Group, giga, line_of, sizes
from xverify.bench.problem import OTHERS, USER_STYLES, peers

INSTALL = "pip install 'xverify[bench]'"

INK, LINE, WASH = "#1d2227", "#e3e4df", "#f3f3ef"
"""Colours of texts and of the grid. The page replaces them by its own, which follow the reader's colour scheme."""

LEAST_GAP = 0.052
"""The least distance between two labels at the ends of lines, as a fraction of the plot's height."""


def svg(group: Group, kernels: Sequence[str] = ()) -> str:
    """The plot as an element of HTML.

    Its colours follow the page's custom properties --ink, --line and --wash.

    Args:
        kernels: The names of the user's kernels, in their order.

    Raises:
        ImportError: matplotlib is not installed.
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullFormatter

    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": group.title, "font.family": "sans-serif", **_INKED}):
        figure = Figure(figsize=(9.6, 4.6), layout="constrained")
        axes = figure.add_subplot()
        ends: list[tuple[float, str, str]] = []
        styles = {peer.name: peer.style for peer in peers()}
        styles |= {name: USER_STYLES[number % len(USER_STYLES)] for number, name in enumerate(kernels)}
        for name in group.peers:
            points = [(case["elements"], giga(line_of(case, name))) for case in group.measured]
            timed = [(n, value) for n, value in points if value is not None]
            colour, marker = styles.get(name, OTHERS)
            colour = INK if colour == "#000000" else colour
            axes.plot(*zip(*timed, strict=True), **_line(group, name, colour, marker))
            ends.append((timed[-1][1], name, colour))
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        ticks = [case["elements"] for case in group.measured]
        axes.xaxis.set_major_locator(FixedLocator(ticks))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda n, _: sizes(round(n))))
        axes.xaxis.set_minor_locator(FixedLocator([]))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        low, high = axes.get_ylim()
        if high / low < 30:  # powers of ten alone would be too few labels
            axes.yaxis.set_minor_formatter(FuncFormatter(_some_minor))
        else:
            axes.yaxis.set_minor_formatter(NullFormatter())
        axes.set_xlabel("elements")
        axes.set_ylabel("10⁹ elements per second")
        axes.grid(True, which="major", color=LINE, linewidth=0.8)
        axes.grid(True, which="minor", axis="y", color=WASH, linewidth=0.6)
        axes.set_axisbelow(True)
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
        _label_ends(axes, ends, max(ticks), kernels)
        written = io.StringIO()
        figure.savefig(written, format="svg", metadata={"Date": None, "Creator": None}, transparent=True)
    text = written.getvalue()
    return _in_page_colours(text[text.index("<svg") :], {colour for _, _, colour in ends})


_INKED = dict.fromkeys(("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color"), INK)


def _in_page_colours(text: str, colours: Iterable[str]) -> str:
    """Replace the colours that depend on the colour scheme by custom properties of the page."""
    for colour in colours:  # of a label: nearer to the text's colour, since letters are thinner than lines
        text = text.replace(f"fill: {_darker(colour).lower()}", f"fill: color-mix(in srgb, {colour} 70%, var(--ink))")
    for name, value in (("ink", INK), ("line", LINE), ("wash", WASH)):
        text = text.replace(value, f"var(--{name})")
    return text


def _line(group: Group, name: str, colour: str, marker: str) -> dict[str, Any]:
    roles = {line["peer"]: line["role"] for case in group.measured for line in case["lines"]}
    if roles[name] == "limit":
        return {"color": colour, "linestyle": (0, (4, 3)), "linewidth": 1.4, "zorder": 1.5}
    kernel = roles[name] == "kernel"
    return {
        "color": colour,
        "marker": marker,
        "markersize": 7 if kernel else 6,
        "linewidth": 2.6 if kernel else 1.5,
        "zorder": 3 if kernel else 2,
    }


def _some_minor(value: float, _: object) -> str:
    """The label of a minor tick: only 2 and 5 of a decade have one."""
    return f"{value:g}" if f"{value:e}"[0] in "25" else ""


def _label_ends(axes: Any, ends: Sequence[tuple[float, str, str]], at: float, kernels: Sequence[str]) -> None:
    """Write each line's name at its end, moved up or down where names would overlap."""
    from_axes, to_axes = axes.transAxes.inverted(), axes.transData
    wanted = [float(from_axes.transform(to_axes.transform((at, value)))[1]) for value, _, _ in ends]
    for (value, name, colour), height in zip(ends, spread(wanted, LEAST_GAP), strict=True):
        axes.annotate(
            name,
            xy=(at, value),
            xytext=(1.03, height),
            textcoords="axes fraction",
            color=_darker(colour),
            va="center",
            fontweight="bold" if name.startswith("xverify") or name in kernels else "normal",
            annotation_clip=False,
        )


def _darker(colour: str) -> str:
    """A darker colour for text, which is thinner than lines."""
    return "#" + "".join(f"{int(colour[i : i + 2], 16) * 7 // 10:02x}" for i in (1, 3, 5))


def spread(heights: Sequence[float], gap: float) -> list[float]:
    """Move heights as little as possible, so that neighbours are at least a gap apart.

    Heights that touch form a group, which is centred on the mean of their original heights.
    """
    order = sorted(range(len(heights)), key=lambda i: heights[i])
    groups: list[list[int]] = []
    for i in order:
        groups.append([i])
        while len(groups) > 1 and _bottom(groups[-1], heights, gap) < _top(groups[-2], heights, gap) + gap:
            last = groups.pop()
            groups[-1] += last
    moved = [0.0] * len(heights)
    for group in groups:
        for rank, i in enumerate(group):
            moved[i] = _bottom(group, heights, gap) + rank * gap
    return moved


def _bottom(group: list[int], heights: Sequence[float], gap: float) -> float:
    return sum(heights[i] for i in group) / len(group) - gap * (len(group) - 1) / 2


def _top(group: list[int], heights: Sequence[float], gap: float) -> float:
    return _bottom(group, heights, gap) + gap * (len(group) - 1)
