// Quantizes full pages: the definition is sgrt_kernels/ops/page_seal/reference.py, and the bytes are the same.
#pragma once

#include "attention.h"
#include "sealed_codes.h"

namespace sgrt {

// Floats of scratch that `seal_page` needs.
size_t seal_scratch(const AttentionShape& shape);

// Quantize one kv head of the exact page `source` into the sealed page `target`.
void seal_page(const AttentionShape& shape, SealedType type, const void* keys, const void* values, size_t source,
               const SgrtSealedLayer& layer, size_t target, int kv_head, float* scratch);

}  // namespace sgrt
