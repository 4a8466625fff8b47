//! y = gate / (1 + exp(-gate)) * up.
//!
//! ```toml
//! name = "naive_silu_mul"
//! pattern = "silu_mul"
//! rows = ["tokens", "selected", "segments"]
//! steps = ["prefill", "decode", "encode"]
//! ```

#include "naive_elementwise.cuh"

constexpr int WIDTH = EW_OP0_WIDTH;

EW_ELEMENTWISE(WIDTH)

extern "C" __global__ void ew_phase0(const __grid_constant__ ew::Call call) {
    ew::each_value<WIDTH>(*call.step, EW_OP0_ROWS, [&](uint64_t i) {
        const float gate = call.inputs[0][i];
        call.outputs[0][i] = gate / (1.0f + expf(-gate)) * call.inputs[1][i];
    });
}
