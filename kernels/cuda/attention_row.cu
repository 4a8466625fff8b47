//! Rotation, cache write and attention of generated tokens in one launch.
//!
//!   q' = rope(q), k' = rope(k); cache[p] = k', v;  a[h] = sum over s <= p of softmax(scale * q'[h] . k[s]) * v[s]
//!
//! A block owns a row and a head of keys: it turns that head's key and its query heads, writes the cache at the row's
//! position, and walks over the positions, which its warps take in turn; keys and values are read once for all query heads that
//! share them. The warps' results are joined in order, so a row's value depends on its own sequence only.
//! Bound: memory; least traffic is the cached keys and values, once. One block a head leaves most of the chip idle: for contexts of
//! some thousand positions the positions must be split over blocks too.
//!
//! ```toml
//! name = "attention_row"
//! pattern = "rope rope kv_write attention"
//! steps = ["decode"]
//! cache = {dtypes = ["f32", "f16"], layouts = ["position_major", "head_major"]}
//! constraints = ["OP_HEAD_DIM % 32 == 0 and OP_HEAD_DIM <= 256"]
//! [parameters.WARPS]
//! values = [4, 8, 16]
//! default = 8
//! help = "warps of a block, which share out the positions"
//! [parameters.POSITIONS]
//! values = [1, 2, 4]
//! default = 2
//! help = "positions that a warp reads side by side"
//! ```

#include "naive_cache.cuh"

constexpr int HEADS = EW_OP3_HEADS, KV_HEADS = EW_OP3_KV_HEADS, HEAD_DIM = EW_OP3_HEAD_DIM;
constexpr int GROUP = HEADS / KV_HEADS, LANE = HEAD_DIM / 32;
constexpr int ROTARY = EW_OP0_ROTARY;
constexpr bool ADJACENT = ew::same(EW_OP0_PAIRING, "adjacent");
constexpr int WARPS = EW_PARAM_WARPS, POSITIONS = EW_PARAM_POSITIONS, THREADS = 32 * WARPS;
static_assert(EW_OP0_HEADS == HEADS && EW_OP1_HEADS == KV_HEADS, "queries turn first, then keys");

EW_ONE_PHASE(THREADS, KV_HEADS, 1)

/// Value `at` of a head at `head`, turned for position `position`.
__device__ inline float turned(const float* head, int at, const float* frequencies, uint32_t position, float magnitude) {
    const float own = head[at];
    if (at >= ROTARY) return own;
    const int pair = ADJACENT ? at / 2 : at % (ROTARY / 2);
    const bool is_first = ADJACENT ? at % 2 == 0 : at < ROTARY / 2;
    const int distance = ADJACENT ? 1 : ROTARY / 2;
    const float other = head[is_first ? at + distance : at - distance];
    double sine, cosine;
    sincos(double(position) * double(frequencies[pair]), &sine, &cosine);
    const float s = float(sine) * magnitude, c = float(cosine) * magnitude;
    return is_first ? own * c - other * s : own * c + other * s;
}

/// What a warp found so far for one query head.
struct Running {
    float most, total, sums[LANE];
};

