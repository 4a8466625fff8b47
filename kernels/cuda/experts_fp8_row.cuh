// The expert layer of one row: eight routed experts in FP8 with block scales, and one shared expert in bf16.
//
//   h[e] = silu(gate_e x) * (up_e x);  y = sum over e of w_e * down_e h[e] + sigmoid(s . x) * down_shared h[shared]
//   gate, up [experts, 512, 2048], down [experts, 2048, 512] E4M3, row-major, each block of 128 x 128 with its float32
//   scale; shared expert bf16; x, y float32. FP8 weights are read as stored and only widened: activations stay float32.
//
// Bound: memory. Least traffic: 9 x 3 x 2048 x 512 values, 8 experts at one byte and one at two = 31.5 MB, 7.3 us at
// 4.3 TB/s.
//
// One launch: every block streams its share of gate and up, asks for its share of down (which does not depend on h), and meets
// the others at one barrier while those bytes are on their way, so that memory never waits for the barrier.
// 128 blocks of 16 warps, all resident at once (launch it cooperatively, one block a multiprocessor):
//   gate/up   32 pairs of rows of the routed experts a block, two a warp; 4 shared pairs a block, each by four warps
//   down      16 outputs a block; a warp owns half of one expert's inputs for all 16, so that h is read once
// Sums have one order, whatever the timing: no atomics but the barrier's.
#pragma once
#include "abi.cuh"

#include <cuda_fp8.h>

namespace ew::experts {

constexpr int HIDDEN = 2048, INNER = 512, ROUTED = 8;
constexpr int BLOCKS = 128, WARPS = 16, THREADS = 32 * WARPS;
constexpr int PAIRS_PER_BLOCK = ROUTED * INNER / BLOCKS;  // 32
constexpr int SHARED_PER_BLOCK = INNER / BLOCKS;          // 4
constexpr int OUTPUTS_PER_BLOCK = HIDDEN / BLOCKS;        // 16
constexpr int SCALE_COLUMNS_UP = HIDDEN / 128;            // 16
constexpr int SCALE_COLUMNS_DOWN = INNER / 128;           // 4

/// Weights of one layer, as stored.
struct Weights {
    const uint8_t* gate;          ///< [experts, 512, 2048] E4M3
    const uint8_t* up;            ///< [experts, 512, 2048] E4M3
    const uint8_t* down;          ///< [experts, 2048, 512] E4M3
    const float* gate_scale;      ///< [experts, 4, 16]
    const float* up_scale;        ///< [experts, 4, 16]
    const float* down_scale;      ///< [experts, 16, 4]
    const __nv_bfloat16* shared_gate;  ///< [512, 2048]
    const __nv_bfloat16* shared_up;    ///< [512, 2048]
    const __nv_bfloat16* shared_down;  ///< [2048, 512]
};

/// Sixteen bytes past every cache that is worth keeping: weights are read once a step.
__device__ inline uint4 load_once(const void* at) {
    uint4 loaded;
    asm volatile("ld.global.nc.L1::no_allocate.L2::128B.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(loaded.x), "=r"(loaded.y), "=r"(loaded.z), "=r"(loaded.w)
                 : "l"(at));
    return loaded;
}

/// Two E4M3 values as float32: exact.
__device__ inline float2 widen_fp8(uint16_t pair) {
    const __half2_raw raw = __nv_cvt_fp8x2_to_halfraw2(pair, __NV_E4M3);
    return __half22float2(*reinterpret_cast<const __half2*>(&raw));
}

/// Sum of the products of 16 E4M3 weights with 16 values.
__device__ inline float dot_fp8(uint4 weights, const float* values) {
    const uint32_t words[4] = {weights.x, weights.y, weights.z, weights.w};
    float sums[2] = {};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const float2 low = widen_fp8(words[i] & 0xffff), high = widen_fp8(words[i] >> 16);
        sums[0] = fmaf(low.x, values[4 * i], sums[0]);
        sums[1] = fmaf(low.y, values[4 * i + 1], sums[1]);
        sums[0] = fmaf(high.x, values[4 * i + 2], sums[0]);
        sums[1] = fmaf(high.y, values[4 * i + 3], sums[1]);
    }
    return sums[0] + sums[1];
}

/// Sum of the products of 8 bf16 weights with 8 values.
__device__ inline float dot_bf16(uint4 weights, const float* values) {
    const uint32_t words[4] = {weights.x, weights.y, weights.z, weights.w};
    float sums[2] = {};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        sums[0] = fmaf(__uint_as_float(words[i] << 16), values[2 * i], sums[0]);
        sums[1] = fmaf(__uint_as_float(words[i] & 0xffff0000u), values[2 * i + 1], sums[1]);
    }
    return sums[0] + sums[1];
}

__device__ inline float silu(float x) { return x / (1.0f + __expf(-x)); }

__device__ inline void copy_async(void* shared, const void* global) {
    const uint32_t to = static_cast<uint32_t>(__cvta_generic_to_shared(shared));
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;" ::"r"(to), "l"(global));
}

