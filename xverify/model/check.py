"""The three checks of a model, and the section of the report about it."""

from __future__ import annotations

import hashlib
import math
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from xverify.core.call import Tensor
from xverify.core.dtypes import decimal
from xverify.core.verdict import Verdict
from xverify.engine.events import Consumer, SweepFinished
from xverify.engine.options import Options
from xverify.engine.store import write_json
from xverify.model.alone import NodeResult, check_alone
from xverify.model.neighbours import check_neighbours
from xverify.model.nodes import Node, Operand
from xverify.model.read import Model
from xverify.model.result import Check, Checked, Difference, State
from xverify.model.runs import At, Result, started
from xverify.model.script import script
from xverify.model.whole import check_whole
from xverify.model.whole import versus as compare_two
from xverify.oracles.protocol import Oracle
from xverify.workers.process import Limits

CHECKS: tuple[Check, ...] = ("alone", "neighbours", "whole")

FAULTS = ("violation", "crash", "hang")
"""The kinds of differences that are faults. Those between two implementations to compare are faults of every kind."""

MOST_SCRIPTS = 100
"""The largest number of scripts of differences."""


@dataclass(frozen=True, eq=False)
class ModelOptions:
    """The options of a check of a model."""

    model: Model
    nodes: tuple[Node, ...]
    """The nodes to check, in the order of the model."""
    oracles: tuple[Oracle, ...]
    inputs: Mapping[str, Tensor]
    directory: Path
    """The folder for the report and the scripts."""
    run_id: str
    command: str
    file: str
    """The model's path as typed, for the report."""
    inputs_from: str = ""
    """The source of the inputs in words."""
    checks: tuple[Check, ...] = CHECKS
    levels: tuple[str, ...] = ()
    """The levels of the runs of models; none for all."""
    versus: tuple[str, ...] = ()
    """The names of two implementations that are compared with each other; none usually."""
    seed: int = 0
    seconds: float = 120.0
    """The limit of one call, and of one run of a model."""
    left_out: tuple[str, ...] = ()
    limits: Limits = field(default_factory=Limits)


def check_model(options: ModelOptions, emit: Consumer) -> dict[str, Any]:
    """Check a model, and write ``report.json`` and the scripts of differences into the directory.

    Returns:
        The report, with the section "model".

    A check that ^C interrupts reports what it has.

    Raises:
        OSError: The directory cannot be written.
    """
    began = time.monotonic()
    directory = options.directory
    directory.mkdir(parents=True, exist_ok=True)
    nodes = options.nodes if "alone" in options.checks else ()
    run = Options(
        (), options.oracles, directory, options.run_id, options.command, options.seed, budget=options.seconds,
        limits=options.limits, left_out=options.left_out,
    )  # fmt: skip
    alone = check_alone(nodes, run, emit, options.versus)
    checked: list[Checked] = []
    between = list(alone.differences)
    report = alone.report
    levels = {oracle.name: _levels(oracle, options.levels) for oracle in options.oracles}
    if report["run"]["complete"]:
        try:
            _within(options, checked, between, levels)
        except KeyboardInterrupt:
            report["run"]["complete"] = False
    results = alone.nodes or tuple(NodeResult(node) for node in options.nodes)
    report["run"]["seconds"] = round(time.monotonic() - began, 1)
    report["run"]["budget"] = None
    for oracle in options.oracles:
        if missing := [level for level in _levels(oracle, options.levels) if level not in levels[oracle.name]]:
            report["run"]["left_out"].append(f"{oracle.name} has no level {' and '.join(missing)}")
    differences = _listed(checked, between)
    report["model"] = _section(options, results, checked, differences, {id(d) for d in between}, levels, report)
    write_scripts(directory / "scripts", report["model"]["differences"], differences)
    write_json(directory / "report.json", report)
    emit(SweepFinished(directory / "report.json"))
    return report


