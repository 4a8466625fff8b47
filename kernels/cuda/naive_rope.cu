//! Rotates pairs of each head by position * frequency: (2i, 2i+1) if adjacent, (i, i + rotary/2) if half; times magnitude.
//! Values past `rotary` stay as they are. The angle is a product in float64, its sine and cosine rounded to float32.
//!
//! ```toml
//! name = "naive_rope"
//! pattern = "rope"
//! rows = ["tokens"]
//! steps = ["prefill", "decode", "encode"]
//! ```

#include "naive_elementwise.cuh"

constexpr int HEADS = EW_OP0_HEADS;
constexpr int HEAD_DIM = EW_OP0_HEAD_DIM;
constexpr int ROTARY = EW_OP0_ROTARY;
constexpr int WIDTH = HEADS * HEAD_DIM;
constexpr bool ADJACENT = ew::same(EW_OP0_PAIRING, "adjacent");

EW_ELEMENTWISE(WIDTH)

extern "C" __global__ void ew_phase0(const __grid_constant__ ew::Call call) {
    const ew::Step& step = *call.step;
    const float* frequencies = reinterpret_cast<const float*>(call.weights[0]);
    const float magnitude = __uint_as_float(EW_OP0_MAGNITUDE_BITS);
    ew::each_value<WIDTH>(step, "tokens", [&](uint64_t index) {
        const uint32_t at = index % HEAD_DIM;
        const float own = call.inputs[0][index];
        if (at >= ROTARY) {
            call.outputs[0][index] = own;
            return;
        }
        const uint32_t pair = ADJACENT ? at / 2 : at % (ROTARY / 2);
        const bool is_first = ADJACENT ? at % 2 == 0 : at < ROTARY / 2;
        const int64_t distance = ADJACENT ? 1 : ROTARY / 2;
        const float other = call.inputs[0][is_first ? index + distance : index - distance];
        double sine, cosine;
        sincos(double(step.positions[blockIdx.y]) * double(frequencies[pair]), &sine, &cosine);
        const float s = float(sine) * magnitude, c = float(cosine) * magnitude;
        call.outputs[0][index] = is_first ? own * c - other * s : own * c + other * s;
    });
}
