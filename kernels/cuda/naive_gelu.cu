//! y = x * P(X <= x) for a standard normal X; by the error function, or the tanh form.
//!
//! ```toml
//! name = "naive_gelu"
//! pattern = "gelu"
//! rows = ["tokens", "selected", "segments"]
//! steps = ["prefill", "decode", "encode"]
//! ```

#include "naive_elementwise.cuh"

constexpr int WIDTH = EW_OP0_WIDTH;

EW_ELEMENTWISE(WIDTH)

extern "C" __global__ void ew_phase0(const __grid_constant__ ew::Call call) {
    ew::each_value<WIDTH>(*call.step, EW_OP0_ROWS, [&](uint64_t i) {
        const float x = call.inputs[0][i];
        const float tanh_form = 0.5f * x * (1.0f + tanhf(0.7978845608028654f * (x + 0.044715f * x * x * x)));
        call.outputs[0][i] = ew::same(EW_OP0_FORM, "tanh") ? tanh_form : 0.5f * x * (1.0f + erff(x * 0.7071067811865476f));
    });
}
