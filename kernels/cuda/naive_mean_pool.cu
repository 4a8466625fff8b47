//! y[s] = mean of x over the rows of segment s, summed in order.
//!
//! ```toml
//! name = "naive_mean_pool"
//! pattern = "mean_pool"
//! rows = ["tokens"]
//! steps = ["encode"]
//! ```

#include "naive_elementwise.cuh"

constexpr int WIDTH = EW_OP0_WIDTH;

EW_ELEMENTWISE(WIDTH)

extern "C" __global__ void ew_phase0(const __grid_constant__ ew::Call call) {
    const ew::Step& step = *call.step;
    ew::each_value<WIDTH>(step, "segments", [&](uint64_t i) {
        const uint32_t first = step.starts[blockIdx.y], end = step.starts[blockIdx.y + 1];
        float sum = 0;
        for (uint64_t row = first; row < end; ++row) sum += call.inputs[0][row * WIDTH + i % WIDTH];
        call.outputs[0][i] = sum / float(end - first);
    });
}
