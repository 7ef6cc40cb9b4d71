"""Calls as lines of text that people can read, paste and keep.

    ai.onnx/DequantizeLinear-25 x=int8[2,3]:80,7f,00*3,ff scale=float32[]:3f800000 zero_point=int8[]:7f axis=1

Spaces separate words. The first word is the edition. A tensor is ``role=dtype[shape]@layout:codes``. ``@layout`` is absent for
C order. The codes are in C order and in hex, each with as many digits as the dtype needs. ``00*3`` is the same code three
times, so ``01*2147483648`` is short. Lines of more than 2^20 values are refused unless the user asks for huge calls. An
attribute is ``name=value``. Its value is a whole number, true, false, or a string. A string is in double quotes with JSON's
escapes unless it is a plain word. A word such as ``x<transpose:1`` or ``constant:scale`` describes the surroundings of the
operator in a small graph (see `xverify.core.surroundings`). The origin of the call is left out.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any

import numpy as np

from xverify.core.call import BITS, LAYOUTS, Attribute, Call, Tensor, code_dtype, from_runs, runs_of

MOST_CHARACTERS = 1 << 20
"""Largest length of a line, to write and to read."""

MOST_VALUES = 1 << 20
"""Largest number of values of all tensors together, to write and to read."""

HUGE_VALUES = 1 << 33
"""The same if the user asks for huge calls. A short line can then need 8 GiB of memory, or more for wide types."""

_LEAST_RUN = 3
"""Smallest number of equal codes in a row that are written as a count."""

_MOST_RANK = 32
_WORD = re.compile(r'(?:[^\s"]++|"(?:[^"\\]++|\\.)*+"|"(?s:.*))++')
"""A word: the text between spaces outside quotes. An open quote reaches to the end of the line."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_EDITION = re.compile(r"[A-Za-z0-9_.@/+-]+")
_TENSOR = re.compile(r"([a-z0-9_]+)\[([0-9,]*)\](?:@([A-Za-z-]+))?:(.*)")
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
_AROUND = re.compile(r"[A-Za-z_][A-Za-z0-9_]*[<>:][A-Za-z0-9_.:-]+")
_INTEGER = re.compile(r"-?[0-9]{1,20}")
_RUN = re.compile(r"([0-9a-f]+)(?:\*([1-9][0-9]{0,9}))?")


def call_to_line(call: Call, most_values: int = MOST_VALUES) -> str:
    """Write a call as one line of ASCII text.

    Args:
        call: The call.
        most_values: Largest number of values of all tensors together. `HUGE_VALUES` needs few runs of equal codes.

    Raises:
        ValueError: The call is too large, or has a name that no line can hold.
    """
    if sum(tensor.size for tensor in call.tensors.values()) > most_values:
        raise ValueError(f"the call has more than {most_values} values, which no line holds")
    if twice := call.tensors.keys() & call.attributes.keys():
        raise ValueError(
            f"the call has a tensor and an attribute of the same name, {min(twice)!r}, which no line holds"
        )
    words = [call.contract if _EDITION.fullmatch(call.contract) else json.dumps(call.contract)]
    words += [f"{_checked(role)}={_tensor_to_text(tensor)}" for role, tensor in call.tensors.items()]
    words += [f"{_checked(name)}={_attribute_to_text(value)}" for name, value in call.attributes.items()]
    words += [_checked_around(word) for word in call.around]
    line = " ".join(words)
    if len(line) > MOST_CHARACTERS:
        raise ValueError(f"the call's line would have more than {MOST_CHARACTERS} characters")
    return line


def call_from_line(text: str, most_values: int = MOST_VALUES) -> Call:
    """Read a call from a line. The call has no origin.

    Args:
        text: The line.
        most_values: Largest number of values of all tensors together: `HUGE_VALUES` if the user asks for that.

    Raises:
        ValueError: The line is damaged. The message says which word, and what was expected instead.
    """
    if len(text) > MOST_CHARACTERS:
        raise ValueError(f"the line has {len(text)} characters; more than {MOST_CHARACTERS} are refused")
    words = _WORD.findall(text)
    if not words:
        raise ValueError("the line is empty; expected an edition such as ai.onnx/DequantizeLinear-25, then tensors")
    edition = _edition(words[0])
    tensors: dict[str, Tensor] = {}
    attributes: dict[str, Attribute] = {}
    around: list[str] = []
    room = most_values
    for number, word in enumerate(words[1:], 2):
        if _AROUND.fullmatch(word):
            around.append(word)
            continue
        try:
            name, equals, value = word.partition("=")
            if not equals or not _NAME.fullmatch(name):
                raise ValueError("expected role=tensor or name=value")
            if name in tensors or name in attributes:
                raise ValueError(f"{name!r} was given before")
            parsed = (
                _tensor_from_text(value, room, most_values) if _TENSOR.fullmatch(value) else _attribute_from_text(value)
            )
            if isinstance(parsed, Tensor):
                tensors[name] = parsed
                room -= parsed.size
            else:
                attributes[name] = parsed
        except ValueError as error:
            raise ValueError(f"word {number}, {_shown(word)}: {error}") from None
    if not tensors.keys() & {"x", "input"}:
        raise ValueError(
            f"after {_shown(words[0])} a quantized tensor is expected, x=... or input=..., but there is none"
        )
    return Call(edition, tensors, attributes, around=tuple(around))


