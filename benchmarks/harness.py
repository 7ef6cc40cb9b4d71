"""Compare the throughput of a sweep with that of a plain test harness, both on ONNX Runtime.

The plain harness is not optimized. Hypothesis draws types, a shape, a granularity and the arrays
(`hypothesis.extra.numpy`). The harness builds a model, makes and runs a session, and compares the result with the formula
in NumPy within a relative tolerance. The sweep is ``xverify sweep --contract 'ai.onnx/*' --oracle onnxruntime``. It
compares bit for bit with every reading of the text, attributes discrepancies, and shrinks them.

Both get the same time, in turns (``--rounds``). The figures are medians over the turns. *Values* are elements of outputs
that were compared. *Calls* are runs of the operator whose output was judged, in the sweep those of ONNX Runtime alone. The
time of the sweep includes start, exploration, attribution, shrinking and report.

    python benchmarks/harness.py --seconds 30 --rounds 3
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as with_seed
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from onnx import helper

GOAL = 20.0
"""The goal for the ratio of values a second (issue 6)."""


@dataclass(frozen=True)
class Throughput:
    """The amount of verified output, and its time."""

    values: int
    """Elements of outputs that were compared."""

    calls: int
    """Calls whose output was judged."""

    seconds: float
    """Elapsed time."""


Example = tuple[np.ndarray, np.ndarray, np.ndarray, int]
"""x, scale, zero point, axis."""


class OutOfTimeError(Exception):
    """Ends Hypothesis when the time is up."""


def plain_harness(seconds: float, seed: int) -> Throughput:
    """Run the plain harness: a session for each drawn example."""
    end = time.perf_counter() + seconds
    counted = {"values": 0, "calls": 0}

    @st.composite
    def examples(draw: st.DrawFn) -> Example:
        dtype = draw(st.sampled_from([np.int8, np.uint8, np.int16, np.uint16]))
        shape = draw(arrays.array_shapes(min_dims=1, max_dims=4, min_side=1, max_side=8))
        x = draw(arrays.arrays(dtype, shape))
        per_axis = draw(st.booleans())
        axis = draw(st.integers(0, len(shape) - 1)) if per_axis else 0
        parameters = (shape[axis],) if per_axis else ()
        scales = st.floats(2.0**-20, 2.0**10, width=32)
        scale = draw(arrays.arrays(np.float32, parameters, elements=scales))
        zero_point = draw(arrays.arrays(dtype, parameters))
        return x, scale, zero_point, axis

    @settings(
        max_examples=10**9,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(examples())
    def check(example: Example) -> None:
        if time.perf_counter() > end:
            raise OutOfTimeError
        x, scale, zero_point, axis = example
        got = run_model(x, scale, zero_point, axis)
        shape = [-1 if i == axis else 1 for i in range(x.ndim)] if scale.ndim else []
        wanted = (x.astype(np.int32) - zero_point.reshape(shape).astype(np.int32)) * scale.reshape(shape)
        np.testing.assert_allclose(got, wanted.astype(np.float32), rtol=1e-5)
        counted["values"] += got.size
        counted["calls"] += 1

    start = time.perf_counter()
    # Hypothesis ends an exhausted or long generation by itself; another seed then goes on.
    try:
        while True:
            with_seed(seed)(check)()
            seed += 1
    except OutOfTimeError:
        pass
    return Throughput(counted["values"], counted["calls"], time.perf_counter() - start)


def run_model(x: np.ndarray, scale: np.ndarray, zero_point: np.ndarray, axis: int) -> np.ndarray:
    """Run one DequantizeLinear in a model and a session of its own."""
    types = {"x": x, "scale": scale, "zero_point": zero_point}
    inputs = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), list(array.shape))
        for name, array in types.items()
    ]
    output = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, list(x.shape))
    node = helper.make_node("DequantizeLinear", list(types), ["y"], axis=axis)
    graph = helper.make_graph([node], "dequantize", inputs, [output])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    result: np.ndarray = session.run(None, types)[0]
    return result


def sweep(seconds: float, seed: int) -> Throughput:
    """Run ``xverify sweep`` against ONNX Runtime, and read the throughput from its report."""
    with tempfile.TemporaryDirectory(prefix="xverify-harness-") as folder:
        file = Path(folder, "report.json")
        command = [
            sys.executable, "-m", "xverify", "sweep", "--contract", "ai.onnx/*", "--oracle", "onnxruntime",
            "--budget", f"{seconds:g}s", "--seed", str(seed), "--runs", folder, "--json", str(file),
        ]  # fmt: skip
        start = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        took = time.perf_counter() - start
        report = json.loads(file.read_text(encoding="utf-8"))
    cells = [cell for cell in report["coverage"]["cells"] if cell["subject"].startswith("onnxruntime")]
    values, calls = (sum(cell[kind] for cell in cells) for kind in ("values", "cases"))
    return Throughput(values, calls, took)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=30.0, help="seconds of each turn (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="turns of each (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="seed of drawn examples (default: %(default)s)")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    arguments = parser.parse_args()
    measured: dict[str, list[Throughput]] = {"plain harness": [], "xverify sweep": []}
    for number in range(arguments.rounds):
        contenders = [("plain harness", plain_harness), ("xverify sweep", sweep)]
        for name, run in contenders if number % 2 == 0 else contenders[::-1]:
            throughput = run(arguments.seconds, arguments.seed + number)
            measured[name].append(throughput)
            print(
                f"round {number + 1}  {name:14} {throughput.values:>12} values  {throughput.calls:>8} calls  "
                f"{throughput.seconds:6.1f} s",
                flush=True,
            )
    rates = {
        name: {
            "values_per_second": statistics.median(turn.values / turn.seconds for turn in turns),
            "calls_per_second": statistics.median(turn.calls / turn.seconds for turn in turns),
        }
        for name, turns in measured.items()
    }
    ratios = {
        kind: statistics.median(
            (getattr(mine, kind) / mine.seconds) / (getattr(theirs, kind) / theirs.seconds)
            for mine, theirs in zip(measured["xverify sweep"], measured["plain harness"], strict=True)
        )
        for kind in ("values", "calls")
    }
    print()
    for name, rate in rates.items():
        print(f"{name:14} {rate['values_per_second']:>14,.0f} values/s {rate['calls_per_second']:>10,.1f} calls/s")
    print(f"{'ratio':14} {ratios['values']:>13,.1f}x          {ratios['calls']:>9,.1f}x")
    if arguments.json:
        arguments.json.write_text(json.dumps({"rates": rates, "ratios": ratios, "goal": GOAL}, indent=1) + "\n")
    reached = ratios["values"] >= GOAL
    print(f"goal: {GOAL:g} times as many values a second: {'reached' if reached else 'missed'}")
    return 0 if reached else 1


if __name__ == "__main__":
    sys.exit(main())
