"""Official cases: calls whose results a standard or a document states.

A standard's own tests are part of it. This process never imports a framework: a short-lived process of the Python that has
onnx prints onnx's node tests as JSON, with codes in hex.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from xverify.contracts.documents import version_of
from xverify.contracts.model import Domain, Judgement, OfficialCase, TextCheck
from xverify.core.call import BITS, Attribute, Call, Tensor, code_dtype
from xverify.core.dtypes import common_first
from xverify.core.errors import DocumentError

_ASK_NODE_TESTS = """
import json, sys, warnings
warnings.simplefilter("ignore")
import numpy
from onnx import TensorProto, helper, numpy_helper
from onnx.backend.test.case import node as node_tests
import onnx.backend.test.case.node.dequantizelinear
node_tests.import_recursive = lambda package: None  # importing the tests of all other operators takes seconds
def plain(value):
    array = numpy.asarray(numpy_helper.to_array(value) if isinstance(value, TensorProto) else value)
    codes = array.reshape(-1).view("<u%d" % array.dtype.itemsize)
    return [array.dtype.name, list(array.shape), ["%x" % code for code in codes.tolist()]]
def attribute(value):
    value = helper.get_attribute_value(value)
    return value.decode() if isinstance(value, bytes) else value
cases = []
for test in node_tests.collect_testcases("DequantizeLinear"):
    (node,) = test.model.graph.node
    if node.op_type != "DequantizeLinear":
        continue
    (opset,) = [entry.version for entry in test.model.opset_import if entry.domain in ("", "ai.onnx")]
    roles = [role for role, name in zip(("x", "scale", "zero_point"), node.input) if name]
    for number, (inputs, outputs) in enumerate(test.data_sets):
        cases.append({
            "name": test.name + ("" if number == 0 else " %d" % number),
            "opset": opset,
            "attributes": {a.name: attribute(a) for a in node.attribute},
            "tensors": {role: plain(value) for role, value in zip(roles, inputs)},
            "due": plain(outputs[0]),
        })
json.dump(cases, sys.stdout)
"""


@dataclass(frozen=True, eq=False)
class NodeTest:
    """A node test of ONNX."""

    name: str
    """The test's name, such as "test_dequantizelinear_axis"."""
    opset: int
    """The opset that the test's model imports."""
    tensors: Mapping[str, Tensor]
    """The inputs by role: x, scale, and zero_point if there is one."""
    attributes: Mapping[str, Attribute]
    due: Tensor
    """The stated output."""


@cache
def onnx_node_tests(python: str = sys.executable) -> tuple[NodeTest, ...]:
    """The node tests of DequantizeLinear in a Python's onnx, without those of types that no edition has.

    Raises:
        DocumentError: onnx is not installed, or does not give its tests.
    """
    if python == sys.executable and version_of("onnx") is None:
        raise DocumentError("onnx is not installed, so its node tests cannot be read; pip install onnx")
    try:
        # In a session of its own, so that ^C in a terminal does not end it: the sweep finishes with its report.
        done = subprocess.run(
            [python, "-c", _ASK_NODE_TESTS],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            start_new_session=True,
        )
    except subprocess.TimeoutExpired:
        raise DocumentError("onnx did not print its node tests within 60 s") from None
    except OSError as error:
        raise DocumentError(f"{python} cannot be started to read onnx's node tests: {error.strerror}") from None
    if done.returncode:
        reason = (done.stderr.strip() or "no message").splitlines()[-1]
        raise DocumentError(f"onnx does not give its node tests: {reason}")
    return tuple(
        NodeTest(
            test["name"],
            test["opset"],
            {role: _tensor(plain) for role, plain in test["tensors"].items()},
            test["attributes"],
            _tensor(test["due"]),
        )
        for test in json.loads(done.stdout)
        if all(dtype in BITS for dtype, *_ in (*test["tensors"].values(), test["due"]))
    )


def _tensor(plain: tuple[str, list[int], list[str]]) -> Tensor:
    """The tensor of a printed array. ml_dtypes may set bits above a code of 4 or 2 bits."""
    dtype, shape, codes = plain
    mask = (1 << BITS[dtype]) - 1
    numbers: Any = np.array([int(code, 16) & mask for code in codes], code_dtype(dtype))
    return Tensor(dtype, numbers.reshape(shape))


@cache
def of_edition(tests: tuple[NodeTest, ...], identity: str, version: int, domain: Domain) -> tuple[OfficialCase, ...]:
    """The node tests whose types, attributes and granularity an edition has, as its official cases.

    Args:
        tests: The node tests.
        identity: The edition's id.
        version: The edition's version. Tests of an older opset are left out.
        domain: The edition's domain.
    """
    source = f"the node tests of onnx {version_of('onnx')}"
    return tuple(
        OfficialCase(
            test.name,
            source,
            Call(identity, test.tensors, test.attributes, f"official: {test.name}"),
            test.due,
        )
        for test in tests
        if test.opset >= version and _has(domain, test)
    )


def _has(domain: Domain, test: NodeTest) -> bool:
    """True if the edition has the types, the attributes and the granularity of a test."""
    scale = test.tensors["scale"]
    is_blocked = int(test.attributes.get("block_size", 0)) > 0
    granularity = "per_tensor" if scale.shape == () else "blocked" if is_blocked else "per_axis"
    return (
        test.tensors["x"].dtype in domain.x_dtypes
        and scale.dtype in domain.scale_dtypes
        and test.due.dtype in domain.output_dtypes
        and granularity in domain.granularities
        and set(test.attributes) <= set(domain.attributes)
    )


def contradictions(
    cases: Iterable[OfficialCase], judge: Callable[[Call], Judgement], sentences: Mapping[str, str]
) -> tuple[TextCheck, ...]:
    """The sentences that official cases contradict, each once.

    Args:
        cases: The cases of the edition.
        judge: The edition's judge.
        sentences: For a clause that leaves such calls open, the clause whose sentence forbids them; both by id.
    """
    by_clause: defaultdict[str, list[OfficialCase]] = defaultdict(list)
    for case in cases:
        for clause in judge(case.call).clauses:
            by_clause[sentences.get(clause, clause)].append(case)
    checks = []
    for clause, contradicting in by_clause.items():
        first = min(contradicting, key=lambda case: common_first(case.call.data.dtype))
        checks.append(TextCheck(clause, "official-cases", _summary(clause, first, len(contradicting)), first.call))
    return tuple(checks)


def _summary(clause: str, first: OfficialCase, count: int) -> str:
    shapes = " and ".join(f"{role} {list(tensor.shape)}" for role, tensor in first.call.tensors.items())
    return f"the clause {clause.rsplit('/', 1)[1]!r} forbids {count} of {first.source}, such as {first.name}, which has {shapes}"
