"""A table of the flawed kernels that a corpus stops. `make vectors-detection` runs this.

Each kernel runs under `examples/vectors/run_vectors.py` in a process of its own, so a crash or a hang stops it too. A C kernel is
called through xverify's adapter, whose own memory checks do not count.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import click
import numpy as np

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

from detection import target_of, write  # noqa: E402
from flawed_kernels.table import FLAWED, Flawed  # noqa: E402

from xverify import contracts  # noqa: E402
from xverify.core.call import Call  # noqa: E402
from xverify.oracles import native_kernel  # noqa: E402
from xverify.oracles.arrays import from_array, to_array  # noqa: E402
from xverify.oracles.python_target import find_function  # noqa: E402
from xverify.vectors import corpus  # noqa: E402
from xverify.vectors.choose import SIZES  # noqa: E402
from xverify.vectors.jsonl import FILE  # noqa: E402

RUNNER = HERE.parents[1] / "examples" / "vectors" / "run_vectors.py"

TIMEOUT = 60
"""Seconds after which a kernel hangs."""

LAYOUT_FILES = ("strides.py", "native/layouts.c")
LAYOUT_KERNELS = ("channels_last_mostly_zero", "rows_above_65535_left_out_of_strided_x", "read_in_memory_order")
"""Kernels that are wrong only for tensors that are not contiguous. A corpus has no memory layouts."""

KINDS = ("values", "refusals", "memory layout", "memory, threads, crashes and hangs")


def kind_of(flawed: Flawed) -> str:
    """The kind of a kernel's flaw, by the verdicts that the gate must give."""
    if flawed.file in LAYOUT_FILES or flawed.name in LAYOUT_KERNELS:
        return "memory layout"
    if flawed.expected & {"memory", "crash", "hang", "nondeterministic"}:
        return "memory, threads, crashes and hangs"
    return "values" if flawed.expected & {"violation", "mixed"} else "refusals"


def runner() -> Any:
    """The module of the example runner."""
    spec = importlib.util.spec_from_file_location("run_vectors", RUNNER)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def kernel_of(target: str, contract: str) -> Any:
    """The kernel as a function of arrays and keywords. As under the gate, an absent axis may be None."""
    path, _, symbol = target.rpartition(":")
    if Path(path).suffix != ".py":
        answer = native_kernel.load(path, symbol).answer

        def native(*arrays: Any, out_dtype: Any = None, **attributes: Any) -> Any:
            named = {} if out_dtype is None else {"output_dtype": np.dtype(out_dtype).name}
            tensors = dict(zip(("x", "scale", "zero_point"), map(from_array, arrays), strict=False))
            outcome = answer(Call(contract, tensors, {**attributes, **named}), "")
            assert outcome.tensor is not None
            return to_array(outcome.tensor)

        return native
    function = find_function(target)

    def with_axis(*arrays: Any, **attributes: Any) -> Any:
        if contract.startswith(("com.microsoft/", "tensorflow/")):
            attributes.setdefault("axis", None)
            attributes["axis"] = (
                None if contract.startswith("tensorflow/") and attributes["axis"] == -1 else attributes["axis"]
            )
        return function(*arrays, **attributes)

    return with_axis


def first_fault(target: str, contract: str, lines: Path) -> str:
    """Run a corpus on a kernel in this process. Return the sentence on the first fault, or ""."""
    import json

    run, kernel, cells = runner(), kernel_of(target, contract), {}
    with lines.open(encoding="utf-8") as file:
        for line in file:
            word = run.check(json.loads(line), kernel, cells)
            if word not in ("right", "skipped"):
                return f"{word}"
    return ""


