// One value of the output from values at the same place.
#pragma once
#include "abi.cuh"

namespace ew {

constexpr int ELEMENTWISE_THREADS = 256;

/// Calls `compute(index)` for every value of the output's rows.
template <int WIDTH, typename Compute>
__device__ inline void each_value(const Step& step, const char* rows, Compute compute) {
    const uint32_t row = blockIdx.y, column = blockIdx.x * ELEMENTWISE_THREADS + threadIdx.x;
    if (row < rows_of(step, rows) && column < WIDTH) compute(uint64_t(row) * WIDTH + column);
}

}  // namespace ew

#define EW_ELEMENTWISE(width) \
    EW_ONE_PHASE(ew::ELEMENTWISE_THREADS, ew::divided_up(width, ew::ELEMENTWISE_THREADS), 1)
