//! y = x / sqrt(mean(x^2) + epsilon) * w; sums in float32.
//!
//! ```toml
//! name = "naive_rms_norm"
//! pattern = "rms_norm"
//! rows = ["tokens", "selected", "segments"]
//! steps = ["prefill", "decode", "encode"]
//! ```

#include "abi.cuh"

constexpr int WIDTH = EW_OP0_WIDTH;
constexpr int THREADS = 256;

EW_ONE_PHASE(THREADS, 1, 1)

extern "C" __global__ void ew_phase0(const __grid_constant__ ew::Call call) {
    const uint32_t row = blockIdx.y;
    if (row >= ew::rows_of(*call.step, EW_OP0_ROWS)) return;
    const float* x = call.inputs[0] + uint64_t(row) * WIDTH;
    float* y = call.outputs[0] + uint64_t(row) * WIDTH;
    const float* w = reinterpret_cast<const float*>(call.weights[0]);
    float squares = 0;
    for (uint32_t i = threadIdx.x; i < WIDTH; i += THREADS) squares += x[i] * x[i];
    const float factor = 1.0f / sqrtf(ew::block_sum<THREADS>(squares) / WIDTH + __uint_as_float(EW_OP0_EPSILON_BITS));
    for (uint32_t i = threadIdx.x; i < WIDTH; i += THREADS) y[i] = x[i] * factor * w[i];
}
