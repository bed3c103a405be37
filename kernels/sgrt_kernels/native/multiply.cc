#include "multiply.h"

namespace sgrt {

template <Kind kKind>
TileKernel kernel_for(int tokens, int width);

TileKernel tile_kernel(Kind kind, int tokens, int width) {
    switch (kind) {
        case Kind::kNibble: return kernel_for<Kind::kNibble>(tokens, width);
        case Kind::kNibbleMinimum: return kernel_for<Kind::kNibbleMinimum>(tokens, width);
        case Kind::kNibbleSuper: return kernel_for<Kind::kNibbleSuper>(tokens, width);
        case Kind::kByte: return kernel_for<Kind::kByte>(tokens, width);
        case Kind::kByteMinimum: return kernel_for<Kind::kByteMinimum>(tokens, width);
        case Kind::kByteSuper: return kernel_for<Kind::kByteSuper>(tokens, width);
        case Kind::kByteSuperSigned: return kernel_for<Kind::kByteSuperSigned>(tokens, width);
        case Kind::kF32: return kernel_for<Kind::kF32>(tokens, width);
        case Kind::kF16: return kernel_for<Kind::kF16>(tokens, width);
        case Kind::kBf16: return kernel_for<Kind::kBf16>(tokens, width);
    }
    return nullptr;
}

}  // namespace sgrt
