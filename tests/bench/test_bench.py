"""The bench: what it times, how it reports peers that fail, and its table, JSON and page."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import statistics
import subprocess
import sys
from dataclasses import replace

import bench_peers
import numpy as np
import pytest
from bench_peers import peer
from click.testing import CliRunner
from folders import ROOT
from rich.console import Console

from xverify.bench import cases, memory, page, plot, present, run, timing
from xverify.bench.cases import Case
from xverify.bench.data import other_bits, read, written
from xverify.bench.processes import Limits
from xverify.bench.result import Line, Measured, Timed, load, ratio_of_medians, save, speed_ratio
from xverify.bench.run import Options, bench
from xverify.bench.table import print_bench
from xverify.cli import main
from xverify.core.dtypes import QUANTIZED
from xverify.core.errors import DamagedFileError

LIMITS = Limits(start=30, prepare=3.0, time=1.0)
CASES = (
    Case("uint8", "float32", "per-tensor", 1),
    Case("uint8", "float32", "per-tensor", 96),
    Case("int8", "float16", "blocked", 1000),
)


def options(*peers, **more):
    return Options(CASES, threads=1, budget=300.0, peers=peers, limits=LIMITS, rounds=4, **more)


@pytest.fixture(scope="module")
def whole():
    """A bench of peers that fail in all ways, and of some that work."""
    names = ("slow", "other bits", "dies", "lacks it", "cannot be loaded", "two ways", "takes memory")
    peers = [peer("right", "kernel"), *map(peer, names), peer("moves", "limit")]
    absent = replace(peer("absent"), distribution="no-such-distribution-of-anything")
    return bench(options(*peers, absent, command="xverify bench"))


def lines(result, name):
    return [present.line_of(case, name) for case in result["cases"]]


def test_times_are_medians_of_rounds(whole):
    for line in lines(whole, "slow"):
        rounds = line["seconds"]["rounds"]
        assert len(rounds) >= 3
        assert line["seconds"]["median"] == statistics.median(rounds)
        assert line["seconds"]["lower_quartile"] <= line["seconds"]["median"] <= line["seconds"]["upper_quartile"]
        assert min(rounds) >= bench_peers.SLEEP
    for case, line in zip(whole["cases"], lines(whole, "slow"), strict=True):
        assert line["elements_per_second"] == case["elements"] / line["seconds"]["median"]
        right = present.line_of(case, "right")
        assert right["seconds"]["median"] < line["seconds"]["median"]
        assert right["ratio_to_fastest_peer"] * line["seconds"]["median"] > right["seconds"]["median"]


def test_a_peer_that_dies_loses_its_lines_only(whole):
    single, *others = lines(whole, "dies")
    assert single["status"] == "measured"
    assert [line["status"] for line in others] == ["lost", "lost"]
    assert all(line["reason"].startswith("killed by SIGABRT") and "seconds" not in line for line in others)
    assert all(line["status"] == "measured" for name in ("right", "slow") for line in lines(whole, name))


def test_a_peer_that_hangs_loses_its_lines_only_and_is_given_up():
    single = replace(options(peer("right", "kernel"), peer("hangs")), cases=CASES[:2])
    result = bench(replace(single, limits=replace(LIMITS, prepare=1.0)))
    assert [line["status"] for line in lines(result, "hangs")] == ["measured", "lost"]
    assert lines(result, "hangs")[1]["reason"] == "it did not answer within 1 s"
    assert [line["status"] for line in lines(result, "right")] == ["measured", "measured"]


def test_other_bits_are_counted_and_the_peer_still_timed(whole):
    for case, line in zip(whole["cases"], lines(whole, "other bits"), strict=True):
        assert line["status"] == "measured"
        assert line["other_bits"] == min(3, case["elements"])
    assert {line["other_bits"] for line in lines(whole, "right")} == {0}


def test_who_lacks_the_operation_or_is_not_there_is_said_to(whole):
    assert {line["reason"] for line in lines(whole, "lacks it")} == {"it has no <such> operation"}
    assert {line["status"] for line in lines(whole, "lacks it")} == {"missing"}
    said = {entry["name"]: entry["reason"] for entry in whole["peers"]}
    assert said["cannot be loaded"] == "it cannot be loaded: ImportError: libpeer.so is missing"
    assert said["absent"] == "not installed: pip install no-such-distribution-of-anything"
    assert {line["reason"] for line in lines(whole, "absent")} == {said["absent"]}


def test_of_several_ways_one_with_the_right_bits_is_timed(whole):
    assert {line["way"] for line in lines(whole, "two ways")} == {"as it is"}
    assert {line["other_bits"] for line in lines(whole, "two ways")} == {0}


@pytest.mark.skipif(memory.peak_beyond(lambda: None) is None, reason="this platform does not tell")
def test_memory_beside_operands_and_output_is_told(whole):
    took = 8 << 22
    for line in lines(whole, "takes memory"):
        assert abs(line["peak_bytes"] - took) < 1 << 20
    assert all(line["peak_bytes"] < 1 << 20 for line in lines(whole, "right"))


PEAK_OF_TEMPORARIES = """
import numpy as np
from xverify.bench import memory

