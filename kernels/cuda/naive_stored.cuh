// Values of matrices in their stored type: every type that graph.json may name. Blocks as GGUF defines them.
#pragma once
#include "abi.cuh"

namespace ew {

__device__ inline float half_at(const uint8_t* at) {
    return __half2float(__ushort_as_half(uint16_t(at[0]) | uint16_t(at[1]) << 8));
}

enum class Stored { F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q4_K, Q6_K };

/// The type that graph.json calls `name`.
constexpr Stored stored_named(const char* name) {
    return same(name, "f32")    ? Stored::F32
           : same(name, "f16")  ? Stored::F16
           : same(name, "bf16") ? Stored::BF16
           : same(name, "q8_0") ? Stored::Q8_0
           : same(name, "q4_0") ? Stored::Q4_0
           : same(name, "q4_1") ? Stored::Q4_1
           : same(name, "q5_0") ? Stored::Q5_0
           : same(name, "q4_k") ? Stored::Q4_K
                                : Stored::Q6_K;
}

/// Bytes of a row of `width` values.
__host__ __device__ constexpr uint64_t stored_row_bytes(Stored type, uint64_t width) {
    return type == Stored::F32                           ? width * 4
           : type == Stored::F16 || type == Stored::BF16 ? width * 2
           : type == Stored::Q8_0                        ? width / 32 * 34
           : type == Stored::Q4_0                        ? width / 32 * 18
           : type == Stored::Q4_1                        ? width / 32 * 20
           : type == Stored::Q5_0                        ? width / 32 * 22
           : type == Stored::Q4_K                        ? width / 256 * 144
                                                         : width / 256 * 210;
}

/// Value `i` of a stored row.
template <Stored TYPE>
__device__ inline float stored_value(const uint8_t* row, uint32_t i) {
    if constexpr (TYPE == Stored::F32) return reinterpret_cast<const float*>(row)[i];
    if constexpr (TYPE == Stored::F16) return half_at(row + 2 * i);
    if constexpr (TYPE == Stored::BF16) return __uint_as_float((uint32_t(row[2 * i]) | uint32_t(row[2 * i + 1]) << 8) << 16);
    const uint32_t at = i % 32, low = at % 16;
    if constexpr (TYPE == Stored::Q8_0) {
        const uint8_t* block = row + i / 32 * 34;
        return half_at(block) * float(int8_t(block[2 + at]));
    }
    if constexpr (TYPE == Stored::Q4_0) {
        const uint8_t* block = row + i / 32 * 18;
        return half_at(block) * float(int(at < 16 ? block[2 + low] & 15 : block[2 + low] >> 4) - 8);
    }
    if constexpr (TYPE == Stored::Q4_1) {
        const uint8_t* block = row + i / 32 * 20;
        return half_at(block) * float(at < 16 ? block[4 + low] & 15 : block[4 + low] >> 4) + half_at(block + 2);
    }
    if constexpr (TYPE == Stored::Q5_0) {
        const uint8_t* block = row + i / 32 * 22;
        const uint32_t fifth = block[2] | block[3] << 8 | block[4] << 16 | uint32_t(block[5]) << 24;
        const uint32_t nibble = at < 16 ? block[6 + low] & 15 : block[6 + low] >> 4;
        return half_at(block) * float(int(nibble | ((fifth >> at) & 1) << 4) - 16);
    }
    const uint32_t inside = i % 256;
    if constexpr (TYPE == Stored::Q4_K) {
        // Eight parts of 32 values, each with a scale and a minimum of six bits, packed into twelve bytes.
        const uint8_t* block = row + i / 256 * 144;
        const uint8_t* six = block + 4;
        const uint32_t part = inside / 32;
        const uint32_t factor = part < 4 ? six[part] & 63 : (six[part + 4] & 15) | (six[part - 4] >> 6) << 4;
        const uint32_t offset = part < 4 ? six[part + 4] & 63 : (six[part + 4] >> 4) | (six[part] >> 6) << 4;
        const uint8_t byte = block[16 + part / 2 * 32 + at];
        const float nibble = float(part % 2 == 0 ? byte & 15 : byte >> 4);
        return half_at(block) * float(factor) * nibble - half_at(block + 2) * float(offset);
    }
    // q6_k: sixteen parts of 16 values with a scale of eight bits; four bits in `low`, two in `high`.
    const uint8_t* block = row + i / 256 * 210;
    const uint32_t side = inside / 128, quarter = inside % 128 / 32;
    const uint32_t four = block[side * 64 + quarter % 2 * 32 + at] >> (quarter / 2 * 4) & 15;
    const uint32_t two = block[128 + side * 32 + at] >> (quarter * 2) & 3;
    const float factor = half_at(block + 208) * float(int8_t(block[192 + inside / 16]));
    return factor * float(int(four | two << 4) - 32);
}

}  // namespace ew
