"""The commands ``xverify oracles``, ``contracts`` and ``explain``."""

from __future__ import annotations

import tempfile
from pathlib import Path

import click

from xverify.cli.common import PASS, clear, console_of_output, say


@click.command()
@click.argument("names", nargs=-1)
@click.option("--probe", is_flag=True, help="Start each implementation and find out what it supports.")
@clear
def oracles(names: tuple[str, ...], probe: bool) -> int:
    """List the implementations, their versions and their editions.

    NAMES may carry an option and a version: NAME[:OPTION][==VERSION | @PYTHON]. A version that is not installed gets
    its own environment, which is kept.

    Exit codes: 0 listed, 2 unknown name, 3 a version could not be installed.
    """
    from xverify.engine import select
    from xverify.environments import cache
    from xverify.oracles import all_oracles
    from xverify.report.listing import print_environments, print_oracles, print_support

    by_name = all_oracles()
    chosen = [by_name[name] if name in by_name else select.oracle_named(name, say) for name in names] or list(
        by_name.values()
    )
    console = console_of_output()
    print_oracles(chosen, console)
    if not names:
        print_environments(cache.cached(), cache.directory(), console)
    if probe:
        with tempfile.TemporaryDirectory(prefix="xverify-") as scratch:
            for oracle in chosen:
                print_support(oracle, Path(scratch), console)
    return PASS


@click.command()
@click.argument("pattern", required=False)
@click.option(
    "--diff",
    "compared",
    nargs=2,
    metavar="A B",
    help="Show the sentences, types and attributes that differ between two editions: ids, or versions of ONNX.",
)
@clear
def contracts(pattern: str | None, compared: tuple[str, str] | None) -> int:
    """List the editions. With PATTERN, print the types and clauses of those that match.

    PATTERN is an id, a glob such as 'ai.onnx/*', or a Python file with editions of your own.

    Exit codes: 0 listed, 2 no edition matches.
    """
    from xverify.contracts.differences import in_lines
    from xverify.core.errors import UsageError
    from xverify.engine import select
    from xverify.report.listing import print_contract, print_contracts

    if compared:
        if pattern:
            raise UsageError("--diff takes two editions; leave PATTERN out")
        both = (f"ai.onnx/DequantizeLinear-{name}" if name.isdecimal() else name for name in compared)
        first, second = map(select.contract_named, both)
        click.echo("\n".join(in_lines(first, second)))
        for sentence in (*first.assumptions, *second.assumptions):
            say(sentence)
        return PASS
    console = console_of_output()
    named, unread = select.contracts_named([pattern] if pattern else [])
    if pattern:
        for contract in named:
            print_contract(contract, console)
    else:
        print_contracts(named, console)
    for sentence in unread:
        click.echo(f"xverify: {sentence}", err=True)
    return PASS


@click.command()
@click.option(
    "--contract",
    "pattern",
    metavar="ID|FILE",
    help="Edition to explain.  [default: the newest ONNX edition that onnxruntime has, or the newest for other types]",
)
@click.option("--x", required=True, metavar="NUMBER", help="Quantized value: 218, -3, or its code as bits:0xda.")
@click.option("--scale", metavar="NUMBER", help="Scale: 0.1, 1e-3, 0x1.ec2efap+2, bits:0x3f800000, nan, inf, -0.0.")
@click.option("--zero-point", metavar="NUMBER", help="Zero point.  [default: none]")
@click.option("--min", "low", metavar="NUMBER", help="TensorFlow's min_range.")
@click.option("--max", "high", metavar="NUMBER", help="TensorFlow's max_range.")
@click.option("--mode", default="", metavar="MODE", help="TensorFlow's mode: MIN_COMBINED, MIN_FIRST or SCALED.")
@click.option("--narrow-range", is_flag=True, help="Set TensorFlow's narrow_range.")
@click.option(
    "--x-dtype", default="", metavar="DTYPE", help="Type of x.  [default: the edition's first type that holds x]"
)
@click.option(
    "--scale-dtype", default="", metavar="DTYPE", help="Type of scale.  [default: float32, or the edition's first]"
)
@click.option(
    "--zero-point-dtype",
    default="",
    metavar="DTYPE",
    help="Type of zero point.  [default: the type of x, or the edition's first that holds it]",
)
@click.option("--out-dtype", default="", metavar="DTYPE", help="Output type.  [default: the edition's own]")
@click.option(
    "--oracle",
    "names",
    multiple=True,
    metavar="NAME",
    help="Implementation to run. Repeatable.  [default: all installed]",
)
@click.option("--no-oracles", is_flag=True, help="Run no implementation.")
@click.option("--limit", default="60s", show_default=True, metavar="TIME", help="Time limit of each implementation.")
@click.option("--all", "every", is_flag=True, help="Show every result, and every reading by name.")
@click.option(
    "--format", "kind", type=click.Choice(["text", "json"]), default="text", show_default=True, help="Output format."
)
@clear
def explain(
    pattern: str | None,
    x: str,
    scale: str | None,
    zero_point: str | None,
    low: str | None,
    high: str | None,
    mode: str,
    narrow_range: bool,
    x_dtype: str,
    scale_dtype: str,
    zero_point_dtype: str,
    out_dtype: str,
    names: tuple[str, ...],
    no_oracles: bool,
    limit: str,
    every: bool,
    kind: str,
) -> int:
    """Show the legal results for one value, and the result of each implementation.

    For each result, the command names the readings that give it and the clause that decides.
    A linear edition takes --x, --scale and optionally --zero-point. TensorFlow's take --x, --min, --max and --mode.

    Exit codes: 0 explained, 2 wrong usage, 3 could not do its work.
    """
    import json

    from xverify import contracts
    from xverify.engine import explain as explaining
    from xverify.engine import select
    from xverify.engine.question import Question, make_call
    from xverify.report.explained import explanation_to_json, print_explanation

    types = {"x": x_dtype, "scale": scale_dtype, "zero_point": zero_point_dtype, "out": out_dtype}
    question = Question(x, scale, zero_point, low, high, mode, narrow_range, types)
    contract = select.contract_named(pattern or contracts.newest_run())
    if not pattern and x_dtype not in ("", *contract.domain.x_dtypes):
        contract = select.contract_named(contracts.newest())
    for sentence in contract.assumptions:
        say(sentence)
    within = select.seconds(limit)
    oracles, left_out = ((), ()) if no_oracles else explaining.implementations(contract, names)
    explanation = explaining.explain(contract, *make_call(contract, question))
    with tempfile.TemporaryDirectory(prefix="xverify-") as scratch:
        answers = explaining.ask(explanation, oracles, Path(scratch), within)
    if kind == "json":
        click.echo(json.dumps(explanation_to_json(explanation, answers, left_out), indent=1, ensure_ascii=False))
    else:
        print_explanation(explanation, answers, left_out, console_of_output(markup=False), every)
    return PASS
