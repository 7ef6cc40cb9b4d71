"""The installed onnx with a made-up DequantizeLinear-99: one more type, attribute and sentence."""

import importlib.util
import os
import sys
from importlib.machinery import PathFinder
from types import SimpleNamespace

_HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_spec = PathFinder.find_spec("onnx", [path for path in sys.path if os.path.abspath(path) != _HERE])
_onnx = importlib.util.module_from_spec(_spec)
sys.modules["onnx"] = _onnx
_spec.loader.exec_module(_onnx)

_installed = _onnx.defs.get_all_schemas_with_history


def _newer():
    every = [schema for schema in _installed() if (schema.domain, schema.name) == ("", "DequantizeLinear")]
    newest = max(every, key=lambda schema: schema.since_version)
    made_up = SimpleNamespace(
        **{name: getattr(newest, name) for name in ("name", "domain", "attributes", "inputs", "outputs")},
        since_version=99,
        doc=newest.doc.replace(
            "The output type also determines the precision of the multiplication operation.",
            "A sentence of the future.",
        ),
        type_constraints=list(newest.type_constraints),
    )
    made_up.attributes = {**newest.attributes, "mood": SimpleNamespace(description="The mood.")}
    x_types = made_up.type_constraints[0]
    made_up.type_constraints[0] = SimpleNamespace(
        type_param_str=x_types.type_param_str,
        allowed_type_strs=[*x_types.allowed_type_strs, "tensor(float3x)"],
        description=x_types.description,
    )
    return [*_installed(), made_up]


_onnx.defs.get_all_schemas_with_history = _newer
