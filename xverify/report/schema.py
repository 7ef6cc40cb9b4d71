"""Validation of reports against ``schema.json``.

Only the part of JSON Schema that our schemas use is implemented. The published schema is the one that is checked, so
the two cannot drift apart. Each error is one sentence.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from xverify.verify.causes import causes_of

SCHEMA = "xverify.report/2"
"""Name of the report format that this version writes."""

OLDER = "xverify.report/1"
"""Name of the format without causes, which `upgraded` brings up to date."""

_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
}


@cache
def schema() -> Mapping[str, Any]:
    """Return the JSON Schema of a report."""
    loaded: dict[str, Any] = json.loads(files("xverify.report").joinpath("schema.json").read_text("utf-8"))
    return loaded


def upgraded(report: Any) -> Any:
    """Bring a report of the older format up to date by adding the causes of its findings.

    Other data stay as they are.
    """
    if not isinstance(report, dict) or report.get("schema") != OLDER:
        return report
    whole = {**report, "schema": SCHEMA, "causes": []}
    check(whole)
    return {**whole, "causes": causes_of(whole)}


def check(report: object) -> None:
    """Validate a report.

    Raises:
        ValueError: It is not a report of this schema. The message is one sentence.
    """
    hint = f"expected is the report.json of a run, of schema {SCHEMA!r}; make one with: xverify sweep"
    if not isinstance(report, dict):
        raise ValueError(f"it is not a report of xverify but JSON of type {_kind(report)}; {hint}")
    name = report.get("schema")
    if isinstance(name, str) and re.fullmatch(r"xverify\.report/[0-9.]{1,12}", name) and name != SCHEMA:
        raise ValueError(
            f"it is a report of another version of xverify: its schema is {name!r}, and this version reads {SCHEMA!r} "
            "only; read it with the version that wrote it, or make the run again"
        )
    if name != SCHEMA:
        shown = f"its schema is {name!r}"[:100] if "schema" in report else "it names no schema"
        raise ValueError(f"it is not a report of xverify: {shown}; {hint}")
    for sentence in errors(schema(), report, "the report"):
        raise ValueError(f"the report is damaged: {sentence}")


def check_causes(report: Mapping[str, Any]) -> None:
    """Validate that each finding of a cause is in the report, which no rule of the schema can say.

    Raises:
        ValueError: One is not. The message is one sentence.
    """
    ids = {finding["id"] for finding in report["findings"]}
    for cause in report["causes"]:
        for identity in cause["findings"]:
            if identity not in ids:
                raise ValueError(
                    f"the report is damaged: {cause['id']} names {identity!r}, and there is no such finding"
                )


def _kind(value: object) -> str:
    return next((kind for kind, types in _TYPES.items() if _is(value, kind, types)), type(value).__name__)


def _is(value: object, kind: str, types: tuple[type, ...]) -> bool:
    return isinstance(value, types) and (kind == "boolean" or not isinstance(value, bool))


def errors(rule: Mapping[str, Any], value: Any, where: str) -> Iterator[str]:
    """Yield a sentence for each violation of a JSON Schema rule, in document order.

    Args:
        rule: A rule of JSON Schema. Only the rules of `schema` may contain references.
        value: The parsed JSON value to check.
        where: Name of the value in the sentences.
    """
    if "$ref" in rule:
        rule = schema()["$defs"][rule["$ref"].removeprefix("#/$defs/")]
    if "anyOf" in rule:
        tried = [list(errors(choice, value, where)) for choice in rule["anyOf"]]
        if all(tried):
            # The choice with the deepest error is probably the intended one.
            yield max((sentences[0] for sentences in tried), key=lambda sentence: sentence.count("."))
        return
    if "const" in rule and value != rule["const"]:
        yield f"{where} is not {rule['const']!r}"
    if "enum" in rule and value not in rule["enum"]:
        yield f"{where} is none of {', '.join(rule['enum'])}"
    if "type" in rule:
        kinds = [rule["type"]] if isinstance(rule["type"], str) else rule["type"]
        if not any(_is(value, kind, _TYPES[kind]) for kind in kinds):
            yield f"{where} is of type {_kind(value)}, not {' or '.join(kinds)}"
            return
    if isinstance(value, dict):
        yield from _in_object(rule, value, where)
    elif isinstance(value, list):
        if len(value) > rule.get("maxItems", len(value)):
            yield f"{where} has {len(value)} entries, more than {rule['maxItems']}"
        if len(value) < rule.get("minItems", 0):
            yield f"{where} has {len(value)} entries, fewer than {rule['minItems']}"
        for index, item in enumerate(value):
            yield from errors(rule.get("items", {}), item, f"{where}[{index}]")
    elif isinstance(value, str):
        if "pattern" in rule and not re.search(rule["pattern"], value):
            yield f"{where} does not match {rule['pattern']}"
    elif isinstance(value, (int, float)) and value < rule.get("minimum", value):
        yield f"{where} is less than {rule['minimum']}"


def _in_object(rule: Mapping[str, Any], value: dict[str, Any], where: str) -> Iterator[str]:
    for name in rule.get("required", ()):
        if name not in value:
            yield f"{where} has no {name!r}"
    properties = rule.get("properties", {})
    for name, item in value.items():
        inner = properties.get(name, rule.get("additionalProperties"))
        if inner is not None:
            yield from errors(inner, item, f"{where}.{name[:60]}")
