"""The command ``xverify vectors``: a frozen corpus of calls with their legal results."""

from __future__ import annotations

from pathlib import Path

import click

from xverify.cli.common import PASS, clear, console_of_output, say
from xverify.core.errors import UsageError


@click.command()
@click.option("--contract", metavar="ID|FILE", help="Edition whose calls to write.  [default: the newest ONNX edition]")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    required=True,
    metavar="DIR",
    help="New or empty folder for the corpus.",
)
@click.option(
    "--size",
    type=click.Choice(["small", "full"]),
    default="small",
    show_default=True,
    help="Limit on disk: small is 2 MB, full is 50 MB.",
)
@click.option(
    "--form",
    metavar="FORM,...",
    help="Forms to write: jsonl, onnx (backend node tests).  [default: jsonl,onnx for ONNX's editions, else jsonl]",
)
@clear
def vectors(contract: str | None, output: Path, size: str, form: str | None) -> int:
    """Write calls with their legal results, for runtimes in any language.

    The corpus needs nothing of xverify: docs/vectors.md describes its format, and examples/vectors/ has runners in Python, C and
    JavaScript. The same versions write the same bytes.

    Exit codes: 0 written, 2 wrong usage, 3 the corpus is not complete (see the message).
    """
    from xverify import contracts
    from xverify.engine import select
    from xverify.vectors import corpus, node_tests

    edition = select.contract_named(contract or contracts.newest())
    forms = _forms(form, node_tests.has_node_tests(edition), edition.id)
    corpus.require_empty(output)
    say(f"choosing calls of {edition.id}; this takes up to a minute")
    manifest = corpus.write(corpus.corpus(edition, size), output, forms)
    counts = manifest["counts"]
    sentences = [
        f"{counts['calls']} calls in {output}: {counts['allowed']} with {counts['values']} values, "
        f"{counts['refused']} that must be refused"
    ]
    if "onnx" in forms:
        sentences.append(f"{counts['node tests']} of them as ONNX node tests")
    sentences.append(f"digest {manifest['digest']}")
    console_of_output(markup=False).print("; ".join(sentences), highlight=False, soft_wrap=True)
    return PASS


def _forms(form: str | None, has_node_tests: bool, edition: str) -> list[str]:
    """The forms to write.

    Raises:
        UsageError: A form does not exist, or the edition does not have it.
    """
    from xverify.vectors.corpus import FORMS

    if form is None:
        return list(FORMS) if has_node_tests else ["jsonl"]
    forms = [word.strip() for word in form.split(",")]
    for word in forms:
        if word not in FORMS:
            raise UsageError(f"--form {word!r} does not exist; choose from {', '.join(FORMS)}")
    if "onnx" in forms and not has_node_tests:
        raise UsageError(f"{edition} has no ONNX node tests, since it is no edition of ai.onnx; use --form jsonl")
    return forms
