// The contract between the host (rust/cuda) and a kernel file. A kernel is one .cu compiled alone to a cubin:
// nvcc -cubin -std=c++20 -O3 -gencode=arch=compute_90a,code=sm_90a -DEW_...
//
//   symbol                                          meaning
//   ew_info                                         an `ew::Info`: version, launch shapes, sizes
//   ew_phase0 .. ew_phase3 (ew::Call)               the phases, in order; each sees all that the one before wrote
//   ew_pack (weight, stored, packed)                fills a packed weight; launched once, at load
//
// A phase is launched on a grid of (blocks, rows / rows_per_block rounded up), or (blocks, 1) where rows_per_block is 0. The
// grid is made for the bucket that a step's rows fall in: a block past the rows of `call.step` returns at once. Rows are what the
// rows of the group's output are. A kernel writes its outputs, its scratch and (for `kv_write`) the cache, nothing else.
//
// A phase with `early` set may start while the launch before it still runs. It calls `wait_for_earlier` in every block before it reads
// a buffer or writes anything; weights, `call.step` and positions cached by earlier steps can be read before that. A phase that calls
// `let_next_start` lets the next one do so from that point on, and not from its own end only.
//
// Row invariance: the value of an output row depends on that row's own inputs and its sequence's cache only.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <stdint.h>

namespace ew {

constexpr uint32_t ABI = 2;
constexpr int MAX_BUFFERS = 8;
constexpr int MAX_WEIGHTS = 16;
constexpr int MAX_PHASES = 4;

/// The rows of one step, in device memory.
struct Step {
    uint32_t rows;
    uint32_t segments;
    uint32_t selected;
    uint32_t unused;
    const uint32_t* token_ids;      ///< [rows]
    const uint32_t* positions;      ///< [rows], rising by one inside a segment
    const uint32_t* slots;          ///< [rows]
    const uint32_t* starts;         ///< [segments + 1]
    const uint32_t* selected_rows;  ///< [selected]
};

/// Keys and values of one layer; `EW_CACHE_DTYPE`, `EW_CACHE_LAYOUT` say how a slot is filled.
struct Cache {
    uint8_t* keys;
    uint8_t* values;
    uint64_t slot_bytes;
    uint64_t capacity;
};

/// One launch of one group. Buffers are float32, row-major, 64-byte aligned.
struct Call {
    const Step* step;
    const float* inputs[MAX_BUFFERS];
    float* outputs[MAX_BUFFERS];
    const uint8_t* weights[MAX_WEIGHTS];
    Cache cache;
    uint8_t* scratch;
};

/// How one phase is launched.
struct Phase {
    uint32_t threads;
    uint32_t blocks;
    uint32_t rows_per_block;
    uint32_t shared_bytes;
    uint32_t early;  ///< 1 = programmatic dependent launch (compute capability 9.0 and up)
};

/// What the host asks a kernel.
struct Info {
    uint32_t abi;
    uint32_t phases;
    Phase phase[MAX_PHASES];
    uint64_t packed_bytes[MAX_WEIGHTS];  ///< 0 = read as stored
    uint64_t scratch_bytes_per_row;
    uint32_t pack_blocks;
    uint32_t pack_threads;
};

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
constexpr uint32_t STARTS_EARLY = 1;
#else
constexpr uint32_t STARTS_EARLY = 0;
#endif

/// Lets the next launch start beside this one, as soon as every block of this one has called it or returned.
__device__ inline void let_next_start() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

/// Waits until every launch before this one has ended and all that they wrote can be seen.
__device__ inline void wait_for_earlier() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/// Equality of two texts at compile time.
__host__ __device__ constexpr bool same(const char* a, const char* b) {
    while (*a != 0 && *a == *b) {
        ++a;
        ++b;
    }
    return *a == *b;
}

/// Rows of the kind `kind` in a step.
__device__ inline uint32_t rows_of(const Step& step, const char* kind) {
    return same(kind, "selected") ? step.selected : same(kind, "segments") ? step.segments : step.rows;
}

__host__ __device__ constexpr int divided_up(int a, int b) { return (a + b - 1) / b; }

/// Sum over the lanes of a warp, the same in every lane: pairs at distance 16, 8, 4, 2, 1.
__device__ inline float warp_sum(float value) {
    for (int distance = 16; distance > 0; distance /= 2) value += __shfl_xor_sync(~0u, value, distance);
    return value;
}

/// Maximum over the lanes of a warp, the same in every lane.
__device__ inline float warp_maximum(float value) {
    for (int distance = 16; distance > 0; distance /= 2) value = fmaxf(value, __shfl_xor_sync(~0u, value, distance));
    return value;
}

/// Sum over a block of `THREADS` threads, the same in every thread and in one fixed order.
template <int THREADS>
__device__ inline float block_sum(float value) {
    __shared__ float parts[THREADS / 32];
    value = warp_sum(value);
    __syncthreads();
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = value;
    __syncthreads();
    float total = 0;
    for (int i = 0; i < THREADS / 32; ++i) total += parts[i];
    return total;
}

/// Maximum over a block of `THREADS` threads, the same in every thread.
template <int THREADS>
__device__ inline float block_maximum(float value) {
    __shared__ float parts[THREADS / 32];
    value = warp_maximum(value);
    __syncthreads();
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = value;
    __syncthreads();
    float most = parts[0];
    for (int i = 1; i < THREADS / 32; ++i) most = fmaxf(most, parts[i]);
    return most;
}

}  // namespace ew

/// The launch of a kernel of one phase that reads its weights as stored.
#define EW_ONE_PHASE(threads, blocks, rows_per_block)                                                                  \
    extern "C" __device__ const ew::Info ew_info = {ew::ABI, 1, {{(threads), (blocks), (rows_per_block), 0}}, {}, 0, 0, 0};
