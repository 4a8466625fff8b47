//! Products of few rows with bf16 matrices, with the norm before them and what follows: for generated tokens.
//!
//!   h = rms_norm(x) if the group begins with a norm, else x;  y_i = W_i h + b_i;  then nothing, silu(y_0) * y_1, or y_0 + a
//!
//! Bound: memory; least traffic is the matrices, once. Warps stream rows of the matrices past all caches, sixteen bytes a lane; the
//! first loads are under way before the launch before this one has ended, so that the memory does not rest between launches. The rows of x
//! wait in shared memory, normalised by every block for itself (a few KB from the second-level cache against one more launch). A row's
//! sums run in one order whatever the other rows are.
//!
//! ```toml
//! name = "projections_bf16_row"
//! pattern = "rms_norm? (linear{1,3}|linear linear silu_mul)|linear add"
//! matrices = ["bf16"]
//! rows = ["tokens", "selected"]
//! steps = ["decode"]
//! constraints = ["OP_IN % 8 == 0", "ROWS <= 8", "OP_IN * (ROWS + 1) <= 56000", "PARAM_WARPS % PARAM_SPLIT == 0"]
//! [parameters.WARPS]
//! values = [4, 8, 16]
//! default = 8
//! help = "warps of a block"
//! [parameters.OUTPUTS]
//! values = [1, 2, 4]
//! default = 1
//! help = "outputs that a warp streams side by side"
//! [parameters.LOADS]
//! values = [1, 2, 4, 8]
//! default = 4
//! help = "loads of each output in flight"
//! [parameters.SPLIT]
//! values = [1, 2, 4]
//! default = 1
//! help = "warps that share out the columns of an output"
//! ```

#include "abi.cuh"

#ifdef EW_OP0_OUT
constexpr bool HAS_NORM = false;
#define FIRST(name) EW_OP0_##name
#ifdef EW_OP1_OUT
#define SECOND(name) EW_OP1_##name
#endif
#ifdef EW_OP2_OUT
#define THIRD(name) EW_OP2_##name
#endif
#else
constexpr bool HAS_NORM = true;
#define FIRST(name) EW_OP1_##name
#ifdef EW_OP2_OUT
#define SECOND(name) EW_OP2_##name
#endif
#ifdef EW_OP3_OUT
#define THIRD(name) EW_OP3_##name
#endif
#endif

constexpr int IN = FIRST(IN);
#ifdef SECOND
constexpr int SECOND_OUT = SECOND(OUT), SECOND_BIAS = SECOND(BIAS);
#else
constexpr int SECOND_OUT = 0, SECOND_BIAS = 0;
#endif
#ifdef THIRD
constexpr int THIRD_OUT = THIRD(OUT), THIRD_BIAS = THIRD(BIAS);
#else
constexpr int THIRD_OUT = 0, THIRD_BIAS = 0;
#endif
constexpr int FIRST_OUT = FIRST(OUT), FIRST_BIAS = FIRST(BIAS);

/// Whether the list of op kinds ends with `word`.
constexpr bool ends_with(const char* words, const char* word) {
    int length = 0, tail = 0;
    while (words[length] != 0) ++length;
    while (word[tail] != 0) ++tail;
    for (int i = 0; i < tail; ++i)
        if (length < tail || words[length - tail + i] != word[i]) return false;
    return true;
}

constexpr bool IS_GATED = ends_with(EW_OPS, "silu_mul");
constexpr bool ADDS = ends_with(EW_OPS, "add");
constexpr int ALL_OUT = IS_GATED ? FIRST_OUT : FIRST_OUT + SECOND_OUT + THIRD_OUT;
constexpr int ROWS = EW_ROWS < 8 ? EW_ROWS : 8;
constexpr int WARPS = EW_PARAM_WARPS, OUTPUTS = EW_PARAM_OUTPUTS, LOADS = EW_PARAM_LOADS, SPLIT = EW_PARAM_SPLIT;
constexpr int THREADS = 32 * WARPS, TEAMS = WARPS / SPLIT;
/// Rows of matrices that a warp streams.
constexpr int STREAMS = IS_GATED ? 2 * OUTPUTS : OUTPUTS;
/// Columns that a warp takes at once, and those of a whole round of loads by all warps of an output.
constexpr int CHUNK = 32 * 8, ROUND = CHUNK * SPLIT * LOADS;
constexpr bool IS_EVEN = IN % ROUND == 0;
/// Weights of the first matrix: behind the norm's.
constexpr int MATRIX = HAS_NORM ? 1 : 0;

