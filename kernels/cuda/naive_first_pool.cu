//! y[s] = x of the first row of segment s.
//!
//! ```toml
//! name = "naive_first_pool"
//! pattern = "first_pool"
//! rows = ["tokens"]
//! steps = ["encode"]
//! ```

#include "naive_elementwise.cuh"

constexpr int WIDTH = EW_OP0_WIDTH;

EW_ELEMENTWISE(WIDTH)

extern "C" __global__ void ew_phase0(const __grid_constant__ ew::Call call) {
    const ew::Step& step = *call.step;
    ew::each_value<WIDTH>(step, "segments", [&](uint64_t i) {
        call.outputs[0][i] = call.inputs[0][uint64_t(step.starts[blockIdx.y]) * WIDTH + i % WIDTH];
    });
}
