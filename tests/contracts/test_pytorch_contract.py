"""PyTorch's editions and LiteRT's: their quotations, and judgements by hand."""

from __future__ import annotations

import importlib.util
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from quoted_text import quoted_but_absent
from walked_calls import every_nth
from written_calls import call_of

from xverify import contracts
from xverify.contracts import documents, litert, pytorch
from xverify.core.bits import canonical
from xverify.core.call import Outcome
from xverify.core.errors import DocumentError
from xverify.oracles import xverify_numpy
from xverify.strategies.repair import Repair

PER_TENSOR, PER_CHANNEL, GROUP, TENSOR = map(pytorch.edition, pytorch.OPERATORS)

JUDGED = [
    (PER_TENSOR, "x=uint8[2,3] scale=float32[] zp=uint8[]", "allowed", ""),
    (PER_TENSOR, "x=float8_e5m2[3] scale=float32[] zp=int8[] output_dtype=float16", "allowed", ""),
    (PER_TENSOR, "x=uint8[3] scale=float32[]", "forbidden", "zero-point-required"),
    (PER_TENSOR, "x=uint8[3] scale=float32[1] zp=uint8[1]", "forbidden", "granularity"),
    (PER_TENSOR, "x=uint8[3] scale=float32[] zp=uint8[1]", "forbidden", "zero-point-shape"),
    (PER_TENSOR, "x=int4[3] scale=float32[] zp=int4[]", "forbidden", "x-type"),
    (PER_TENSOR, "x=uint8[3] scale=float32[] zp=uint8[] axis=0", "forbidden", "attributes"),
    (PER_TENSOR, "x=uint8[3] scale=float16[] zp=uint8[]", "unspecified", "scale-dtype"),
    (PER_TENSOR, "x=uint8[3] scale=float32[] zp=int32[]", "unspecified", "zero-point-dtype"),
    (PER_TENSOR, "x=uint8[3] scale=float32[] zp=uint8[] output_dtype=float64", "unspecified", "output-dtype"),
    (PER_CHANNEL, "x=int32[2,3] scale=float32[3] axis=1", "allowed", ""),
    (PER_CHANNEL, "x=int8[2,3] scale=float32[3]", "forbidden", "axis-required"),
    (PER_CHANNEL, "x=int8[2,3] scale=float32[1] axis=1", "forbidden", "granularity"),
    (PER_CHANNEL, "x=int8[2,3] scale=float32[] axis=1", "forbidden", "granularity"),
    (PER_CHANNEL, "x=int8[2,3] scale=float32[3] zp=int8[1] axis=1", "forbidden", "zero-point-shape"),
    (PER_CHANNEL, "x=int8[2,3] scale=float32[3] axis=-1", "unspecified", "axis"),
    (PER_CHANNEL, "x=int8[2,3] scale=float32[3] axis=2", "unspecified", "axis"),
    (GROUP, "x=int8[2,8] scale=float32[2,2] zp=int8[2,2] block_size=4", "allowed", ""),
    (GROUP, "x=uint8[2,7] scale=float32[2,2] block_size=4", "allowed", ""),
    (GROUP, "x=int8[8] scale=float32[2] block_size=4", "forbidden", "rank"),
    (GROUP, "x=int8[2,8] scale=float32[2,2]", "forbidden", "block-size"),
    (GROUP, "x=int8[2,8] scale=float32[2,3] block_size=4", "forbidden", "block-shape"),
    (GROUP, "x=int8[2,8] scale=float16[2,2] block_size=4", "forbidden", "scale-type"),
    (GROUP, "x=int8[2,8] scale=float32[2,8] block_size=1", "unspecified", "block-size-1"),
    (GROUP, "x=int16[2,8] scale=float32[2,2] block_size=4", "unspecified", "data-type"),
    (TENSOR, "x=int32[2,3] scale=float32[] zp=int32[]=7", "allowed", ""),
    (TENSOR, "x=int8[2,3] scale=float32[2] zp=int8[2] axis=0", "allowed", ""),
    (TENSOR, "x=int16[2] scale=float32[] zp=int16[]", "forbidden", "x-type"),
    (TENSOR, "x=int8[2,3] scale=float32[3] zp=int8[3] axis=0", "forbidden", "granularity"),
    (TENSOR, "x=int8[2,3] scale=float32[]", "forbidden", "zero-point-required"),
    (TENSOR, "x=int8[2,3] scale=float32[] zp=int8[] output_dtype=float16", "forbidden", "attributes"),
    (litert.ID, "x=int8[2,3] scale=float32[]", "allowed", ""),
    (litert.ID, "x=int8[4,3,2,1] scale=float32[3] zp=int8[3]=2 axis=1", "allowed", ""),
    (litert.ID, "x=int8[2,3] scale=float32[3]", "forbidden", "granularity"),
    (litert.ID, "x=int8[2,3] scale=float32[2] axis=1", "forbidden", "granularity"),
    (litert.ID, "x=int8[2,3] scale=float32[1,3] axis=1", "forbidden", "granularity"),
    (litert.ID, "x=int8[3] scale=float32[] zp=int8[1]", "forbidden", "zero-point-shape"),
    (litert.ID, "x=int8[3] scale=float32[] zp=int16[]=128", "forbidden", "zero-point-range"),
    (litert.ID, "x=int8[3] scale=float32[] zp=int16[]=127", "unspecified", "zero-point-range"),
    (litert.ID, "x=uint8[3] scale=float32[] zp=uint8[]=128", "unspecified", "data-type"),
    (litert.ID, "x=int8[3] scale=float16[]", "unspecified", "scale-dtype"),
    (litert.ID, "x=int8[3] scale=float32[]=-0.5", "unspecified", "scale-value"),
    (litert.ID, "x=int8[3] scale=float32[]=inf", "unspecified", "scale-value"),
    (litert.ID, "x=int8[3] scale=float32[]=1e-39", "unspecified", "scale-value"),
    (litert.ID, "x=int8[2,3] scale=float32[3] axis=-1", "unspecified", "axis"),
    (litert.ID, "x=int8[3] scale=float32[] block_size=2", "unspecified", "arguments"),
]