extern "C" __device__ const ew::Info ew_info = {
    ew::ABI,
    1,
    {{THREADS, ew::divided_up(ALL_OUT, TEAMS * OUTPUTS), 0, IN*(ROWS + HAS_NORM) * 4, ew::STARTS_EARLY}},
    {},
    0,
    0,
    0};

__device__ inline uint4 load_once(const uint8_t* at) {
    uint4 loaded;
    asm volatile("ld.global.nc.L1::no_allocate.L2::128B.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(loaded.x), "=r"(loaded.y), "=r"(loaded.z), "=r"(loaded.w)
                 : "l"(at));
    return loaded;
}

/// Four values of x in shared memory. Even and odd fours of a row lie apart, so that the lanes of a warp, which take eight values each,
/// read without conflicts.
__device__ inline float4& four(float4* x, int row, int number) {
    return x[row * (IN / 4) + number % 2 * (IN / 8) + number / 2];
}

/// Adds the products of eight weights with eight values of x.
__device__ inline float add_products(uint4 weights, float4 low, float4 high, float sum) {
    const uint32_t words[4] = {weights.x, weights.y, weights.z, weights.w};
    const float values[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        sum = fmaf(__uint_as_float(words[i] << 16), values[2 * i], sum);
        sum = fmaf(__uint_as_float(words[i] & 0xffff0000u), values[2 * i + 1], sum);
    }
    return sum;
}

/// Where an output of the group lies.
struct Place {
    int linear, output, size;
};

__device__ inline Place place_of(int output) {
    if (IS_GATED || output < FIRST_OUT) return {0, output, FIRST_OUT};
    if (output < FIRST_OUT + SECOND_OUT) return {1, output - FIRST_OUT, SECOND_OUT};
    return {2, output - FIRST_OUT - SECOND_OUT, THIRD_OUT};
}

__device__ inline int matrix_of(int linear) {
    return MATRIX + (linear > 0 ? 1 + FIRST_BIAS : 0) + (linear > 1 ? 1 + SECOND_BIAS : 0);
}

__device__ inline float bias_of(const ew::Call& call, int linear, int output) {
    const bool has = linear == 0 ? FIRST_BIAS : linear == 1 ? SECOND_BIAS : THIRD_BIAS;
    return has ? reinterpret_cast<const float*>(call.weights[matrix_of(linear) + 1])[output] : 0.0f;
}

