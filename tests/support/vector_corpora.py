"""A small edition whose corpus is made in a second."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from xverify import contracts
from xverify.contracts.model import Contract
from xverify.vectors import corpus
from xverify.vectors.corpus import Corpus


@cache
def few_types() -> Contract:
    """ONNX's edition 25 with two types of x, one of scale and two of the output."""
    contract = contracts.get("ai.onnx/DequantizeLinear-25")
    domain = replace(
        contract.domain,
        x_dtypes=("uint8", "int4"),
        scale_dtypes=("float32",),
        output_dtypes=("float32", "bfloat16"),
    )
    return replace(contract, domain=domain)


@cache
def small_corpus() -> Corpus:
    return corpus.corpus(few_types(), "small")