@pytest.mark.parametrize(("identity", "text", "verdict", "clause"), JUDGED)
def test_a_call_is_judged_by_one_clause(identity: str, text: str, verdict: str, clause: str) -> None:
    judgement = contracts.get(identity).judge(call_of(identity, text))
    assert (judgement.verdict, judgement.clauses) == (verdict, (f"{identity}/{clause}",) if clause else ())


@pytest.mark.parametrize("operator", pytorch.OPERATORS)
def test_sentences_are_quoted_from_the_installed_torch(operator: str) -> None:
    if importlib.util.find_spec("torch") is None:
        pytest.skip("torch is not installed; pip install torch")
    contract = contracts.get(pytorch.edition(operator))
    assert quoted_but_absent(contract, documents.torch_text(operator)) == []
    assert pytorch.carried(contract.id, "torch")


DECOMPOSED = '''
_INTEGER_DTYPES = [torch.uint8, torch.int8, torch.uint16, torch.int16, torch.int32]
_FLOAT_DTYPES = [torch.float8_e5m2, torch.float8_e4m3fn]
library.define(
    "dequantize_per_tensor(Tensor input, float scale, int zero_point, "
    "int quant_min, int quant_max, ScalarType dtype, *, ScalarType? out_dtype=None) -> Tensor"
)
def dequantize_per_tensor(input):
    """Affine dequantization for the Tensor using the same quantization parameters to map
    from quantized values to floating point values

    Args:
       out_dtype (torch.dtype?): optional dtype for output Tensor

    Returns:
       dequantized float32 Tensor
    """
    raise RuntimeError("the module is read, not run")
'''
DOCSTRINGS = '''
add_docstr(
    torch.fake_quantize_per_tensor_affine,
    r"""
    \\text{output} = (
        min(
            \\text{quant\\_max},
            max(
                \\text{quant\\_min},
                \\text{std::nearby\\_int}(\\text{input} / \\text{scale}) + \\text{zero\\_point}
            )
        ) - \\text{zero\\_point}
    ) \\times \\text{scale}
""",
)
'''


def test_an_edition_judges_a_torch_that_has_its_sentences(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sources are read. No torch is imported."""
    module = tmp_path / "ao" / "quantization" / "fx" / "_decomposed.py"
    module.parent.mkdir(parents=True)
    monkeypatch.setattr(documents, "package_directory", lambda package, python: str(tmp_path))
    for name, source in (("_torch_docs.py", DOCSTRINGS), ("_tensor_docs.py", "")):
        (tmp_path / name).write_text(source, encoding="utf-8")
    for number, (old, new, carried) in enumerate((("", "", True), ("Affine de", "Affine re", False))):
        module.write_text(DECOMPOSED.replace(old, new) if old else DECOMPOSED, encoding="utf-8")
        assert pytorch.carried(PER_TENSOR, "torch", f"/python/{number}") is carried
    monkeypatch.setattr(documents, "package_directory", lambda package, python: None)
    with pytest.raises(DocumentError, match="torch is not installed"):
        pytorch.carried(PER_TENSOR, "torch", "/python/without")


def test_an_absent_torch_is_judged_by_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pytorch, "carried", lambda identity, distribution: identity == GROUP)
    assert contracts.shipped(("pytorch/*",)) == (GROUP,)

    def refuse(identity: str, distribution: str) -> bool:
        raise DocumentError("no torch")

    monkeypatch.setattr(pytorch, "carried", refuse)
    assert contracts.shipped(("pytorch/*",)) == ()
    assert contracts.carried(litert.ID, "ai-edge-litert", sys.executable)


@pytest.mark.parametrize("identity", [PER_TENSOR, PER_CHANNEL, GROUP, TENSOR, litert.ID])
def test_the_kernel_gives_the_first_reading(identity: str) -> None:
    contract, answer = contracts.get(identity), xverify_numpy.load("numpy").answer
    for call in filter(None, map(Repair(contract), every_nth(identity, 7))):
        outcome, operands = answer(call, ""), contract.operands(call)
        assert isinstance(outcome, Outcome)
        assert outcome.tensor is not None
        assert outcome.tensor.dtype == operands.output_dtype
        want, got = (
            canonical(np.asarray(codes), operands.output_dtype)
            for codes in (contract.readings(call)[0].evaluate(operands), outcome.tensor.codes)
        )
        np.testing.assert_array_equal(got, want, err_msg=call.origin)


def test_groups_lie_in_the_rows_of_a_matrix() -> None:
    contract = contracts.get(GROUP)
    call = call_of(GROUP, "x=int8[2,6]=2 scale=float32[2,2] block_size=3")
    scale = call.tensors["scale"]
    codes = scale.codes.view("float32").copy()
    codes[:] = [[1, 2], [4, 8]]
    call = replace(call, tensors={**call.tensors, "scale": replace(scale, codes=codes.view("uint32"))})
    result = contract.readings(call)[0].evaluate(contract.operands(call)).view("float32")
    assert result.tolist() == [[2, 2, 2, 4, 4, 4], [8, 8, 8, 16, 16, 16]]