/// What the counter of `meet` will be when every block of this launch has come: known at the start, since it grows by
/// `BLOCKS` a launch and this block has not come yet.
__device__ inline uint32_t meeting_target(const uint32_t* counter) {
    return *reinterpret_cast<const volatile uint32_t*>(counter) / BLOCKS * BLOCKS + BLOCKS;
}

/// Waits until every block of the launch has come here. `counter` starts at zero and only ever grows.
__device__ inline void meet(uint32_t* counter, uint32_t target) {
    __syncthreads();
    if (threadIdx.x == 0) {
        asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(counter) : "memory");
        uint32_t now;
        do {
            asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(now) : "l"(counter) : "memory");
        } while (int32_t(now - target) < 0);
    }
    __syncthreads();
}

/// Bytes of a block's share of the down matrices, in shared memory: 8 x 16 x 512 and 16 x 512 x 2.
constexpr int DOWN_BYTES = ROUTED * OUTPUTS_PER_BLOCK * INNER + OUTPUTS_PER_BLOCK * INNER * 2;
constexpr int SHARED_BYTES = DOWN_BYTES + HIDDEN * 4 + WARPS * OUTPUTS_PER_BLOCK * 4 + SHARED_PER_BLOCK * 4 * 2 * 4;

/// The whole layer. `expert_ids`, `expert_weights` [8]; `shared_weight` the shared expert's factor, [1]; `h` scratch of
/// 9 x 512 floats; `counter` of `meet`.
__device__ inline void experts_row(const Weights& w, const float* x, const uint32_t* expert_ids,
                                   const float* expert_weights, const float* shared_weight, float* h,
                                   uint32_t* counter, float* y) {
    extern __shared__ __align__(128) uint8_t shared[];
    uint8_t* down_fp8 = shared;                                                     // [8][16][512]
    uint8_t* down_bf16 = shared + ROUTED * OUTPUTS_PER_BLOCK * INNER;               // [16][512] bf16
    float* row = reinterpret_cast<float*>(shared + DOWN_BYTES);                     // [2048]
    float* partial = row + HIDDEN;                                                  // [16 warps][16 outputs]
    float* quarter = partial + WARPS * OUTPUTS_PER_BLOCK;                           // [4 pairs][4 warps][2]
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, block = blockIdx.x;

    const uint32_t target = meeting_target(counter);

    // Gate and up: this warp's two pairs, both matrices, before anything waits.
    const int pair = block * PAIRS_PER_BLOCK + warp * 2;
    const int slot = pair / INNER, inner = pair % INNER;
    const uint64_t expert = expert_ids[slot];
    const uint64_t first = (expert * INNER + inner) * HIDDEN + lane * 16;
    uint4 gate[2][4], up[2][4];
#pragma unroll
    for (int i = 0; i < 2; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            gate[i][j] = load_once(w.gate + first + i * HIDDEN + j * 512);
            up[i][j] = load_once(w.up + first + i * HIDDEN + j * 512);
        }
    // The shared expert: four warps to a pair, a quarter of the inputs each.
    const int shared_pair = block * SHARED_PER_BLOCK + warp / 4;
    const uint64_t shared_first = uint64_t(shared_pair) * HIDDEN + (warp % 4) * 512 + lane * 8;
    uint4 shared_gate[2], shared_up[2];
#pragma unroll
    for (int j = 0; j < 2; ++j) {
        shared_gate[j] = load_once(w.shared_gate + shared_first + j * 256);
        shared_up[j] = load_once(w.shared_up + shared_first + j * 256);
    }
    // Down: asked for behind the rest, and not waited for until the barrier is passed.
#pragma unroll
    for (int i = 0; i < ROUTED * OUTPUTS_PER_BLOCK * INNER / 16 / THREADS; ++i) {
        const int piece = i * THREADS + threadIdx.x, at = piece * 16;
        const int e = at / (OUTPUTS_PER_BLOCK * INNER), inside = at % (OUTPUTS_PER_BLOCK * INNER);
        const uint64_t from = (uint64_t(expert_ids[e]) * HIDDEN + block * OUTPUTS_PER_BLOCK) * INNER + inside;
        copy_async(down_fp8 + at, w.down + from);
    }
#pragma unroll
    for (int i = 0; i < OUTPUTS_PER_BLOCK * INNER * 2 / 16 / THREADS; ++i) {
        const int at = (i * THREADS + threadIdx.x) * 16;
        const uint8_t* from = reinterpret_cast<const uint8_t*>(w.shared_down) + uint64_t(block) * OUTPUTS_PER_BLOCK * INNER * 2;
        copy_async(down_bf16 + at, from + at);
    }
    asm volatile("cp.async.commit_group;");
    // Factors of the down half: here, so that nothing but h is waited for behind the barrier.
    const int e = warp / 2, k = (warp % 2) * 256 + (lane % 16) * 16;
    const uint64_t down_block = (uint64_t(expert_ids[e]) * 16 + block / 8) * SCALE_COLUMNS_DOWN + k / 128;
    const float factor = expert_weights[e] * w.down_scale[down_block], shared_factor = *shared_weight;

    reinterpret_cast<float4*>(row)[threadIdx.x] = reinterpret_cast<const float4*>(x)[threadIdx.x];
    __syncthreads();

    float sums[4] = {};
#pragma unroll
    for (int j = 0; j < 4; ++j) {
        float values[16];
#pragma unroll
        for (int i = 0; i < 4; ++i) *reinterpret_cast<float4*>(values + 4 * i) = *reinterpret_cast<const float4*>(row + j * 512 + lane * 16 + 4 * i);
        const uint64_t scale = (expert * 4 + inner / 128) * SCALE_COLUMNS_UP + j * 4 + lane / 8;
        const float gate_scale = w.gate_scale[scale], up_scale = w.up_scale[scale];
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            sums[i] = fmaf(gate_scale, dot_fp8(gate[i][j], values), sums[i]);
            sums[2 + i] = fmaf(up_scale, dot_fp8(up[i][j], values), sums[2 + i]);
        }
    }
    float shared_sums[2] = {};
