"""The bench with kernels of the user: in Python with and without ``out=``, in C, and wrong ones."""

from __future__ import annotations

import pytest
from folders import ROOT
from native_compiler import compiled, compiler
from rich.console import Console

from xverify.bench import page, plot, present
from xverify.bench.cases import Case
from xverify.bench.data import Value
from xverify.bench.judge import mistake
from xverify.bench.problem import NAIVE, user_peers
from xverify.bench.processes import Limits
from xverify.bench.run import Options, bench
from xverify.bench.table import print_bench
from xverify.core.errors import UsageError
from xverify.engine import select

KERNELS = """
import numpy as np


def with_out(x, scale, zero_point=None, *, axis=1, block_size=0, out=None):
    np.subtract(x, zero_point, out=out, dtype=np.float32, casting="unsafe")
    return np.multiply(out, scale, out=out)


def wraps(x, scale, zero_point=None, *, axis=1, block_size=0):
    return (x - zero_point) * scale


def flat(x, scale, zero_point=None, *, axis=1, block_size=0):
    return np.float32(0)
"""

CASE = Case("uint8", "float32", "per-tensor", 1000)


@pytest.fixture(scope="module")
def result(tmp_path_factory):
    folder = tmp_path_factory.mktemp("kernels")
    (folder / "mine.py").write_text(KERNELS)
    library = compiled(ROOT / "examples" / "c_kernel.c", folder, command=compiler())
    targets = [f"{folder}/mine.py:{name}" for name in ("with_out", "wraps", "flat")] + [f"{library}:dequantize"]
    peers = (*user_peers(select.user_kernels(targets)), NAIVE)
    cases = (CASE, Case("int4", "float16", "blocked", 1000, packed=True))
    return bench(Options(cases, 1, 300.0, peers=peers, limits=Limits(start=60), rounds=3))


def line(result, name, case=0):
    return present.line_of(result["cases"][case], name)


def test_kernels_of_the_user_are_timed_and_checked(result):
    assert [peer["version"][:7] for peer in result["peers"] if peer["is_of_user"]] == ["sha256:"] * 4
    for name in ("mine.py:with_out", "c_kernel.so:dequantize"):
        assert line(result, name)["status"] == "measured"
        assert (line(result, name)["other_bits"], line(result, name)["mistake"]) == (0, "")
        assert not line(result, name)["allocates_output"]
    wrong = line(result, "mine.py:wraps")
    assert wrong["allocates_output"]
    assert wrong["other_bits"] > 100
    assert wrong["mistake"].startswith("uint8 ")
    assert " instead of -" in wrong["mistake"]
    assert "its result has the shape (); expected (1000,)" in line(result, "mine.py:flat")["reason"]
    assert line(result, "mine.py:with_out", 1)["reason"] == "a Python kernel gets one code a byte: time it with int4"
    assert line(result, "c_kernel.so:dequantize", 1)["reason"] == "it returned XVERIFY_UNSUPPORTED"
    assert line(result, "numpy")["mistake"] is None


def test_table_and_page_say_what_is_wrong_what_allocates_and_what_is_fastest(result):
    console = Console(record=True, width=200)
    print_bench(result, console)
    html, text = page.page(result), " ".join(console.export_text().split())
    assert html.count("allocates its output</small>") == 2
    assert text.count("allocates its output") == 2
    sentence = present.fastest(result)
    assert sentence.endswith("(uint8 to float32, per-tensor, 1 000 elements).")
    for shown in (html, text):
        assert sentence in shown
        assert "mine.py:wraps is wrong on up to " in shown
    assert "prefers-color-scheme: dark" in html
    assert ">speed in 10⁹ elements per second, by the number of elements<" in html


def test_the_plot_follows_the_colours_of_the_page(result):
    pytest.importorskip("matplotlib")
    (group, *_) = present.groups(result)
    svg = plot.svg(group, ["mine.py:with_out"])
    assert "var(--ink)" in svg
    assert "color-mix(in srgb, #9C27B0 70%, var(--ink))" in svg
    assert plot.INK not in svg
    assert "#000000" not in svg


def bench_of(*cases):
    """A bench of cases, each with the seconds of some peers; a star after a name means other bits."""
    made = []
    for elements, seconds in cases:
        lines = [
            {
                "peer": name.rstrip("*!"),
                "role": "peer",
                "seconds": {"median": each},
                "other_bits": int(name[-1] in "*!"),
            }
            | {"mistake": "" if name.endswith("!") else None}
            for name, each in seconds.items()
        ]
        case = {"x_dtype": "int8", "out_dtype": "float16", "granularity": "blocked", "elements": elements}
        made.append(case | {"lines": lines})
    return {"cases": made}


@pytest.mark.parametrize(
    ("cases", "sentence"),
    [
        (
            [(1000, {"a": 1.0, "b": 1.5, "c*": 0.1})],
            "a is the fastest: 1.50 times as fast as b (int8 to float16, blocked, 1 000 elements).",
        ),
        (
            [
                (1, {"b": 1.0, "a": 2.0}),
                (1000, {"a": 1.0, "b": 1.5}),
                (1024, {"a": 1.0, "b": 3.0}),
                (4096, {"b!": 1.0, "a": 2.0}),
            ],
            "a is the fastest in 2 of 3 cases, 1.50 to 3.00 times as fast as the next, most for int8 to float16, blocked, "
            "1 Ki elements; b is in 1.",
        ),
        ([(1000, {"a": 1.0, "c*": 0.1})], ""),
    ],
)
def test_the_sentence_on_the_fastest(cases, sentence):
    assert present.fastest(bench_of(*cases)) == sentence


def test_other_bits_are_wrong_only_outside_the_legal_set():
    case = Case("int8", "float16", "per-axis", 4)
    one, two = 0x3C00, 0x4000
    assert mistake(case, []) == ""
    assert mistake(case, [Value(3, one, 1, two)]) == ""
    assert mistake(case, [Value(3, one, 1, two), Value(2, one, 1, two)]) == (
        "int8 2 with scale 1.0 and zero point 1 becomes 2.0 (0x4000) instead of 1.0 (0x3c00)"
    )


def test_a_kernel_that_xverify_has_needs_no_option():
    with pytest.raises(UsageError, match="xverify-numba:packed is no kernel of yours"):
        select.user_kernels(["xverify-numba:packed"])
    with pytest.raises(UsageError, match=r"there is no file none\.py"):
        select.user_kernels(["none.py:f"])
