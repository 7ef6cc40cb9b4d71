"""TensorFlow's editions: judgements, cells and the parts of a docstring, all by hand."""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np
import pytest

from xverify import contracts
from xverify.contracts import tensorflow
from xverify.contracts.model import Cell, Contract, Domain
from xverify.core.call import Call, Tensor
from xverify.core.dtypes import tensor

INSTALLED, SEED = (contracts.get(f"tensorflow/Dequantize@{edition}") for edition in ("installed", "seed"))
MODES = ("MIN_COMBINED", "MIN_FIRST", "SCALED")


def call(low: object, high: object, contract: Contract = INSTALLED, **attributes: object) -> Call:
    tensors = {
        "input": tensor("int8", np.zeros((2, 3, 4))), "min_range": tensor("float32", low), "max_range": tensor("float32", high),
    }  # fmt: skip
    return Call(contract.id, tensors, attributes)


def judgement_of(range_call: Call) -> tuple[str, tuple[str, ...]]:
    judgement = contracts.get(range_call.contract).judge(range_call)
    return judgement.verdict, tuple(clause.rpartition("/")[2] for clause in judgement.clauses)


@pytest.mark.parametrize("contract", [INSTALLED, SEED])
def test_ranges_are_scalars_with_a_minimum_below_the_maximum(contract: Contract) -> None:
    assert judgement_of(call(-1.0, 1.0, contract)) == ("allowed", ())
    for low, high in (([-1.0, -2.0], 1.0), (-1.0, [1.0, 2.0]), ([-1.0], [1.0]), ([-1.0], 1.0), (-1.0, [1.0])):
        assert judgement_of(call(low, high, contract)) == ("forbidden", ("range-shape",))
    for low, high in ((1.0, -1.0), (1.0, 1.0), (np.nan, 1.0), (-1.0, np.nan), (-np.inf, 1.0), (-1.0, np.inf)):
        assert judgement_of(call(low, high, contract)) == ("unspecified", ("range-order",))


def test_ranges_along_an_axis_are_open_and_all_of_them_have_an_order() -> None:
    assert judgement_of(call([-1.0, -2.0], [1.0, 2.0], axis=0)) == ("unspecified", ("axis",))
    assert judgement_of(call([-1.0, 2.0], [1.0, 2.0], axis=0)) == ("unspecified", ("axis", "range-order"))
    assert judgement_of(call([-1.0, -2.0, -3.0], [1.0], axis=1)) == ("unspecified", ("axis", "range-order"))
    assert judgement_of(call(-1.0, 1.0, axis=-1)) == ("allowed", ())


def test_cells_name_each_type_in_its_place() -> None:
    name = INSTALLED.id
    assert INSTALLED.cell(call(-1.0, 1.0)) == Cell(name, "int8", "float32", "", "float32", "per_tensor", "MIN_COMBINED")
    range_call = call([-1.0, -2.0], [1.0, 2.0], axis=0, mode="SCALED", narrow_range=True, dtype="bfloat16")
    assert INSTALLED.cell(range_call) == Cell(name, "int8", "float32", "", "bfloat16", "per_axis", "SCALED narrow")
    not_narrow = replace(range_call, attributes={"mode": "SCALED", "narrow_range": False})
    assert INSTALLED.cell(not_narrow).variant == "SCALED"


def test_ranges_are_laid_along_their_axis() -> None:
    def shapes(range_call: Call) -> list[tuple[int, ...]]:
        operands = INSTALLED.operands(range_call)
        assert operands.shape == (2, 3, 4)
        return [operands.codes[role].shape for role in ("input", "min_range", "max_range")]

    three, one = [-1.0, -2.0, -3.0], [-1.0]
    assert shapes(call(three, 1.0, axis=1)) == [(2, 3, 4), (1, 3, 1), ()]
    assert shapes(call(three, 1.0, axis=-2)) == [(2, 3, 4), (1, 3, 1), ()]
    assert shapes(call(one, one, axis=1)) == [(2, 3, 4), (), ()]
    assert shapes(call([-1.0, -2.0], [1.0, 2.0], axis=0)) == [(2, 3, 4), (2, 1, 1), (2, 1, 1)]
    with pytest.raises(ValueError, match=r"axis 3 is outside \[-3, 2\]"):
        INSTALLED.operands(call(three, 1.0, axis=3))
    with pytest.raises(ValueError, match="reshape"):
        INSTALLED.operands(call(three, 1.0))
    empty = replace(
        call(one, one, axis=0),
        tensors={**call(one, one).tensors, "max_range": Tensor("float32", np.zeros(0, np.uint32))},
    )
    assert INSTALLED.operands(empty).codes["max_range"].shape == (0, 1, 1)


