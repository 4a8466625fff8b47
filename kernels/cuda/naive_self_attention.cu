//! a[r, h] = sum over s of softmax over s of (scale * q[r, h] . k[s, h]) * v[s, h], s over the rows of r's segment.
//!
//! A block owns a row and a head, and walks over the segment with a running maximum.
//!
//! ```toml
//! name = "naive_self_attention"
//! pattern = "self_attention"
//! rows = ["tokens"]
//! steps = ["encode"]
//! constraints = ["OP_HEAD_DIM <= 256"]
//! ```

#include "abi.cuh"

constexpr int HEADS = EW_OP0_HEADS;
constexpr int HEAD_DIM = EW_OP0_HEAD_DIM;
constexpr int THREADS = 128;
static_assert(HEAD_DIM <= 2 * THREADS, "a thread sums at most two values of a head");

EW_ONE_PHASE(THREADS, HEADS, 1)

extern "C" __global__ void ew_phase0(const __grid_constant__ ew::Call call) {
    const ew::Step& step = *call.step;
    const uint32_t row = blockIdx.y, head = blockIdx.x;
    if (row >= step.rows) return;
    uint32_t segment = 0;
    while (step.starts[segment + 1] <= row) ++segment;
    const uint32_t first = step.starts[segment], end = step.starts[segment + 1];
    const auto at = [&](uint32_t other, uint32_t i) { return (uint64_t(other) * HEADS + head) * HEAD_DIM + i; };
    const auto key = [&](uint32_t other, uint32_t i) { return call.inputs[1][at(other, i)]; };
    const auto value = [&](uint32_t other, uint32_t i) { return call.inputs[2][at(other, i)]; };
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