extern "C" __global__ void __launch_bounds__(THREADS) ew_phase0(const __grid_constant__ ew::Call call) {
    const ew::Step& step = *call.step;
    const uint32_t row = blockIdx.y, kv_head = blockIdx.x;
    if (row >= step.rows) return;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const uint32_t position = step.positions[row], end = position + 1;
    const uint64_t slot = step.slots[row] * call.cache.slot_bytes;
    uint8_t *keys = call.cache.keys + slot, *values = call.cache.values + slot;
    __shared__ float queries[GROUP][HEAD_DIM];
    const float* q = call.inputs[0] + (uint64_t(row) * HEADS + kv_head * GROUP) * HEAD_DIM;
    const float* k = call.inputs[1] + (uint64_t(row) * KV_HEADS + kv_head) * HEAD_DIM;
    const float* v = call.inputs[2] + (uint64_t(row) * KV_HEADS + kv_head) * HEAD_DIM;
    const float* query_turns = reinterpret_cast<const float*>(call.weights[0]);
    const float* key_turns = reinterpret_cast<const float*>(call.weights[1]);
    const float scale = __uint_as_float(EW_OP3_SCALE_BITS);
    for (int i = threadIdx.x; i < (GROUP + 1) * HEAD_DIM; i += THREADS) {
        const int head = i / HEAD_DIM, at = i % HEAD_DIM;
        if (head < GROUP) {
            const float magnitude = __uint_as_float(EW_OP0_MAGNITUDE_BITS);
            queries[head][at] = turned(q + head * HEAD_DIM, at, query_turns, position, magnitude) * scale;
        } else {
            const uint64_t to = ew::cached_index(call.cache, position, kv_head, KV_HEADS, HEAD_DIM) + at;
            const float magnitude = __uint_as_float(EW_OP1_MAGNITUDE_BITS);
            ew::cache_value(keys, to, turned(k, at, key_turns, position, magnitude));
            ew::cache_value(values, to, v[at]);
        }
    }
    __syncthreads();
    float query[GROUP][LANE];
    Running running[GROUP];
#pragma unroll
    for (int h = 0; h < GROUP; ++h) {
        running[h] = {-INFINITY, 0.0f, {}};
#pragma unroll
        for (int i = 0; i < LANE; ++i) query[h][i] = queries[h][lane * LANE + i];
    }
    const uint32_t first = EW_OP3_WINDOW > 0 && end > EW_OP3_WINDOW ? end - EW_OP3_WINDOW : 0;
    for (uint32_t start = first + warp * POSITIONS; start < end; start += WARPS * POSITIONS) {
        float key[POSITIONS][LANE], value[POSITIONS][LANE];
#pragma unroll
        for (int p = 0; p < POSITIONS; ++p) {
            const uint32_t at = min(start + p, end - 1);
            const uint64_t from = ew::cached_index(call.cache, at, kv_head, KV_HEADS, HEAD_DIM) + lane * LANE;
#pragma unroll
            for (int i = 0; i < LANE; ++i) {
                key[p][i] = ew::cached_value(keys, from + i);
                value[p][i] = ew::cached_value(values, from + i);
            }
        }
#pragma unroll
        for (int h = 0; h < GROUP; ++h)
#pragma unroll
            for (int p = 0; p < POSITIONS; ++p) {
                float score = 0;
#pragma unroll
                for (int i = 0; i < LANE; ++i) score = fmaf(query[h][i], key[p][i], score);
                score = start + p < end ? ew::warp_sum(score) : -INFINITY;
                const float most = fmaxf(running[h].most, score);
                const float decay = expf(running[h].most - most), weight = expf(score - most);
                running[h].most = most;
                running[h].total = running[h].total * decay + weight;
#pragma unroll
                for (int i = 0; i < LANE; ++i)
                    running[h].sums[i] = fmaf(weight, value[p][i], running[h].sums[i] * decay);
            }
    }
    __shared__ float mosts[WARPS][GROUP], totals[WARPS][GROUP], parts[WARPS][GROUP][HEAD_DIM];
#pragma unroll
    for (int h = 0; h < GROUP; ++h) {
        if (lane == 0) {
            mosts[warp][h] = running[h].most;
            totals[warp][h] = running[h].total;
        }
#pragma unroll
        for (int i = 0; i < LANE; ++i) parts[warp][h][lane * LANE + i] = running[h].sums[i];
    }
    __syncthreads();
    for (int i = threadIdx.x; i < GROUP * HEAD_DIM; i += THREADS) {
        const int head = i / HEAD_DIM, at = i % HEAD_DIM;
        float most = -INFINITY, total = 0, sum = 0;
        for (int w = 0; w < WARPS; ++w) most = fmaxf(most, mosts[w][head]);
        for (int w = 0; w < WARPS; ++w) {
            const float weight = expf(mosts[w][head] - most);
            total = fmaf(weight, totals[w][head], total);
            sum = fmaf(weight, parts[w][head][at], sum);
        }
        call.outputs[0][(uint64_t(row) * HEADS + kv_head * GROUP + head) * HEAD_DIM + at] = sum / total;
    }
}