def test_domains_of_the_editions() -> None:
    types = {"int8", "uint8", "int16", "uint16", "int32"}
    seed = SEED.domain
    assert set(seed.x_dtypes) == set(INSTALLED.domain.x_dtypes) == types
    assert seed == Domain(
        "range", seed.x_dtypes, ("float32",), ("float32",), ("per_tensor",), None, False, ("mode",), None, MODES
    )
    assert INSTALLED.domain == Domain(
        "range", INSTALLED.domain.x_dtypes, ("float32",), ("float32", "bfloat16"), ("per_tensor", "per_axis"), None, False,
        ("mode", "narrow_range", "axis", "dtype"), None, MODES,
    )  # fmt: skip


# -- what is read out of a docstring ----------------------------------------------------------------------

TEXT = """Turns codes into numbers.

Args: is a word that may stand here too.
mode: not this one.

lowest and highest are scalar floats of the range. More is said below.

```
out[i] = a   formula
   of two lines
```

```c++
num_discrete_values = 3;
```

```c++
const float scale_factor = 1;
const float  scale_factor = 2;
const float other = 3;
```

Args:
  input: A `Tensor`. One of: `qint8`,
    `quint8`.
  min_range: A `Tensor` of type `float32`.
  mode: An optional `string` from: `"MIN_FIRST", "SCALED"`. Defaults to `"MIN_COMBINED"`.
  dtype: An optional `tf.DType` from: `tf.bfloat16, tf.float32`. Defaults to `tf.float64`.
  name: A name.
"""


def test_clauses_are_the_sentences_of_the_docstring(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tensorflow, "tensorflow_docstring", lambda python="": TEXT)
    contract = tensorflow.installed_contract()
    assert contract.domain == Domain(
        "range", ("int8", "uint8"), ("float32",), ("float32", "bfloat16"), ("per_tensor",), None, False, ("mode", "dtype"),
        None, ("MIN_FIRST", "SCALED"),
    )  # fmt: skip
    texts = {name.rpartition("/")[2]: clause.text for name, clause in contract.clauses.items()}
    assert texts["formula-min-combined"] == "out[i] = a formula of two lines"
    assert texts["formula-min-first"] == "num_discrete_values = 3;"
    assert texts["formula-scaled"].startswith("const float scale_factor = 1; const float scale_factor = 2;")
    assert texts["input-type"] == "input: A `Tensor`. One of: `qint8`, `quint8`."
    assert texts["mode"].startswith('mode: An optional `string` from: `"MIN_FIRST", "SCALED"`.')
    assert texts["output-type"].startswith("dtype: An optional `tf.DType` from")
    assert (texts["narrow-range"], texts["bfloat16-mode"], texts["attributes"]) == ("", "", "Args: mode, dtype")
    (check,) = contract.text_checks()
    assert check.summary == (
        "the text declares scale_factor twice: `const float scale_factor = 1` and `const float scale_factor = 2`"
    )


def test_clauses_of_a_shorter_docstring(monkeypatch: pytest.MonkeyPatch) -> None:
    bare = "Args:\n  dtype: The type. Currently this supports float of all kinds. It only supports that.\n"
    monkeypatch.setattr(tensorflow, "tensorflow_docstring", lambda python="": bare)
    contract = tensorflow.installed_contract()
    texts = {name.rpartition("/")[2]: clause.text for name, clause in contract.clauses.items()}
    assert (texts["formula-scaled"], texts["mode"], texts["axis"]) == ("", "", "")
    assert contract.domain.output_dtypes == ("float32",)
    assert texts["output-type"] == "Currently this supports float of all kinds."
    assert texts["bfloat16-mode"] == "It only supports that."


def test_another_python_has_the_edition_if_its_docstring_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    assert tensorflow.carried(INSTALLED.id, "tensorflow-cpu", sys.executable)
    assert not tensorflow.carried(SEED.id, "tensorflow-cpu", sys.executable)
    monkeypatch.setattr(tensorflow, "tensorflow_docstring", lambda python="here": python)
    assert not tensorflow.carried(INSTALLED.id, "tensorflow-cpu", "elsewhere")
    assert tensorflow.carried(INSTALLED.id, "tensorflow-cpu", "here")
