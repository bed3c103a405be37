#include "limits.h"

#include <atomic>

#include "vector.h"

namespace sgrt {

namespace {

std::atomic<int32_t> sink{0};  // keeps the compiler from dropping the loops

constexpr int kChains = 12;

}  // namespace

void read_all(ThreadTeam& team, const uint8_t* data, size_t bytes) {
    team.run([&](int thread) {
        const size_t threads = static_cast<size_t>(team.size());
        const size_t part = bytes / threads / 512 * 512;
        const uint8_t* first = data + part * static_cast<size_t>(thread);
        i32x16 sums[4] = {zero_int(), zero_int(), zero_int(), zero_int()};
        const int8_t ones[4] = {1, 1, 1, 1};
        for (size_t at = 0; at + 512 <= part; at += 512) {
            for (size_t line = 0; line < 512; line += 64) prefetch(first + at + 4096 + line);
            for (size_t line = 0; line < 8; ++line) sums[line % 4] = dot(sums[line % 4], load_bytes(first + at + 64 * line), ones);
        }
        const i32x16 total = add_int(add_int(sums[0], sums[1]), add_int(sums[2], sums[3]));
        sink.fetch_add(static_cast<int32_t>(sum_lanes(to_float(total)) * 0x1p-20f), std::memory_order_relaxed);
    });
}

uint64_t multiply_many(ThreadTeam& team, int rounds) {
    uint8_t bytes[64 + kChains];
    for (int i = 0; i < 64 + kChains; ++i) bytes[i] = static_cast<uint8_t>(i & 15);
    team.run([&](int) {
        i32x16 sums[kChains];
        u8x64 weights[kChains];
        for (int i = 0; i < kChains; ++i) {
            sums[i] = zero_int();
            weights[i] = load_bytes(bytes + i);
        }
        for (int round = 0; round < rounds; ++round) {
            // The values change, so that no product can be taken out of the loop.
            const int8_t four[4] = {1, static_cast<int8_t>(round & 127), 3, -4};
#pragma GCC unroll 12
            for (int i = 0; i < kChains; ++i) sums[i] = dot(sums[i], weights[i], four);
        }
        i32x16 total = zero_int();
        for (const auto& sum : sums) total = add_int(total, sum);
        sink.fetch_add(static_cast<int32_t>(sum_lanes(to_float(total)) * 0x1p-20f), std::memory_order_relaxed);
    });
    return static_cast<uint64_t>(rounds) * kChains * 64 * static_cast<uint64_t>(team.size());
}

}  // namespace sgrt
