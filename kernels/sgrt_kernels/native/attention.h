// Causal attention over paged keys and values, in blocks and spans that depend on token positions alone.
//
// The tokens of a sequence lie in spans of 256, and these in blocks of 64, counted from its first token. Within a
// span, one query row runs the online softmax (arXiv 2205.14135) over its blocks in rising order:
//
//     s[t] = sum over d of fma(q[d], k[t][d], s), d rising; q comes already scaled, and is multiplied by log2 e
//     m' = max(m, max s); a = 2^(m - m'); p[t] = 2^(s[t] - m')
//     l = fma(l, a, p), token t in lane t % 16, and its lanes are added when the span ends
//     o[d] = o[d] * a, then fma(p[t], v[t][d], o[d]), t rising
//
// and the spans are merged in rising order the same way. Over pages of integers (integer_pages.h) q is rounded to codes
// as keys are, all sums of products of codes are exact, and
//
//     s[t] = sum of q[d] * k[t][d], converted every 128 channels, * scale of k[t] * scale of q
//     w[t] = p[t] * scale of v[t], rounded to codes of [0, 8191] over the block
//     o[d] = fma(sum of w[t] * v[t][d], what a code of w stands for, o[d] * a)
//
// Who else reads a span, how rows are tiled and which thread
// computes them changes nothing in a row's numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "integer_pages.h"

namespace sgrt {

constexpr int kBlockTokens = 64;
constexpr int kSpanTokens = 256;

enum class PageType : int32_t { kF32 = 0, kBf16 = 1, kInteger = 2 };

struct AttentionShape {
    int heads, kv_heads, head_dim;  // head_dim: a multiple of 32
    int page_tokens;
    PageType page_type;
    float soft_cap;  // 0: none

    int group() const { return heads / kv_heads; }
    IntegerLayout integer_layout() const { return {page_tokens, kv_heads, head_dim}; }
};

// Tokens [first, last) of its sequence are seen by the query row `token`.
struct VisibleRow {
    int token, first, last;
};

// The part of a step's attention that one thread does at once, for one kv head.
struct AttentionItem {
    int sequence;              // whose pages are read, which are those of every row
    int first_span, last_span;  // [first, last)
    int first_row, last_row;   // [first, last) in `rows`
    bool is_whole;             // the spans are all that the rows see: write results; else write one partial
    // Where pages are sealed:
    bool is_own = false;    // not spans but the exact page number `first_span` of the sequence's chunk
    int first_own_row = 0;  // of a whole item: the same rows' own pages
};

// What a thread takes at once: an item's kv heads [first_head, last_head).
struct AttentionShare {
    int item, first_head, last_head;
};

// What is to be attended in one step by layers of one window.
struct AttentionPlan {
    std::vector<VisibleRow> rows;  // of own pages: tokens are counted from the first own page of the chunk
    std::vector<AttentionItem> items;
    std::vector<AttentionShare> shares;  // long ones first
    // [tokens], of the row's first span; spans follow, then its own page. -1: the row is in a whole item
    std::vector<int> first_partial;
    std::vector<int> partial_count;  // [tokens]
    int partials = 0;

    // window 0: none. Sequences whose pages of a whole span are equal share one item, so that it is read once for all.
    // is_sealed: a row's spans end where its own page begins.
    void build(int tokens, int sequences, const int32_t* query_starts, const int32_t* context_lengths,
               const int32_t* page_table, int max_pages, int page_tokens, int window, int tile_rows,
               bool is_sealed = false);

    // Cut the items into shares. One row reads all kv heads of its pages at once, as they lie in memory, where there
    // are items enough for the threads to finish together; many rows would make a share too long.
    void share_out(int kv_heads, int threads);
};

// Floats of one partial of all heads: per head, o[head_dim], m, l, padding.
inline size_t partial_stride(const AttentionShape& shape) {
    return static_cast<size_t>(shape.heads) * static_cast<size_t>(shape.head_dim + 16);
}

// Query rows of one item: as many tokens as give at most 96 rows of one kv head.
int tile_tokens(const AttentionShape& shape);

// Floats of scratch that `attend` needs.
size_t attention_scratch(const AttentionShape& shape);

struct AttentionBuffers {
    const float* query;  // [tokens][query_stride], scaled
    size_t query_stride;
    const void* keys;  // [pages][page_tokens][kv_heads][head_dim]
    const void* values;
    const int32_t* page_table;
    int max_pages;
    float* out;  // [tokens][heads * head_dim], for whole items
    float* partials;
};

// One item for the kv heads [first_head, last_head).
void attend(const AttentionShape& shape, const AttentionPlan& plan, const AttentionItem& item, int first_head,
            int last_head, const AttentionBuffers& buffers, float* scratch);

// Merge the partials of one row into out[heads * head_dim].
void merge_partials(const AttentionShape& shape, const AttentionPlan& plan, int token, float* partials, float* out);

}  // namespace sgrt
