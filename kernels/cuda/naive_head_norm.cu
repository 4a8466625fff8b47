//! y[h] = x[h] / sqrt(mean(x[h]^2) + epsilon) * w for each head h of a row; sums in float32.
//!
//! A block owns a row and a head.
//!
//! ```toml
//! name = "naive_head_norm"
//! pattern = "head_norm"
//! rows = ["tokens", "selected", "segments"]
//! steps = ["prefill", "decode", "encode"]
//! ```

#include "abi.cuh"

constexpr int HEADS = EW_OP0_HEADS;
constexpr int HEAD_DIM = EW_OP0_HEAD_DIM;
constexpr int THREADS = 128;

EW_ONE_PHASE(THREADS, HEADS, 1)

extern "C" __global__ void ew_phase0(const __grid_constant__ ew::Call call) {
    const uint32_t row = blockIdx.y;
    if (row >= ew::rows_of(*call.step, EW_OP0_ROWS)) return;
    const uint64_t at = (uint64_t(row) * HEADS + blockIdx.x) * HEAD_DIM;
    const float* x = call.inputs[0] + at;
    float* y = call.outputs[0] + at;
    const float* w = reinterpret_cast<const float*>(call.weights[0]);
    float squares = 0;
    for (uint32_t i = threadIdx.x; i < HEAD_DIM; i += THREADS) squares += x[i] * x[i];
    const float mean = ew::block_sum<THREADS>(squares) / HEAD_DIM;
    const float factor = 1.0f / sqrtf(mean + __uint_as_float(EW_OP0_EPSILON_BITS));
    for (uint32_t i = threadIdx.x; i < HEAD_DIM; i += THREADS) y[i] = x[i] * factor * w[i];
}
