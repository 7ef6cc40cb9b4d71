"""Record behaviour that a refactoring must not change, and compare it later: ``make frozen``.

See CONTRIBUTING.md. ``record DIR`` runs xverify and writes into DIR: the report of a sweep, the exit codes of its scripts, a
ledger, a certificate, call lines, and the gate's decision on every flawed kernel. It leaves out times, ids, paths and process
ids. ``compare A B`` prints the differences and exits 1 if there are any; ``--facts`` leaves out sentences.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import click

ROOT = Path(__file__).parents[2]
NOT_FROZEN = frozenset(
    [
        "id",
        "started",
        "seconds",
        "own_seconds",
        "attribution_seconds",
        "command",
        "workers",
        "machine",
        "budget",
        "reproduce",
        "versions",
        "left_out",
        "pid",
        "executable",
        "directory",
        "first_fault_seconds",
        "first_verdict_seconds",
        "failing",
        "run",
        "created",
        "digest",
        "sources",
        "files",
    ]
)
"""Fields of JSON that differ from run to run."""

SENTENCES = frozenset(
    [
        "words",
        "summary",
        "detail",
        "message",
        "note",
        "title",
        "reason",
        "text",
        "region",
        "others",
        "replay",
        "what",
        "phases",
    ]
)
"""Fields that hold prose."""

WORKERS = 2
"""Number of processes at once, for scripts and gates."""


def facts(data: Any, dropped: frozenset[str]) -> Any:
    """Return JSON without the named fields and without line numbers of traces, at any depth."""
    if isinstance(data, dict):
        return {name: facts(value, dropped) for name, value in data.items() if name not in dropped}
    if isinstance(data, str):
        return re.sub(r'(File ".*?", line) \d+ in \S+', r"\1", data)
    return [facts(item, dropped) for item in data] if isinstance(data, list) else data


def xverify(*words: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a command of xverify in a folder. Its output is text."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    command = [sys.executable, "-m", "xverify", *words]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def script_statuses(run: Path) -> dict[str, int]:
    """Run each script of a run. Return the exit code by the finding's id."""

    def status(script: Path) -> int:
        return subprocess.run([sys.executable, str(script)], capture_output=True, timeout=300, check=False).returncode

    scripts = sorted((run / "scripts").glob("*.py"))
    with ThreadPoolExecutor(WORKERS) as pool:
        return dict(zip((script.stem for script in scripts), pool.map(status, scripts), strict=True))


def record_sweep(folder: Path, cases: int) -> dict[str, Any]:
    """Run a sweep. Return its report, and its scripts' exit codes by verdict, subject and contract."""
    done = xverify("sweep", "--cases", str(cases), "--seed", "7", "--runs", "runs", folder=folder)
    run = next((folder / "runs").iterdir())
    report = json.loads((run / "report.json").read_text(encoding="utf-8"))
    statuses = script_statuses(run)
    named = sorted(
        [f["verdict"], f["subject"]["name"], f["contract"], f["clause"], json.dumps(f["cells"]), statuses[f["id"]]]
        for f in report["findings"]
        if f["id"] in statuses
    )
    report["findings"].sort(key=lambda f: json.dumps(facts(f, NOT_FROZEN | SENTENCES), sort_keys=True))
    return {"exit": done.returncode, "report": facts(report, NOT_FROZEN), "scripts": named}


