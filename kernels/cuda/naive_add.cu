//! y = a + b.
//!
//! ```toml
//! name = "naive_add"
//! pattern = "add"
//! rows = ["tokens", "selected", "segments"]
//! steps = ["prefill", "decode", "encode"]
//! ```

#include "naive_elementwise.cuh"

constexpr int WIDTH = EW_OP0_WIDTH;

EW_ELEMENTWISE(WIDTH)

extern "C" __global__ void ew_phase0(const __grid_constant__ ew::Call call) {
    ew::each_value<WIDTH>(*call.step, EW_OP0_ROWS, [&](uint64_t i) {
        call.outputs[0][i] = call.inputs[0][i] + call.inputs[1][i];
    });
}
