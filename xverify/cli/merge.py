"""The command ``xverify merge``."""

from __future__ import annotations

from pathlib import Path

import click

from xverify.cli.common import PASS, UNABLE, clear, console_of_output, say
from xverify.core.errors import UsageError


@click.command()
@click.argument("results", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="DIR|CERTIFICATE...")
@click.option(
    "--output",
    "-o",
    type=click.Path(path_type=Path),
    metavar="PATH",
    help="Folder for the report; it must be new or empty.  [default: a new one in reports/runs]  "
    "For certificates: the file to write, required.",
)
@click.option("--partial", is_flag=True, help="Merge also if shards are missing. The report then says which.")
@clear
def merge(results: tuple[Path, ...], output: Path | None, partial: bool) -> int:
    """Combine the shards of a sweep into its report, or the certificates of a proof's shards into one.

    DIR is the run directory of a shard, its report.json, or a folder of such directories. A shard that is there twice
    with the same result counts once.

    Exit codes: 0 written, or everything requested is proven; 1 counterexample, 2 wrong usage or shards of different
    runs, 3 something is missing.
    """
    from xverify.certify.certificate import is_certificate

    certificates = [path for path in results if path.is_file() and is_certificate(path)]
    if certificates and len(certificates) < len(results):
        others = [path for path in results if path not in certificates]
        raise UsageError(
            f"{certificates[0]} is a certificate, and {others[0]} is not: merge sweeps and proofs separately"
        )
    if certificates:
        return _merge_certificates(results, output)
    files = [file for path in results for file in _files(path)]
    return _merge_sweeps(list(dict.fromkeys(file.resolve() for file in files)), output, partial)


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


def _files(path: Path) -> list[Path]:
    """The shard files that a path names."""
    from xverify.engine.shard_results import FILE, shard_file

    if not path.exists():
        raise UsageError(f"{path} does not exist: name the run directories of shards")
    own = shard_file(path)
    listed = [own] if own is not None else sorted(path.glob(f"*/{FILE}")) if path.is_dir() else []
    if not listed:
        raise UsageError(
            f"{path} holds no shard: make one with xverify sweep --shard K/N; unrelated runs are merged by xverify report"
        )
    return listed


def _merge_sweeps(files: list[Path], output: Path | None, partial: bool) -> int:
    from xverify.engine import select, shard_results
    from xverify.engine.sweep import new_run_id, run_directory
    from xverify.report.console import print_summary
    from xverify.shards.merging import merged_shards, write_run

    merged = merged_shards(files)
    for result in merged.repeated:
        say(f"{result.path} is left out: shard {result.shard} is there already with the same result")
    if merged.missing and not partial:
        raise shard_results.unable(merged.missing)
    if output is not None and output.exists() and (not output.is_dir() or any(output.iterdir())):
        raise UsageError(f"-o {output} is not empty: name a new folder")
    directory = output or run_directory(select.writable(select.RUNS), new_run_id())
    write_run(merged, directory)
    print_summary(merged.report, console_of_output(), directory / "report.html")
    if merged.missing:
        say(f"the report lacks {len(merged.missing)} of {len(merged.missing) + len(merged.used)} shards")
    return PASS if merged.report["run"]["complete"] or merged.missing else UNABLE
