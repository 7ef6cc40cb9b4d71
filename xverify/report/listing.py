"""Tables of implementations, environments and editions, for the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from xverify import contracts
from xverify.contracts.model import Contract
from xverify.core.errors import DocumentError, WorkerFailedError
from xverify.engine.probe import probe
from xverify.environments.cache import Environment
from xverify.oracles import answers, installed_version, takes_options
from xverify.oracles.protocol import Oracle
from xverify.workers.worker import Worker


def print_oracles(chosen: Sequence[Oracle], console: Console) -> None:
    """Print the implementations with version, editions and paths, then how to install the missing ones.

    A name that takes an option is marked with [:OPTION].
    """
    table = Table(box=None, header_style="bold")
    for title in ("implementation", "version"):
        table.add_column(title, no_wrap=True)
    for title in ("editions", "paths"):
        table.add_column(title, overflow="fold")
    for oracle in chosen:
        name = f"{oracle.name}[:OPTION]" if takes_options(oracle) else oracle.name
        paths = "\n".join(path.options or "plain" for path in (*oracle.paths, *oracle.surrounded))
        table.add_row(escape(name), installed_version(oracle) or "-", "\n".join(oracle.contracts), paths)
    console.print(table)
    for oracle in chosen:
        if installed_version(oracle) is None:
            sentence = f"{oracle.name} is not installed: pip install {oracle.distribution}"
            console.print(sentence, soft_wrap=True, highlight=False, markup=False)
        for pattern in oracle.contracts:
            if not contracts.matching(pattern):
                sentence = f"{oracle.name}: {pattern!r} in its contracts matches no edition; see: xverify contracts"
                console.print(sentence, soft_wrap=True, highlight=False, markup=False)


def print_environments(environments: Sequence[Environment], directory: Path, console: Console) -> None:
    """Print the environments of other versions that are kept, and their directory."""
    if not environments:
        sentence = f"no other versions are installed in {directory}; NAME==VERSION installs one"
        console.print(sentence, soft_wrap=True, highlight=False, markup=False)
        return
    console.print(f"other versions, installed in {directory}:", soft_wrap=True, highlight=False)
    for distribution in dict.fromkeys(environment.distribution for environment in environments):
        versions = ", ".join(
            environment.version for environment in environments if environment.distribution == distribution
        )
        console.print(f"  {distribution}  {versions}", soft_wrap=True, highlight=False)


def print_support(oracle: Oracle, directory: Path, console: Console) -> None:
    """Start the installed version, and print the cells that it supports of each edition."""
    if installed_version(oracle) is None:
        return
    worker = Worker(oracle, directory)
    worker.start()
    try:
        for identity in contracts.ids():
            if not answers(oracle, identity):
                continue
            try:
                support = probe(worker, contracts.get(identity))
                sentence = f"{oracle.name}  {identity}: {support.in_words()}"
                console.print(sentence, soft_wrap=True, highlight=False, markup=False)
            except DocumentError as error:
                console.print(f"{oracle.name}  {identity}: not tested, {error}", soft_wrap=True, highlight=False)
    except WorkerFailedError as error:
        console.print(str(error), soft_wrap=True, highlight=False, markup=False)
    finally:
        worker.stop()


def print_contracts(chosen: Sequence[Contract], console: Console) -> None:
    """Print a table of editions."""
    table = Table("edition", "types of x", "of scale", "clauses", "granularity", box=None, header_style="bold")
    table.columns[0].no_wrap = True
    for contract in chosen:
        domain = contract.domain
        table.add_row(
            contract.id,
            str(len(domain.x_dtypes)),
            str(len(domain.scale_dtypes)),
            str(len(contract.clauses)),
            ", ".join(domain.granularities).replace("_", " "),
        )
    console.print(table)


def print_contract(contract: Contract, console: Console) -> None:
    """Print one edition: its types, and every clause with its text."""
    domain = contract.domain
    console.print(f"[bold]{contract.id}[/bold]  {contract.title}", soft_wrap=True, highlight=False)
    console.print(f"from {contract.document}", soft_wrap=True, highlight=False, markup=False)
    if contract.like:
        console.print(f"implementations run it as calls of {contract.like}", soft_wrap=True, highlight=False)
    for name, listed in (("x", domain.x_dtypes), ("scale", domain.scale_dtypes), ("output", domain.output_dtypes)):
        console.print(f"{name}: {', '.join(listed)}", soft_wrap=True, highlight=False, markup=False)
    for clause in contract.clauses.values():
        console.print(f"  {clause.id.removeprefix(contract.id + '/')}", style="bold", highlight=False, markup=False)
        for text in filter(None, (clause.text, clause.note and f"({clause.note})")):
            console.print(f"      {text}", highlight=False, markup=False)
    console.print()
