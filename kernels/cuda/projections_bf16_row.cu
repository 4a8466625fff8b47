//! Products of few rows with bf16 matrices, with the norm before them and what follows: for generated tokens.
//!
//!   h = rms_norm(x) if the group begins with a norm, else x;  y_i = W_i h + b_i;  then nothing, silu(y_0) * y_1, or y_0 + a
//!
//! Bound: memory; least traffic is the matrices, once. A warp owns outputs and streams their rows of weights past all
//! caches, sixteen bytes a lane, several loads in flight; the rows of x wait in shared memory, normalised by every block for itself (8 KB of
//! reads from the second-level cache against one more launch). A row's sums run in one order whatever the other rows are.
//!
//! ```toml
//! name = "projections_bf16_row"
//! pattern = "rms_norm? (linear{1,3}|linear linear silu_mul)|linear add"
//! matrices = ["bf16"]
//! rows = ["tokens", "selected"]
//! steps = ["decode"]
//! constraints = ["OP_IN % 8 == 0", "OP_IN <= 12288", "ROWS <= 8"]
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
constexpr int WARPS = EW_PARAM_WARPS, OUTPUTS = EW_PARAM_OUTPUTS, LOADS = EW_PARAM_LOADS;
constexpr int THREADS = 32 * WARPS;
constexpr int STEP = 32 * 8;
/// Weights of the first matrix: behind the norm's.
constexpr int MATRIX = HAS_NORM ? 1 : 0;

extern "C" __device__ const ew::Info ew_info = {
    ew::ABI, 1, {{THREADS, ew::divided_up(ALL_OUT, WARPS * OUTPUTS), 0, IN * ROWS * 4}}, {}, 0, 0, 0};

__device__ inline uint4 load_once(const uint8_t* at) {
    uint4 loaded;
    asm volatile("ld.global.nc.L1::no_allocate.L2::128B.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(loaded.x), "=r"(loaded.y), "=r"(loaded.z), "=r"(loaded.w)
                 : "l"(at));
    return loaded;
}

/// Adds the products of eight weights with eight values of each row.
__device__ inline void add_products(uint4 weights, const float* x, uint32_t rows, float (&sums)[ROWS]) {
    const uint32_t words[4] = {weights.x, weights.y, weights.z, weights.w};
#pragma unroll
    for (uint32_t row = 0; row < ROWS; ++row) {
        if (row >= rows) break;
        const float4 low = *reinterpret_cast<const float4*>(x + row * IN);
        const float4 high = *reinterpret_cast<const float4*>(x + row * IN + 4);
        const float values[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            sums[row] = fmaf(__uint_as_float(words[i] << 16), values[2 * i], sums[row]);
            sums[row] = fmaf(__uint_as_float(words[i] & 0xffff0000u), values[2 * i + 1], sums[row]);
        }
    }
}

/// Where an output of the group lies.
struct Place {
    int linear;
    int output;
};

__device__ inline Place place_of(int output) {
    if (IS_GATED || output < FIRST_OUT) return {0, output};
    if (output < FIRST_OUT + SECOND_OUT) return {1, output - FIRST_OUT};
    return {2, output - FIRST_OUT - SECOND_OUT};
}

__device__ inline int matrix_of(int linear) {
    return MATRIX + (linear > 0 ? 1 + FIRST_BIAS : 0) + (linear > 1 ? 1 + SECOND_BIAS : 0);
}

__device__ inline float bias_of(const ew::Call& call, int linear, int output) {
    const bool has = linear == 0 ? FIRST_BIAS : linear == 1 ? SECOND_BIAS : THIRD_BIAS;
    return has ? reinterpret_cast<const float*>(call.weights[matrix_of(linear) + 1])[output] : 0.0f;
}

/// Sums of `OUTPUTS` rows of one matrix from `output` on; those past `end` are left at zero.
__device__ inline void multiply(const uint8_t* matrix, int output, int end, const float* x, uint32_t rows,
                                float (&sums)[OUTPUTS][ROWS]) {
    const int lane = threadIdx.x % 32;
    for (int start = 0; start < IN; start += STEP * LOADS) {
        uint4 weights[OUTPUTS][LOADS];
#pragma unroll
        for (int o = 0; o < OUTPUTS; ++o)
#pragma unroll
            for (int load = 0; load < LOADS; ++load) {
                const int k = start + load * STEP + lane * 8;
                weights[o][load] = uint4{};
                if (k < IN && output + o < end) weights[o][load] = load_once(matrix + (uint64_t(output + o) * IN + k) * 2);
            }
#pragma unroll
        for (int load = 0; load < LOADS; ++load) {
            const int k = start + load * STEP + lane * 8;
            if (k < IN)
#pragma unroll
                for (int o = 0; o < OUTPUTS; ++o) add_products(weights[o][load], x + k, rows, sums[o]);
        }
    }
#pragma unroll
    for (int o = 0; o < OUTPUTS; ++o)
#pragma unroll
        for (int row = 0; row < ROWS; ++row) sums[o][row] = ew::warp_sum(sums[o][row]);
}

extern "C" __global__ void __launch_bounds__(THREADS) ew_phase0(const __grid_constant__ ew::Call call) {
    extern __shared__ __align__(16) float x[];
    const uint32_t rows = ew::rows_of(*call.step, FIRST(ROWS));
    const float* from = call.inputs[0];
    for (uint32_t row = 0; row < rows; ++row) {
        float squares = 0;
        for (uint32_t i = threadIdx.x; i < IN; i += THREADS) {
            const float value = from[row * IN + i];
            x[row * IN + i] = value;
            squares += value * value;
        }
#ifndef EW_OP0_OUT
        const float mean = ew::block_sum<THREADS>(squares) / IN;
        const float factor = 1.0f / sqrtf(mean + __uint_as_float(EW_OP0_EPSILON_BITS));
        const float* norm = reinterpret_cast<const float*>(call.weights[0]);
        for (uint32_t i = threadIdx.x; i < IN; i += THREADS) x[row * IN + i] *= factor * norm[i];
#endif
    }
    __syncthreads();
    const int first = (blockIdx.x * WARPS + threadIdx.x / 32) * OUTPUTS, lane = threadIdx.x % 32;
    if (first >= ALL_OUT) return;
    // The outputs of a warp may lie in two matrices: those of a matrix go together.
    int output = first;
    const int last = min(first + OUTPUTS, ALL_OUT);
    while (output < last) {
        const Place place = place_of(output);
        const int size = place.linear == 0 ? FIRST_OUT : place.linear == 1 ? SECOND_OUT : THIRD_OUT;
        const int end = min(size, place.output + last - output);
        float sums[OUTPUTS][ROWS] = {}, second[OUTPUTS][ROWS] = {};
        multiply(call.weights[matrix_of(place.linear)], place.output, end, x, rows, sums);
        if (IS_GATED) multiply(call.weights[matrix_of(1)], place.output, end, x, rows, second);
#pragma unroll
        for (int o = 0; o < OUTPUTS; ++o) {
            if (place.output + o >= end) break;
#pragma unroll
            for (uint32_t row = 0; row < ROWS; ++row) {
                if (row >= rows || lane != row) continue;
                const int at = place.output + o;
                float y = sums[o][row] + bias_of(call, place.linear, at);
                if (IS_GATED) y = y / (1.0f + expf(-y)) * (second[o][row] + bias_of(call, 1, at));
                // The added buffer is the group's other input, whichever came first.
                if (ADDS) y += call.inputs[1][row * size + at];
                call.outputs[place.linear][row * size + at] = y;
            }
        }
        output += end - place.output;
    }
}
