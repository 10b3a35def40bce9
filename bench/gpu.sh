#!/usr/bin/env bash
# Builds Coil on a machine with an NVIDIA GPU, tests it there and times it against eager and Inductor, in one call.
#
# usage: bench/gpu.sh [PART ...]      parts, in order: tests operators rows models; all of them when none is named
#        by name alone:
#          attention  its kernels against eager's
#          programs   programs written as Python and FX; the CPU's tests of whole programs, with torch.compile's, on the
#                     GPU; needs pytest and pytest-xdist
#          sanitizer  memcheck and racecheck over the tests and some operator groups
#          calls      what a call costs
#          compile    Coil's share of a training step's compile
#          training   training steps of models against eager and Inductor
# Needs CUDA's driver, NVRTC, cuBLASLt and cuDNN; CMake, Ninja, a C++20 compiler; torch with CUDA, Triton, transformers,
# nanobind. oneDNN is left out of the build. $COIL_DEPS: a folder with include/, lib/ and *Config.cmake of libraries
# that the machine lacks (CLI11, xxHash, libdeflate). $SECONDS_EACH: how long a part may take (150). What each part
# prints also goes to build-gpu/report/.
set -uo pipefail
cd "$(dirname "$0")/.."
BUILD=build-gpu REPORT=${OUT:-build-gpu/report} LIMIT=${SECONDS_EACH:-150} DEPS=${COIL_DEPS:+$(realpath "$COIL_DEPS")}
mkdir -p "$REPORT"

# The CUDA libraries that came with torch from PyPI, where the system has none.
PACKAGES=$(python3 -c 'import nvidia; print(*nvidia.__path__)' 2>/dev/null)
if [[ -n $PACKAGES ]]; then
  FOLDERS=$(find $PACKAGES -name '*.so*' -printf '%h\n' | sort -u | paste -sd:)
  export LD_LIBRARY_PATH=$FOLDERS:${LD_LIBRARY_PATH:-}
fi
FLAGS=()
if [[ -n $DEPS ]]; then
  export LD_LIBRARY_PATH=$DEPS/lib:${LD_LIBRARY_PATH:-} PKG_CONFIG_PATH=$DEPS/lib/pkgconfig:${PKG_CONFIG_PATH:-}
  FLAGS+=("-DCMAKE_CXX_FLAGS=-I$DEPS/include" "-DCLI11_DIR=$DEPS/cli11")
fi

echo "== build"
SECONDS=0
cmake -S . -B $BUILD -G Ninja -DCMAKE_BUILD_TYPE=Release -DCOIL_WITH_ONEDNN=OFF -DCOIL_TESTS=OFF -DCOIL_GPU_TESTS=ON \
  -DCOIL_WERROR=OFF "-DPython_EXECUTABLE=$(command -v python3)" "${FLAGS[@]}" > "$REPORT/configure.txt" 2>&1 ||
  { tail -20 "$REPORT/configure.txt"; exit 1; }
ninja -C $BUILD all device_conformance > "$REPORT/build.txt" 2>&1 ||
  { grep -E 'error|FAILED' "$REPORT/build.txt" | head -20; exit 1; }
echo "built in $SECONDS s"

export COIL=$PWD/$BUILD/bin/coil PYTHONPATH=$PWD/$BUILD/python:$PWD/bench:$PWD/test/python PYTHONWARNINGS=ignore
failed=0
part() {  # NAME COMMAND...
  local name=$1 start=$SECONDS
  shift
  echo "== $name"
  # The process group of its own is ended whole: a hung child must not hold the rest up.
  timeout -k 5 "$LIMIT" "$@" > "$REPORT/$name.txt" 2> "$REPORT/$name.errors.txt" || {
    echo "$name: exit $?"
    failed=1
    tail -5 "$REPORT/$name.errors.txt"
  }
  tail -60 "$REPORT/$name.txt"
  echo "($((SECONDS - start)) s)"
}
# Under compute-sanitizer: the GPU tests but those of speed and of memory that is out, then operator cases, each
# program's run by itself.
sanitizer() {
  local failed=0 end=$((SECONDS + LIMIT - 10)) wrapper=$PWD/$BUILD/coil_sanitized tool
  local coil=$PWD/$BUILD/bin/coil groups=${SANITIZED:-reductions0 scans0 indexing0 selection0}
  for tool in memcheck racecheck; do
    local options="--tool $tool --error-exitcode 9 --print-limit 5"
    [[ $tool == memcheck ]] && options+=" --report-api-errors no"
    echo "-- $tool over gpu_tests"
    timeout -k 5 $(((end - SECONDS) / 4 + 5)) compute-sanitizer $options $BUILD/bin/gpu_tests --gtest_brief=1 \
      --gtest_filter='-*HostTime*:*SaysWhatMemory*:*RefusesADevice*' 2>&1 | tail -25
    [[ ${PIPESTATUS[0]} == 0 ]] || { failed=1; echo "$tool over gpu_tests: failed"; }
    printf '#!/usr/bin/env bash\n[[ $1 == run ]] && exec compute-sanitizer %s %s "$@"\nexec %s "$@"\n' \
      "$options" "$coil" "$coil" > "$wrapper"
    chmod +x "$wrapper"
    local tool_seconds=$((end - SECONDS))
    [[ $tool == memcheck ]] && tool_seconds=$((tool_seconds / 2))
    echo "-- $tool over $groups"
    COIL=$wrapper python3 bench/gpu_operators.py $groups --seconds $tool_seconds --jobs 8 2>&1 | tail -15
    [[ ${PIPESTATUS[0]} == 0 ]] || failed=1
  done
  return $failed
}
# Whole programs, compiled for the GPU and run there; what a newer torch exports and this one does not fails as torch
# has it.
programs() {
  local failed=0 name files=()
  local names="control_flow branch_sizes unbacked float_sizes random_programs random_shapes in_place as_strided masks"
  names+=" nan training_graphs output_layout dynamic_models random torch_compile torch_training torch_attention"
  names+=" random_nets operand_views library_order"
  for name in $names; do files+=("test/python/test_$name.py"); done
  python3 -m pytest -q -p no:cacheprovider -n 14 --tb=short test/python/test_emitters_cuda.py || failed=1
  timeout -s INT $((LIMIT - 40)) python3 -m pytest -q -p no:cacheprovider -n 14 --tb=short --device cuda \
    "${files[@]}" ||
    failed=1
  return $failed
}
export -f sanitizer programs
export BUILD LIMIT

for name in "${@:-tests operators rows models}"; do
  for each in $name; do
    case $each in
      tests)
        part tests $BUILD/bin/gpu_tests --gtest_brief=1
        part conformance $BUILD/bin/device_conformance --device cuda --device cpu --gtest_brief=1
        ;;
      operators) part operators python3 bench/gpu_operators.py --seconds "$((LIMIT - 10))" ;;
      rows) part rows python3 bench/gpu_rows.py --seconds "$((LIMIT - 10))" ;;
      models) part models python3 bench/gpu_models.py --seconds "$((LIMIT - 10))" ;;
      attention) part attention python3 bench/gpu_attention.py --seconds "$((LIMIT - 10))" ;;
      programs) part programs bash -c programs ;;
      sanitizer) part sanitizer bash -c sanitizer ;;
      calls) part calls python3 bench/floor.py --device cuda --rounds 10 ;;
      compile) part compile python3 bench/compile_training.py ;;
      training) part training python3 bench/gpu_training.py --seconds "$((LIMIT - 10))" ;;
      *)
        echo "unknown part $each (tests operators rows models attention programs sanitizer calls compile training)"
        exit 2
        ;;
    esac
  done
done
exit $failed
