// Sixteen lanes of float or int32 and 64 bytes, in three variants with the same arithmetic and the same bits.
//
// Every operation is correctly rounded or exact, fused multiply-add is asked for by name (`fma`), and sums over lanes
// run in one fixed tree. So a program written against this header computes the same on every processor.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#if defined(SGRT_PORTABLE)
#define SGRT_VECTOR_PORTABLE 1
#elif defined(SGRT_AVX2) && defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
#define SGRT_VECTOR_AVX2 1
#elif defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512VL__) && defined(__AVX512DQ__) && \
    defined(__AVX512VNNI__)
#define SGRT_VECTOR_AVX512 1
#elif defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
#define SGRT_VECTOR_AVX2 1
#else
#define SGRT_VECTOR_PORTABLE 1
#endif

#if defined(SGRT_VECTOR_AVX512)
#include "vector_avx512.h"
#elif defined(SGRT_VECTOR_AVX2)
#include "vector_avx2.h"
#else
#include "vector_portable.h"
#endif

namespace sgrt {

constexpr int kLanes = 16;

inline void prefetch(const void* address) { __builtin_prefetch(address); }

inline float from_bf16(uint16_t bits) {
    uint32_t wide = static_cast<uint32_t>(bits) << 16;
    float value;
    std::memcpy(&value, &wide, sizeof value);
    return value;
}

// Round to nearest even; infinities stay, NaN stays NaN.
inline uint16_t to_bf16(float value) {
    uint32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 0x40u);
    return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

}  // namespace sgrt
