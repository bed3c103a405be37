#include "trie.hpp"

#include <algorithm>
#include <cstring>

namespace sgrt {

Trie::Trie(const Vocabulary& vocabulary, std::vector<int32_t> ordered, bool is_summed) {
    auto before = [&](int32_t left, int32_t right) {
        int32_t n = vocabulary.length(left), m = vocabulary.length(right);
        int order = memcmp(vocabulary.text(left), vocabulary.text(right), size_t(std::min(n, m)));
        if (order) return order < 0;
        return n != m ? n < m : left < right;
    };
    std::sort(ordered.begin(), ordered.end(), before);
    std::vector<int32_t> open;
    const uint8_t* previous = nullptr;
    int32_t previous_length = 0;
    for (size_t position = 0; position < ordered.size(); position++) {
        const uint8_t* text = vocabulary.text(ordered[position]);
        const int32_t length = vocabulary.length(ordered[position]);
        int32_t common = 0;
        const int32_t limit = std::min(length, previous_length);
        while (common < limit && previous[common] == text[common]) common++;
        for (; int32_t(open.size()) > common; open.pop_back()) skip[open.back()] = int32_t(byte.size());
        for (int32_t i = common; i < length; i++) {
            open.push_back(int32_t(byte.size()));
            byte.push_back(text[i]);
            skip.push_back(0);
            depth.push_back(i + 1);
            token_start.push_back(int32_t(position));
        }
        max_depth = std::max(max_depth, length);
        previous = text;
        previous_length = length;
    }
    for (int32_t at : open) skip[at] = int32_t(byte.size());
    size = int32_t(byte.size());
    token_start.push_back(int32_t(ordered.size()));
    tokens = std::move(ordered);
    std::fill_n(root_child, 256, -1);
    for (int32_t at = 0; at < size; at = skip[at]) root_child[byte[at]] = at;
    add_edges();
    if (is_summed) add_sums();
}

void Trie::add_edges() {
    edge_start.assign(size_t(size) + 2, 0);
    std::vector<int32_t> parent(size_t(max_depth) + 1, size);     // by depth, on the path
    for (int32_t at = 0; at < size; at++) {
        parent[size_t(depth[at])] = at;
        edge_start[size_t(parent[size_t(depth[at]) - 1]) + 1]++;
    }
    for (size_t i = 1; i < edge_start.size(); i++) edge_start[i] += edge_start[i - 1];
    edge_child.resize(size_t(size));
    edge_byte.resize(size_t(size));
    std::vector<int32_t> next(edge_start.begin(), edge_start.end() - 1);
    for (int32_t at = 0; at < size; at++) {
        parent[size_t(depth[at])] = at;
        const int32_t edge = next[size_t(parent[size_t(depth[at]) - 1])]++;
        edge_child[size_t(edge)] = at;
        edge_byte[size_t(edge)] = byte[at];
    }
}

// What is below each node.
void Trie::add_sums() {
    below.resize(size_t(size));
    height.resize(size_t(size));
    std::vector<Bits> open_below(size_t(max_depth) + 2);     // by depth: of the siblings behind
    std::vector<int32_t> open_height(size_t(max_depth) + 2, 0);
    for (int32_t at = size; at-- > 0;) {
        const size_t here = size_t(depth[at]);
        below[at] = open_below[here + 1];
        open_below[here + 1] = Bits();
        open_below[here] = open_below[here] | below[at];
        open_below[here].set(byte[at]);
        height[at] = open_height[here + 1];
        open_height[here + 1] = 0;
        open_height[here] = std::max(open_height[here], height[at] + 1);
    }
}

}  // namespace sgrt