def record_gate(folder: Path) -> dict[str, Any]:
    """Gate a wrong kernel, accept its findings in a ledger, and gate it again with that ledger."""
    kernel = "bad.py:dequantize"
    (folder / "bad.py").write_text(
        "def dequantize(x, scale, zero_point=None, *, axis=1, block_size=0, out_dtype=None):\n"
        "    if block_size or scale.ndim:\n        raise NotImplementedError('only per tensor')\n"
        "    y = (x.astype('float32') - (0 if zero_point is None else zero_point.astype('float32')))\n"
        "    y = y * scale.astype('float32')\n"
        "    y = y + (y == 7)\n"
        "    return y.astype(out_dtype or scale.dtype)\n",
        encoding="utf-8",
    )
    words = ["gate", "--kernel", kernel, "--x-dtypes", "int8", "--scale-dtypes", "float32", "--walk-only"]
    words += ["--budget", "300s", "--seed", "7", "--runs", "gates", "--contract", "ai.onnx/DequantizeLinear-21"]
    first = xverify(*words, folder=folder)
    reports = sorted((folder / "gates").glob("*/report.json"))
    report = json.loads(reports[0].read_text(encoding="utf-8"))
    for finding in report["findings"]:
        xverify(
            "ledger", "accept", finding["id"], "--run", str(reports[0].parent), "--reason", "frozen", "--ledger", "ledger.toml",
            folder=folder,
        )  # fmt: skip
    ledger = folder / "ledger.toml"
    text = ledger.read_text(encoding="utf-8") if ledger.exists() else "no ledger"
    second = xverify(*words, "--ledger", "ledger.toml", folder=folder)
    return {
        "exits": [first.returncode, second.returncode],
        "decision": facts(report["gate"], NOT_FROZEN),
        "findings": facts(report["findings"], NOT_FROZEN),
        "lines": sorted(str(finding.get("line", "")) for finding in report["findings"]),
        "ledger": re.sub(r"-[0-9a-f]{10}\b|\d{4}-\d\d-\d\d", "", text).splitlines(),
    }


def record_certificate(folder: Path) -> Any:
    """Certify a kernel by an exhaustive proof."""
    done = xverify(
        "certify", "--kernel", "xverify-numpy", "--domain", "int4-float8_e8m0fnu", "-o", "c.json", folder=folder
    )
    if done.returncode:
        return {"exit": done.returncode, "said": done.stderr[-2000:]}
    return facts(json.loads((folder / "c.json").read_text(encoding="utf-8")), NOT_FROZEN)


def record_flawed(folder: Path) -> dict[str, list[str]]:
    """Gate each flawed kernel until its first fault. Return the verdicts."""
    for place in (Path(__file__).parent, Path(__file__).parents[1]):
        sys.path.insert(0, str(place))
    from detection import detect
    from flawed_kernels.table import FLAWED

    return {flawed.name: sorted(detect(flawed, 0, folder).verdicts & flawed.expected) for flawed in FLAWED}


@click.group()
def main() -> None:
    """Freeze what a refactoring must not change, and compare it afterwards."""


@main.command()
@click.argument("directory", type=click.Path(path_type=Path))
@click.option("--cases", default=2000, show_default=True, help="Calls of the sweep.")
@click.option("--only", default="", help="One part: sweep, gate, certificate or flawed.")
def record(directory: Path, cases: int, only: str) -> None:
    """Run everything and write one JSON file for each part into DIRECTORY."""
    directory.mkdir(parents=True, exist_ok=True)
    parts = {
        "sweep": lambda folder: record_sweep(folder, cases),
        "gate": record_gate,
        "certificate": record_certificate,
        "flawed": record_flawed,
    }
    for name, part in parts.items():
        if only in ("", name):
            with tempfile.TemporaryDirectory() as scratch:
                text = json.dumps(part(Path(scratch)), indent=1, sort_keys=True, ensure_ascii=False)
            (directory / f"{name}.json").write_text(text + "\n", encoding="utf-8")
            print(f"{name}: {len(text)} characters", flush=True)


@main.command()
@click.argument("before", type=click.Path(exists=True, path_type=Path))
@click.argument("after", type=click.Path(exists=True, path_type=Path))
@click.option("--facts", "only_facts", is_flag=True, help="Leave out sentences, which may be reworded.")
def compare(before: Path, after: Path, only_facts: bool) -> None:
    """Print the differences between two recordings; exit 1 if there are any."""
    import difflib

    dropped = NOT_FROZEN | (SENTENCES if only_facts else frozenset())
    differ = False
    for file in sorted(before.glob("*.json")):
        if not (after / file.name).exists():
            print(f"{file.name} is not in {after}")
            continue
        old, new = (
            json.dumps(
                facts(json.loads((folder / file.name).read_text(encoding="utf-8")), dropped), indent=1
            ).splitlines()
            for folder in (before, after)
        )
        lines = list(difflib.unified_diff(old, new, str(before / file.name), str(after / file.name), lineterm="", n=2))
        differ |= bool(lines)
        print("\n".join(lines[:200]) if lines else f"{file.name}: the same")
    sys.exit(differ)


if __name__ == "__main__":
    main()
