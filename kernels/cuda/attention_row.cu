//! Norms of heads, rotation, cache write and attention of generated tokens in one launch.
//!
//!   q' = rope(norm(q)), k' = rope(norm(k)); cache[p] = k', v;  a[h] = sum over s <= p of softmax(scale * q'[h] . k[s]) * v[s]
//!
//! A cluster of blocks owns a row and a head of keys. Each block prepares the head's queries for itself; the first writes the new
//! key and value. The positions are dealt out to all warps of the cluster, and keys and values are read once for all query heads
//! that share them; what the warps found is joined through the cluster's shared memory, in the order of the warps, so a row's value depends
//! on its own sequence only. The new position never goes through the cache, so no block waits for another's write.
//! Bound: memory; least traffic is the cached keys and values, once. Sines and the first cached positions are fetched before the launch
//! before this one has ended.
//!
//! ```toml
//! name = "attention_row"
//! pattern = "(head_norm head_norm)? rope rope kv_write attention"
//! steps = ["decode"]
//! cache = {dtypes = ["f32", "f16"], layouts = ["position_major", "head_major"]}
//! constraints = ["OP_HEAD_DIM in (32, 64, 128, 256)", "OP_HEADS // OP_KV_HEADS * OP_HEAD_DIM * PARAM_WARPS <= 8192"]
//! [parameters.WARPS]
//! values = [2, 4, 8, 16]
//! default = 8
//! help = "warps of a block, which share out the positions"
//! [parameters.POSITIONS]
//! values = [1, 2, 4]
//! default = 4
//! help = "positions that a warp reads side by side"
//! [parameters.BLOCKS]
//! values = [1, 2, 4, 8]
//! default = 1
//! help = "blocks that share out the positions of one head: more for long contexts"
//! ```

#include "naive_cache.cuh"
#include <type_traits>

#ifdef EW_OP4_WIDTH
#define HAS_NORMS
constexpr int NORM_WEIGHTS = 2;
#define QUERY_TURN(name) EW_OP2_##name
#define KEY_TURN(name) EW_OP3_##name
#define ATTENTION(name) EW_OP5_##name
#else
constexpr int NORM_WEIGHTS = 0;
#define QUERY_TURN(name) EW_OP0_##name
#define KEY_TURN(name) EW_OP1_##name
#define ATTENTION(name) EW_OP3_##name
#endif

constexpr int HEADS = ATTENTION(HEADS), KV_HEADS = ATTENTION(KV_HEADS), HEAD_DIM = ATTENTION(HEAD_DIM);
constexpr int GROUP = HEADS / KV_HEADS, LANE = HEAD_DIM / 32;
constexpr uint32_t WINDOW = ATTENTION(WINDOW);
constexpr int ROTARY = QUERY_TURN(ROTARY), PAIRS = ROTARY / 2;
constexpr bool ADJACENT = ew::same(QUERY_TURN(PAIRING), "adjacent");
constexpr int WARPS = EW_PARAM_WARPS, POSITIONS = EW_PARAM_POSITIONS, THREADS = 32 * WARPS;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
constexpr int BLOCKS = EW_PARAM_BLOCKS;
#else
// No clusters before compute capability 9.0.
constexpr int BLOCKS = 1;
#endif
static_assert(QUERY_TURN(HEADS) == HEADS && KEY_TURN(HEADS) == KV_HEADS, "queries turn first, then keys");
static_assert(ROTARY == KEY_TURN(ROTARY), "queries and keys turn alike");

extern "C" __device__ const ew::Info ew_info = {
    ew::ABI, 1, {{THREADS, KV_HEADS * BLOCKS, 1, 0, ew::STARTS_EARLY}}, {}, 0, 0, 0};

/// Neighbouring values that one lane reads at once.
template <typename T>
struct alignas(sizeof(T) * LANE < 16 ? sizeof(T) * LANE : 16) Values {
    T at[LANE];
};

using Cached = std::conditional_t<ew::CACHE_IS_HALF, __half, float>;

__device__ inline float widened(__half value) { return __half2float(value); }
__device__ inline float widened(float value) { return value; }

/// What a warp found so far for one query head.
struct Running {
    float most, total, sums[LANE];
};

/// Takes `count` positions side by side into `running`; the first of them is always there.
template <int COUNT>
__device__ inline void attend(Running& running, const float (&query)[LANE], const Values<Cached> (&keys)[COUNT],
                              const Values<Cached> (&values)[COUNT], uint32_t there) {
    float scores[COUNT], most = running.most;
#pragma unroll
    for (int p = 0; p < COUNT; ++p) {
        float score = 0;
#pragma unroll
        for (int i = 0; i < LANE; ++i) score = fmaf(query[i], widened(keys[p].at[i]), score);
        scores[p] = score;
    }
    // Side by side, so that the sums of one position need not wait for another's.
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2)
#pragma unroll
        for (int p = 0; p < COUNT; ++p) scores[p] += __shfl_xor_sync(~0u, scores[p], distance);
