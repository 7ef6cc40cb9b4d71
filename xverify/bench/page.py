"""A bench as one self-contained HTML file. All text in it is escaped, and its policy forbids scripts."""

from __future__ import annotations

from importlib.resources import files
from importlib.util import find_spec

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from xverify.bench import plot, present
from xverify.bench.present import Json


def page(bench: Json) -> str:
    """The whole file. Without matplotlib it has only the tables, and says what to install."""
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.globals.update(present=present)
    template = environment.from_string(files("xverify.bench").joinpath("bench.html").read_text("utf-8"))
    plots = find_spec("matplotlib") is not None
    groups = present.groups(bench)
    mine = [peer["name"] for peer in bench["peers"] if peer.get("is_of_user")]
    return template.render(
        bench=bench,
        # matplotlib escapes the text that it writes.
        groups=[(group, Markup(plot.svg(group, mine)) if plots and group.peers else None) for group in groups],
        singles=present.single_calls(bench),
        fastest=present.fastest(bench),
        install=None if plots else plot.INSTALL,
    )
