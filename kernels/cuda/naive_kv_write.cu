//! Writes keys and values of each row at its position in its slot.
//!
//! ```toml
//! name = "naive_kv_write"
//! pattern = "kv_write"
//! rows = ["tokens"]
//! steps = ["prefill", "decode"]
//! cache = {dtypes = ["f32", "f16"], layouts = ["position_major", "head_major"]}
//! ```

#include "naive_cache.cuh"
#include "naive_elementwise.cuh"

constexpr int HEADS = EW_OP0_KV_HEADS;
constexpr int HEAD_DIM = EW_OP0_HEAD_DIM;
constexpr int WIDTH = HEADS * HEAD_DIM;

EW_ELEMENTWISE(WIDTH)

extern "C" __global__ void ew_phase0(const __grid_constant__ ew::Call call) {
    const ew::Step& step = *call.step;
    ew::each_value<WIDTH>(step, "tokens", [&](uint64_t index) {
        const uint32_t row = blockIdx.y, head = index % WIDTH / HEAD_DIM;
        const uint64_t slot = step.slots[row] * call.cache.slot_bytes;
        const uint64_t at =
            ew::cached_index(call.cache, step.positions[row], head, HEADS, HEAD_DIM) + index % HEAD_DIM;
        ew::cache_value(call.cache.keys + slot, at, call.inputs[0][index]);
        ew::cache_value(call.cache.values + slot, at, call.inputs[1][index]);
    });
}
