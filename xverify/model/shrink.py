"""Smaller inputs and constants of a part of a model that still show a wrong element.

Each step is a run of the part in the same implementation, so no step relies on what the operators do: a cut that does not fit
them is refused, or shows nothing, and is not kept.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from xverify.core.call import Tensor, code_dtype
from xverify.model.cut import initializer
from xverify.model.exact import constants_of
from xverify.model.result import Difference
from xverify.model.values import Wrong

MOST_RUNS = 40
"""The largest number of runs for one difference."""

Shows = Callable[[bytes, Mapping[str, Tensor]], Wrong | None]
"""Runs a part with inputs, and judges its result. None if it does not run, or is not judged."""

_Tensors = dict[str, Tensor]

_Axes = tuple[tuple[str, int, int], ...]
"""Axes that are cut together: the name of the tensor, the axis, and the number of elements that share one index of it."""


def shrunk(difference: Difference, shows: Shows) -> Difference:
    """Add `Difference.reduced`, the part with smaller inputs and constants, if there is one.

    Args:
        difference: A difference with a part. Only a violation gets a smaller one.
        shows: Runs the part, see `Shows`.
    """
    if difference.kind != "violation" or not difference.got:  # without bits, its type or shape is wrong
        return difference
    search = _Search(difference, shows)
    search.cut()
    search.blank()
    if search.wrong is None:
        return difference
    wrong, inputs = search.wrong, {name: search.tensors[name] for name in difference.inputs}
    reduced = replace(
        difference, part=_with(difference.part, search.tensors), inputs=inputs, index=wrong.index, dtype=wrong.dtype,
        got=wrong.got, legal=wrong.legal,
    )  # fmt: skip
    return replace(difference, reduced=reduced)


class _Search:
    """A search for smaller tensors of a part."""

    def __init__(self, difference: Difference, shows: Shows) -> None:
        self.part, self.inputs, self.index = difference.part, tuple(difference.inputs), difference.index
        constants = constants_of(difference.part)
        # An int64 constant is an operand such as a shape or an axis.
        self.tensors: _Tensors = {
            **{name: tensor for name, tensor in constants.items() if tensor.dtype != "int64"},
            **difference.inputs,
        }
        self.scales = _scales(difference.part, self.tensors, len(difference.index))
        self.wrong: Wrong | None = None
        """The wrong elements of the smallest tensors that show some."""
        self._shows, self._runs = shows, 0

    def _keeps(self, tensors: _Tensors) -> bool:
        """Try other tensors, and keep them if they show a wrong element."""
        if self._runs == MOST_RUNS:
            return False
        self._runs += 1
        wrong = self._shows(_with(self.part, tensors), {name: tensors[name] for name in self.inputs})
        if wrong is None or not wrong.wrong or not wrong.got:
            return False
        self.tensors, self.index, self.wrong = tensors, wrong.index, wrong
        return True

    # --- extents --------------------------------------------------------------------------------

    def cut(self) -> None:
        """Cut axes as long as that leaves a wrong element."""
        before = None
        while before != (before := {name: tensor.shape for name, tensor in self.tensors.items()}):
            for position in range(1, max(map(len, before.values()), default=0) + 1):
                while self._halve(self._aligned(position), position):
                    pass
            for extent in sorted({extent for shape in before.values() for extent in shape if extent > 1}, reverse=True):
                self._halve(self._equal(extent), 0)

    def _aligned(self, position: int) -> _Axes:
        """The axes at a position from the end with the largest extent there, and the scales' axes along them."""
        axes = {
            name: len(tensor.shape) - position
            for name, tensor in self.tensors.items()
            if name not in self.scales and len(tensor.shape) >= position
        }
        extent = max((self.tensors[name].shape[axis] for name, axis in axes.items()), default=0)
        group = [(name, axis, 1) for name, axis in axes.items() if self.tensors[name].shape[axis] == extent]
        for name, along in self.scales.items():
            for axis, place, block in along:
                if place == position and self.tensors[name].shape[axis] == -(-extent // block) > 1:
                    group.append((name, axis, block))
        return tuple(group)

    def _equal(self, extent: int) -> _Axes:
        """All axes of an extent."""
        return tuple(
            (name, axis, 1)
            for name, tensor in self.tensors.items()
            for axis, length in enumerate(tensor.shape)
            if length == extent
        )

    def _halve(self, group: _Axes, position: int) -> bool:
        """Cut axes to the wrong element, or to a half that shows it. True for a half, since more may follow."""
        step = max((block for *_, block in group), default=1)
        extent = max((self.tensors[name].shape[axis] for name, axis, block in group if block == 1), default=0)
        if extent <= step:
            return False
        middle = -(-extent // 2 // step) * step
        halves = [(0, middle), (middle, extent)]
        if 0 < position <= len(self.index):
            at = self.index[-position]
            if at < extent and self._keeps(self._part(group, at // step * step, min(at // step * step + step, extent))):
                return False
            halves.sort(key=lambda half: not half[0] <= at < half[1])
        return any(a < b < a + extent and self._keeps(self._part(group, a, b)) for a, b in halves)

    def _part(self, group: _Axes, start: int, stop: int) -> _Tensors:
        """The tensors with indices of some axes only."""
        tensors = dict(self.tensors)
        for name, axis, block in group:
            tensor = tensors[name]
            index = [slice(None)] * len(tensor.shape)
            index[axis] = slice(start // block, -(-stop // block))
            tensors[name] = Tensor(tensor.dtype, np.ascontiguousarray(tensor.codes[tuple(index)]))
        return tensors

    # --- values ---------------------------------------------------------------------------------

    def blank(self) -> None:
        """Replace elements by the code 0 where that leaves a wrong element."""
        beside = [
            name
            for name, tensor in self.tensors.items()
            if name not in self.scales and tensor.size > 1 and _has(tensor, self.index)
        ]
        if beside and self._keeps({**self.tensors, **{name: _only(self.tensors[name], self.index) for name in beside}}):
            return
        for name in [name for name, tensor in self.tensors.items() if tensor.size > 1 and name not in self.scales]:
            size = -(-self.tensors[name].size // 2)
            while size and self._runs < MOST_RUNS:
                for start in range(0, self.tensors[name].size, size):
                    codes = self.tensors[name].codes.copy()
                    chunk = codes.reshape(-1)[start : start + size]
                    if chunk.any():
                        chunk[...] = 0
                        self._keeps({**self.tensors, name: Tensor(self.tensors[name].dtype, codes)})
                size //= 2


def _has(tensor: Tensor, index: tuple[int, ...]) -> bool:
    shape = tensor.shape
    return len(shape) == len(index) and all(i < extent for i, extent in zip(index, shape, strict=True))


def _only(tensor: Tensor, index: tuple[int, ...]) -> Tensor:
    """The tensor with the code 0 everywhere but at an index."""
    codes = np.zeros(tensor.shape, code_dtype(tensor.dtype))
    codes[index] = tensor.codes[index]
    return Tensor(tensor.dtype, codes)


def _scales(part: bytes, tensors: Mapping[str, Tensor], rank: int) -> dict[str, tuple[tuple[int, int, int], ...]]:
    """The axes of the scales and zero points by name.

    Each has the position of the axis of x that it follows, counted from the end, and the block size.
    """
    import onnx

    along: dict[str, tuple[tuple[int, int, int], ...]] = {}
    for node in onnx.load_model_from_string(part).graph.node:
        if node.op_type not in ("DequantizeLinear", "QuantizeLinear"):
            continue
        attributes = {attribute.name: attribute.i for attribute in node.attribute}
        x = tensors.get(node.input[0])
        axes = rank if x is None else len(x.shape)
        axis, block = attributes.get("axis", 1), attributes.get("block_size", 0)
        axis += axes if axis < 0 else 0
        for name in filter(None, node.input[1:]):
            shape = tensors[name].shape if name in tensors else ()
            if block and len(shape) == axes:
                along[name] = tuple((i, axes - i, block if i == axis else 1) for i in range(axes))
            else:
                along[name] = ((0, axes - axis, 1),) if len(shape) == 1 else ()
    return along


def _with(part: bytes, tensors: Mapping[str, Tensor]) -> bytes:
    """The part with other constants, and with inputs of other extents."""
    import onnx

    proto = onnx.load_model_from_string(part)
    constants = [(tensor.name, tensor) for tensor in proto.graph.initializer]
    constants += [(node.output[0], node.attribute[0].t) for node in proto.graph.node if node.op_type == "Constant"]
    for name, constant in constants:
        if name in tensors:
            constant.CopyFrom(initializer(name, tensors[name]))
    for value in proto.graph.input:
        shape = value.type.tensor_type.shape
        if value.name in tensors and value.type.tensor_type.HasField("shape"):
            del shape.dim[:]
            shape.dim.extend(shape.Dimension(dim_value=extent) for extent in tensors[value.name].shape)
    for value in proto.graph.output:
        for dimension in value.type.tensor_type.shape.dim:
            dimension.Clear()
    return bytes(proto.SerializeToString())
