// Keys and values of a slot, in whatever type and order the plan keeps them.
#pragma once
#include "abi.cuh"

namespace ew {

constexpr bool CACHE_IS_HALF = same(EW_CACHE_DTYPE, "f16");
constexpr bool CACHE_IS_HEAD_MAJOR = same(EW_CACHE_LAYOUT, "head_major");

/// Index of the first value of a head at a position, inside a slot.
__device__ inline uint64_t cached_index(const Cache& cache, uint32_t position, uint32_t head, int heads, int head_dim) {
    const uint64_t row = CACHE_IS_HEAD_MAJOR ? head * cache.capacity + position : uint64_t(position) * heads + head;
    return row * head_dim;
}

__device__ inline float cached_value(const uint8_t* slot, uint64_t index) {
    return CACHE_IS_HALF ? __half2float(reinterpret_cast<const __half*>(slot)[index])
                         : reinterpret_cast<const float*>(slot)[index];
}

__device__ inline void cache_value(uint8_t* slot, uint64_t index, float value) {
    if (CACHE_IS_HALF) {
        reinterpret_cast<__half*>(slot)[index] = __float2half_rn(value);
    } else {
        reinterpret_cast<float*>(slot)[index] = value;
    }
}

}  // namespace ew
