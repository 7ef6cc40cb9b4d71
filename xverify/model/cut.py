"""Parts of a model: a few nodes around a node, and the whole model with more outputs."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from xverify.model.nodes import Node, Operand
from xverify.model.read import Model


@dataclass(frozen=True, eq=False)
class Part:
    """A part of a model, as a model of its own without external data."""

    content: bytes
    """The ONNX model."""
    inputs: tuple[Operand, ...]
    outputs: tuple[str, ...]
    operators: tuple[str, ...]
    """The types of its nodes, in order."""
    operands: dict[str, str]
    """The names of the node's values in the part by role: x, scale, zero_point, y."""


def neighbours(model: Model, node: Node, before: int = 2, after: int = 2) -> Part | None:
    """A part of a model with a few nodes around a node."""
    return None


def exposed(model: Model, values: Sequence[str], folder: Path) -> Path:
    """Write a copy of a model that has further outputs.

    Values that are outputs already, inputs or unknown are left out. The data of constants is neither loaded nor copied if the
    folder is on the same file system: the copy has hard links to the files of external data.

    Args:
        model: The model.
        values: Names of values of the model's own graph.
        folder: An empty folder.

    Returns:
        The path of the copy.
    """
    import onnx

    path = folder / model.path.name
    outputs = {operand.value for operand in (*model.inputs, *model.outputs)}
    produced = {name for node in model.proto.graph.node for name in node.output}
    added = onnx.ModelProto()
    for name in dict.fromkeys(values):
        if name in produced and name not in outputs:
            added.graph.output.append(_declared(model.values.get(name) or Operand(name, "", None)))
    for location in model.files:
        link(model.path.parent / location, folder / location)
    if model.has_functions:
        proto = onnx.ModelProto()
        proto.CopyFrom(model.proto)
        proto.graph.ClearField("value_info")
        proto.MergeFrom(added)
        path = folder / f"{model.path.stem}.inlined{model.path.suffix}"
        path.write_bytes(proto.SerializeToString())
        link(model.path, folder / model.path.name)
    else:
        shutil.copyfile(model.path, path)
        with path.open("ab") as file:  # The concatenation of two messages of protobuf is their union.
            file.write(added.SerializeToString())
    return path


def _declared(operand: Operand) -> Any:
    """The declaration of an output, with the type but not the shape."""
    import onnx

    from xverify.oracles.onnx_model import element_type

    info = onnx.ValueInfoProto(name=operand.value)
    if operand.dtype:
        number = onnx.TensorProto.BOOL if operand.dtype == "bool" else element_type(operand.dtype)
        info.type.tensor_type.elem_type = number
    return info


def link(source: Path, target: Path) -> None:
    """Make a hard link to a file of data, or a copy if the file system does not allow that."""
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(source.resolve(), target)
    except OSError:
        shutil.copyfile(source, target)
