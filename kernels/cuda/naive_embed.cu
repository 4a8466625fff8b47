//! x[r] = sum over tables of table[index of r]; index: token id, position + offset, or type 0.
//!
//! ```toml
//! name = "naive_embed"
//! pattern = "embed"
//! rows = ["tokens"]
//! steps = ["prefill", "decode", "encode"]
//! matrices = ["f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "q5_0", "q4_k", "q6_k"]
//! ```

#include "abi.cuh"
#include "naive_stored.cuh"
#include <initializer_list>

constexpr int WIDTH = EW_OP0_WIDTH;
constexpr int THREADS = 128;

EW_ONE_PHASE(THREADS, 1, 1)

/// Where word `number` of a space-separated list begins.
__host__ __device__ constexpr const char* word_at(const char* words, int number) {
    for (; number > 0; --number) {
        while (*words != 0 && *words != ' ') ++words;
        if (*words == ' ') ++words;
    }
    return words;
}

/// Word `number` of a space-separated list is `word`.
__host__ __device__ constexpr bool word_is(const char* words, int number, const char* word) {
    const char* at = word_at(words, number);
    while (*word != 0 && *at == *word) {
        ++at;
        ++word;
    }
    return *word == 0 && (*at == 0 || *at == ' ');
}

/// The stored type of table `number`.
constexpr ew::Stored table_type(int number) {
    for (const char* name : {"f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "q5_0", "q4_k"})
        if (word_is(EW_OP0_DTYPES, number, name)) return ew::stored_named(name);
    return ew::Stored::Q6_K;
}

template <int NUMBER>
__device__ float part(const ew::Call& call, uint32_t row, uint32_t column) {
    if constexpr (NUMBER >= EW_OP0_WEIGHTS) {
        return 0;
    } else {
        const ew::Step& step = *call.step;
        const uint64_t index = word_is(EW_OP0_TABLES, NUMBER, "token")      ? step.token_ids[row]
                               : word_is(EW_OP0_TABLES, NUMBER, "position") ? step.positions[row] + EW_OP0_POSITION_OFFSET
                                                                            : 0;
        constexpr ew::Stored TYPE = table_type(NUMBER);
        const uint8_t* stored = call.weights[NUMBER] + index * ew::stored_row_bytes(TYPE, WIDTH);
        return ew::stored_value<TYPE>(stored, column) + part<NUMBER + 1>(call, row, column);
    }
}

extern "C" __global__ void ew_phase0(const __grid_constant__ ew::Call call) {
    const uint32_t row = blockIdx.y;
    if (row >= call.step->rows) return;
    for (uint32_t column = threadIdx.x; column < WIDTH; column += THREADS)
        call.outputs[0][uint64_t(row) * WIDTH + column] = part<0>(call, row, column);
}