def _shown(word: str) -> str:
    return repr(word if len(word) <= 60 else word[:57] + "...")


def _edition(word: str) -> str:
    if _EDITION.fullmatch(word):
        return word
    try:
        return _string(word)
    except ValueError:
        raise ValueError(f"word 1, {_shown(word)}: expected an edition such as ai.onnx/DequantizeLinear-25") from None


def _checked(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name!r} is no name that a line can hold: letters, digits and _ only")
    return name


def _checked_around(word: str) -> str:
    if not _AROUND.fullmatch(word):
        raise ValueError(f"{word!r}, which stands around the call, is no word that a line can hold")
    return word


# -- attributes -------------------------------------------------------------------------------------------


def _attribute_to_text(value: Attribute) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return value if _PLAIN.fullmatch(value) and value not in ("true", "false") else json.dumps(value)
    text = str(int(value))
    if not _INTEGER.fullmatch(text):
        raise ValueError("a whole number of more than 20 digits, which no line holds")
    return text


def _attribute_from_text(text: str) -> Attribute:
    if text in ("true", "false"):
        return text == "true"
    if _INTEGER.fullmatch(text):
        return int(text)
    if _PLAIN.fullmatch(text):
        return text
    if text.startswith('"'):
        return _string(text)
    raise ValueError(
        "expected a tensor such as int8[2,3]:80,7f,00*4, or a whole number, true, false, a plain word or "
        "a string in double quotes"
    )


def _string(text: str) -> str:
    try:
        parsed = json.loads(text)
    except (json.JSONDecodeError, RecursionError):
        parsed = None
    if not isinstance(parsed, str):
        raise ValueError("expected a string that ends with a double quote, with JSON's escapes in it")
    return parsed


# -- tensors ----------------------------------------------------------------------------------------------


def _digits(dtype: str) -> int:
    return -(-BITS[dtype] // 4)


def _tensor_to_text(tensor: Tensor) -> str:
    shape = ",".join(map(str, tensor.shape))
    layout = "" if tensor.layout == "C" else f"@{tensor.layout}"
    values, counts = runs_of(tensor.codes)
    digits = _digits(tensor.dtype)
    runs = []
    for code, count in zip(values.tolist(), counts.tolist(), strict=True):
        written = f"{code:0{digits}x}"
        runs += [f"{written}*{count}"] if count >= _LEAST_RUN else [written] * count
    return f"{tensor.dtype}[{shape}]{layout}:{','.join(runs)}"


def _tensor_from_text(text: str, room: int, most_values: int) -> Tensor:
    match = _TENSOR.fullmatch(text)
    assert match is not None
    dtype, extents, layout, listed = match.group(1), match.group(2), match.group(3) or "C", match.group(4)
    if dtype not in BITS:
        raise ValueError(f"unknown dtype {_shown(dtype)}; expected one of {', '.join(BITS)}")
    if layout not in LAYOUTS:
        raise ValueError(f"unknown layout {layout!r}; expected one of {', '.join(LAYOUTS)}")
    shape = _shape(extents)
    size = math.prod(shape)
    if size > room:
        hint = "; --huge admits more, and they need memory" if most_values < HUGE_VALUES else ""
        raise ValueError(
            f"its shape has {size} values, more than the {room} that are left of {most_values} in a line{hint}"
        )
    return Tensor(dtype, _codes(dtype, listed, size, shape), layout)


def _shape(text: str) -> tuple[int, ...]:
    extents = text.split(",") if text else []
    if len(extents) > _MOST_RANK or not all(extent and len(extent) <= 10 for extent in extents):
        raise ValueError(f"expected a shape of at most {_MOST_RANK} extents such as [2,3], not {_shown(f'[{text}]')}")
    shape = tuple(map(int, extents))
    # Beside an extent of 0 the others need no memory, but NumPy still refuses a product that overflows.
    if math.prod(max(extent, 1) for extent in shape) >= 1 << 48:
        raise ValueError(f"the extents of [{text}] are too large")
    return shape


def _codes(dtype: str, listed: str, size: int, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    digits, bound = _digits(dtype), 1 << BITS[dtype]
    codes: list[int] = []
    counts: list[int] = []
    left = size
    for number, run in enumerate(listed.split(",") if listed else [], 1):
        match = _RUN.fullmatch(run)
        if match is None or len(match.group(1)) != digits or int(match.group(1), 16) >= bound:
            raise ValueError(
                f"code {number} of {dtype} is {_shown(run)}; expected {digits} hex digit{'s' * (digits > 1)} in lower case "
                f"below {bound:x}, with *count after it or not"
            )
        codes.append(int(match.group(1), 16))
        counts.append(int(match.group(2) or 1))
        left -= counts[-1]
        if left < 0:
            break
    if left:
        raise ValueError(f"expected {size} codes for its shape, got {'more' if left < 0 else size - left}")
    values, lengths = np.array(codes, code_dtype(dtype)), np.array(counts, np.int64)
    if size > MOST_VALUES:
        return np.asarray(from_runs(values, lengths, shape))
    return np.repeat(values, lengths).reshape(shape)
