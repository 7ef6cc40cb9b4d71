"""The reference evaluator of the onnx package."""

from __future__ import annotations

import functools
import os
from dataclasses import replace
from typing import Any, Dict, Iterator

import numpy as np

from xverify.core.call import Call, Outcome, Tensor
from xverify.oracles.arrays import Array, answered, from_array, numpy_dtype, to_array
from xverify.oracles.model_run import LastModel, ModelRun
from xverify.oracles.onnx_model import graph_bytes, graph_of, model_bytes, model_imports, model_lines, structure
from xverify.oracles.protocol import Loaded, Oracle, Path, at_run
from xverify.oracles.short_form import ShortCall, ShortForm, feeds

RELEASES = (
    ("1.23.*", "ONNX 1.23, 2026-09"),
    ("1.22.*", "ONNX 1.22, 2026-06"),
    ("1.21.*", "ONNX 1.21, 2026-03"),
    ("1.20.*", "ONNX 1.20, 2025-12"),
    ("1.19.*", "ONNX 1.19, 2025-08"),
    ("1.18.*", "ONNX 1.18, 2025-05"),
    ("1.17.*", "ONNX 1.17, 2024-10"),
    ("1.16.*", "ONNX 1.16, 2024-03"),
    ("1.15.*", "ONNX 1.15, 2023-10"),
    ("1.14.*", "ONNX 1.14, 2023-05"),
    ("1.13.*", "ONNX 1.13, 2022-12"),
)
"""Minor releases and their months, by the upload of the first wheel to PyPI."""

GRAPH = "graph"

ORACLES = (
    Oracle(
        name="onnx-reference",
        title="the ONNX reference evaluator",
        claim="ONNX's editions, which come in the same package: onnx.defs.",
        distribution="onnx",
        contracts=("ai.onnx/*",),
        judged_by=("ai.onnx/*",),
        module=__name__,
        numpy_2_from="1.17",  # before, it makes codes of float8 in ways that NumPy 2 refuses with an OverflowError
        surrounded=(Path(GRAPH, 0.2),),
        models=(GRAPH,),
        releases=RELEASES,
    ),
)


def read_external(onnx: Any, model: Any, folder: str) -> None:
    """Read the external data of a model. onnx itself refuses files that have several hard links."""
    for tensor in _tensors(model, onnx.TensorProto):
        if tensor.data_location != onnx.TensorProto.EXTERNAL:
            continue
        where = {entry.key: entry.value for entry in tensor.external_data}
        with open(os.path.join(folder, where["location"]), "rb") as data:
            data.seek(int(where.get("offset", 0)))
            tensor.raw_data = data.read(int(where["length"]) if "length" in where else -1)
        tensor.data_location = onnx.TensorProto.DEFAULT
        del tensor.external_data[:]


def _tensors(message: Any, kind: Any) -> Iterator[Any]:
    """The tensors anywhere in a message, also in subgraphs and functions."""
    for _, value in message.ListFields():
        for item in value if hasattr(value, "extend") else [value]:
            if isinstance(item, kind):
                yield item
            elif hasattr(item, "ListFields"):
                yield from _tensors(item, kind)


class _Structure:
    """A call that is hashed and compared by its structure, so that one evaluator serves many calls."""

    def __init__(self, call: Call) -> None:
        self.call, self.key = call, structure(call)

    def __hash__(self) -> int:
        return hash(self.key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Structure) and self.key == other.key


_OWN_FIELDS = {
    "bfloat16": "bfloat16",
    "e4m3fn": "float8_e4m3fn",
    "e4m3fnuz": "float8_e4m3fnuz",
    "e5m2": "float8_e5m2",
    "e5m2fnuz": "float8_e5m2fnuz",
    "int4": "int4",
    "uint4": "uint4",
    "float4e2m1": "float4_e2m1fn",
}
"""The dtypes by the name of the field that marks them in older releases (`_own_dtypes`)."""