extern "C" __global__ void __launch_bounds__(THREADS) ew_phase0(const __grid_constant__ ew::Call call) {
    extern __shared__ __align__(16) float4 x[];
    ew::let_next_start();
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, team = warp / SPLIT, part = warp % SPLIT;
    const int first = (blockIdx.x * TEAMS + team) * OUTPUTS;
    const uint8_t* streams[STREAMS];
#pragma unroll
    for (int s = 0; s < STREAMS; ++s) {
        // A warp past the last output reads the last one again and throws it away.
        const Place place = place_of(min(first + s % OUTPUTS, ALL_OUT - 1));
        const int linear = s < OUTPUTS ? place.linear : 1;
        streams[s] = call.weights[matrix_of(linear)] + (uint64_t(place.output) * IN + part * CHUNK + lane * 8) * 2;
    }
    const int last = IN - part * CHUNK - lane * 8;
    uint4 weights[STREAMS][LOADS];
    const auto fetch = [&](int start) {
#pragma unroll
        for (int load = 0; load < LOADS; ++load)
#pragma unroll
            for (int s = 0; s < STREAMS; ++s) {
                const int k = start + load * CHUNK * SPLIT;
                weights[s][load] = IS_EVEN || k < last ? load_once(streams[s] + k * 2) : uint4{};
            }
    };
    fetch(0);
    const uint32_t rows = ew::rows_of(*call.step, FIRST(ROWS));
    if (HAS_NORM)
        for (int i = threadIdx.x; i < IN / 4; i += THREADS)
            x[ROWS * (IN / 4) + i] = reinterpret_cast<const float4*>(call.weights[0])[i];

    ew::wait_for_earlier();
    for (uint32_t row = 0; row < rows; ++row) {
        const float4* from = reinterpret_cast<const float4*>(call.inputs[0] + row * IN);
        float squares = 0;
        for (int i = threadIdx.x; i < IN / 4; i += THREADS) {
            const float4 value = from[i];
            four(x, row, i) = value;
            squares += value.x * value.x + value.y * value.y + value.z * value.z + value.w * value.w;
        }
#ifndef EW_OP0_OUT
        const float mean = ew::block_sum<THREADS>(squares) / IN;
        const float factor = 1.0f / sqrtf(mean + __uint_as_float(EW_OP0_EPSILON_BITS));
        for (int i = threadIdx.x; i < IN / 4; i += THREADS) {
            const float4 norm = x[ROWS * (IN / 4) + i];
            float4& value = four(x, row, i);
            value = {value.x * (factor * norm.x), value.y * (factor * norm.y), value.z * (factor * norm.z),
                     value.w * (factor * norm.w)};
        }
#endif
    }
    __syncthreads();

    float sums[STREAMS][ROWS] = {};
    for (int start = 0; start < IN; start += ROUND) {
        if (start > 0) fetch(start);
#pragma unroll
        for (int load = 0; load < LOADS; ++load) {
            const int k = start + load * CHUNK * SPLIT;
            if (!IS_EVEN && k >= last) break;
            const int number = (k + part * CHUNK) / 4 + lane * 2;
#pragma unroll
            for (uint32_t row = 0; row < ROWS; ++row) {
                if (row >= rows) break;
                const float4 low = four(x, row, number), high = four(x, row, number + 1);
#pragma unroll
                for (int s = 0; s < STREAMS; ++s) sums[s][row] = add_products(weights[s][load], low, high, sums[s][row]);
            }
        }
    }
#pragma unroll
    for (int s = 0; s < STREAMS; ++s)
#pragma unroll
        for (int row = 0; row < ROWS; ++row) sums[s][row] = ew::warp_sum(sums[s][row]);
    if constexpr (SPLIT > 1) {
        __shared__ float parts[WARPS][STREAMS][ROWS];
        if (lane == 0)
#pragma unroll
            for (int s = 0; s < STREAMS; ++s)
#pragma unroll
                for (int row = 0; row < ROWS; ++row) parts[warp][s][row] = sums[s][row];
        __syncthreads();
        if (part > 0) return;
#pragma unroll
        for (int s = 0; s < STREAMS; ++s)
#pragma unroll
            for (int row = 0; row < ROWS; ++row)
#pragma unroll
                for (int other = 1; other < SPLIT; ++other) sums[s][row] += parts[warp + other][s][row];
    }
#pragma unroll
    for (int o = 0; o < OUTPUTS; ++o) {
        if (first + o >= ALL_OUT) break;
        const Place place = place_of(first + o);
#pragma unroll
        for (uint32_t row = 0; row < ROWS; ++row) {
            if (row >= rows || lane != row) continue;
            float y = sums[o][row] + bias_of(call, place.linear, place.output);
            if (IS_GATED) y = y / (1.0f + expf(-y)) * (sums[STREAMS - OUTPUTS + o][row] + bias_of(call, 1, place.output));
            // The added buffer is the group's other input, whichever came first.
            if (ADDS) y += call.inputs[1][row * place.size + place.output];
            call.outputs[place.linear][row * place.size + place.output] = y;
        }
    }
}
