"""The command ``xverify merge``."""

from __future__ import annotations

from pathlib import Path

import click

from xverify.cli.common import clear, say
from xverify.core.errors import UsageError


@click.command()
@click.argument("results", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="CERTIFICATE...")
@click.option(
    "--output",
    "-o",
    type=click.Path(path_type=Path),
    metavar="CERTIFICATE.json",
    help="Certificate to write. Required.",
)
@clear
def merge(results: tuple[Path, ...], output: Path | None) -> int:
    """Combine the certificates of the shards of a proof.

    Exit codes: 0 everything requested is proven, 1 counterexample, 2 wrong usage, 3 something is missing.
    """
    from xverify.certify.certificate import is_certificate

    others = [path for path in results if not is_certificate(path)]
    if others:
        raise UsageError(f"{others[0]} is no certificate: name the files that xverify certify --shard wrote")
    return _merge_certificates(results, output)


def _merge_certificates(files: tuple[Path, ...], output: Path | None) -> int:
    from xverify.certify.merge import merge_certificates
    from xverify.engine import select

    if output is None:
        raise UsageError("-o is missing: name the certificate to write")
    select.writable_file(output)
    result = merge_certificates(files, output)
    for sentence in result.sentences:
        say(sentence)
    return result.code