def _own_dtypes() -> Dict[str, np.dtype[Any]]:
    """The evaluator's own NumPy dtypes for types that NumPy lacks.

    Newer releases take those of ml_dtypes, and have none.
    """
    try:
        from onnx.reference import custom_element_types
    except ImportError:
        return {}
    dtypes = [value for value in vars(custom_element_types).values() if isinstance(value, np.dtype) and value.names]
    return {_OWN_FIELDS[dtype.names[0]]: dtype for dtype in dtypes if dtype.names and dtype.names[0] in _OWN_FIELDS}


def load() -> Loaded:
    """Import onnx. Evaluators are cached by structure."""
    import onnx
    from onnx.reference import ReferenceEvaluator

    own = _own_dtypes()

    def hand_out(call: Call) -> Dict[str, Array]:
        """The call's tensors as the evaluator takes them."""
        return {name: as_own(tensor) for name, tensor in call.tensors.items()}

    def as_own(tensor: Tensor) -> Array:
        array = to_array(tensor)
        if tensor.dtype not in own:
            return array
        dtype = own[tensor.dtype]
        # A signed type of less than a byte lies in a byte as a number.
        return (array.astype(np.int8) if dtype.kind == "i" else array.view(dtype.str)).view(dtype)

    def without_own(result: Any) -> Any:
        """A result of one of the evaluator's own dtypes as an array of ml_dtypes."""
        names = getattr(getattr(result, "dtype", None), "names", None) or ("",)
        return result.view(numpy_dtype(_OWN_FIELDS[names[0]])) if names[0] in _OWN_FIELDS else result

    @functools.lru_cache(maxsize=1024)
    def evaluator(structure: _Structure) -> Any:
        return ReferenceEvaluator(onnx.load_model_from_string(model_bytes(structure.call)))

    def surrounded(call: Call) -> Outcome:
        """The outcome of a call in its surroundings. The operators around the call may cause a refusal."""
        graph = graph_of(call)
        fed = replace(call, tensors=graph.inputs)
        arrays = hand_out(fed)
        try:
            evaluated = ReferenceEvaluator(onnx.load_model_from_string(graph_bytes(call, graph)))
            outcome = answered(without_own(evaluated.run(None, arrays)[0]), fed, arrays)
        except Exception as error:
            return Outcome("unsupported", error=type(error).__name__, message=str(error))
        assert outcome.tensor is not None
        return replace(outcome, tensor=graph.back(outcome.tensor))

    def answer(call: Call, path: str) -> Outcome:
        if call.around:
            return surrounded(call)
        arrays = hand_out(call)
        return answered(without_own(evaluator(_Structure(call)).run(None, arrays)[0]), call, arrays)

    last = LastModel()

    def loaded_file(file: str) -> Any:
        """The evaluator of a file, and the names of its inputs of booleans."""
        model = onnx.load(file, load_external_data=False)
        read_external(onnx, model, os.path.dirname(file))
        masks = {i.name for i in model.graph.input if i.type.tensor_type.elem_type == onnx.TensorProto.BOOL}
        return ReferenceEvaluator(model), masks

    def run_model(run: ModelRun, level: str) -> Dict[str, Tensor]:
        evaluated, masks = last.get(run.file, level, lambda: loaded_file(run.file))
        arrays = {name: as_own(tensor) for name, tensor in run.inputs.items()}
        arrays.update({name: arrays[name].astype(bool) for name in masks if name in arrays})
        names = list(run.outputs or evaluated.output_names)
        with at_run():
            results = [without_own(result) for result in evaluated.run(names, arrays)]
        return {
            name: from_array(np.asarray(result, np.uint8) if result.dtype == bool else result)
            for name, result in zip(names, results)  # noqa: B905
            if isinstance(result, (np.ndarray, np.generic)) and result.dtype.kind not in "OUS"
        }

    return Loaded(answer, run_model=run_model)


def short_form(call: ShortCall) -> ShortForm:
    """The model, and the evaluator run on it."""
    constants = list(call.graph[1].constants) if call.graph is not None else []
    imports = [model_imports(call, constants), "from onnx.reference import ReferenceEvaluator"]
    fed = feeds([name for name in call.tensors if name not in constants])
    return ShortForm(imports, [*model_lines(call), "y = np.asarray(ReferenceEvaluator(model).run(None, %s)[0])" % fed])
