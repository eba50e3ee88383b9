// As much of CUDA's C++ as products.cu is written in, for the host: a block's threads are contexts that run one after another,
// each up to the next barrier. They run in either order, so that what one reads too early shows in the result.
#pragma once

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ucontext.h>
#include <vector>

#define __device__
#define __global__
#define __shared__ static
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __launch_bounds__(...)

struct float4 {
    float x, y, z, w;
};
struct Index {
    unsigned x, y;
};

static Index blockIdx, threadIdx;
static ucontext_t scheduler;
static std::vector<ucontext_t> threads;
static std::vector<bool> finished;

static float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }
static void __syncthreads() { swapcontext(&threads[threadIdx.x], &scheduler); }

static void (*body)();
static void run_body() {
    body();
    finished[threadIdx.x] = true;
}

static void run_block(unsigned count, bool backwards) {
    constexpr size_t STACK = 64 << 10;
    static std::vector<char> stacks;
    stacks.resize(count * STACK);
    threads.resize(count);
    finished.assign(count, false);
    for (unsigned index = 0; index < count; ++index) {
        getcontext(&threads[index]);
        threads[index].uc_stack.ss_sp = &stacks[index * STACK];
        threads[index].uc_stack.ss_size = STACK;
        threads[index].uc_link = &scheduler;
        makecontext(&threads[index], run_body, 0);
    }
    for (unsigned ended = 0; ended == 0;) {
        for (unsigned turn = 0; turn < count; ++turn) {
            threadIdx.x = backwards ? count - 1 - turn : turn;
            swapcontext(&scheduler, &threads[threadIdx.x]);
            ended += finished[threadIdx.x];
        }
        if (ended != 0 && ended != count) {
            std::fprintf(stderr, "some threads of a block wait at a barrier that others do not reach\n");
            std::exit(1);
        }
    }
}
