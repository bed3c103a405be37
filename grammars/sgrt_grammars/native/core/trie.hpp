// The token vocabulary and its prefix tree in depth-first order; trie.py explains the arrays.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "node.hpp"

namespace sgrt {

struct Vocabulary {
    int32_t size = 0;
    std::vector<uint8_t> data;          // the bytes of all tokens, one after the other
    std::vector<int64_t> offsets;       // [size + 1]
    std::vector<int32_t> ends;

    const uint8_t* text(int32_t token) const { return data.data() + offsets[token]; }
    int32_t length(int32_t token) const { return int32_t(offsets[token + 1] - offsets[token]); }
};

struct Trie {
    Trie(const Vocabulary& vocabulary, std::vector<int32_t> tokens, bool is_summed = false);

    int32_t size = 0, max_depth = 0;
    std::vector<uint8_t> byte;
    std::vector<int32_t> skip, depth, token_start, tokens;
    std::vector<Bits> below;            // the bytes of all nodes below each node, if summed
    std::vector<int32_t> height;        // bytes from each node to the deepest below it, if summed
    int32_t root_child[256];            // node of each first byte, -1: none
    // The nodes below each, `size` standing for the root: edges [edge_start[n], edge_start[n + 1]), by byte.
    std::vector<int32_t> edge_start, edge_child;
    std::vector<uint8_t> edge_byte;

    // Calls found(length, token) for every token that spells the start of symbols[0, count).
    template <class Found> void matches(const int32_t* symbols, int32_t count, Found found) const {
        if (count == 0 || symbols[0] > 255) return;
        int32_t at = root_child[symbols[0]];
        for (int32_t length = 1; at >= 0;) {
            for (int32_t i = token_start[at]; i < token_start[at + 1]; i++) found(length, tokens[i]);
            if (length >= count || symbols[length] > 255) return;
            at = child(at, uint8_t(symbols[length++]));
        }
    }
    int32_t child(int32_t parent, uint8_t label) const {
        const int32_t edge = find_edge(edge_start[parent], edge_start[parent + 1], label);
        return edge < 0 ? -1 : edge_child[edge];
    }
    // Of some edges that of a byte, -1 if there is none.
    int32_t find_edge(int32_t begin, int32_t end, uint8_t label) const {
        const auto first = edge_byte.begin() + begin, last = edge_byte.begin() + end;
        const auto found = std::lower_bound(first, last, label);
        return found != last && *found == label ? int32_t(found - edge_byte.begin()) : -1;
    }
    bool has_tokens(int32_t at) const { return token_start[at] < token_start[at + 1]; }

private:
    void add_edges();
    void add_sums();
};

}  // namespace sgrt
