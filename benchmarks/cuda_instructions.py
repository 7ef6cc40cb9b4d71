"""Count the instructions of the CUDA kernels, without a card.

NVIDIA's compiler and disassembler give them.

    pip install '.[cuda]' nvidia-cuda-nvdisasm nvidia-cuda-cuobjdump
    python benchmarks/cuda_instructions.py --capabilities 80,90

Nothing here is a time on a card. The columns of the table:

- instructions: of one element: those of a thread on the shortest path through the whole kernel that writes all its vectors.
  A path that is short because a value is a NaN or an infinity counts too, so the true number may be higher, never lower.
- all: instructions of the whole kernel.
- slow: conversions from and to integers and other numbers that a card does at an eighth of its speed or slower, and all
  operations in float64, of the whole kernel.
- calls: function calls of the whole kernel; a division that is not by a constant is one.
- loads, stores: of the whole kernel, by the bytes of each.
- spills: bytes of local memory of a thread.
- compiled: seconds of processor time of NVRTC, on this machine.

Exit codes: 2 for wrong options, 3 without CuPy, NVRTC or the disassembler, 130 after Ctrl-C.
"""

from __future__ import annotations

import argparse
import heapq
import re
import shutil
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from xverify.core.dtypes import numpy_dtype
from xverify.kernels.blocks import Spread
from xverify.kernels.cuda.compiling import OPTIONS, source
from xverify.kernels.cuda.launch import Launch
from xverify.kernels.plans import Operand


@dataclass(frozen=True)
class Case:
    """A kernel."""

    x: str
    out: str
    """The dtype of the output, and of scales."""
    zero_point: bool = True
    packed: bool = False
    scales: tuple[int, ...] = ()
    axis: int | None = None
    block: int = 1
    shape: tuple[int, ...] = (4096, 4096)

    @property
    def name(self) -> str:
        """The case in words."""
        if not self.scales:
            spread = "per tensor"
        elif self.block > 1:
            spread = f"blocks of {self.block} on axis {self.axis} of {len(self.shape)}"
        else:
            spread = f"axis {self.axis} of {len(self.shape)}"
        packed = "packed " if self.packed else ""
        return f"{packed}{self.x} → {self.out}, {spread}{', zero point' if self.zero_point else ''}"

    @property
    def launch(self) -> Launch:
        """The launch, as for operands on a card."""
        x, out = numpy_dtype(self.x), numpy_dtype(self.out)
        zero_point = x if self.zero_point else None
        operands = Operand(x, self.shape), Operand(out, self.scales)
        return Launch.of(out, *operands, zero_point, Spread(self.axis, self.block), packed=self.packed)


CASES = (
    Case("uint8", "float32"),
    Case("uint8", "float16"),
    Case("float8_e4m3fn", "float16", zero_point=False),
    Case("float8_e5m2", "bfloat16", zero_point=False),
    Case("float4_e2m1fn", "bfloat16", zero_point=False, packed=True, scales=(4096, 128), axis=1, block=32),
    Case("uint4", "float16", packed=True, scales=(4096, 128), axis=1, block=32),
    Case("uint4", "float16", packed=True, scales=(128, 4096), axis=0, block=32),
    Case("int16", "float16"),
    Case("uint8", "float32", scales=(4096,), axis=1),
    Case("int8", "bfloat16", scales=(64,), axis=1, shape=(16, 64, 128, 128)),
)
"""The cases of the table in docs/kernels.md."""


@dataclass(frozen=True)
class Instruction:
    """An instruction of the disassembled kernel."""

    guard: str
    """The predicate, with "!" if negated; empty if there is none."""
    operation: str
    operands: str

    @property
    def is_load(self) -> bool:
        """True for a load of x past the caches. Each has a twin through them, with the opposite predicate."""
        return self.operation.startswith("LDG.E.EF")

    @property
    def is_store(self) -> bool:
        """True for a store of 16 bytes past the caches. It has such a twin too."""
        return self.operation.startswith("STG.E.EF") and ".128" in self.operation


def instructions(text: str) -> tuple[list[Instruction], dict[str, int]]:
    """The instructions of nvdisasm's text, and the index behind each label."""
    found: list[Instruction] = []
    labels: dict[str, int] = {}
    for line in text.splitlines():
        if label := re.match(r"(\.L_x_\d+):", line):
            labels[label[1]] = len(found)
        elif match := re.match(r"\s+/\*[0-9a-f]+\*/\s+(?:@(!?U?P\w+)\s+)?([A-Z][\w.]*)\s*(.*?)\s*;", line):
            found.append(Instruction(match[1] or "", match[2], match[3]))
    return found, labels


