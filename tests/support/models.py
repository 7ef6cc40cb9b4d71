"""Makers of ONNX models as real tools write them, and of models made by hand."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

BATCH = "batch"
"""The symbol of the first extent of the models' inputs."""


INT4_BLOCK = 16
"""The block size of `blocked_int4`."""


def model_of(
    nodes: list[Any], inputs: list[Any], outputs: list[str], constants: list[Any], opset: int = 21, **others: Any
) -> Any:
    """A model. The types of its outputs are left to inference."""
    graph = helper.make_graph(nodes, "graph", inputs, [onnx.ValueInfoProto(name=name) for name in outputs], constants)
    domains = [helper.make_opsetid("", opset), *others.pop("opsets", [])]
    return helper.make_model(graph, opset_imports=domains, ir_version=10, **others)


def floats(name: str, shape: list[Any]) -> Any:
    """The declaration of a float32 input."""
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


def array(name: str, values: Any) -> Any:
    """An initializer of an array."""
    return numpy_helper.from_array(np.asarray(values), name)


def float_network(path: Path) -> Path:
    """A small convolutional network in float32, for quantizers: input x, output y."""
    random = np.random.default_rng(1)
    nodes = [
        helper.make_node("Conv", ["x", "conv.weight", "conv.bias"], ["conv"], name="conv", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["conv"], ["relu"], name="relu"),
        helper.make_node("MaxPool", ["relu"], ["pool"], name="pool", kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Flatten", ["pool"], ["flat"], name="flatten"),
        helper.make_node("MatMul", ["flat", "fc.weight"], ["fc"], name="fc"),
        helper.make_node("Add", ["fc", "fc.bias"], ["y"], name="add"),
    ]
    constants = [
        array("conv.weight", random.normal(size=(4, 3, 3, 3)).astype(np.float32)),
        array("conv.bias", random.normal(size=4).astype(np.float32)),
        array("fc.weight", random.normal(size=(64, 32)).astype(np.float32)),
        array("fc.bias", random.normal(size=32).astype(np.float32)),
    ]
    onnx.save(model_of(nodes, [floats("x", [BATCH, 3, 8, 8])], ["y"], constants), path)
    return path


class _Calibration:
    """A calibration reader of three inputs."""

    def __init__(self) -> None:
        random = np.random.default_rng(2)
        self.inputs: Iterator[Any] = iter(
            [{"x": random.normal(size=(2, 3, 8, 8)).astype(np.float32)} for _ in range(3)]
        )

    def get_next(self) -> Any:
        """The next inputs, None after the last."""
        return next(self.inputs, None)


def quantized(folder: Path, per_channel: bool = True) -> Path:
    """The network in the QDQ form of onnxruntime.quantization, int8."""
    from onnxruntime import quantization

    path = folder / "qdq.onnx"
    quantization.quantize_static(
        float_network(folder / "float.onnx"),
        path,
        _Calibration(),
        quant_format=quantization.QuantFormat.QDQ,
        per_channel=per_channel,
        activation_type=quantization.QuantType.QInt8,
        weight_type=quantization.QuantType.QInt8,
    )
    return path


def blocked_int4(folder: Path, symmetric: bool = True) -> Path:
    """The network with blocked int4 or uint4 weights in its MatMul.

    The form is QDQ, as onnxruntime's quantizer writes it, and onnxruntime's function makes the values. `blocked_int4_by_tool`
    makes the same model, but needs onnx_ir.
    """
    from onnxruntime.capi._pybind_state import quantize_qdq_matmul_4bits

    model = onnx.load(float_network(folder / "float.onnx"))
    weight = next(tensor for tensor in model.graph.initializer if tensor.name == "fc.weight")
    values = numpy_helper.to_array(weight)
    rows, columns = values.shape
    blocks = rows // INT4_BLOCK
    packed, zeros = np.zeros(rows * columns // 2, np.uint8), np.zeros(columns * blocks // 2, np.uint8)
    scales = np.zeros((blocks, columns), np.float32)
    quantize_qdq_matmul_4bits(packed, values, scales, zeros, INT4_BLOCK, columns, rows, symmetric)
    model.graph.initializer.remove(weight)
    number = TensorProto.INT4 if symmetric else TensorProto.UINT4
    model.graph.initializer.extend(
        [
            helper.make_tensor("fc.weight_DQ_Q4", number, [rows, columns], packed.tobytes(), raw=True),
            array("fc.weight_DQ_scales", scales),
        ]
    )
    names = ["fc.weight_DQ_Q4", "fc.weight_DQ_scales"]
    if not symmetric:
        names.append("fc.weight_DQ_zero_points")
        model.graph.initializer.append(
            helper.make_tensor(names[2], number, [blocks, columns], zeros.tobytes(), raw=True)
        )
    nodes = [
        helper.make_node(
            "DequantizeLinear", names, ["fc.weight_DQ_Q4_output"], name="fc_DQ_Q4", axis=0, block_size=INT4_BLOCK
        ),
        helper.make_node("MatMul", ["flat", "fc.weight_DQ_Q4_output"], ["fc"], name="fc_matmul_Q4"),
    ]
    others = list(model.graph.node)
    del model.graph.node[:]
    model.graph.node.extend([*others[:4], *nodes, *others[5:]])
    path = folder / "int4.onnx"
    onnx.save(model, path)
    return path


def blocked_int4_by_tool(folder: Path, symmetric: bool = True) -> Path:
    """The model of `blocked_int4`, made by onnxruntime's quantizer itself."""
    from onnxruntime.quantization import QuantFormat
    from onnxruntime.quantization.matmul_nbits_quantizer import DefaultWeightOnlyQuantConfig, MatMulNBitsQuantizer

    config = DefaultWeightOnlyQuantConfig(block_size=INT4_BLOCK, is_symmetric=symmetric, quant_format=QuantFormat.QDQ)
    quantizer = MatMulNBitsQuantizer(onnx.load(float_network(folder / "float.onnx")), algo_config=config)
    quantizer.process()
    path = folder / "int4-by-tool.onnx"
    onnx.save(quantizer.model.model, path)
    return path


def exported(folder: Path) -> Path:
    """A model with the nodes, names and attributes of PyTorch's exporter (torch 2.14, onnxscript 0.7).

    It was exported from a module with quantize_per_tensor, dequantize_per_tensor and dequantize_per_channel of
    torch.ops.quantized_decomposed, and fake_quantize_per_tensor_affine and fake_quantize_per_channel_affine.
    """
    random = np.random.default_rng(3)

    def pair(name: str, x: str, scale: str, zero: str, axis: int = 1, middle: str = "") -> list[Any]:
        code = middle or name.replace("dequantize", "quantize", 1)
        first = f"node_{code}" if not middle else f"node_QuantizeLinear_{middle.removeprefix('val_')}"
        return [
            helper.make_node("QuantizeLinear", [x, scale, zero], [code], name=first, axis=axis),
            helper.make_node("DequantizeLinear", [code, scale, zero], [name], name=f"node_{name}", axis=axis),
        ]

    conv = {"group": 1, "pads": [0] * 4, "auto_pad": "NOTSET", "strides": [1, 1], "dilations": [1, 1]}
    weights = ["dequantize_per_tensor", "dequantize_per_channel", "b"]
    nodes = [
        *pair("dequantize_per_tensor", "x", "val_1", "val_0"),
        helper.make_node(
            "DequantizeLinear",
            ["wq", "val_3", "val_4"],
            ["dequantize_per_channel"],
            name="node_dequantize_per_channel",
            axis=0,
        ),
        helper.make_node("Conv", weights, ["conv2d"], name="node_conv2d", kernel_shape=[3, 3], **conv),
        helper.make_node("Relu", ["conv2d"], ["relu"], name="node_relu"),
        *pair("dequantize_per_tensor_1", "relu", "val_6", "val_5"),
        helper.make_node(
            "ReduceMean",
            ["dequantize_per_tensor_1", "val_10"],
            ["mean"],
            name="node_mean",
            noop_with_empty_axes=0,
            keepdims=0,
        ),
        *pair("fake_quantize_per_tensor_affine", "mean", "val_12", "val_14", middle="val_15"),
        *pair("fake_quantize_per_channel_affine", "lin", "full", "val_22", axis=0, middle="val_23"),
        helper.make_node(
            "Gemm",
            ["fake_quantize_per_tensor_affine", "fake_quantize_per_channel_affine"],
            ["linear"],
            name="node_linear",
            beta=1.0,
            transB=1,
            alpha=1.0,
            transA=0,
        ),
    ]
    constants = [
        array("b", random.normal(size=8).astype(np.float32)),
        array("lin", random.normal(size=(5, 8)).astype(np.float32)),
        array("wq", random.integers(-127, 128, (8, 3, 3, 3), np.int8)),
        array("val_3", random.uniform(0.005, 0.02, 8).astype(np.float32)),
        array("val_4", np.zeros(8, np.int8)),
        array("val_10", np.array([2, 3], np.int64)),
        array("val_12", np.float32(0.01)),
        array("val_14", np.uint8(5)),
        array("full", np.full(5, 0.01, np.float32)),
        array("val_22", np.zeros(5, np.int8)),
        array("val_0", np.int8(3)),
        array("val_1", np.float32(0.02)),
        array("val_5", np.int8(-128)),
        array("val_6", np.float32(0.03)),
    ]
    model = model_of(nodes, [floats("x", [2, 3, 8, 8])], ["linear"], constants, producer_name="pytorch")
    path = folder / "exported.onnx"
    onnx.save(model, path)
    return path


def nested(folder: Path) -> Path:
    """A model made by hand: nodes in an If, a Loop and a function, a Constant node, and external data.

    Inputs are x (int8), condition and image (float32). The DequantizeLinear nodes are "weight" with blocked int4 external data,
    "in_then", "in_else" (unnamed, its scale is a constant of the graph around it), "in_loop", and "inner" of the function Double,
    which the model calls twice.
    """
    scale = helper.make_node("Constant", [], ["half"], value=helper.make_tensor("", TensorProto.FLOAT, [], [0.5]))
    branches = [
        helper.make_graph(
            [helper.make_node("DequantizeLinear", ["x", source], [f"{name}.y"], name=title)],
            name,
            [],
            [onnx.ValueInfoProto(name=f"{name}.y")],
        )
        for name, title, source in (("then", "in_then", "scale"), ("else", "", "half"))
    ]
    body = helper.make_graph(
        [
            helper.make_node("DequantizeLinear", ["x", "scale"], ["step"], name="in_loop"),
            helper.make_node("Add", ["total", "step"], ["next"]),
            helper.make_node("Identity", ["keep"], ["go"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("number", TensorProto.INT64, []),
            helper.make_tensor_value_info("keep", TensorProto.BOOL, []),
            floats("total", [BATCH, 4]),
        ],
        [helper.make_tensor_value_info("go", TensorProto.BOOL, []), floats("next", [BATCH, 4])],
    )
    function = helper.make_function(
        "local",
        "Double",
        ["codes", "scale"],
        ["sum"],
        [
            helper.make_node("DequantizeLinear", ["codes", "scale"], ["once"], name="inner"),
            helper.make_node("Add", ["once", "once"], ["sum"]),
        ],
        [helper.make_opsetid("", 21)],
    )
    nodes = [
        scale,
        helper.make_node(
            "If", ["condition"], ["chosen"], name="choice", then_branch=branches[0], else_branch=branches[1]
        ),
        helper.make_node("Loop", ["trips", "", "chosen"], ["looped"], name="loop", body=body),
        helper.make_node("Double", ["x", "scale"], ["twice"], name="first", domain="local"),
        helper.make_node("Double", ["x", "half"], ["again"], name="second", domain="local"),
        helper.make_node("Sum", ["looped", "twice", "again"], ["total"]),
        helper.make_node("DequantizeLinear", ["w", "w.scale"], ["weight.y"], name="weight", axis=0, block_size=16),
        helper.make_node("MatMul", ["image", "weight.y"], ["product"]),
    ]
    random = np.random.default_rng(4)
    raw = random.integers(0, 256, 64 * 32 // 2, np.uint8).tobytes()
    weight = onnx.TensorProto(name="w", data_type=TensorProto.INT4, dims=[64, 32])
    (folder / "nested.data").write_bytes(b"\0" * 64 + raw)
    refer(weight, "nested.data", 64, len(raw))
    constants = [
        array("scale", np.float32(0.25)),
        array("trips", np.array(2, np.int64)),
        weight,
        array("w.scale", random.uniform(0.1, 1, (4, 32)).astype(np.float32)),
    ]
    inputs = [
        helper.make_tensor_value_info("x", TensorProto.INT8, [BATCH, 4]),
        helper.make_tensor_value_info("condition", TensorProto.BOOL, []),
        floats("image", [BATCH, 64]),
    ]
    model = model_of(
        nodes,
        inputs,
        ["total", "product"],
        constants,
        functions=[function],
        opsets=[helper.make_opsetid("local", 1)],
    )
    path = folder / "nested.onnx"
    onnx.save(model, path)
    return path


def flows(folder: Path, kind: int = TensorProto.INT8, opset: int = 21) -> Path:
    """A model made by hand: an If, a Loop of 3 iterations with an If inside, and a Scan.

    Inputs are x [3, 4] and condition. The nodes are "yes" and "no" in the branches, "each" in the Loop, which scales row i of x,
    "zeroth" and "others" in the branches of its If "odd", and "scanned" in the Scan.
    """
    info = helper.make_tensor_value_info

    def dequantize(x: str, y: str, name: str) -> Any:
        return helper.make_node("DequantizeLinear", [x, "scale"], [y], name=name)

    def branch(x: str, name: str) -> Any:
        # Both branches of an If may use the same names.
        return helper.make_graph(
            [helper.make_node("Identity", [x], ["codes"]), dequantize("codes", "chosen", name)],
            name,
            [],
            [onnx.ValueInfoProto(name="chosen")],
        )

    body = helper.make_graph(
        [
            helper.make_node("Gather", ["x", "i"], ["row"], axis=0),
            dequantize("row", "step", "each"),
            helper.make_node("Cast", ["i"], ["is_later"], to=TensorProto.BOOL),
            helper.make_node(
                "If",
                ["is_later"],
                ["picked"],
                name="odd",
                then_branch=branch("row", "others"),
                else_branch=branch("row", "zeroth"),
            ),
            helper.make_node("Sum", ["total", "step", "picked"], ["next"]),
            helper.make_node("Identity", ["keep"], ["go"]),
            helper.make_node("Identity", ["step"], ["kept"]),
        ],
        "body",
        [info("i", TensorProto.INT64, []), info("keep", TensorProto.BOOL, []), floats("total", [4])],
        [info("go", TensorProto.BOOL, []), floats("next", [4]), floats("kept", [4])],
    )
    scan = helper.make_graph(
        [dequantize("scan_row", "scan_y", "scanned"), helper.make_node("Add", ["sum", "scan_y"], ["sum_next"])],
        "scan",
        [floats("sum", [4]), info("scan_row", kind, [4])],
        [floats("sum_next", [4]), floats("scan_y", [4])],
    )
    nodes = [
        helper.make_node(
            "If", ["condition"], ["all"], name="choice", then_branch=branch("x", "yes"), else_branch=branch("x", "no")
        ),
        helper.make_node("Loop", ["trips", "true", "zeros"], ["loop_total", "stack"], name="loop", body=body),
        helper.make_node(
            "Scan", ["zeros", "x"], ["scan_total", "rows"], name="scan", body=scan, num_scan_inputs=1,
            scan_output_axes=[0], scan_output_directions=[0],
        ),
        helper.make_node("Add", ["all", "loop_total"], ["out"]),
    ]  # fmt: skip
    constants = [
        array("scale", np.float32(0.1)),
        array("trips", np.array(3, np.int64)),
        array("true", np.array(True)),
        array("zeros", np.zeros(4, np.float32)),
    ]
    model = model_of(nodes, [info("x", kind, [3, 4]), info("condition", TensorProto.BOOL, [])], [], constants, opset)
    model.graph.output.extend([floats("out", [3, 4]), floats("stack", [3, 4]), floats("rows", [3, 4])])
    path = folder / "flows.onnx"
    onnx.save(model, path)
    return path


def refer(tensor: Any, location: str, offset: int, length: int | None = None) -> None:
    """Make the data of a tensor external."""
    tensor.data_location = TensorProto.EXTERNAL
    entries = {"location": location, "offset": str(offset), "length": "" if length is None else str(length)}
    for key, value in entries.items():
        if value:
            tensor.external_data.add(key=key, value=value)


def long_network(folder: Path, count: int = 500) -> Path:
    """A network of that many DequantizeLinear nodes.

    Half of them have int8 weights per channel, and half have uint8 activations.
    """
    random = np.random.default_rng(5)
    nodes, constants = [], [array("zero", np.uint8(128))]
    value = "x"
    for layer in range(count // 2):
        name = f"layer{layer}"
        nodes += [
            helper.make_node("QuantizeLinear", [value, f"{name}.s", "zero"], [f"{name}.q"], name=f"{name}/quantize"),
            helper.make_node("DequantizeLinear", [f"{name}.q", f"{name}.s", "zero"], [f"{name}.x"], name=f"{name}/x"),
            helper.make_node("DequantizeLinear", [f"{name}.w", f"{name}.ws"], [f"{name}.wy"], name=f"{name}/w", axis=1),
            helper.make_node("MatMul", [f"{name}.x", f"{name}.wy"], [f"{name}.y"], name=f"{name}/matmul"),
        ]
        constants += [
            array(f"{name}.s", np.float32(random.uniform(0.01, 0.1))),
            array(f"{name}.w", random.integers(-128, 128, (16, 16), np.int8)),
            array(f"{name}.ws", random.uniform(0.001, 0.004, 16).astype(np.float32)),
        ]
        value = f"{name}.y"
    path = folder / "long.onnx"
    onnx.save(model_of(nodes, [floats("x", [BATCH, 16])], [value], constants), path)
    return path


def sparse(folder: Path, size: int) -> Path:
    """A model with an int8 weight of that many bytes in a sparse file.

    The file's last byte is 7, and all others are 0.
    """
    rows, columns = 1024, size // 1024
    weight = onnx.TensorProto(name="w", data_type=TensorProto.INT8, dims=[rows, columns])
    refer(weight, "weights/sparse.data", 0)
    (folder / "weights").mkdir()
    with (folder / "weights/sparse.data").open("wb") as file:
        file.truncate(size - 1)
        file.seek(size - 1)
        file.write(b"\7")
    nodes = [
        helper.make_node("DequantizeLinear", ["w", "s"], ["y"], name="weight", axis=1),
        helper.make_node("MatMul", ["x", "y"], ["z"]),
    ]
    constants = [weight, array("s", np.full(columns, 0.5, np.float32))]
    path = folder / "sparse.onnx"
    onnx.save(model_of(nodes, [floats("x", [BATCH, rows])], ["z"], constants), path)
    return path
