//! y[r, n] = sum over k of x[r, k] * w[n, k] + b[n]; float32, the matrix in whatever type it is stored.
//!
//! A warp owns an output and multiplies it with eight rows, in lanes that are summed in one order whatever the rows.
//!
//! ```toml
//! name = "naive_linear"
//! pattern = "linear"
//! rows = ["tokens", "selected", "segments"]
//! steps = ["prefill", "decode", "encode"]
//! matrices = ["f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "q5_0", "q4_k", "q6_k"]
//! ```

#include "abi.cuh"
#include "naive_stored.cuh"

constexpr int IN = EW_OP0_IN;
constexpr int OUT = EW_OP0_OUT;
constexpr ew::Stored TYPE = ew::stored_named(EW_OP0_DTYPE);
constexpr int WARPS = 4;
constexpr int ROWS = 8;

EW_ONE_PHASE(32 * WARPS, ew::divided_up(OUT, WARPS), ROWS)

extern "C" __global__ void ew_phase0(const __grid_constant__ ew::Call call) {
    const uint32_t rows = ew::rows_of(*call.step, EW_OP0_ROWS), first = blockIdx.y * ROWS;
    const uint32_t output = blockIdx.x * WARPS + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (first >= rows || output >= OUT) return;
    const uint32_t count = min(rows - first, uint32_t(ROWS));
    const uint8_t* w = call.weights[0] + output * ew::stored_row_bytes(TYPE, IN);
    const float* x = call.inputs[0] + uint64_t(first) * IN;
    float sums[ROWS] = {};
    for (uint32_t k = lane; k < IN; k += 32) {
        const float weight = ew::stored_value<TYPE>(w, k);
#pragma unroll
        for (uint32_t r = 0; r < ROWS; ++r)
            if (r < count) sums[r] = fmaf(x[r * IN + k], weight, sums[r]);
    }
#pragma unroll
    for (uint32_t r = 0; r < ROWS; ++r) {
        const float sum = ew::warp_sum(sums[r]);
        if (lane == 0 && r < count) {
            const float bias = EW_OP0_BIAS ? reinterpret_cast<const float*>(call.weights[1])[output] : 0.0f;
            call.outputs[0][uint64_t(first + r) * OUT + output] = sum + bias;
        }
    }
}
