#include <algorithm>

#include "texts.hpp"

namespace sgrt {
namespace {

int32_t common_prefix(const Headed& left, const Headed& right) {
    const int32_t limit = std::min(left.size, right.size);
    int32_t length = 0;
    while (length < limit && left.data[length] == right.data[length]) length++;
    return length;
}

}  // namespace

// Sorted literals folded into a compressed prefix tree, deepest branches first.
Id prefix_tree(Machine& machine, std::vector<Headed>& entries) {
    std::sort(entries.begin(), entries.end(), [](const Headed& l, const Headed& r) {
        const int order = memcmp(l.data, r.data, size_t(std::min(l.size, r.size)));
        if (order) return order < 0;
        return l.size != r.size ? l.size < r.size : l.tail < r.tail;
    });
    struct Branch {
        int32_t depth;
        std::vector<Id> options;
    };
    std::vector<Branch> branches(1);
    branches[0].depth = 0;
    for (size_t i = 0; i < entries.size(); i++) {
        const Headed& entry = entries[i];
        const int32_t common = i + 1 < entries.size() ? common_prefix(entry, entries[i + 1]) : 0;
        int32_t depth = entry.size;
        Id tail = entry.tail;
        auto hang = [&](Branch& branch) {
            const Id label = machine.literal(entry.data + branch.depth, depth - branch.depth);
            branch.options.push_back(machine.concatenation(label, tail));
        };
        while (branches.back().depth > common) {
            hang(branches.back());
            depth = branches.back().depth;
            tail = machine.alternation(std::move(branches.back().options));
            branches.pop_back();
        }
        if (branches.back().depth < common) branches.push_back({common, {}});
        hang(branches.back());
    }
    return machine.alternation(std::move(branches[0].options));
}

// The alternation of options with those that begin with literals as a tree.
Id factored_alternation(Machine& machine, const std::vector<Id>& options) {
    std::vector<Headed> literals;
    std::vector<Id> others;
    for (Id option : options) {
        const Node& n = machine.node(option);
        const bool is_pair = n.kind == CONCATENATION;
        const Node& head = is_pair ? machine.node(n.a) : n;
        if (head.kind == LITERAL) literals.push_back({head.data, head.size, is_pair ? n.b : EMPTY_ID});
        else others.push_back(option);
    }
    if (literals.size() < 2) return machine.alternation(options);
    others.push_back(prefix_tree(machine, literals));
    return machine.alternation(std::move(others));
}

Id one_of_texts(Machine& machine, const std::vector<std::string>& texts) {
    std::vector<Headed> entries;
    for (const std::string& one : texts)
        entries.push_back({reinterpret_cast<const uint8_t*>(one.data()), int32_t(one.size()), EMPTY_ID});
    return entries.empty() ? NOTHING_ID : prefix_tree(machine, entries);
}

}  // namespace sgrt
