#include "multiply_kernels.h"

namespace sgrt {
template TileKernel kernel_for<Kind::kF32>(int, int);
template TileKernel kernel_for<Kind::kF16>(int, int);
template TileKernel kernel_for<Kind::kBf16>(int, int);
}  // namespace sgrt
