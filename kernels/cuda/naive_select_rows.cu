//! y[s] = x[selected_rows[s]].
//!
//! ```toml
//! name = "naive_select_rows"
//! pattern = "select_rows"
//! rows = ["tokens"]
//! steps = ["prefill", "decode", "encode"]
//! ```

#include "naive_elementwise.cuh"

constexpr int WIDTH = EW_OP0_WIDTH;

EW_ELEMENTWISE(WIDTH)

extern "C" __global__ void ew_phase0(const __grid_constant__ ew::Call call) {
    const ew::Step& step = *call.step;
    ew::each_value<WIDTH>(step, "selected", [&](uint64_t i) {
        const uint64_t row = step.selected_rows[blockIdx.y];
        call.outputs[0][i] = call.inputs[0][row * WIDTH + i % WIDTH];
    });
}
