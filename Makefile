# make setup | sweep | gate | gate-numba | gate-cuda-on-cpu | nvrtc | bench | test | test-slow | lint | format | findings | detection | alarms | mutants; PYTHON names the Python 3.11 or newer to begin with.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
BUDGET ?= 60s
SUB_BYTE := int4,uint4,float4_e2m1fn,int2,uint2

.PHONY: setup sweep gate gate-numba gate-cuda-on-cpu nvrtc bench test test-slow lint format findings detection alarms mutants clean

setup: $(READY)

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@

sweep: setup
	$(BIN)/xverify sweep --budget $(BUDGET)

# A file's tests in one process: what they share (reports, walks, workers with frameworks) is then made once.
# They start hundreds of processes, which must not compile our modules anew each time.
test test-slow: export PYTHONDONTWRITEBYTECODE =
test: setup
	$(BIN)/python -m pytest -n auto --dist loadfile --no-loadscope-reorder

# The tests that are marked slow, a minute of them.
test-slow: setup
	$(BIN)/python -m pytest -n auto -m slow

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tests/support/prose_lint.py

format: setup
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# The published findings, made anew: the same versions give the same text, but for its head and the seconds at its end, where the
# processor has the same vector instructions: TensorFlow has other kernels for those with AVX-512.
findings: setup
	$(BIN)/xverify sweep --cases 30000 --seed 0 --vary kernels --json reports/runs/published.json
	$(BIN)/xverify report reports/runs/published.json --format markdown -o reports/findings.md

# The in-house kernel under the gate, on the whole domain, and with 4- and 2-bit codes as they are stored; on a slow machine the
# walk may take longer than a minute.
gate: setup
	$(BIN)/xverify gate --contract '*' --walk-only --budget 170s
	$(BIN)/xverify gate --kernel xverify-numpy:packed --x-dtypes $(SUB_BYTE) --walk-only --budget 170s

# The same for the loops that Numba compiles; where none are kept from before, compiling them takes another minute.
gate-numba: setup
	$(BIN)/xverify gate --kernel xverify-numba --contract '*' --walk-only --budget 400s
	$(BIN)/xverify gate --kernel xverify-numba:packed --x-dtypes $(SUB_BYTE) --walk-only --budget 300s

# The same for the CUDA kernels, without a card: their source compiled as C++, one thread after the other, behind a CuPy of the tests.
gate-cuda-on-cpu: setup
	PYTHONPATH=tests/support/cuda_without_card $(BIN)/xverify gate --kernel xverify-cuda --contract '*' --walk-only --budget 400s
	PYTHONPATH=tests/support/cuda_without_card $(BIN)/xverify gate --kernel xverify-cuda:packed --x-dtypes $(SUB_BYTE) --walk-only --budget 300s

# What NVIDIA's compiler makes of the CUDA kernels, by way of CuPy, which needs no card; it is downloaded into an environment of its own.
nvrtc:
	$(PYTHON) -m venv .venv-nvrtc
	.venv-nvrtc/bin/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]' cupy-cuda12x nvidia-cuda-nvrtc-cu12
	.venv-nvrtc/bin/python -m pytest tests/kernels/test_cuda_compiling.py

# The in-house kernels beside every implementation that is installed, and the limit; nothing else should run meanwhile.
bench: setup
	$(BIN)/xverify bench --json reports/runs/bench.json --html reports/runs/bench.html

# How soon the gate stops kernels that are wrong, for 20 seeds: about half an hour on 2 cores.
detection: setup
	$(BIN)/python tests/support/detection.py --seeds 20 -o reports/detection.md

# Whole gates of kernels that are right, which must find nothing: 20 seeds of 60 s for each of seven kernels, two at once, 70 min.
alarms: setup
	$(BIN)/python tests/support/detection.py --sound --seeds 20 --budget 60 --jobs 2 -o reports/alarms.md

# Mutants of the in-house kernels, and what stops them: hours; SAMPLE=20 for as many, COMPILED=1 for those of the compiled
# kernels, REFERENCE=1 for those of the comparator and of what says which values are legal.
SAMPLE ?= 0
SEEDS ?= 3
JOBS ?= 2
mutants: setup
	PYTHONPATH=tests $(BIN)/python -m mutation --sample $(SAMPLE) --seeds $(SEEDS) --jobs $(JOBS) $(if $(COMPILED),--compiled) $(if $(REFERENCE),--reference)

clean:
	rm -rf .venv .venv-nvrtc reports/runs
