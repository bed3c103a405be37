#include "multiply_kernels.h"

namespace sgrt {
template TileKernel kernel_for<Kind::kByte>(int, int);
template TileKernel kernel_for<Kind::kByteMinimum>(int, int);
template TileKernel kernel_for<Kind::kByteSuper>(int, int);
template TileKernel kernel_for<Kind::kByteSuperSigned>(int, int);
}  // namespace sgrt
