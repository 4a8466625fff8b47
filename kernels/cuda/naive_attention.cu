//! a[r, h] = sum over p of softmax over p of (scale * q[r, h] . k[p, h / group]) * v[p, h / group], p up to the row's position.
//!
//! A block owns a row and a head, and walks over positions with a running maximum.
//!
//! ```toml
//! name = "naive_attention"
//! pattern = "attention"
//! rows = ["tokens"]
//! steps = ["prefill", "decode"]
//! cache = {dtypes = ["f32", "f16"], layouts = ["position_major", "head_major"]}
//! constraints = ["OP_HEAD_DIM <= 256"]
//! ```

#include "naive_cache.cuh"

constexpr int HEADS = EW_OP0_HEADS;
constexpr int HEAD_DIM = EW_OP0_HEAD_DIM;
constexpr int THREADS = 128;
static_assert(HEAD_DIM <= 2 * THREADS, "a thread sums at most two values of a head");

EW_ONE_PHASE(THREADS, HEADS, 1)

extern "C" __global__ void ew_phase0(const __grid_constant__ ew::Call call) {
    constexpr int KV_HEADS = EW_OP0_KV_HEADS;
    const ew::Step& step = *call.step;
    const uint32_t row = blockIdx.y, head = blockIdx.x;
    if (row >= step.rows) return;
    const uint32_t kv_head = head / (HEADS / KV_HEADS), end = step.positions[row] + 1;
    const uint32_t first = EW_OP0_WINDOW > 0 && end > EW_OP0_WINDOW ? end - EW_OP0_WINDOW : 0;
    const uint64_t slot = step.slots[row] * call.cache.slot_bytes;
    const uint8_t *keys = call.cache.keys + slot, *values = call.cache.values + slot;
    const auto at = [&](uint32_t position) {
        return ew::cached_index(call.cache, position, kv_head, KV_HEADS, HEAD_DIM);
    };
    const auto key = [&](uint32_t position, uint32_t i) { return ew::cached_value(keys, at(position) + i); };
    const auto value = [&](uint32_t position, uint32_t i) { return ew::cached_value(values, at(position) + i); };
    const float scale = __uint_as_float(EW_OP0_SCALE_BITS);
    __shared__ float query[HEAD_DIM];
    __shared__ float weights[THREADS];
    for (uint32_t i = threadIdx.x; i < HEAD_DIM; i += THREADS)
        query[i] = call.inputs[0][(uint64_t(row) * HEADS + head) * HEAD_DIM + i] * scale;
    __syncthreads();
    float most = -INFINITY, total = 0, sums[2] = {};
    for (uint32_t start = first; start < end; start += THREADS) {
        const uint32_t count = min(end - start, uint32_t(THREADS));
        float score = -INFINITY;
        if (threadIdx.x < count) {
            score = 0;
            for (uint32_t i = 0; i < HEAD_DIM; ++i) score = fmaf(query[i], key(start + threadIdx.x, i), score);
        }
        const float now = fmaxf(most, ew::block_maximum<THREADS>(score));
        const float decay = expf(most - now), weight = threadIdx.x < count ? expf(score - now) : 0.0f;
        weights[threadIdx.x] = weight;
        total = total * decay + ew::block_sum<THREADS>(weight);
        most = now;
        for (uint32_t part = 0; part < 2; ++part) {
            const uint32_t i = part * THREADS + threadIdx.x;
            sums[part] *= decay;
            if (i < HEAD_DIM)
                for (uint32_t p = 0; p < count; ++p) sums[part] = fmaf(weights[p], value(start + p, i), sums[part]);
        }
        __syncthreads();
    }
    for (uint32_t part = 0; part < 2; ++part) {
        const uint32_t i = part * THREADS + threadIdx.x;
        if (i < HEAD_DIM) call.outputs[0][(uint64_t(row) * HEADS + head) * HEAD_DIM + i] = sums[part] / total;
    }
}