#pragma unroll
    for (int p = 0; p < COUNT; ++p) {
        if (p > 0 && p >= there) scores[p] = -INFINITY;
        most = fmaxf(most, scores[p]);
    }
    const float decay = expf(running.most - most);
    running.most = most;
    running.total *= decay;
#pragma unroll
    for (int i = 0; i < LANE; ++i) running.sums[i] *= decay;
#pragma unroll
    for (int p = 0; p < COUNT; ++p) {
        const float weight = expf(scores[p] - most);
        running.total += weight;
#pragma unroll
        for (int i = 0; i < LANE; ++i) running.sums[i] = fmaf(weight, widened(values[p].at[i]), running.sums[i]);
    }
}

/// The shared memory of block `rank` of the cluster, at the address of `own`.
__device__ inline const float* of_block(const float* own, int rank) {
    if constexpr (BLOCKS == 1) {
        return own;
    } else {
        uint64_t address;
        asm("mapa.u64 %0, %1, %2;" : "=l"(address) : "l"(own), "r"(rank));
        return reinterpret_cast<const float*>(address);
    }
}

__device__ inline void wait_for_cluster() {
    if constexpr (BLOCKS == 1) {
        __syncthreads();
    } else {
        asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
    }
}

extern "C" __global__ void __cluster_dims__(BLOCKS, 1, 1) __launch_bounds__(THREADS)
    ew_phase0(const __grid_constant__ ew::Call call) {
    ew::let_next_start();
    const ew::Step& step = *call.step;
    const uint32_t row = blockIdx.y, kv_head = blockIdx.x / BLOCKS;
    const int part = blockIdx.x % BLOCKS;
    if (row >= step.rows) return;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const uint32_t position = step.positions[row];
    const uint64_t slot = step.slots[row] * call.cache.slot_bytes;
    Cached* keys = reinterpret_cast<Cached*>(call.cache.keys + slot);
    Cached* values = reinterpret_cast<Cached*>(call.cache.values + slot);

    const uint32_t first = WINDOW > 0 && position + 1 > WINDOW ? position + 1 - WINDOW : 0;
    constexpr uint32_t STRIDE = BLOCKS * WARPS * POSITIONS;
    uint32_t start = first + (part * WARPS + warp) * POSITIONS;
    Values<Cached> key[POSITIONS], value[POSITIONS];
    const auto fetch = [&]() {
#pragma unroll
        for (int p = 0; p < POSITIONS; ++p) {
            const uint32_t at = min(start + p, position - 1);
            const uint64_t from = ew::cached_index(call.cache, at, kv_head, KV_HEADS, HEAD_DIM) + lane * LANE;
            key[p] = *reinterpret_cast<const Values<Cached>*>(keys + from);
            value[p] = *reinterpret_cast<const Values<Cached>*>(values + from);
        }
    };
    if (start < position) fetch();

    // Sines and cosines of this position, for queries and keys.
    __shared__ float2 turns[2][PAIRS];
    for (int i = threadIdx.x; i < 2 * PAIRS; i += THREADS) {
        const bool is_key = i >= PAIRS;
        const float* frequencies = reinterpret_cast<const float*>(call.weights[NORM_WEIGHTS + is_key]);
        const float magnitude = __uint_as_float(is_key ? KEY_TURN(MAGNITUDE_BITS) : QUERY_TURN(MAGNITUDE_BITS));
        double sine, cosine;
        sincos(double(position) * double(frequencies[i % PAIRS]), &sine, &cosine);
        turns[is_key][i % PAIRS] = {float(sine) * magnitude, float(cosine) * magnitude};
    }

    ew::wait_for_earlier();
    // Heads GROUP and GROUP + 1 are the new key and the new value.
    __shared__ __align__(16) float heads[GROUP + 2][HEAD_DIM];
    for (int head = warp; head < GROUP + 2; head += WARPS) {
        const float* from = head < GROUP    ? call.inputs[0] + (uint64_t(row) * HEADS + kv_head * GROUP + head) * HEAD_DIM
                            : head == GROUP ? call.inputs[1] + (uint64_t(row) * KV_HEADS + kv_head) * HEAD_DIM
                                            : call.inputs[2] + (uint64_t(row) * KV_HEADS + kv_head) * HEAD_DIM;
        Values<float> own = *reinterpret_cast<const Values<float>*>(from + lane * LANE);
#ifdef HAS_NORMS
        if (head <= GROUP) {
            const float* norm = reinterpret_cast<const float*>(call.weights[head == GROUP]);
            const float epsilon = __uint_as_float(head == GROUP ? EW_OP1_EPSILON_BITS : EW_OP0_EPSILON_BITS);
            float squares = 0;
#pragma unroll
            for (int i = 0; i < LANE; ++i) squares = fmaf(own.at[i], own.at[i], squares);
            const float factor = 1.0f / sqrtf(ew::warp_sum(squares) / HEAD_DIM + epsilon);
#pragma unroll
            for (int i = 0; i < LANE; ++i) own.at[i] *= factor * norm[lane * LANE + i];
        }
#endif
        *reinterpret_cast<Values<float>*>(&heads[head][lane * LANE]) = own;
    }
    __syncthreads();
    const float scale = __uint_as_float(ATTENTION(SCALE_BITS));
    for (int i = threadIdx.x; i < (GROUP + 1) * PAIRS; i += THREADS) {
        const int head = i / PAIRS, pair = i % PAIRS;
        const int low = ADJACENT ? 2 * pair : pair, high = ADJACENT ? low + 1 : pair + PAIRS;
        const float2 turn = turns[head == GROUP][pair];
        const float a = heads[head][low], b = heads[head][high];
        heads[head][low] = a * turn.y - b * turn.x;
        heads[head][high] = b * turn.y + a * turn.x;
    }
    __syncthreads();
    if (part == 0)
        for (int i = threadIdx.x; i < HEAD_DIM; i += THREADS) {
            const uint64_t to = ew::cached_index(call.cache, position, kv_head, KV_HEADS, HEAD_DIM) + i;
            ew::cache_value(reinterpret_cast<uint8_t*>(keys), to, heads[GROUP][i]);
            ew::cache_value(reinterpret_cast<uint8_t*>(values), to, heads[GROUP + 1][i]);
        }

    float query[GROUP][LANE];
    Running running[GROUP];
#pragma unroll
    for (int h = 0; h < GROUP; ++h) {
        running[h] = {-INFINITY, 0.0f, {}};
#pragma unroll
        for (int i = 0; i < LANE; ++i) query[h][i] = heads[h][lane * LANE + i] * scale;
    }
    for (; start < position; start += STRIDE) {
#pragma unroll
        for (int h = 0; h < GROUP; ++h) attend(running[h], query[h], key, value, position - start);
        if (start + STRIDE < position) {
            start += STRIDE;
            fetch();
            start -= STRIDE;
        }
    }
    if (part == 0 && warp == 0) {
        Values<Cached> own_key[1], own_value[1];
#pragma unroll
        for (int i = 0; i < LANE; ++i) {
            own_key[0].at[i] = Cached(heads[GROUP][lane * LANE + i]);
            own_value[0].at[i] = Cached(heads[GROUP + 1][lane * LANE + i]);
        }
#pragma unroll
        for (int h = 0; h < GROUP; ++h) attend(running[h], query[h], own_key, own_value, 1);
    }

    __shared__ float most_of[WARPS * GROUP], total_of[WARPS * GROUP], sums_of[WARPS * GROUP * HEAD_DIM];
#pragma unroll
    for (int h = 0; h < GROUP; ++h) {
        if (lane == 0) {
            most_of[warp * GROUP + h] = running[h].most;
            total_of[warp * GROUP + h] = running[h].total;
        }
#pragma unroll
        for (int i = 0; i < LANE; ++i) sums_of[(warp * GROUP + h) * HEAD_DIM + lane * LANE + i] = running[h].sums[i];
    }
    wait_for_cluster();
    for (int i = part * THREADS + threadIdx.x; i < GROUP * HEAD_DIM; i += BLOCKS * THREADS) {
        const int head = i / HEAD_DIM, at = i % HEAD_DIM;
        float most = -INFINITY, total = 0, sum = 0;
#pragma unroll
        for (int block = 0; block < BLOCKS; ++block)
#pragma unroll
            for (int w = 0; w < WARPS; ++w) most = fmaxf(most, of_block(most_of, block)[w * GROUP + head]);
#pragma unroll
        for (int block = 0; block < BLOCKS; ++block)
#pragma unroll
            for (int w = 0; w < WARPS; ++w) {
                const float weight = expf(of_block(most_of, block)[w * GROUP + head] - most);
                total = fmaf(weight, of_block(total_of, block)[w * GROUP + head], total);
                sum = fmaf(weight, of_block(sums_of, block)[(w * GROUP + head) * HEAD_DIM + at], sum);
            }
        call.outputs[0][(uint64_t(row) * HEADS + kv_head * GROUP + head) * HEAD_DIM + at] = sum / total;
    }
    // Nobody leaves while another still reads its memory.
    if (BLOCKS > 1) wait_for_cluster();
}
