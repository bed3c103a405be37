#include <algorithm>
#include <cstring>

#include "attention.h"

namespace sgrt {

namespace {

constexpr int kWholeFrom = 17;  // query rows of a sequence from which its tiles walk all spans themselves

int span_after(int token) { return (token + kSpanTokens - 1) / kSpanTokens; }

int spans_of(const VisibleRow& row) {
    return row.first == row.last ? 0 : span_after(row.last) - row.first / kSpanTokens;
}

// One sequence's rows of the step.
struct Chunk {
    int sequence, first_token, rows, first_position, window;
    int sealed_tokens;  // of a page; 0: pages are not sealed

    // What row i sees but for its own page, where pages are sealed; nothing there: first == last.
    VisibleRow row(int i) const {
        const int position = first_position + i, first = first_seen(position);
        if (sealed_tokens == 0) return {first_token + i, first, position + 1};
        return {first_token + i, first, std::max(first, position / sealed_tokens * sealed_tokens)};
    }
    // What row i sees of its own page; tokens are counted from the first own page.
    VisibleRow own_row(int i) const {
        const int position = first_position + i, origin = first_position / sealed_tokens * sealed_tokens;
        const int first = std::max(first_seen(position), position / sealed_tokens * sealed_tokens);
        return {first_token + i, first - origin, position + 1 - origin};
    }
    int own_page(int i) const { return (first_position + i) / sealed_tokens - first_position / sealed_tokens; }
    int context() const { return first_position + rows; }

  private:
    int first_seen(int position) const { return window == 0 ? 0 : std::max(0, position - window + 1); }
};

// Rows that see one span from the same pages.
struct Group {
    int sequence;
    bool is_common;  // every row sees the whole span, so that others can join
    std::vector<VisibleRow> rows;
};

class Builder {
  public:
    Builder(AttentionPlan& plan, const int32_t* page_table, int max_pages, int page_tokens, int tile_rows)
        : plan_(plan),
          page_table_(page_table),
          max_pages_(static_cast<size_t>(max_pages)),
          // Spans of whole pages alone can be compared page by page.
          span_pages_(kSpanTokens % page_tokens == 0 ? kSpanTokens / page_tokens : 0),
          tile_rows_(tile_rows) {}

    // Tiles that walk all the spans they see, and keep the running result to themselves.
    void add_whole(const Chunk& chunk) {
        for (int start = 0; start < chunk.rows; start += tile_rows_) {
            const int stop = std::min(chunk.rows, start + tile_rows_);
            const int first = static_cast<int>(plan_.rows.size());
            for (int i = start; i < stop; ++i) plan_.rows.push_back(chunk.row(i));
            const int first_span = chunk.row(start).first / kSpanTokens;
            plan_.items.push_back({chunk.sequence, first_span, span_after(chunk.row(stop - 1).last), first,
                                   static_cast<int>(plan_.rows.size()), true});
            if (chunk.sealed_tokens == 0) continue;
            plan_.items.back().first_own_row = static_cast<int>(plan_.rows.size());
            for (int i = start; i < stop; ++i) plan_.rows.push_back(chunk.own_row(i));
        }
    }

    // Long contexts first: what is left at the end is short, and the threads finish together.
    void sort_whole() {
        std::stable_sort(plan_.items.begin(), plan_.items.end(), [](const AttentionItem& a, const AttentionItem& b) {
            return a.last_span - a.first_span > b.last_span - b.first_span;
        });
    }

    void reserve_partials(const Chunk& chunk) {
        for (int i = 0; i < chunk.rows; ++i) {
            const VisibleRow row = chunk.row(i);
            const size_t token = static_cast<size_t>(row.token);
            plan_.first_partial[token] = plan_.partials;
            plan_.partial_count[token] = spans_of(row) + (chunk.sealed_tokens == 0 ? 0 : 1);
            plan_.partials += plan_.partial_count[token];
        }
    }

    // One span of all chunks; those that read the same pages share items.
    void add_span(const std::vector<Chunk>& chunks, int span) {
        groups_.clear();
        for (const Chunk& chunk : chunks) {
            Group group = rows_in(chunk, span);
            if (group.rows.empty()) continue;
            if (!join(group, span)) groups_.push_back(std::move(group));
        }
        for (const Group& group : groups_) add_tiles(group, span);
    }