def _within(
    options: ModelOptions, checked: list[Checked], between: list[Difference], levels: dict[str, list[str]]
) -> None:
    """Do the checks with neighbours and within the whole model.

    Args:
        options: The options.
        checked: Gets the result of each check that ends, so that an interruption leaves them.
        between: Gets the differences between the two implementations to compare, if there are two.
        levels: The levels of each implementation. Those that it does not have are removed.
    """
    wanted = [name for name in options.checks if name != "alone"]
    if not wanted:
        return
    with tempfile.TemporaryDirectory(prefix="xverify-") as scratch:
        folders = [Path(scratch, name) for name in ("workers", "neighbours", "whole", "versus")]
        for folder in folders:
            folder.mkdir()
        workers, neighbours, whole, versus = folders
        with started(options.oracles, workers, options.levels, options.seconds) as runners:
            levels.update({runner.name: list(runner.levels) for runner in runners})
            unmodified: dict[At, Result] = {}
            if runners and "neighbours" in wanted:
                checked.append(
                    check_neighbours(options.model, options.nodes, runners, folder=neighbours, seed=options.seed)
                )
            if runners and "whole" in wanted:
                checked.append(check_whole(options.model, options.nodes, runners, options.inputs, whole, unmodified))
            if len(runners) == len(options.versus) == 2 and "whole" in wanted:
                between += compare_two(options.model, options.nodes, runners, options.inputs, versus, unmodified)


def _listed(checked: Sequence[Checked], between: Sequence[Difference]) -> list[Difference]:
    """All differences, each once."""
    every = {_key(d): d for each in checked for d in each.differences}
    return [*between, *(d for key, d in every.items() if key not in set(map(_key, between)))]


def _key(difference: Difference) -> tuple[str, ...]:
    return (identity(difference), difference.level, difference.value)


# --- the section of the report ------------------------------------------------------------------


def _section(
    options: ModelOptions,
    results: Sequence[NodeResult],
    checked: Sequence[Checked],
    differences: Sequence[Difference],
    between: set[int],
    levels: Mapping[str, Sequence[str]],
    report: Mapping[str, Any],
) -> dict[str, Any]:
    """The section "model" of the report.

    Args:
        options: The options.
        results: The result of each node alone.
        checked: The results of the other checks.
        differences: All differences.
        between: The identities of those between two implementations to compare.
        levels: The levels of each implementation.
        report: The rest of the report.
    """
    model = options.model
    states: dict[str, list[State]] = {}
    for state in (state for each in checked for state in each.states):
        states.setdefault(state.node, []).append(state)
    by_node: dict[str, list[Difference]] = {}
    for difference in differences:
        by_node.setdefault(difference.node, []).append(difference)
    versions = {worker["name"]: worker["version"] for worker in report["run"]["workers"]}
    section = {
        "file": options.file,
        "sha256": model.digest,
        "opsets": [{"domain": domain or "ai.onnx", "version": version} for domain, version in model.opsets.items()],
        "inputs": options.inputs_from,
        "checks": list(options.checks),
        "versus": list(options.versus),
        "implementations": [
            {"name": o.name, "version": versions.get(o.name, ""), "levels": list(levels[o.name])}
            for o in options.oracles
        ],
        "nodes": [
            _node(result, options, states.get(result.node.name, ()), by_node.get(result.node.name, ()))
            for result in results
        ],
        "differences": [_difference(d, id(d) in between) for d in differences],
    }
    faults = {f["id"] for f in report["findings"] if Verdict(f["verdict"]).is_fault}
    return {**section, **_decided(section, faults, report)}


def _levels(oracle: Oracle, chosen: Sequence[str]) -> list[str]:
    return [level for level in oracle.models if not chosen or level in chosen]


def _node(
    result: NodeResult, options: ModelOptions, states: Sequence[State], differences: Sequence[Difference]
) -> dict[str, Any]:
    node = result.node
    checks: list[dict[str, Any]] = []
    if "alone" in options.checks:
        for name, status in result.statuses.items():
            differs = any(d.check == "alone" for d in differences) and name in options.versus
            state = "not checked" if status.state == "unanswered" else status.state
            state = "differs" if differs and state == "ok" else state
            reason = result.note if not status.calls else status.message if not status.answered else ""
            checks.append(_check("alone", name, "", state, reason, status.findings))
    for each in states:
        place = (each.check, each.oracle, each.level)
        kinds = {d.kind for d in differences if (d.check, d.oracle, d.level) == place}
        word = "wrong" if kinds & set(FAULTS) else "differs" if "differs" in kinds else "refused" if kinds else ""
        state = word or ("ok" if each.state == "difference" else each.state)
        checks.append(_check(*place, state, each.reason, ()))
    return {
        "name": node.name,
        "output": node.output,
        "contract": node.contract,
        "graph": list(node.graph),
        "function": node.function,
        "operands": [_operand(role, operand) for role, operand in node.operands.items()],
        "attributes": dict(node.attributes),
        "granularity": result.granularity,
        "judgement": result.judgement,
        "values": result.values,
        "of": result.of,
        "note": result.note,
        "checks": checks,
    }


