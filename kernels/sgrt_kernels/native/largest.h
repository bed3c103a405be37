// The largest of a row of logits, found in parts. What is not a number is never the largest.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "vector.h"

namespace sgrt {

constexpr int kLargestPart = 8192;

struct Largest {
    float value;
    int32_t index;  // -1: nothing is above -inf
};

inline int largest_parts(int candidates) { return (candidates + kLargestPart - 1) / kLargestPart; }

// Of the part that begins at `first`: the first of the largest.
inline Largest largest_of(const float* row, int first, int candidates) {
    const int end = std::min(candidates, first + kLargestPart);
    constexpr float kNone = -std::numeric_limits<float>::infinity();
    constexpr int kChains = 4;
    f32x16 lanes[kChains];
    for (f32x16& each : lanes) each = splat(kNone);
    int at = first;
    // `max` takes its second operand where the first is not a number.
    for (; at + kChains * kLanes <= end; at += kChains * kLanes)
        for (int i = 0; i < kChains; ++i) lanes[i] = max(load(row + at + i * kLanes), lanes[i]);
    float best = max_lanes(max(max(lanes[0], lanes[1]), max(lanes[2], lanes[3])));
    for (; at < end; ++at) best = row[at] > best ? row[at] : best;
    if (best == kNone) return {kNone, -1};
    for (at = first; at + kLanes <= end; at += kLanes) {
        int found = 0;
        for (int i = 0; i < kLanes; ++i) found |= row[at + i] == best;
        if (found) break;
    }
    while (row[at] != best) ++at;
    return {best, at};
}

inline int64_t first_largest(const Largest* parts, int count) {
    Largest best = {-std::numeric_limits<float>::infinity(), -1};
    for (int i = 0; i < count; ++i)
        if (parts[i].index >= 0 && parts[i].value > best.value) best = parts[i];
    return best.index;
}

}  // namespace sgrt