def call():
    held = []
    for size in range(1024, 2048, 64):
        temporary = np.ones(size << 10, np.uint8)
        held.append(np.ones(2000, np.uint8))  # behind it in the heap: the next, which is larger, finds no room
        del temporary

memory.as_after_long_use()
print(memory.peak_beyond(call))
"""


@pytest.mark.skipif(memory.peak_beyond(lambda: None) is None, reason="this platform does not tell")
def test_of_temporaries_the_most_at_once_counts_and_not_their_sum():
    # In a process of its own, as in a bench: this one's heap has free blocks of any size from earlier tests.
    command = [sys.executable, "-c", PEAK_OF_TEMPORARIES]
    peak = int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert 2 << 20 > peak - (1 << 18) > 1 << 20


def test_json_is_valid_and_read_again(whole, tmp_path):
    save(whole, tmp_path / "bench.json")
    assert load(tmp_path / "bench.json") == whole
    assert whole["schema"] == "xverify.bench/1"
    assert whole["run"]["complete"] is True
    (tmp_path / "other.json").write_text(json.dumps({"schema": "xverify.report/1"}))
    with pytest.raises(DamagedFileError, match=r"other\.json is no xverify\.bench/1"):
        load(tmp_path / "other.json")


def test_the_page_escapes_everything(whole):
    nasty = "<script>alert(1)</script>"
    changed = json.loads(json.dumps(whole).replace("slow", nasty).replace("such>", nasty))
    changed["run"]["command"] = changed["run"]["machine"]["processor"] = nasty
    changed["cases"][1]["x_dtype"] = nasty
    text = page.page(changed)
    assert "<script" not in text
    assert text.count("&lt;script&gt;") > 5
    assert text.count("<svg") == 2


def test_the_page_without_matplotlib_has_tables_and_the_line_that_installs_it(whole, monkeypatch):
    monkeypatch.setattr(page, "find_spec", lambda name: None)
    text = page.page(whole)
    assert "pip install &#39;xverify[bench]&#39;" in text
    assert "<svg" not in text
    assert "int8 to float16" in text


def test_the_table_says_who_was_lost_and_why(whole):
    console = Console(width=150, record=True, file=open(os.devnull, "w"))  # noqa: SIM115
    print_bench(whole, console)
    text = console.export_text()
    assert "dies was lost: killed by SIGABRT" in text
    assert "lacks it is not shown: it has no <such> operation" in text
    assert "other bits computes other bits than the in-house kernel (*), on up to 3.12 % of the values" in text
    assert "The limit: as it is (96)" in text


def test_calls_of_one_element_are_legible_for_any_number_of_types(whole):
    singles = [case | {"elements": 1, "x_dtype": x} for case in whole["cases"][:1] for x in QUANTIZED]
    console = Console(width=100, record=True, file=open(os.devnull, "w"))  # noqa: SIM115
    print_bench(whole | {"cases": singles}, console)
    text = console.export_text()
    for case in singles:
        line = present.line_of(case, "right")
        row = next(row for row in text.splitlines() if f"{case['x_dtype']} to float32 " in row and "│" in row)
        assert f" {present.microseconds(line)} " in row


def test_rounds_of_different_speed_are_told(whole):
    changed = json.loads(json.dumps(whole))
    line = present.line_of(changed["cases"][1], "right")
    line.update(ratio_to_fastest_peer=1.25, medians_to_fastest_peer=0.5, part_of_limit=0.5, medians_to_limit=0.51)
    (group, _) = present.groups(changed)
    assert present.ratio(line) == "1.25×~"
    assert present.part(line) == "50 %"
    told = "The machine was of different speed in different rounds (~); by the medians alone: right at 96 0.50×."
    assert told in [note for note in present.notes(group) if "right at" in note]


class Interrupts:
    """Raises Ctrl-C when the second case begins."""

    def begin(self, cases):
        self.cases = cases

    def case(self, case):
        if case is CASES[1]:
            os.kill(os.getpid(), signal.SIGINT)

    def done(self, measured):
        pass


def test_an_interrupt_gives_what_was_measured_so_far():
    # What is started in the background by a shell without job control begins with the signal ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        result = bench(options(peer("right", "kernel")), Interrupts())
    finally:
        signal.signal(signal.SIGINT, before)
    assert result["run"]["complete"] is False
    assert [case["elements"] for case in result["cases"]] == [1]
    assert lines(result, "right")[0]["status"] == "measured"


def test_an_interrupted_command_writes_its_files_and_exits_as_a_sweep_does(whole, monkeypatch, tmp_path):
    part = json.loads(json.dumps(whole))
    part["run"]["complete"] = False
    monkeypatch.setattr("xverify.bench.run.bench", lambda options, progress: part)
    files = [str(tmp_path / name) for name in ("b.json", "b.html")]
    done = CliRunner().invoke(main, ["bench", "--json", files[0], "--html", files[1]])
    assert done.exit_code == 3
    assert "interrupted" in done.output
    assert load(tmp_path / "b.json") == part
    assert "Interrupted" in (tmp_path / "b.html").read_text("utf-8")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--dtypes", "uint9"], "'uint9' is no type of x"),
        (["--dtypes", "uint8:int8"], "'int8' is no type of an output"),
        (["--granularity", "per-row"], "'per-row' is no granularity"),
        (["--sizes", "1k"], "'1k' is no number of elements"),
        (["--budget", "soon"], "a time is a number above zero"),
    ],
)
def test_a_mistake_is_one_sentence(arguments, sentence):
    done = CliRunner().invoke(main, ["bench", *arguments])
    assert done.exit_code == 2
    assert sentence in done.output


def test_a_case_beyond_the_budget_is_said_to_be_left_out():
    result = bench(replace(options(), budget=1e-9))
    assert {case["reason"] for case in result["cases"]} == {"the budget of 1e-09 s was spent"}


def test_large_cases_have_more_of_the_time(monkeypatch):
    shares = []
    monkeypatch.setattr(run._Fleet, "measure", lambda self, measured, seconds: shares.append(seconds))
    sizes = (1, 1 << 10, 1 << 24, 1 << 26)
    bench(replace(options(), cases=tuple(Case("uint8", "float32", "per-tensor", size) for size in sizes), budget=90.0))
    # Shares are seconds of a running clock, so they are short by the time spent so far. No dequantized values are compared.
    assert shares == pytest.approx([90 / 9, 90 / 8, 90 * 2 / 7, 90], rel=0.01)


def test_sizes_and_pairs_are_read():
    assert cases.sizes_of("1000, 64Ki,16Mi,1000") == (1000, 1 << 16, 1 << 24)
    assert [cases.size_in_words(n) for n in (1000, 1 << 16, 3 << 20)] == ["1 000", "64 Ki", "3 Mi"]
    assert cases.pairs_of("int4:float16,uint8") == (("int4", "float16"), ("uint8", "float32"))
    assert len(cases.cases_of((("uint8", "float32"),), ("per-tensor", "blocked"), (1, 96))) == 3
    assert cases.pairs_of("packed-uint2:bfloat16") == (("packed-uint2", "bfloat16"),)
    assert len(cases.pairs_of("all")) == 3 * (len(cases.QUANTIZED) + 7)
    for single in cases.cases_of((("packed-int4", "float16"), ("int4", "float16")), ("blocked",), (1,)):
        assert (single.x_dtype, single.out_dtype, single.elements) == ("int4", "float16", 1)
    with pytest.raises(ValueError, match="'packed-int8' is no type of x"):
        cases.pairs_of("packed-int8:float32")


def test_packed_codes_are_fewer_bytes_to_read():
    case, plain = (Case("int2", "float16", "blocked", 4096, packed) for packed in (True, False))
    assert (case.bytes_read, plain.bytes_read, case.bytes_of_codes) == (1024, 4096, 4096)
    assert (case.bytes_of_parameters, plain.bytes_of_parameters) == (128 * 2 + 32, 128 * 3)
    assert Case("uint4", "float32", "per-tensor", 5, True).bytes_read == 3
    assert str(case) == "packed int2 to float16, blocked, 4096 elements"
    assert present.x_in_words({"x_dtype": "int2"}) == "int2"


@pytest.mark.parametrize("packed", [False, True])
def test_the_kernels_are_given_codes_as_the_case_says(packed, monkeypatch):
    import xverify
    from xverify.bench.peers import limit, naive
    from xverify.oracles import xverify_numpy

    asked = []
    for name in ("dequantize_linear", "dequantize_packed"):
        usual = getattr(xverify, name)
        monkeypatch.setattr(
            xverify, name, lambda *a, f=usual, **k: asked.append((f.__name__, a[0].nbytes)) or f(*a, **k)
        )
    case = Case("uint4", "float32", "blocked", 1024, packed)
    with written(case, 7) as folder:
        operands = read(case, folder)
        problem = bench_peers.Problem(case, *operands, np.zeros(case.shape, np.float32))
        (way,) = xverify_numpy.load_bench(1, "numpy")(problem)
        way.run()
        assert other_bits(case, folder, problem.out) == 0
    assert asked == [("dequantize_packed", 512) if packed else ("dequantize_linear", 1024)]
    if packed:
        with pytest.raises(NotImplementedError, match="NumPy has no packed codes"):
            naive.load(1)(problem)
    assert limit._parameters(problem).nbytes == case.bytes_of_parameters // 8 * 8


@pytest.mark.parametrize(
    ("x", "out", "granularity"),
    [
        ("uint8", "float32", "per-tensor"),
        ("int8", "float32", "per-axis"),
        ("int4", "float16", "blocked"),
        ("uint16", "float32", "blocked-first"),
        ("float8_e5m2", "bfloat16", "per-axis-last"),
    ],
)
def test_operands_are_the_same_in_every_process_and_answer_the_formula(x, out, granularity):
    case = Case(x, out, granularity, 1000)
    with written(case, 7) as folder:
        operands = read(case, folder)
        problem = bench_peers.Problem(case, *operands, np.zeros(case.shape, operands[1].dtype))
        bench_peers.compute(problem)
        assert other_bits(case, folder, problem.out) == 0
        assert np.unique(problem.x.view(np.uint8)).size > 10
        changed = problem.out.reshape(-1).copy()
        changed[[5, 999]] += 1
        assert other_bits(case, folder, changed) == 2
        with pytest.raises(ValueError, match="999 values"):
            other_bits(case, folder, changed[:-1])


def test_scales_are_exact_in_the_range_that_tensorflow_is_told():
    operands = cases.draw(Case("int8", "float32", "per-axis", 1 << 16), 0)
    scale = operands.scale.view(np.float32).astype(np.float64)
    for end in (-128, 127):
        assert np.array_equal((scale * (end - 127)).astype(np.float32), scale * (end - 127))


def test_a_ratio_is_the_median_over_rounds_that_both_have():
    mine, theirs = Line(peer("a")), Line(peer("b"))
    mine.ways = [Timed("w", None, 0, {0: 1.0, 1: 1.0, 2: 4.0})]
    theirs.ways = [Timed("w", None, 0, {0: 2.0, 2: 12.0, 5: 1.0})]
    assert speed_ratio(mine, theirs) == 2.5
    assert speed_ratio(mine, Line(peer("c"))) is None
    assert ratio_of_medians(mine, theirs) == 2.0
    assert ratio_of_medians(mine, Line(peer("c"))) is None


def test_the_fastest_peer_is_one_with_the_right_bits_where_there_is_one():
    quick, slow, kernel = Line(peer("quick")), Line(peer("slow")), Line(peer("own", "kernel"))
    quick.ways, slow.ways = [Timed("w", None, 9, {0: 1.0})], [Timed("w", None, 0, {0: 2.0})]
    kernel.ways = [Timed("w", None, 0, {0: 0.5})]
    assert Measured(CASES[0], [quick, slow, kernel]).fastest("peer") is slow
    assert Measured(CASES[0], [quick, kernel]).fastest("peer") is quick
    assert Measured(CASES[0], [kernel]).fastest("peer") is None


def test_calls_shorter_than_a_sample_are_timed_together():
    calls = []
    assert timing.seconds_per_call(lambda: calls.append(0), 0.005) < 1e-4
    assert len(calls) > 1000


def test_labels_are_spread_as_little_as_may_be():
    assert plot.spread([0.1, 0.5, 0.9], 0.1) == [0.1, 0.5, 0.9]
    moved = plot.spread([0.5, 0.52, 0.5], 0.1)
    assert sorted(round(high, 6) for high in moved) == [0.406667, 0.506667, 0.606667]
    assert max(moved) == moved[1]


@pytest.mark.parametrize(("loads", "stores", "steps", "threads"), [(1, 4, 5, 2), (2, 1, 3, 1)])
def test_the_limits_loops_read_and_write_all(loads, stores, steps, threads):
    pytest.importorskip("numba")
    from xverify.bench import loops
    from xverify.bench.data import aligned

    x, out = aligned((64 * loads * steps,), "uint8"), aligned((64 * stores * steps,), "uint8")
    x[...] = np.random.default_rng(0).integers(0, 256, x.size)
    vectors = x.reshape(steps, loads, 64)
    wanted = np.broadcast_to(np.bitwise_xor.reduce(vectors, axis=1, keepdims=True), (steps, stores, 64))
    others = np.arange(7, 7 + 33, dtype=np.uint64)
    found = loops.loops(x.size, out.size, threads)
    stores_of = ("plain", "non-temporal")
    assert list(found) == [f"vectors, {s} stores, {t}" for t in ("1 thread", "2 threads")[:threads] for s in stores_of]
    for name, loop in found.items():
        if name.endswith("non-temporal stores, 2 threads"):
            continue  # Numba compiles a loop of threads for seconds; the two differ in the instruction that one thread tests
        out[...] = 0xA5
        assert loop(x, out, others) == others.sum()
        assert np.array_equal(out.reshape(steps, stores, 64), wanted)


def test_the_limit_reads_the_parameters_too():
    from xverify.bench.cases import Case, draw
    from xverify.bench.data import typed
    from xverify.bench.peers import limit
    from xverify.bench.problem import Problem

    for case in (Case("int8", "float32", "blocked", 4096), Case("float8_e5m2", "float16", "blocked", 4096)):
        x, scale, zero_point = typed(case, draw(case, 1))
        others = limit._parameters(Problem(case, x, scale, zero_point, np.empty(case.shape, case.out_dtype)))
        parts = scale.tobytes() + (b"" if zero_point is None else zero_point.tobytes())
        assert others.tobytes() == parts
        assert len(parts) == case.bytes_of_parameters == {"int8": 128 * 5, "float8_e5m2": 128 * 2}[case.x_dtype]


def measures():
    path = ROOT / "benchmarks" / "measures.py"
    spec = importlib.util.spec_from_file_location("measures", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["measures"] = module  # where dataclasses look their annotations up
    spec.loader.exec_module(module)
    return module


def timed_line(name, role, seconds, **more):
    """A line of the JSON whose three rounds took this many seconds each."""
    line = {
        "peer": name,
        "role": role,
        "status": "measured",
        "reason": "",
        "way": "w",
        "other_bits": 0,
        "peak_bytes": 0,
    }
    return {**line, "seconds": {"median": seconds, "rounds": [seconds] * 3}, **more}


def one_case(elements, mine, **more):
    lines = [
        timed_line("mine", "kernel", mine, ratio_to_fastest_peer=2.0 / mine, part_of_limit=1.0 / mine, **more),
        timed_line("onnxruntime", "peer", 2.0),
        timed_line("limit", "limit", 1.0),
    ]
    case = {"x_dtype": "uint8", "out_dtype": "float32", "granularity": "per-tensor", "elements": elements}
    sizes = {"bytes_read": elements, "bytes_written": 4 * elements, "reason": "", "fastest_peer": "onnxruntime"}
    return {**case, **sizes, "lines": lines}


@pytest.mark.parametrize(("cache", "elements"), [(32 << 20, None), (320 << 20, 1 << 27), (1152 << 20, 1 << 28)])
def test_a_size_past_the_last_cache_is_asked_where_none_of_the_usual_is(cache, elements):
    assert measures().size_beyond(cache) == elements


@pytest.mark.parametrize(
    ("elements", "mine", "more", "missed"),
    [
        (1, 1.9, {}, []),
        (1, 2.1, {}, ["call overhead below ONNX Runtime's, in microseconds"]),
        (1000, 2.05, {}, []),
        (1000, 2.1, {}, ["not slower than the fastest peer"]),
        (1 << 24, 1.1, {}, []),
        (1 << 24, 1.2, {}, ["part of the limit"]),
        (1 << 24, 1.5, {}, ["times ONNX Runtime, past the last-level cache", "part of the limit"]),
        (1000, 1.0, {"peak_bytes": 2 << 20}, ["MiB beside the output"]),
    ],
)
def test_goals_are_missed_by_what_is_too_slow_or_takes_too_much(elements, mine, more, missed):
    bench_json = {"run": {"machine": {"last_level_cache": 1 << 25}}, "cases": [one_case(elements, mine, **more)]}
    found = list(measures().checks(bench_json, "mine"))
    assert [check.goal for check in found if not check.passed] == missed
    assert found
    over = [check.remark for check in found if check.goal.startswith("times ONNX Runtime")]
    assert over == (["the limit itself 2.00"] if elements == 1 << 24 else [])
    assert all(check.passed is None for check in measures().checks(bench_json, "another") if "beside" not in check.goal)
