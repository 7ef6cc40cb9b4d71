"""Results that are looked up: where, and an output for each byte."""

from __future__ import annotations

import numpy as np
import pytest
from kernel_arrays import drawn, same_bits

pytest.importorskip("numba")

from numba import types

from xverify.kernels.compiled import pieces, tables
from xverify.kernels.compiled.linear import look_up


@pytest.mark.parametrize("has", [False, True])
def test_where_results_are_looked_up(monkeypatch: pytest.MonkeyPatch, has: bool) -> None:
    monkeypatch.setattr(tables, "has", lambda feature: has and feature == "avx512vbmi")
    for codes in (types.uint8, types.uint16, types.int32):
        for out in (types.float32, types.uint16, types.int16):
            assert tables.pays(codes, out) is (has and codes == types.uint8 and out != types.float32)


@pytest.mark.parametrize("out", ["float32", "float16", "bfloat16"])
def test_an_output_of_each_byte(out: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """From tables, of every length about one of the processor's vectors, and of those in which a thread has a part, also past
    the caches. A loop that goes too far has as much room again, so that it is seen here and not by chance later."""
    entries, size = drawn(out, (257,), 7)[1:], 3 << 19  # aligned as its elements are, and no more
    x = drawn("uint8", (2 * size + 80,), 8)
    for streamed_from in (1 << 30, 0):
        monkeypatch.setattr(pieces, "_streamed_from", lambda least=streamed_from: least)
        for count in (1, 31, 32, 33, 95, 1000, size - 1, size, size + 5):
            got = np.full_like(entries, 1, shape=2 * count + 64)
            look_up(got[:count], x[:count], entries)
            same_bits(entries[x[:count]], got[:count])
            assert (got[count:] == 1).all()
