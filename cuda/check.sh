#!/bin/sh
# Checks the feature `cuda` where there is no device: compiles the kernels by NVIDIA's compiler (NVCC, CUDA_HOME or the path), and
# runs the tests of this crate and those of the engine that need one against a stand-in for NVIDIA's driver, in which the host
# runs the same kernels.
#
#     cuda/check.sh [further arguments of cargo test]
set -eu
cd "$(dirname "$0")"
driver=$(mktemp -d)
trap 'rm -rf "$driver"' EXIT
include=${CUDA_HOME:-/usr/local/cuda}/include
"${CXX:-c++}" -std=c++17 -O2 -ffp-contract=off -Wall -Wextra -Wno-unknown-pragmas -fPIC -shared \
    -I"$include" -o "$driver/libcuda.so.1" tests/host/driver_on_host.cpp
export LD_LIBRARY_PATH="$driver${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
cargo test --features cuda "$@" -- --nocapture
cd ..
cargo test -p fulgurite-engine --features fulgurite-cuda/cuda --test it "$@" -- device:: --nocapture
CUDA_ON_HOST_LAUNCHES=100 \
    cargo test -p fulgurite-engine --features fulgurite-cuda/cuda --test it "$@" -- device:: --ignored --nocapture
