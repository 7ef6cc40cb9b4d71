# Commands for development. PYTHON names the Python (3.11 or newer) that `make setup` begins with.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
BUDGET ?= 60s
SUB_BYTE := float6_e2m3fn,float6_e3m2fn,int4,uint4,float4_e2m1fn,int2,uint2

.PHONY: setup lint format docs wheel test test-slow test-wheel gate gate-numba gate-numba-some gate-cuda-on-cpu
.PHONY: gate-cuda-some nightly nvrtc sweep findings bench detection vectors-detection alarms mutants frozen clean

# -- set-up ---------------------------------------------------------------------------------------------------

setup: $(READY)

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev,docs]'
	touch $@

clean:
	rm -rf .venv .venv-nvrtc reports/runs

# -- checks of every change; .ci/run runs them all ------------------------------------------------------------

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tests/support/prose_lint.py

format: setup
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# The documentation site in build/docs. Broken links are errors.
docs: setup
	$(BIN)/mkdocs build --strict

# The wheel in build/wheel. build/lib goes first: setuptools would put files into the wheel that are no longer in the tree.
wheel: setup
	rm -rf build/lib build/bdist.* build/wheel
	$(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir build/wheel .

# Tests of one file run in one process, so that they share reports, walks and workers with frameworks.
# Tests start hundreds of processes. These must not compile our modules again each time, so bytecode is written.
# Tests of compiled kernels take a minute longer where Numba's cache is empty.
test test-slow test-wheel: export PYTHONDONTWRITEBYTECODE =
PYTEST := $(BIN)/python -m pytest -n auto --dist loadfile --no-loadscope-reorder
test: setup
	$(PYTEST)

# Tests marked slow: all flawed kernels under the gate, all scales, tensors larger than the caches, fifty kills.
test-slow: setup
	$(PYTEST) -m slow

# The wheel, built and installed into a fresh environment.
test-wheel: setup
	$(BIN)/python -m pytest -m slow tests/docs/test_wheel.py

# The in-house kernel under the gate: the whole domain, then packed codes of fewer than 8 bits. Beside the tests on a slow machine,
# that takes more than five minutes.
gate: setup
	$(BIN)/xverify gate --contract '*' --walk-only --budget 600s
	$(BIN)/xverify gate --kernel xverify-numpy:packed --x-dtypes $(SUB_BYTE) --walk-only --budget 600s

# The Numba and CUDA kernels under the gate, on some types. tests/kernels meets the others: test_compiled_kinds.py and test_cuda.py
# those of 16 bits, test_compiled_packed.py and test_cuda.py packed codes. `make nightly` takes the whole domain. The CUDA kernels
# need no card: their source is compiled as C++ and runs one thread after the other.
SOME_TYPES := --x-dtypes uint8,int32,float8_e4m3fn --scale-dtypes float32,float16
SOME_EDITIONS := --contract 'onednn/DynamicDequantize-1@divide' --contract tensorflow/Dequantize@installed

gate-cuda-some gate-cuda-on-cpu: export PYTHONPATH = tests/support/cuda_without_card
# A first call compiles, which takes more than the usual 10 s on a slow machine that does other things, too.
gate-numba-some gate-cuda-some: gate-%-some: setup
	$(BIN)/xverify gate --kernel xverify-$* $(SOME_TYPES) --walk-only --budget 300s --timeout 60s
	$(BIN)/xverify gate --kernel xverify-$* $(SOME_EDITIONS) --walk-only --budget 300s --timeout 60s
	$(BIN)/xverify gate --kernel xverify-$*:packed --x-dtypes int4 --scale-dtypes float32 --walk-only --budget 300s --timeout 60s

# -- checks of a release: the whole domain of each kernel, and the slow tests. 2 cores take about 20 minutes ----------

# Run it also after a change of the kernels. Steps run one after the other, and all of them, also after a failure.
nightly:
	$(MAKE) --keep-going --jobs 1 gate-numba gate-cuda-on-cpu test-slow

# Most of the time is Numba's, where its cache is empty.
gate-numba: setup
	$(BIN)/xverify gate --kernel xverify-numba --contract '*' --walk-only --budget 1000s
	$(BIN)/xverify gate --kernel xverify-numba:packed --x-dtypes $(SUB_BYTE) --walk-only --budget 1000s

gate-cuda-on-cpu: setup
	$(BIN)/xverify gate --kernel xverify-cuda --contract '*' --walk-only --budget 500s
	$(BIN)/xverify gate --kernel xverify-cuda:packed --x-dtypes $(SUB_BYTE) --walk-only --budget 400s

# Record in DIR the behaviour that a refactoring must not change, and compare it with an earlier record, BEFORE.
DIR ?= build/frozen
frozen: setup
	$(BIN)/python tests/support/frozen.py record $(DIR)
	$(if $(BEFORE),$(BIN)/python tests/support/frozen.py compare --facts $(BEFORE) $(DIR))

# -- reports --------------------------------------------------------------------------------------------------

sweep: setup
	$(BIN)/xverify sweep --budget $(BUDGET)

# The published findings and the support of each edition, with the newest release of every implementation. A cache keeps their
# environments (15 GB). The same releases on a processor with the same vector instructions give the same causes.
findings: setup
	$(BIN)/xverify sweep --newest --cases 20000 --seed 0 --vary kernels --json reports/runs/published.json
	$(BIN)/xverify report reports/runs/published.json --format findings -o reports/findings.md
	$(BIN)/xverify report reports/runs/published.json --format conformance -o reports/conformance.md

# Times of the in-house kernels and of every installed implementation. Nothing else should run meanwhile.
bench: setup
	$(BIN)/xverify bench --json reports/runs/bench.json --html reports/runs/bench.html

# Time until the gate stops each flawed kernel, for 20 seeds: about an hour on 2 cores.
detection: setup
	$(BIN)/python tests/support/detection.py --seeds 20 -o reports/detection.md

# The flawed kernels that a corpus of `xverify vectors` stops: a quarter of an hour.
vectors-detection: setup
	$(BIN)/python tests/support/vectors_detection.py -o reports/vectors_detection.md

# Gates of correct kernels, which must pass: 20 seeds, at most 60 s each, two at a time; 3 hours. And gates of kernels that answer
# almost nothing, which must not pass: one seed.
alarms: setup
	$(BIN)/python tests/support/detection.py --sound --seeds 20 --budget 60 --jobs 2 -o reports/alarms.md
	$(BIN)/python tests/support/detection.py --almost-nothing --budget 60 --jobs 2 -o reports/almost_nothing.md

# Small changes of the source that tests or gates must notice: hours. GROUP is kernels, compiled or reference; SAMPLE=20 tries 20.
GROUP ?= kernels
SAMPLE ?= 0
SEED ?= 1
JOBS ?= 2
mutants: setup
	PYTHONPATH=tests $(BIN)/python -m mutation --group $(GROUP) --sample $(SAMPLE) --seed $(SEED) --jobs $(JOBS)

# NVIDIA's compiler on the CUDA kernels, by way of CuPy. It needs no card and gets an environment of its own.
nvrtc:
	$(PYTHON) -m venv .venv-nvrtc
	.venv-nvrtc/bin/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]' cupy-cuda12x nvidia-cuda-nvrtc-cu12
	.venv-nvrtc/bin/python -m pytest tests/kernels/test_cuda_compiling.py