def detect(flawed: Flawed, lines: Path, folder: Path) -> str:
    """Run a corpus on a kernel in a process. Return the first fault, "" if the kernel passes."""
    command = [
        sys.executable,
        str(Path(__file__).resolve()),
        "--target",
        target_of(flawed.target, folder, flawed.flags),
    ]
    try:
        ended = subprocess.run(
            [*command, "--contract", flawed.contract, "--lines", str(lines)],
            capture_output=True, text=True, timeout=TIMEOUT, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return "hang"
    if ended.returncode < 0:
        return f"crash by signal {-ended.returncode}"
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.strip()


def table(faults: dict[str, dict[str, str]], command: str) -> str:
    """Format the faults as Markdown: for each kind of flaw, and for each kernel."""
    ran = [flawed for flawed in FLAWED if flawed.name in faults]
    totals = Counter(kind_of(flawed) for flawed in ran)
    sizes = [size for size in SIZES if size in next(iter(faults.values()))]
    rows = []
    for kind in KINDS:
        stopped = [sum(bool(faults[f.name][size]) for f in ran if kind_of(f) == kind) for size in sizes]
        cells = " | ".join(f"{n} of {totals[kind]} ({n / max(1, totals[kind]):.0%})" for n in stopped)
        rows.append(f"| {kind} | {cells} |")
    kernels = []
    for flawed in sorted(ran, key=lambda f: (KINDS.index(kind_of(f)), f.target)):
        found = faults[flawed.name]
        words = ["stopped" if found[size] else "**missed**" for size in sizes]
        first = next((fault for size in reversed(sizes) if (fault := found[size])), "")[:80].replace("|", "\\|")
        kernels.append(f"| {flawed.target} | {kind_of(flawed)} | {' | '.join(words)} | {first} |")
    head, rule = " | ".join(sizes), " | ".join("---" for _ in sizes)
    return "\n".join(
        [
            "# Flawed kernels that a corpus stops",
            "",
            f"Made by `{command}`: {len(ran)} kernels written from public bug reports. A kernel is stopped if the corpus of its "
            "edition shows a wrong value, a wrong refusal, a crash or a hang.",
            "",
            f"| flaw is in | {head} |",
            f"| --- | {rule} |",
            *rows,
            "",
            f"| kernel | flaw is in | {head} | first fault |",
            f"| --- | --- | {rule} | --- |",
            *kernels,
            "",
        ]
    )  # fmt: skip


@click.command()
@click.option("--size", "sizes", multiple=True, type=click.Choice(list(SIZES)), help="Sizes to try.  [default: all]")
@click.option("--only", default="", help="Only kernels whose target, file.py:function, contains this.")
@click.option("--jobs", default=2, show_default=True, help="Kernels at once.")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="File to write (default: standard output).")
@click.option("--target", hidden=True)
@click.option("--contract", hidden=True)
@click.option("--lines", type=click.Path(path_type=Path), hidden=True)
def main(
    sizes: tuple[str, ...],
    only: str,
    jobs: int,
    output: Path | None,
    target: str | None,
    contract: str | None,
    lines: Path | None,
) -> None:
    """Measure how many flawed kernels each corpus stops."""
    if target and contract and lines:
        print(first_fault(target, contract, lines))
        return
    command = "python " + " ".join(["tests/support/vectors_detection.py", *sys.argv[1:]])
    chosen = [flawed for flawed in FLAWED if only in flawed.target]
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        written: dict[tuple[str, str], Path] = {}
        for number, edition in enumerate(sorted({flawed.contract for flawed in chosen})):
            for size in sizes or tuple(SIZES):
                written[edition, size] = folder / f"{number}-{size}"
                corpus.write(corpus.corpus(contracts.get(edition), size), written[edition, size], ["jsonl"])
        faults: dict[str, dict[str, str]] = {flawed.name: {} for flawed in chosen}
        with ThreadPoolExecutor(jobs) as pool:
            tasks = {
                pool.submit(detect, flawed, written[flawed.contract, size] / FILE, folder): (flawed, size)
                for flawed in chosen
                for size in sizes or tuple(SIZES)
            }
            for task in as_completed(tasks):
                flawed, size = tasks[task]
                faults[flawed.name][size] = task.result()
                print(
                    size,
                    flawed.target,
                    kind_of(flawed),
                    task.result() or "MISSED",
                    sep=", ",
                    file=sys.stderr,
                    flush=True,
                )
    write(table(faults, command), output)


if __name__ == "__main__":
    main()
