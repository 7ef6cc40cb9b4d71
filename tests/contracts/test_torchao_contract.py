"""The edition of torchao: its quotations, and judgements by hand."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
from quoted_text import quoted_but_absent
from written_calls import call_of

from xverify import contracts
from xverify.contracts import torchao
from xverify.core.errors import DocumentError

JUDGED = [
    ("x=uint8[2,3] scale=float32[]", "allowed", ""),
    ("x=float8_e5m2fnuz[3] scale=float32[] zp=int8[] output_dtype=bfloat16", "allowed", ""),
    ("x=int4[2,3] scale=float32[3] zp=int4[3] axis=-1", "allowed", ""),
    ("x=int8[2,8] scale=float32[2,2] zp=int8[2,2] axis=1 block_size=4", "allowed", ""),
    ("x=uint16[3] scale=float32[]", "forbidden", "x-type"),
    ("x=uint8[2,3] scale=float32[2] axis=1", "forbidden", "granularity"),
    ("x=int8[2,8] scale=float32[2,3] axis=1 block_size=4", "forbidden", "granularity"),
    ("x=uint8[2,3] scale=float32[3] zp=uint8[] axis=1", "forbidden", "zero-point-shape"),
    ("x=uint8[2,3] scale=float32[3] axis=2", "forbidden", "block-size"),
    ("x=uint8[2,3] scale=float32[] block_size=3", "forbidden", "axis-required"),
    ("x=uint8[3] scale=float32[] saturate=1", "forbidden", "attributes"),
    ("x=int8[2,7] scale=float32[2,2] axis=1 block_size=4", "unspecified", "partial-block"),
    ("x=uint8[3] scale=float32[1]", "unspecified", "qparam-shape"),
    ("x=uint8[3] scale=bfloat16[]", "unspecified", "scale-dtype"),
    ("x=uint8[3] scale=float32[] zp=int32[]", "unspecified", "zero-point-dtype"),
    ("x=uint8[3] scale=float32[] output_dtype=float64", "unspecified", "output-dtype"),
]


@pytest.mark.parametrize(("line", "verdict", "clause"), JUDGED)
def test_a_call_is_judged_by_one_clause(line: str, verdict: str, clause: str) -> None:
    judgement = contracts.get("torchao/dequantize_affine").judge(call_of(torchao.ID, line))
    assert (judgement.verdict, judgement.clauses) == (verdict, (f"{torchao.ID}/{clause}",) if clause else ())


def test_sentences_are_quoted_from_the_installed_torchao() -> None:
    if importlib.util.find_spec("torchao") is None:
        pytest.skip("torchao is not installed; pip install torchao")
    assert quoted_but_absent(contracts.get(torchao.ID), torchao.text()) == []
    assert torchao.judging_installed() == (torchao.ID,)


def test_only_the_parts_of_the_module_that_are_text_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = tmp_path / "quantization" / "quant_primitives.py"
    module.parent.mkdir()
    module.write_text('def dequantize_affine(\n    input,\n):\n    """\n    Args:\n    """\n    return body\n')
    monkeypatch.setattr(torchao, "package_directory", lambda package, python: str(tmp_path))
    assert torchao.text("/python/a") == 'def dequantize_affine(\n    input,\n):\n    """\n    Args:\n    """'
    assert not torchao.carried(torchao.ID, "torchao", "/python/a")
    monkeypatch.setattr(torchao, "package_directory", lambda package, python: None)
    with pytest.raises(DocumentError, match="torchao is not installed"):
        torchao.text("/python/b")
