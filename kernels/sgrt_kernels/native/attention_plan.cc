#include <algorithm>
#include <cstring>

#include "attention.h"

namespace sgrt {

namespace {

constexpr int kWholeFrom = 17;  // query rows of a sequence from which its tiles walk all spans themselves

struct Chunk {
    int sequence, first_token, rows, first_position;
};

struct Group {
    int sequence;
    bool is_full;  // every row sees the whole span
    std::vector<VisibleRow> rows;
};

int window_start(int position, int window) { return window == 0 ? 0 : std::max(0, position - window + 1); }

}  // namespace

void AttentionPlan::build(int tokens, int sequences, const int32_t* query_starts, const int32_t* context_lengths,
                          const int32_t* page_table, int max_pages, int page_tokens, int window, int tile_rows) {
    rows.clear();
    items.clear();
    partials = 0;
    first_partial.assign(static_cast<size_t>(tokens), -1);
    partial_count.assign(static_cast<size_t>(tokens), 0);
    std::vector<Chunk> small;
    int last_span = 0;
    const auto row_at = [&](const Chunk& chunk, int i) {
        const int position = chunk.first_position + i;
        return VisibleRow{chunk.first_token + i, window_start(position, window), position + 1};
    };
    const auto span_after = [](int token) { return (token + kSpanTokens - 1) / kSpanTokens; };
    for (int s = 0; s < sequences; ++s) {
        const int count = query_starts[s + 1] - query_starts[s];
        const Chunk chunk{s, query_starts[s], count, context_lengths[s] - count};
        if (count < kWholeFrom) {
            small.push_back(chunk);
            last_span = std::max(last_span, count > 0 ? span_after(context_lengths[s]) : 0);
            continue;
        }
        for (int start = 0; start < count; start += tile_rows) {
            const int stop = std::min(count, start + tile_rows);
            AttentionItem item{s, 0, 0, static_cast<int>(rows.size()), 0, true};
            for (int i = start; i < stop; ++i) rows.push_back(row_at(chunk, i));
            item.last_row = static_cast<int>(rows.size());
            item.first_span = rows[static_cast<size_t>(item.first_row)].first / kSpanTokens;
            item.last_span = span_after(rows.back().last);
            items.push_back(item);
        }
    }
    // Long contexts first: what is left at the end is short, and the threads finish together.
    std::stable_sort(items.begin(), items.end(), [](const AttentionItem& a, const AttentionItem& b) {
        return a.last_span - a.first_span > b.last_span - b.first_span;
    });
    for (const Chunk& chunk : small) {
        for (int i = 0; i < chunk.rows; ++i) {
            const VisibleRow row = row_at(chunk, i);
            const size_t token = static_cast<size_t>(row.token);
            first_partial[token] = partials;
            partial_count[token] = span_after(row.last) - row.first / kSpanTokens;
            partials += partial_count[token];
        }
    }
    std::vector<Group> groups;
    const int span_pages = kSpanTokens / page_tokens;
    const bool can_share = span_pages > 0 && kSpanTokens % page_tokens == 0;
    for (int span = 0; span < last_span; ++span) {
        groups.clear();
        const int start = span * kSpanTokens, stop = start + kSpanTokens;
        for (const Chunk& chunk : small) {
            std::vector<VisibleRow> seen;
            bool is_full = can_share;
            for (int i = 0; i < chunk.rows; ++i) {
                const VisibleRow row = row_at(chunk, i);
                if (row.last <= start || row.first >= stop) continue;
                is_full = is_full && row.first <= start && row.last >= stop;
                seen.push_back(row);
            }
            if (seen.empty()) continue;
            const auto pages = [&](int s) {
                return page_table + static_cast<size_t>(s) * static_cast<size_t>(max_pages) + span * span_pages;
            };
            Group* home = nullptr;
            for (Group& group : groups) {
                if (is_full && group.is_full &&
                    std::memcmp(pages(group.sequence), pages(chunk.sequence),
                                sizeof(int32_t) * static_cast<size_t>(span_pages)) == 0) {
                    home = &group;
                    break;
                }
            }
            if (home == nullptr) home = &groups.emplace_back(Group{chunk.sequence, is_full, {}});
            home->rows.insert(home->rows.end(), seen.begin(), seen.end());
        }
        for (const Group& group : groups) {
            for (size_t at = 0; at < group.rows.size(); at += static_cast<size_t>(tile_rows)) {
                const size_t end = std::min(group.rows.size(), at + static_cast<size_t>(tile_rows));
                const int first = static_cast<int>(rows.size());
                rows.insert(rows.end(), group.rows.begin() + static_cast<long>(at),
                            group.rows.begin() + static_cast<long>(end));
                items.push_back({group.sequence, span, span + 1, first, static_cast<int>(rows.size()), false});
            }
        }
    }
}

}  // namespace sgrt