    // The own pages of a small chunk, one after the other.
    void add_own_pages(const Chunk& chunk) {
        for (int start = 0, stop; start < chunk.rows; start = stop) {
            stop = start + 1;
            while (stop < chunk.rows && stop - start < tile_rows_ && chunk.own_page(stop) == chunk.own_page(start))
                ++stop;
            const int first = static_cast<int>(plan_.rows.size()), page = chunk.own_page(start);
            for (int i = start; i < stop; ++i) plan_.rows.push_back(chunk.own_row(i));
            plan_.items.push_back(
                {chunk.sequence, page, page + 1, first, static_cast<int>(plan_.rows.size()), false, true});
        }
    }

  private:
    Group rows_in(const Chunk& chunk, int span) const {
        const int start = span * kSpanTokens, stop = start + kSpanTokens;
        Group group{chunk.sequence, span_pages_ > 0, {}};
        for (int i = 0; i < chunk.rows; ++i) {
            const VisibleRow row = chunk.row(i);
            if (row.last <= start || row.first >= stop || row.first == row.last) continue;
            group.is_common = group.is_common && row.first <= start && row.last >= stop;
            group.rows.push_back(row);
        }
        return group;
    }

    bool has_same_pages(const Group& a, const Group& b, int span) const {
        const auto pages = [&](int sequence) {
            return page_table_ + static_cast<size_t>(sequence) * max_pages_ + static_cast<size_t>(span * span_pages_);
        };
        return std::equal(pages(a.sequence), pages(a.sequence) + span_pages_, pages(b.sequence));
    }

    // Add the rows to a group that sees the same pages. Whole spans alone: what rows have of their own in a span that they
    // read together would be read a row and a head at a time, which costs more than reading the common part for each.
    bool join(const Group& group, int span) {
        if (!group.is_common) return false;
        for (Group& other : groups_) {
            if (!other.is_common || !has_same_pages(other, group, span)) continue;
            other.rows.insert(other.rows.end(), group.rows.begin(), group.rows.end());
            return true;
        }
        return false;
    }

    void add_tiles(const Group& group, int span) {
        const int count = static_cast<int>(group.rows.size());
        for (int start = 0; start < count; start += tile_rows_) {
            const int stop = std::min(count, start + tile_rows_);
            const int first = static_cast<int>(plan_.rows.size());
            plan_.rows.insert(plan_.rows.end(), group.rows.begin() + start, group.rows.begin() + stop);
            plan_.items.push_back(
                {group.sequence, span, span + 1, first, static_cast<int>(plan_.rows.size()), false});
        }
    }

    AttentionPlan& plan_;
    const int32_t* page_table_;
    size_t max_pages_;
    int span_pages_, tile_rows_;
    std::vector<Group> groups_;
};

}  // namespace

void AttentionPlan::build(int tokens, int sequences, const int32_t* query_starts, const int32_t* context_lengths,
                          const int32_t* page_table, int max_pages, int page_tokens, int window, int tile_rows,
                          bool is_sealed) {
    rows.clear();
    items.clear();
    partials = 0;
    first_partial.assign(static_cast<size_t>(tokens), -1);
    partial_count.assign(static_cast<size_t>(tokens), 0);
    Builder builder(*this, page_table, max_pages, page_tokens, tile_rows);
    std::vector<Chunk> small;
    int last_span = 0;
    for (int s = 0; s < sequences; ++s) {
        const int count = query_starts[s + 1] - query_starts[s];
        const Chunk chunk{s, query_starts[s], count, context_lengths[s] - count, window, is_sealed ? page_tokens : 0};
        if (count >= kWholeFrom) {
            builder.add_whole(chunk);
        } else if (count > 0) {
            small.push_back(chunk);
            last_span = std::max(last_span, span_after(chunk.context()));
        }
    }
    builder.sort_whole();
    for (const Chunk& chunk : small) builder.reserve_partials(chunk);
    for (int span = 0; span < last_span; ++span) builder.add_span(small, span);
    if (!is_sealed) return;
    for (const Chunk& chunk : small) builder.add_own_pages(chunk);
}

void AttentionPlan::share_out(int kv_heads, int threads) {
    shares.clear();
    const int count = static_cast<int>(items.size());
    // By single heads the same bytes take about twice as long.
    const bool has_many = 2 * count >= threads;
    for (const bool is_long : {true, false}) {
        for (int i = 0; i < count; ++i) {
            const AttentionItem& item = items[static_cast<size_t>(i)];
            if ((item.last_row - item.first_row > 1) != is_long) continue;
            const int heads = is_long || !has_many ? 1 : kv_heads;
            for (int head = 0; head < kv_heads; head += heads) shares.push_back({i, head, head + heads});
        }
    }
}

}  // namespace sgrt
