#!/usr/bin/env bash
# Check and measure the CUDA kernels on a machine with an NVIDIA card, within 6 minutes.
#
#     benchmarks/on_a_card.sh FOLDER
#
# It needs CuPy and the dependencies of xverify, but no network and no TensorFlow. PYTHON names the Python (default: python3).
# Every step has its own time limit, and a failing step does not stop the others. FOLDER gets the logs: NAME.log for each step,
# steps.tsv (name, exit code, seconds, limit), runs/ with the reports of gates, bench.json, certificate.json and table.md. Kernels
# are compiled anew.
#
# Exit codes: 0 every step passed, 1 a step failed or ran past its limit, 2 wrong usage, 3 no usable card.

set -u

if [ $# -ne 1 ] || [[ $1 = -* ]]; then
    echo "usage: benchmarks/on_a_card.sh FOLDER" >&2
    exit 2
fi
mkdir -p "$1" && folder=$(cd "$1" >/dev/null && pwd) || exit 2
if [ ! -w "$folder" ]; then
    echo "$folder cannot be written; name another folder" >&2
    exit 2
fi
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 2
python=${PYTHON:-python3}
export PYTHONPATH="$PWD${PYTHONPATH:+:$PYTHONPATH}"

# The limits of the steps in seconds. Those that run one after the other take 355 s at most.
FACTS=15 TESTS=70 PREPARE=40 GATES=110 CERTIFICATE=35 BENCH=75 TABLE=10

if ! reason=$(timeout 60 "$python" -c 'from xverify.kernels.cuda import require_device; require_device()' 2>&1); then
    echo "nothing was run, since there is no usable card: $(tail -n 1 <<<"${reason:-CuPy did not answer within 60 s}")" >&2
    exit 3
fi

caches=$(mktemp -d) || exit 2
trap 'rm -rf "$caches"' EXIT
trap 'kill $(jobs -p) 2>/dev/null; wait; exit 130' INT TERM
export CUPY_CACHE_DIR="$caches/cupy" TORCHINDUCTOR_CACHE_DIR="$caches/inductor" TRITON_CACHE_DIR="$caches/triton"
cores=$(nproc)
# The table must not show what an earlier run measured.
rm -f "$folder"/{memcheck,initcheck}-*.txt "$folder"/{bench.json,certificate.json,gates.seconds,table.md}
: >"$folder/steps.tsv"

# run NAME SECONDS COMMAND...: in the background, since a trap waits for a command in the foreground. timeout leads a process group of
# its own, which neither Ctrl-C nor the end of a subshell reaches.
run() {
    local name=$1 limit=$2 began code tenths pid
    shift 2
    began=${EPOCHREALTIME/[.,]/}
    timeout --kill-after=5 "$limit" "$@" >"$folder/$name.log" 2>&1 &
    pid=$!
    [ "$BASHPID" = "$$" ] || trap 'kill "$pid"' TERM
    wait "$pid"
    code=$?
    tenths=$(((${EPOCHREALTIME/[.,]/} - began) / 100000))
    printf '%s\t%d\t%d.%d\t%d\n' "$name" "$code" $((tenths / 10)) $((tenths % 10)) "$limit" >>"$folder/steps.tsv"
    echo "$name: exit code $code, $((tenths / 10)).$((tenths % 10)) s of at most $limit s"
}

# sanitize TOOL: a short gate under a tool of compute-sanitizer, which writes a log for each process.
sanitize() {
    run "$1" "$TESTS" compute-sanitizer --tool "$1" --target-processes all --log-file "$folder/$1-%p.txt" \
        "$python" -m xverify gate --kernel xverify-cuda --x-dtypes uint8,int4,float8_e4m3fn --scale-dtypes float16 --ranks 1 \
        --values-only --no-threads --walk-only --budget "$((TESTS - 10))s" --timeout 60s --memory 0 --runs "$folder/runs/$1"
}

# gate NAME OPTIONS...: without a memory limit, since it counts addresses, of which CUDA reserves many.
gate() {
    local name=$1
    shift
    while (($(jobs -rp | wc -l) >= cores)); do wait -n; done
    run "gate-$name" "$GATES" "$python" -m xverify gate --walk-only --budget "$((GATES - 5))s" --timeout 30s --memory 0 \
        --runs "$folder/runs/$name" "$@" &
}

# shellcheck disable=SC2016 # The inner shell expands $0.
run facts "$FACTS" bash -c 'nvidia-smi; nvcc --version; compute-sanitizer --version; uname -a; nproc; "$0" --version
    "$0" -m pip list 2>/dev/null | grep -iE "^(cupy|torch|triton|numpy|ml.dtypes|onnx|onnxruntime|numba|nvidia|cuda)"
    nvidia-smi --query-gpu=name,driver_version --format=csv,noheader' "$python"

"$python" -c 'import xdist' 2>/dev/null && parallel=(-n "$cores") || parallel=()
run tests "$TESTS" "$python" -m pytest -q -p no:cacheprovider -rs "${parallel[@]}" \
    tests/kernels/test_cuda*.py tests/kernels/test_kernel_official_cases.py &
sanitize memcheck &
sanitize initcheck &
wait

# The whole domain of xverify-cuda: its kernels are compiled in threads, then the gates run in parallel. The newest edition has the
# most types, so it begins, and is divided.
began=${EPOCHREALTIME/[.,]/}
# shellcheck disable=SC2016 # The inner shell expands $0.
run prepare "$PREPARE" bash -c '"$0" -m xverify.kernels.cuda.prepare && "$0" -m xverify.kernels.cuda.prepare --packed' "$python"
onnx=ai.onnx/DequantizeLinear
gate 28-1 --kernel xverify-cuda --contract $onnx-28 --x-dtypes int8,int2
gate 28-2 --kernel xverify-cuda --contract $onnx-28 --x-dtypes uint8,uint2
gate 28-3 --kernel xverify-cuda --contract $onnx-28 --x-dtypes int16,int4
gate 28-4 --kernel xverify-cuda --contract $onnx-28 --x-dtypes uint16,uint4
gate 28-5 --kernel xverify-cuda --contract $onnx-28 --x-dtypes int32,float4_e2m1fn
gate 28-6 --kernel xverify-cuda --contract $onnx-28 --x-dtypes float6_e2m3fn,float6_e3m2fn
gate 28-7 --kernel xverify-cuda --contract $onnx-28 --x-dtypes float8_e4m3fn,float8_e5m2
gate 28-8 --kernel xverify-cuda --contract $onnx-28 --x-dtypes float8_e4m3fnuz,float8_e5m2fnuz
gate packed-1 --kernel xverify-cuda:packed --x-dtypes int4,uint4
gate packed-2 --kernel xverify-cuda:packed --x-dtypes int2,uint2,float4_e2m1fn
gate packed-3 --kernel xverify-cuda:packed --x-dtypes float6_e2m3fn,float6_e3m2fn
gate 25 --kernel xverify-cuda --contract $onnx-25
gate 24 --kernel xverify-cuda --contract $onnx-24
gate 23 --kernel xverify-cuda --contract $onnx-23
gate 21 --kernel xverify-cuda --contract $onnx-21
gate 10-19 --kernel xverify-cuda --contract "$onnx-1?"
gate microsoft --kernel xverify-cuda --contract 'com.microsoft/*'
gate onednn --kernel xverify-cuda --contract 'onednn/*'
gate tensorflow --kernel xverify-cuda --contract 'tensorflow/*'
wait
tenths=$(((${EPOCHREALTIME/[.,]/} - began) / 100000))
echo "$((tenths / 10)).$((tenths % 10))" >"$folder/gates.seconds"

run certificate "$CERTIFICATE" "$python" -m xverify certify --kernel xverify-cuda --domain int8-float16 --anew --memory 0 \
    -n "$((cores > 8 ? 8 : cores))" --timeout 30s -o "$folder/certificate.json"

CUPY_CACHE_DIR="$caches/bench" run bench "$BENCH" "$python" benchmarks/card.py --json "$folder/bench.json" \
    --seconds "$((BENCH - 10))" --rounds 5 --modes "" --sizes 1,1Mi,256Mi --granularities per-tensor,per-axis-last,blocked \
    --types "uint8:float32,uint8:float16,float8_e4m3fn:float16,packed-uint4:float16,int16:float16,float8_e5m2:bfloat16,\
packed-int2:float16,int8:bfloat16,int32:float32,float4_e2m1fn:float16,float6_e3m2fn:float16,uint16:bfloat16,int4:bfloat16"

run table "$TABLE" "$python" benchmarks/card_table.py "$folder"
tee "$folder/table.md" <"$folder/table.log"

if awk -F '\t' '$2 != 0 { failed = 1 } END { exit !failed }' "$folder/steps.tsv"; then
    awk -F '\t' '$2 != 0 { print "failed: " $1 " (exit code " $2 "), see " $1 ".log" }' "$folder/steps.tsv" >&2
    exit 1
fi
