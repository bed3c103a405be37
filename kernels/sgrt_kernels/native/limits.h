// What the machine can do at most: the yardsticks of `sgrt doctor` and the benchmarks.
#pragma once

#include <cstddef>
#include <cstdint>

#include "thread_team.h"

namespace sgrt {

// Read `bytes` once with all threads, a contiguous part each.
void read_all(ThreadTeam& team, const uint8_t* data, size_t bytes);

// Multiply-accumulates of int8 that each thread does in `multiply_all`: returns how many were done in all.
uint64_t multiply_many(ThreadTeam& team, int rounds);

}  // namespace sgrt
