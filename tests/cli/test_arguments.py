"""Arguments that are rebuilt from a command's parsed options."""

from __future__ import annotations

from pathlib import Path

import click
from click.testing import CliRunner

from xverify.cli.arguments import arguments

SEEN: list[tuple[list[str], dict[str, object]]] = []


@click.command()
@click.option("--name", "names", multiple=True)
@click.option("--budget", default="60s")
@click.option("-n", "--count", type=int)
@click.option("--newest", is_flag=True)
@click.option("--file", type=click.Path(path_type=Path))
@click.argument("rest", nargs=-1)
@click.pass_context
def command(context: click.Context, /, **options: object) -> None:
    SEEN.append((arguments(context), options))


def test_rebuilt_arguments_give_the_same_options() -> None:
    written = ["--name", "a b", "-n", "3", "--newest", "--name", "--c", "--file", "x/y.json", "--", "r", "-s"]
    SEEN.clear()
    for argv in (written, []):
        assert CliRunner().invoke(command, argv).exit_code == 0
        rebuilt, options = SEEN[-1]
        assert CliRunner().invoke(command, rebuilt).exit_code == 0
        assert SEEN[-1] == (rebuilt, options)


def test_parameters_can_be_left_out() -> None:
    with command.make_context("command", ["--name", "a", "-n", "3"]) as context:
        assert arguments(context, without=("count",)) == ["--name", "a"]