def shortest(code: list[Instruction], labels: dict[str, int], loads: int, stores: int) -> int:
    """The fewest instructions from the kernel's start to its end that load and store that often."""
    queue, done = [(0, 0, 0, 0)], set()
    while queue:
        count, at, loaded, stored = heapq.heappop(queue)
        if (at, loaded, stored) in done:
            continue
        done.add((at, loaded, stored))
        one = code[at]
        loaded, stored = loaded + one.is_load, stored + one.is_store
        if loaded > loads or stored > stores:
            continue
        if one.operation == "EXIT":
            if (loaded, stored) == (loads, stores):
                return count + 1
            if not one.guard:
                continue
        # A jump too far for a BRA is written as a call that does not return.
        is_jump = one.operation.startswith(("BRA", "CALL"))
        target = re.search(r"\.L_x_\d+", one.operands) if is_jump else None
        if target:
            heapq.heappush(queue, (count + 1, labels[target[0]], loaded, stored))
        if not target or one.guard or re.match(r"!?U?P", one.operands):
            heapq.heappush(queue, (count + 1, at + 1, loaded, stored))
    raise ValueError(f"no path stores {stores} vectors; the disassembler's text has another form")


SLOW = re.compile(r"(I2F|F2I|MUFU|DADD|DMUL|DFMA|DSETP|F2F|I2I)\b")


def row(case: Case, capability: str) -> list[str]:
    """The table's row of a case."""
    launch = case.launch
    vectors = launch.vectors
    binary, seconds = compiled(launch.macros, capability)
    with TemporaryDirectory() as directory:
        file = Path(directory, "kernel.cubin")
        file.write_bytes(binary)
        code, labels = instructions(output("nvdisasm", "-c", file))
        usage = output("cuobjdump", "-res-usage", file)
    loads = -(-launch.lanes * launch.x_bits // 128)
    count = shortest(code, labels, loads * vectors, vectors)
    accesses = {"LDG": Counter[int](), "STG": Counter[int]()}
    for one in code:
        kind, *rest = one.operation.split(".")
        if kind in accesses:
            sizes = {"128": 16, "64": 8, "U16": 2, "S16": 2, "U8": 1, "S8": 1}
            accesses[kind][next((sizes[part] for part in rest if part in sizes), 4)] += 1
    registers, local = (int(re.search(rf"{name}:(\d+)", usage)[1]) for name in ("REG", "LOCAL"))  # type: ignore[index]
    slow = sum(bool(SLOW.match(one.operation)) for one in code)
    calls = sum(one.operation.startswith("CALL") and ".L_x" not in one.operands for one in code)
    sizes = [" ".join(f"{by[size]}x{size}" for size in sorted(by, reverse=True)) for by in accesses.values()]
    numbers = f"{count / (vectors * launch.lanes):.1f}", len(code), slow, calls, registers, local
    return [case.name, capability, *map(str, numbers), *sizes, f"{seconds:.2f}"]


HEADINGS = (
    "case", "sm", "instructions", "all", "slow", "calls", "registers", "spills", "loads", "stores", "compiled",
)  # fmt: skip


def compiled(macros: tuple[str, ...], capability: str) -> tuple[bytes, float]:
    """NVRTC's machine code, and its seconds."""
    from cupy.cuda import nvrtc

    program = nvrtc.createProgram(source(), "dequantize.cu", [], [])
    start = time.process_time()
    nvrtc.compileProgram(program, [*OPTIONS, *macros, f"-arch=sm_{capability}"])
    seconds = time.process_time() - start
    # CuPy takes the last byte for the end of a text and drops it.
    return nvrtc.getCUBIN(program) + b"\0", seconds


def tool(name: str) -> str | None:
    """The path of a tool of CUDA: on PATH, or where pip puts it."""
    packages = Path(np.__file__).parents[1] / "nvidia"
    return shutil.which(name) or next((str(path) for path in sorted(packages.glob(f"*/bin/{name}"))), None)


def output(name: str, *arguments: object) -> str:
    """The output of a tool."""
    return subprocess.run([str(tool(name)), *map(str, arguments)], capture_output=True, text=True, check=True).stdout


def capabilities(text: str) -> list[str]:
    """The compute capabilities of a list.

    Raises:
        argparse.ArgumentTypeError: One is not a capability.
    """
    listed = text.split(",")
    for capability in listed:
        if not re.fullmatch(r"[1-9]\d{1,2}[af]?", capability):
            raise argparse.ArgumentTypeError(f"{capability!r} is no compute capability; write it without a dot: 80,90")
    return listed


def main(argv: list[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description="Count the CUDA kernels' instructions. Nothing is measured on a card.")
    parser.add_argument(
        "--capabilities",
        type=capabilities,
        default="80,90",
        help="compute capabilities without a dot (default: %(default)s)",
    )
    options = parser.parse_args(argv)
    try:
        from cupy.cuda import nvrtc  # noqa: F401
    except ImportError as error:
        print(f"cuda_instructions.py needs CuPy: {error}; pip install '.[cuda]'", file=sys.stderr)
        return 3
    for name in ("nvdisasm", "cuobjdump"):
        if tool(name) is None:
            print(f"cuda_instructions.py needs {name}: pip install nvidia-cuda-{name}", file=sys.stderr)
            return 3
    print("|", " | ".join(HEADINGS), "|")
    print("|", " | ".join("---" for _ in HEADINGS), "|")
    try:
        for case in CASES:
            for capability in options.capabilities:
                print("|", " | ".join(row(case, capability)), "|", flush=True)
    except KeyboardInterrupt:
        print("cuda_instructions.py was interrupted: the rows so far are complete", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