def _check(check: str, oracle: str, level: str, state: str, reason: str, findings: Sequence[str]) -> dict[str, Any]:
    return {
        "check": check, "oracle": oracle, "level": level, "state": state, "reason": reason[:500], "findings": list(findings),
    }  # fmt: skip


def _operand(role: str, operand: Operand) -> dict[str, Any]:
    shape = operand.shape if operand.constant is None else operand.constant.shape
    return {
        "role": role,
        "value": operand.value,
        "dtype": operand.dtype,
        "shape": None if shape is None else list(shape),
        "constant": operand.constant is not None,
    }


def identity(difference: Difference) -> str:
    """The id of a difference: the same for all levels of an implementation."""
    kind = "beyond" if difference.bounds else difference.kind
    text = "\n".join((difference.node, difference.check, kind, difference.oracle, difference.against))
    return f"difference-{hashlib.sha256(text.encode()).hexdigest()[:10]}"


def _difference(difference: Difference, is_between: bool) -> dict[str, Any]:
    return {
        "id": identity(difference),
        "node": difference.node,
        "check": difference.check,
        "kind": difference.kind,
        "is_fault": difference.kind in FAULTS or is_between,
        "oracle": difference.oracle,
        "level": difference.level,
        "against": difference.against,
        "value": difference.value,
        "index": list(difference.index),
        "dtype": difference.dtype,
        "got": _bits(difference.dtype, difference.got),
        "legal": [_bits(difference.dtype, code) for code in difference.legal],
        "wrong": difference.wrong,
        "elements": difference.elements,
        "ulp": difference.ulp,
        "distance": difference.distance,
        "magnitude": difference.magnitude,
        "bounds": None if difference.bounds is None else [*difference.bounds],
        "sums": difference.sums,
        "message": difference.message[:2000],
        "operators": list(difference.operators),
        "script": "",
    }


def _bits(dtype: str, code: str) -> dict[str, str]:
    return {"hex": code, "decimal": decimal(dtype, int(code, 16)) if dtype and code else ""}


def _decided(section: Mapping[str, Any], faults: set[str], report: Mapping[str, Any]) -> dict[str, Any]:
    """The outcome, and the reason if there is no decision."""
    states = {check["state"] for node in section["nodes"] for check in node["checks"]}
    # A finding of the engine that no node shows, such as one on a repeated call, fails the check too.
    if faults or any(d["is_fault"] for d in section["differences"]):
        return {"outcome": "findings", "reason": ""}
    if not report["run"]["complete"]:
        return {"outcome": "unable", "reason": "the run was interrupted"}
    failed = [w for w in report["run"]["workers"] if w["status"] != "answered"]
    if failed:
        return {"outcome": "unable", "reason": f"{failed[0]['name']} did not work: {failed[0]['status']}"}
    if "ok" in states or (section["versus"] and states & {"differs", "compared"}):
        return {"outcome": "pass", "reason": ""}
    forbidden = [node["note"] for node in section["nodes"] if node["judgement"] == "forbidden"]
    if forbidden and len(forbidden) == len(section["nodes"]):
        return {"outcome": "unable", "reason": f"no node can be judged: {forbidden[0]}"}
    if states & {"differs", "compared"}:
        return {"outcome": "unable", "reason": "no result could be judged: results were only compared with each other"}
    reasons = [c["reason"] for node in section["nodes"] for c in node["checks"] if c["state"] == "not checked"]
    if "refused" not in states and any(reasons):
        return {"outcome": "unable", "reason": f"no node was checked: {max(reasons, key=reasons.count)}"}
    return {"outcome": "unable", "reason": "no implementation computed any of the nodes"}


def write_scripts(folder: Path, entries: Sequence[dict[str, Any]], differences: Sequence[Difference]) -> None:
    """Write a script for each difference that has a part of the model, and note its path in the entry.

    If there are too many, faults come first, then results far beyond sums.
    """
    written: dict[str, str] = {}
    pairs = zip(entries, differences, strict=True)
    for entry, difference in sorted(pairs, key=lambda pair: _rank(pair[1])):
        if not difference.part:
            continue
        name = f"{entry['id']}.py"
        if entry["id"] not in written and len(written) < MOST_SCRIPTS:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(script(difference.reduced or difference), encoding="utf-8")
            written[entry["id"]] = f"scripts/{name}"
        entry["script"] = written.get(entry["id"], "")


def _rank(difference: Difference) -> tuple[int, float]:
    if difference.bounds is None:
        return (2 if difference.kind == "differs" else 0), 0.0
    largest = max(map(abs, difference.bounds))
    return 1, -math.inf if difference.distance is None else -difference.distance / max(largest, 1e-300)
