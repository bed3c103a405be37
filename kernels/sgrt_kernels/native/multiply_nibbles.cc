#include "multiply_kernels.h"

namespace sgrt {
template TileKernel kernel_for<Kind::kNibble>(int, int);
template TileKernel kernel_for<Kind::kNibbleMinimum>(int, int);
template TileKernel kernel_for<Kind::kNibbleSuper>(int, int);
}  // namespace sgrt
