"""Stand-alone scripts that show a difference with the smallest part of a model and its inputs.

A script needs the implementation and NumPy, and no installed xverify: it contains the source of the oracle, as the scripts of
findings do (`xverify.report.script`). Data goes in through ``repr`` only.
"""

from __future__ import annotations

import base64
import inspect
import pprint
import re
from collections.abc import Mapping
from typing import Any

from xverify.core.call import Tensor
from xverify.core.dtypes import decimal
from xverify.model import script_main
from xverify.model.exact import constants_of
from xverify.model.result import Difference
from xverify.oracles.protocol import Oracle
from xverify.report.script import embedded, environment, option_arguments, oracle_of

_HEAD = '''#!/usr/bin/env python3
"""Shows one difference at a DequantizeLinear node, which xverify found in a model. It needs NumPy and {needs}.

Exit status: 1 while the difference is there, 0 when it does not show, 3 when this cannot be told here (the implementation is not
installed, or refuses the part of the model).
"""

from __future__ import annotations

import base64
import importlib
import importlib.util
import os
import subprocess
import sys
import tempfile
from typing import Any

import numpy as np
'''

_FUNCTIONS = (
    script_main.number, script_main.value_of, script_main.inputs_of, script_main.run, script_main.canonical,
    script_main.show_wrong, script_main.show_other, script_main.in_child, script_main.main,
)  # fmt: skip

_TAIL = """
if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
"""

MOST_VALUES = 16
"""The largest number of values of a tensor that a comment shows."""

_LINE = 100
"""Characters of base64 in a line."""


def script(difference: Difference) -> str:
    """The text of the script. The difference must have a part."""
    oracle = oracle_of({"name": difference.oracle, "role": "oracle"})
    needs = "the implementation" if oracle is None else ", ".join([oracle.distribution, "ml_dtypes", *oracle.needs])
    # Fixed words only: names of a user's model go in as data.
    parts = [
        _HEAD.format(needs=needs),
        "DIFFERENCE: dict[str, Any] = " + pprint.pformat(_data(difference, oracle), width=110, sort_dicts=False),
        "# The part of the model:\n"
        + "".join(f"#   {line}\n" for line in (*nodes_of(difference.part), *values_of(difference)))
        + _base64(difference.part),
    ]
    if oracle is not None:
        parts.append(embedded(oracle.module, oracle.load))
    parts += [inspect.getsource(function) for function in _FUNCTIONS]
    return "\n\n\n".join(part.strip("\n") for part in parts) + "\n\n" + _TAIL


def _data(difference: Difference, oracle: Oracle | None) -> dict[str, Any]:
    other = difference.against.removeprefix(f"{difference.oracle} ") if difference.against else ""
    return {
        "node": difference.node,
        "check": difference.check,
        "kind": difference.kind,
        "oracle": difference.oracle,
        "level": difference.level or (oracle.models[-1] if oracle and oracle.models else ""),
        "against": difference.against,
        # The other run, if it is of the same implementation.
        "other": other if oracle is not None and other in oracle.models else "",
        "value": difference.value,
        "index": list(difference.index),
        "dtype": difference.dtype,
        "got": difference.got,
        "legal": list(difference.legal),
        "bounds": difference.bounds and list(difference.bounds),
        "sums": difference.sums,
        "message": difference.message[:500],
        "module": "" if oracle is None else re.sub(r"^xverify\.", "standalone.", oracle.module),
        "load": "" if oracle is None else oracle.load,
        "arguments": [] if oracle is None else [*oracle.arguments, *option_arguments(oracle, difference.oracle)],
        "environment": environment({"name": difference.oracle, "role": "oracle"}),
        "inputs": {name: _tensor(tensor) for name, tensor in difference.inputs.items()},
    }


def _tensor(tensor: Tensor) -> Mapping[str, Any]:
    codes = tensor.codes.astype(tensor.codes.dtype.newbyteorder("<"))
    return {
        "dtype": tensor.dtype,
        "shape": [int(extent) for extent in tensor.shape],
        "codes": base64.b64encode(codes.tobytes()).decode(),
    }


def _base64(content: bytes) -> str:
    text = base64.b64encode(content).decode()
    lines = [text[at : at + _LINE] for at in range(0, len(text), _LINE)]
    return "MODEL = base64.b64decode(\n" + "".join(f"    {line!r}\n" for line in lines) + ")"


def nodes_of(content: bytes) -> list[str]:
    """The nodes of a model, each as "DequantizeLinear(x, scale) -> y". Names are spelled in ASCII."""
    import onnx

    proto = onnx.ModelProto()
    proto.ParseFromString(content)
    return [
        ascii(f"{node.op_type}({', '.join(node.input)}) -> {', '.join(node.output)}")[1:-1] for node in proto.graph.node
    ]


def values_of(difference: Difference) -> list[str]:
    """The small inputs and constants of a difference's part, each as "scale = float32[2]: 0.5 0.25"."""
    tensors = {**constants_of(difference.part), **difference.inputs}
    return [
        ascii(f"{name} = {tensor.dtype}{list(tensor.shape)}: ")[1:-1]
        + " ".join(decimal(tensor.dtype, int(code)) for code in tensor.codes.reshape(-1))
        for name, tensor in tensors.items()
        if tensor.size <= MOST_VALUES
    ]
