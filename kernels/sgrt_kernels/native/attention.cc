#include "attention.h"

#include <algorithm>

#include "attention_block.h"
#include "attention_direct.h"
#include "attention_integer.h"
#include "attention_merge.h"

namespace sgrt {

namespace {

// The tokens of a span that some row of the tile sees: [start, stop), start at a block's border.
struct Range {
    int start, stop;

    Range(const Tile& tile, int span) {
        int low = tile.rows[0].first, high = 0;
        for (int i = 0; i < tile.tokens; ++i) {
            low = std::min(low, tile.rows[i].first);
            high = std::max(high, tile.rows[i].last);
        }
        start = std::max(low, span * kSpanTokens) / kBlockTokens * kBlockTokens;
        stop = std::min(high, (span + 1) * kSpanTokens);
    }
};

template <typename... Rest>
void attend_direct_block(const Tile& tile, Rest&&... rest) {
    if (tile.shape.page_type == PageType::kBf16) attend_direct<PageType::kBf16>(tile, rest...);
    else attend_direct<PageType::kF32>(tile, rest...);
}

// The blocks [first, stop) of a span, which all rows read from the reader's pages.
void attend_blocks(const Tile& tile, int first, int stop, const PageReader& reader, const Scratch& s) {
    for (int start = first; start < stop; start += kBlockTokens)
        attend_exact_block(tile, start, std::min(kBlockTokens, stop - start), reader, s);
}

// One span's top, sum and o of every row.
void attend_span(const Tile& tile, int span, const PageReader& reader, const Scratch& s) {
    clear(tile.height(), tile.shape.head_dim, s);
    const Range range(tile, span);
    attend_blocks(tile, range.start, range.stop, reader, s);
}

// The same for the only token of a tile and all kv heads [first, last): a page row is read once for all of them.
void attend_span_direct(const Tile& tile, int span, const PageReader& reader, int heads, const Scratch& s) {
    const int height = tile.height(), head_dim = tile.shape.head_dim;
    clear(height * heads, head_dim, s);
    const Range range(tile, span);
    for (int start = range.start; start < range.stop; start += kBlockTokens) {
        attend_direct_block(tile, start, std::min(kBlockTokens, range.stop - start), heads, reader, s);
    }
}

void merge_tile(const Tile& tile, int span, const Scratch& s) {
    const int head_dim = tile.shape.head_dim;
    for (int r = 0; r < tile.height(); ++r) {
        const bool sees = tile.row(r).last > span * kSpanTokens && tile.row(r).first < (span + 1) * kSpanTokens;
        if (!sees) continue;
        merge(head_dim, s.top[r], sum_of(r, s), s.out + r * head_dim, s.total_top[r], s.total_sum[r],
              s.total + r * head_dim);
    }
}

void attend_whole(const Tile& tile, const AttentionItem& item, int kv_head, const PageReader& reader,
                  const AttentionBuffers& buffers, const Scratch& s) {
    clear_total(tile.height(), tile.shape.head_dim, s);
    for (int span = item.first_span; span < item.last_span; ++span) {
        attend_span(tile, span, reader, s);
        merge_tile(tile, span, s);
    }
    write_results(tile, kv_head, buffers, s);
}

void store_partials(const Tile& tile, const AttentionPlan& plan, const AttentionItem& item, int kv_head,
                    const AttentionBuffers& buffers, const Scratch& s) {
    for (int r = 0; r < tile.height(); ++r) {
        const VisibleRow& row = tile.row(r);
        const int index = plan.first_partial[static_cast<size_t>(row.token)] + item.first_span - row.first / kSpanTokens;
        store_partial(tile, r, kv_head, index, buffers.partials, s);
    }
}

}  // namespace

int tile_tokens(const AttentionShape& shape) { return std::max(1, kTileRowHeads / shape.group()); }

size_t attention_scratch(const AttentionShape& shape) {
    const size_t d = static_cast<size_t>(shape.head_dim), rows = kTileRowHeads + kLanes;
    return rows * (3 * d + d / 2 + kBlockTokens * 3 / 2 + 6 + 2 * kLanes) + 2 * d * kBlockTokens + 20 * kLanes;
}

void attend(const AttentionShape& shape, const AttentionPlan& plan, const AttentionItem& item, int first_head,
            int last_head, const AttentionBuffers& buffers, float* scratch) {
    const Scratch s(scratch, shape);
    const Tile tile{shape, plan.rows.data() + item.first_row, item.last_row - item.first_row};
    const int32_t* pages =
        buffers.page_table + static_cast<size_t>(item.sequence) * static_cast<size_t>(buffers.max_pages);
    const int height = tile.height(), few = kTileRowHeads / height;
    const bool is_direct =
        shape.page_type != PageType::kInteger && !item.is_whole && tile.tokens == 1 && height <= kFewRows;
    int head = first_head;
    while (head < last_head) {
        const int heads = is_direct ? std::min(few, last_head - head) : 1;
        const PageReader reader{shape, buffers, pages, head};
        gather_query(tile, head, heads, buffers, s);
        if (shape.page_type == PageType::kInteger) round_query(height * heads, shape.head_dim, s);
        if (item.is_whole) {
            attend_whole(tile, item, head, reader, buffers, s);
        } else {
            if (is_direct) attend_span_direct(tile, item.first_span, reader, heads, s);
            else attend_span(tile, item.first_span, reader, s);
            for (int i = 0; i < heads; ++i)
                store_partials(tile, plan, item, head + i, buffers, s.from_row(i * height, shape.head_dim));
        }
        head += heads;
    }
}

void merge_partials(const AttentionShape& shape, const AttentionPlan& plan, int token, float* partials, float* out) {
    const int first = plan.first_partial[static_cast<size_t>(token)];
    const int count = plan.partial_count[static_cast<size_t>(token)];
    const int head_dim = shape.head_dim;
    for (int head = 0; head < shape.heads; ++head) {
        float top = kMinusInfinity, sum = 0.0f;
        float* total = out + head * head_dim;
        std::fill_n(total, head_dim, 0.0f);
        for (int i = 0; i < count; ++i) {
            const float* part = partial_of(shape, partials, first + i, head);
            merge(head_dim, part[head_dim], part[head_dim + 1], part, top, sum, total);
        }
        divide(head_dim, total, sum, total);
    }
}

}  // namespace sgrt
