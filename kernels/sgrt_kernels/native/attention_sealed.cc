#include "attention_sealed.h"

#include "attention_integer.h"
#include "attention_merge.h"
#include "attention_sealed_block.h"

namespace sgrt {

namespace {

// What the parts of one item and kv head share.
struct SealedTile {
    const Tile& tile;  // rows over sealed spans, or over own pages
    const SealedBuffers& buffers;
    const PageReader& reader;
    const Scratch& s;
    float* memory;  // scales of a block's pages

    // Tokens [low, high) that some row sees.
    int low() const { return tile.rows[0].first; }
    int high() const {
        int last = 0;
        for (int i = 0; i < tile.tokens; ++i) last = std::max(last, tile.rows[i].last);
        return last;
    }

    // Whether the pages are read directly: the only token of a tile, which laying out keys and values would not pay for.
    bool is_direct() const {
        return tile.tokens == 1 && tile.height() <= kFewRows && can_read_sealed_directly(tile.shape);
    }

    template <SealedType kType>
    void block_of(int start, int count) const {
        if (is_direct()) attend_sealed_direct<kType>(tile, start, count, reader, *buffers.layer, s, memory);
        else attend_sealed_block<kType>(tile, start, count, reader, *buffers.layer, s, memory);
    }

    // The blocks [first, stop) of a span.
    void blocks(int first, int stop) const {
        for (int start = first; start < stop; start += kBlockTokens) {
            const int count = std::min(kBlockTokens, stop - start);
            if (buffers.type == SealedType::kInt8) block_of<SealedType::kInt8>(start, count);
            else block_of<SealedType::kE4m3>(start, count);
        }
    }

    // One span of the only token, for `heads` kv heads: a page row is read once for all of them.
    void span_direct(int span, int heads) const {
        const int height = tile.height(), head_dim = tile.shape.head_dim;
        clear(height * heads, head_dim, s);
        const int first = std::max(low(), span * kSpanTokens) / kBlockTokens * kBlockTokens;
        const int stop = std::min(high(), (span + 1) * kSpanTokens);
        for (int start = first; start < stop; start += kBlockTokens) {
            const int count = std::min(kBlockTokens, stop - start);
            touch_sealed(reader, *buffers.layer, start, count, heads);
            for (int i = 0; i < heads; ++i) {
                const PageReader own{tile.shape, buffers.exact, reader.pages, reader.kv_head + i};
                const Scratch rows = s.from_row(i * height, head_dim);
                SealedTile{tile, buffers, own, rows, memory}.blocks(start, start + count);
            }
        }
    }

    // One span's top, sum and o of every row.
    void span(int span) const {
        clear(tile.height(), tile.shape.head_dim, s);
        const int first = std::max(low(), span * kSpanTokens) / kBlockTokens * kBlockTokens;
        blocks(first, std::min(high(), (span + 1) * kSpanTokens));
    }

    // The same of the exact page number `page` of the chunk.
    void own_page(int page) const {
        clear(tile.height(), tile.shape.head_dim, s);
        const int first = page * tile.shape.page_tokens;
        const int stop = std::min(high(), first + tile.shape.page_tokens);
        for (int start = first; start < stop; start += kBlockTokens)
            attend_exact_block(tile, start, std::min(kBlockTokens, stop - start), reader, s);
    }

    void merge_into_totals() const {
        const int head_dim = tile.shape.head_dim;
        for (int r = 0; r < tile.height(); ++r)
            merge(head_dim, s.top[r], sum_of(r, s), s.out + r * head_dim, s.total_top[r], s.total_sum[r],
                  s.total + r * head_dim);
    }
};

void attend_whole(const SealedTile& sealed, const SealedTile& own, const AttentionItem& item, int kv_head) {
    clear_total(sealed.tile.height(), sealed.tile.shape.head_dim, sealed.s);
    for (int span = item.first_span; span < item.last_span; ++span) {
        sealed.span(span);
        sealed.merge_into_totals();
    }
    const int page_tokens = own.tile.shape.page_tokens;
    for (int page = own.low() / page_tokens; page * page_tokens < own.high(); ++page) {
        own.own_page(page);
        own.merge_into_totals();
    }
    write_results(sealed.tile, kv_head, sealed.buffers.exact, sealed.s);
}

void store_partials(const Tile& tile, const AttentionPlan& plan, const AttentionItem& item, int kv_head,
                    const AttentionBuffers& buffers, const Scratch& s) {
    for (int r = 0; r < tile.height(); ++r) {
        const size_t token = static_cast<size_t>(tile.row(r).token);
        const int index = plan.first_partial[token] + (item.is_own ? plan.partial_count[token] - 1
                                                                   : item.first_span - tile.row(r).first / kSpanTokens);
        store_partial(tile, r, kv_head, index, buffers.partials, s);
    }
}

}  // namespace

size_t sealed_scratch(const AttentionShape& shape) {
    const size_t pages_of_block = static_cast<size_t>(kBlockTokens / shape.page_tokens + 2);
    return attention_scratch(shape) + pages_of_block * 2 * static_cast<size_t>(shape.head_dim);
}

void attend_sealed(const AttentionShape& shape, const AttentionPlan& plan, const AttentionItem& item, int first_head,
                   int last_head, const SealedBuffers& buffers, float* scratch) {
    const Scratch s(scratch, shape);
    float* memory = scratch + attention_scratch(shape);
    const int rows = item.last_row - item.first_row;
    const Tile tile{shape, plan.rows.data() + item.first_row, rows};
    const Tile own_tile{shape, plan.rows.data() + item.first_own_row, rows};
    const auto row_of = [&](const int32_t* table, int width) {
        return table + static_cast<size_t>(item.sequence) * static_cast<size_t>(width);
    };
    const int32_t* sealed_pages = row_of(buffers.exact.page_table, buffers.exact.max_pages);
    const int32_t* own_pages = row_of(buffers.own_pages, buffers.max_own_pages);
    const int height = tile.height();
    const bool is_direct = !item.is_whole && !item.is_own && tile.tokens == 1 && height <= kFewRows &&
                           can_read_sealed_directly(shape);
    for (int head = first_head, heads; head < last_head; head += heads) {
        heads = is_direct ? std::min(kTileRowHeads / height, last_head - head) : 1;
        const PageReader sealed_reader{shape, buffers.exact, sealed_pages, head};
        const PageReader own_reader{shape, buffers.exact, own_pages, head};
        gather_query(tile, head, heads, buffers.exact, s);
        if (shape.page_type == PageType::kInteger) round_query(height * heads, shape.head_dim, s);
        const SealedTile sealed{tile, buffers, sealed_reader, s, memory};
        if (item.is_whole) {
            attend_whole(sealed, {own_tile, buffers, own_reader, s, memory}, item, head);
            continue;
        }
        if (item.is_own) SealedTile{tile, buffers, own_reader, s, memory}.own_page(item.first_span);
        else if (is_direct) sealed.span_direct(item.first_span, heads);
        else sealed.span(item.first_span);
        for (int i = 0; i < heads; ++i)
            store_partials(tile, plan, item, head + i, buffers.exact, s.from_row(i * height, shape.head_dim));
    }
}

}  // namespace sgrt
