// Attention in which a query reads the page it lies in exact and earlier pages sealed.
//
// The sealed tokens of a row lie in the spans and blocks of attention.h; its own page follows as one part more. Where
// keys and values are sealed the arithmetic of a block is
//
//     k[t][d] = fma(code, scale of the page's channel, offset of the page's channel)
//     o[d] = fma(p[t] * scale of the token's value, code, o[d])
//
// for one row or many, so that a row's numbers do not depend on who else reads the page.
#pragma once

#include "attention.h"
#include "sealed_codes.h"

namespace sgrt {

struct SealedBuffers {
    AttentionBuffers exact;  // its page table names sealed pages
    const SgrtSealedLayer* layer;
    SealedType type;
    const int32_t* own_pages;  // [sequences, max_own_pages]
    int max_own_pages;
};

// Floats of scratch that `attend_sealed` needs.
size_t sealed_scratch(const AttentionShape& shape);

// One item of a plan over sealed pages, for the kv heads [first_head, last_head).
void attend_sealed(const AttentionShape& shape, const AttentionPlan& plan, const AttentionItem& item, int first_head,
                   int last_head, const SealedBuffers& buffers, float* scratch);

}  // namespace sgrt