#pragma unroll
    for (int j = 0; j < 2; ++j) {
        float values[8];
#pragma unroll
        for (int i = 0; i < 2; ++i)
            *reinterpret_cast<float4*>(values + 4 * i) =
                *reinterpret_cast<const float4*>(row + (warp % 4) * 512 + j * 256 + lane * 8 + 4 * i);
        shared_sums[0] += dot_bf16(shared_gate[j], values);
        shared_sums[1] += dot_bf16(shared_up[j], values);
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) sums[i] = warp_sum(sums[i]);
#pragma unroll
    for (int i = 0; i < 2; ++i) shared_sums[i] = warp_sum(shared_sums[i]);
    if (lane < 2) h[pair + lane] = lane == 0 ? silu(sums[0]) * sums[2] : silu(sums[1]) * sums[3];
    if (lane == 0) {
        quarter[warp * 2] = shared_sums[0];
        quarter[warp * 2 + 1] = shared_sums[1];
    }
    __syncthreads();
    if (threadIdx.x < SHARED_PER_BLOCK) {
        const float* parts = quarter + threadIdx.x * 8;
        const float g = parts[0] + parts[2] + parts[4] + parts[6], u = parts[1] + parts[3] + parts[5] + parts[7];
        h[ROUTED * INNER + block * SHARED_PER_BLOCK + threadIdx.x] = silu(g) * u;
    }
    asm volatile("cp.async.wait_group 0;");
    meet(counter, target);

    // Down: a warp has half of one expert's inputs; sixteen lanes cover it, two outputs at a time.
    float values[16];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const float4 part = __ldcg(reinterpret_cast<const float4*>(h + e * INNER + k + 4 * i));
        values[4 * i] = part.x * factor;
        values[4 * i + 1] = part.y * factor;
        values[4 * i + 2] = part.z * factor;
        values[4 * i + 3] = part.w * factor;
    }
    // The shared expert: a warp has 32 inputs; four lanes cover them, eight outputs at a time.
    const int shared_k = warp * 32 + (lane % 4) * 8;
    float shared_values[8];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        const float4 part = __ldcg(reinterpret_cast<const float4*>(h + ROUTED * INNER + shared_k + 4 * i));
        shared_values[4 * i] = part.x * shared_factor;
        shared_values[4 * i + 1] = part.y * shared_factor;
        shared_values[4 * i + 2] = part.z * shared_factor;
        shared_values[4 * i + 3] = part.w * shared_factor;
    }
    float outputs[8];
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        const int output = i * 2 + lane / 16;
        const uint4 weights = *reinterpret_cast<const uint4*>(down_fp8 + (e * OUTPUTS_PER_BLOCK + output) * INNER + k);
        float sum = dot_fp8(weights, values);
        for (int distance = 8; distance > 0; distance /= 2) sum += __shfl_xor_sync(~0u, sum, distance);
        outputs[i] = sum;
    }
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        const int output = i * 8 + lane / 4;
        const uint4 weights = *reinterpret_cast<const uint4*>(down_bf16 + (output * INNER + shared_k) * 2);
        float sum = dot_bf16(weights, shared_values);
        sum += __shfl_xor_sync(~0u, sum, 2);
        sum += __shfl_xor_sync(~0u, sum, 1);
        // Lane 4 * o holds output o of this half; every lane takes the one that it stores.
        const float mine = __shfl_sync(~0u, sum, (lane % 8) * 4);
        if (lane < 8) partial[warp * OUTPUTS_PER_BLOCK + i * 8 + lane] = mine;
    }
    __syncwarp();
#pragma unroll
    for (int i = 0; i < 8; ++i)
        if (lane % 16 == 0) partial[warp * OUTPUTS_PER_BLOCK + i * 2 + lane / 16] += outputs[i];
    __syncthreads();
    if (threadIdx.x < OUTPUTS_PER_BLOCK) {
        float total = 0;
#pragma unroll
        for (int i = 0; i < WARPS; ++i) total += partial[i * OUTPUTS_PER_BLOCK + threadIdx.x];
        y[block * OUTPUTS_PER_BLOCK + threadIdx.x] = total;
    }
}

}  // namespace ew::experts
