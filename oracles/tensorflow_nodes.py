"""The nodes of a graph around a call (`xverify.core.moves`), as TensorFlow's operators.

A node is a row of its operator, its inputs, its output and its attributes. The call's own operator is called
DequantizeLinear.
"""

from __future__ import annotations

from typing import Any, Dict, Sequence


def tensorflow_result(
    tf: Any, nodes: Sequence[Any], fed: Dict[str, Any], dtype: str, early: str, outputs: Sequence[str] = ()
) -> Any:
    """The last node's output, or the list of these outputs.

    Integers of the call's input get the quantized type of their width just before they are dequantized, or, with ``early``,
    before the node of `tensorflow_first_quantized`.

    Args:
        fed: Tensors by name.
        dtype: The dtype of the call's input.
    """
    tensors = dict(fed)
    cast_before = tensorflow_first_quantized(nodes, dtype, early)
    for index, (operator, inputs, output, attributes) in enumerate(nodes):
        # An absent input has an empty name.
        operands = {name: tensors.get(name) for name in inputs}
        if index == cast_before and dtype in ("int8", "uint8", "int16", "uint16", "int32"):
            for name in inputs:
                if name.split("_")[0] == "input":
                    operands[name] = tf.bitcast(operands[name], getattr(tf, "q" + dtype))
        if operator == "DequantizeLinear":
            words = dict(attributes)
            if "dtype" in words:
                words["dtype"] = tf.as_dtype(words["dtype"])
            tensors[output] = tf.quantization.dequantize(**operands, **words)
        else:
            tensors[output] = tensorflow_moved(tf, operator, list(operands.values()), attributes)
    return [tensors[name] for name in outputs] if outputs else tensors[nodes[-1][2]]


def tensorflow_first_quantized(nodes: Sequence[Any], dtype: str, early: str) -> int:
    """The index of the node before which the input gets its quantized type.

    Usually that is the node that dequantizes. With ``early`` "kernels" or "XLA" it is the first node after which the CPU, or XLA,
    can make every move of the quantized type.
    """
    indices = [index for index, node in enumerate(nodes) if node[2].split("_")[0] == "input"]
    first = next(index for index, node in enumerate(nodes) if node[0] == "DequantizeLinear")
    for index in reversed(indices if early else []):
        if not tensorflow_moves_quantized(nodes[index], dtype, early):
            break
        first = index
    return first


def tensorflow_moves_quantized(node: Any, dtype: str, early: str) -> bool:
    """True if a kernel on the CPU, or XLA, can make this move of the quantized type."""
    operator, attributes = node[0], node[3]
    if operator == "Slice" and attributes["steps"][0] < 0 and attributes["axes"][0] < 0:
        return False
    if early == "XLA":
        return True
    return operator != "Transpose" and not (operator == "Slice" and dtype.endswith("int16"))


def tensorflow_moved(tf: Any, operator: str, values: Sequence[Any], attributes: Any) -> Any:
    """A node that moves data or changes values. An absent input is None.

    Strided slices take no negative axes, so reversing such an axis is a Reverse.
    """
    value = values[0]
    if operator == "Transpose":
        return tf.transpose(value, list(attributes["perm"]))
    if operator == "Reshape":
        return tf.reshape(value, list(attributes["shape"]))
    if operator == "Squeeze":
        return tf.squeeze(value, axis=list(attributes["axes"]))
    if operator == "Unsqueeze":
        return tf.expand_dims(value, attributes["axes"][0])
    if operator == "Flatten":
        extents, axis = tf.shape(value), attributes["axis"]
        return tf.reshape(value, [tf.reduce_prod(extents[:axis]), tf.reduce_prod(extents[axis:])])
    if operator == "Slice":
        (start,), (end,), (axis,), (step,) = (attributes[name] for name in ("starts", "ends", "axes", "steps"))
        if step < 0 and axis < 0:
            return tf.reverse(value, [axis])
        index = [slice(None)] * value.shape.rank
        index[axis] = slice(None, None, step) if step < 0 else slice(start, end, step)
        return value[tuple(index)]
    if operator == "Gather":
        return tf.gather(value, list(attributes["indices"]), axis=attributes["axis"])
    if operator == "Concat":
        return tf.concat(list(values), attributes["axis"])
    if operator == "Clip":
        least, most = [*values[1:], None][:2]
        if least is None:
            return tf.minimum(value, most)
        return tf.maximum(value, least) if most is None else tf.clip_by_value(value, least, most)
    if operator == "Cast":
        return tf.cast(value, tf.as_dtype(attributes["to"]))
    functions = {
        "Relu": tf.nn.relu,
        "Neg": tf.negative,
        "Abs": tf.abs,
        "Max": tf.maximum,
        "Min": tf.minimum,
        "Mul": tf.multiply,
        "Where": tf.where,
    }
    return functions.get(operator, tf.identity)(*values)


def tensorflow_spelled(operator: str, values: Sequence[str], attributes: Any) -> str:
    """A node as a Python expression, as `tensorflow_moved` makes it. An absent input is an empty text."""
    value = values[0]
    if operator == "Clip":
        least, most = [*values[1:], ""][:2]
        if least and most:
            return "tf.clip_by_value(%s, %s, %s)" % (value, least, most)
        return "tf.maximum(%s, %s)" % (value, least) if least else "tf.minimum(%s, %s)" % (value, most)
    words: Dict[str, Any] = {n: list(v) if isinstance(v, tuple) else v for n, v in attributes.items()}
    if operator == "Flatten":
        ends = (value, words["axis"], value, words["axis"])
        return "tf.reshape(%s, [%s])" % (
            value,
            "tf.reduce_prod(tf.shape(%s)[:%s]), tf.reduce_prod(tf.shape(%s)[%s:])" % ends,
        )
    if operator == "Slice":
        (start,), (end,), (axis,), (step,) = (words[name] for name in ("starts", "ends", "axes", "steps"))
        if step < 0 and axis < 0:
            return "tf.reverse(%s, [%s])" % (value, axis)
        window = "::-1" if step < 0 else "%s:%s" % (start, end)
        before, after = (":, " * axis, "") if axis >= 0 else ("..., ", ", :" * (-1 - axis))
        return "%s[%s%s%s]" % (value, before, window, after)
    return {
        "Transpose": "tf.transpose({0}, {perm})",
        "Reshape": "tf.reshape({0}, {shape})",
        "Squeeze": "tf.squeeze({0}, {axes})",
        "Unsqueeze": "tf.expand_dims({0}, {axes[0]})",
        "Gather": "tf.gather({0}, {indices}, axis={axis})",
        "Concat": "tf.concat([{0}, {1}], {axis})",
        "Identity": "tf.identity({0})",
        "Relu": "tf.nn.relu({0})",
        "Neg": "tf.negative({0})",
        "Abs": "tf.abs({0})",
        "Max": "tf.maximum({0}, {1})",
        "Min": "tf.minimum({0}, {1})",
        "Mul": "tf.multiply({0}, {1})",
        "Where": "tf.where({0}, {1}, {2})",
        "Cast": "tf.cast({0}, tf.{to})",
    }[operator].format(*values, **words)
