"""What a short script shows: the call of a witness that was read, and the lines that a writer makes of it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from xverify.core.call import BITS, Call, Tensor
from xverify.core.codec import tensor_from_json
from xverify.core.surroundings import Graph
from xverify.report.script_bodies import implementation
from xverify.report.script_graph import graph_of_witness
from xverify.report.summary import Json

_ONNX_ROLES = ("x", "scale", "zero_point")
_RANGE_ROLES = ("input", "min_range", "max_range")


@dataclass(frozen=True)
class WitnessCall:
    """A witness that was read: tensors by role in the operator's order, attributes, and who is asked by which way. full_name: the
    implementation's name with its option, its setting, its version. surrounded: the call in its graph, if it stands in one; then
    the tensors are what that is fed, and its constants."""

    contract: str
    tensors: dict[str, Tensor]
    attributes: dict[str, int | str | bool]
    name: str
    options: str
    out_dtype: str
    full_name: str
    surrounded: tuple[Call, Graph] | None = None


@dataclass(frozen=True)
class ShortScript:
    """Imports and set-up before the tensors, the lines that make the call, of which the last assigns y, and the modules
    that they need besides."""

    imports: list[str]
    body: list[str]
    modules: tuple[str, ...] = ()


def read_witness(finding: Json) -> WitnessCall | None:
    """The call of a finding's witness, or None: on a text alone, or with a witness whose values are in a file."""
    witness, subject = finding["witness"], finding["subject"]
    if witness is None or subject["role"] == "edition":
        return None
    given, attributes = witness["call"]["tensors"], witness["call"]["attributes"]
    roles = _ONNX_ROLES if "x" in given else _RANGE_ROLES
    if not set(given) <= set(roles) or not all(re.fullmatch("[a-z_]{1,40}", name) for name in attributes):
        return None
    try:
        tensors = {role: tensor_from_json(given[role]) for role in roles if role in given}
    except (KeyError, ValueError, OverflowError):
        return None
    surrounded = graph_of_witness(witness["call"])
    if surrounded is not None:
        tensors = {**surrounded[1].inputs, **surrounded[1].constants}
    elif witness["call"].get("around"):
        return None
    got = (witness["got"] or {}).get("tensor")
    out = got["dtype"] if got and got["dtype"] in BITS else finding["out_dtype"]
    return WitnessCall(
        witness["call"]["contract"], tensors, dict(attributes), implementation(subject), subject["options"],
        out or "float32", subject["name"], surrounded,
    )  # fmt: skip


def spelled(value: object) -> str:
    """An attribute as a literal."""
    plain = isinstance(value, str) and re.fullmatch(r"[A-Za-z0-9_.@/-]*", value)
    return f'"{value}"' if plain else repr(value)


def constants_of(call: WitnessCall) -> list[str]:
    """Roles that are initializers on the call's path through ONNX Runtime, or in its graph."""
    if call.surrounded is not None:
        return list(call.surrounded[1].constants)
    first = {"initializers": 1, "all initializers": 0}.get(call.options, len(call.tensors))
    return list(call.tensors)[first:]


def feeds(roles: list[str]) -> str:
    return "{" + ", ".join(f'"{role}": {role}' for role in roles) + "}"
