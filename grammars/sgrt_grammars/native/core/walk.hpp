// The depth-first walk of the token trie by derivatives.
#pragma once

#include "machine.hpp"

namespace sgrt {

enum { FLAG_SINGLE = 1, FLAG_MULTIPLE = 2, FLAG_BEGAN = 4, FLAG_OTHER = 8 };

// Calls sink(trie node, target, flags) for every trie node that spells tokens and is allowed. Guards count as passed.
struct Walk {
    Machine& machine;
    std::vector<Id> nodes;
    std::vector<uint8_t> flags;
    int64_t visited = 0;

    explicit Walk(Machine& machine) : machine(machine) {}

    // False if more than `limit` trie nodes were visited.
    template <class Sink> bool run(Id start, const Trie& trie, int64_t limit, Sink sink) {
        prepare(start, trie);
        const Bits& members = machine.first(start);
        for (int w = 0; w < 4; w++)
            for (uint64_t left = members.word[w]; left; left &= left - 1) {
                const int32_t at = trie.root_child[w * 64 + __builtin_ctzll(left)];
                if (at >= 0 && !subtree(trie, at, trie.skip[at], limit, sink)) return false;
            }
        machine.visited(visited);
        return true;
    }

    void prepare(Id start, const Trie& trie) {
        nodes.assign(size_t(trie.max_depth) + 1, start);
        flags.assign(size_t(trie.max_depth) + 1, 0);
    }

    template <class Sink> bool subtree(const Trie& trie, int32_t at, int32_t end, int64_t limit, Sink sink) {
        while (at < end) {
            const int32_t depth = trie.depth[size_t(at)];
            const uint8_t byte = trie.byte[size_t(at)];
            if (++visited > limit) return false;
            const Id target = follow(nodes[size_t(depth) - 1], byte, flags[size_t(depth) - 1], flags[size_t(depth)]);
            if (target == NOTHING_ID) {
                at = trie.skip[size_t(at)];
                continue;
            }
            nodes[size_t(depth)] = target;
            if (trie.token_start[size_t(at)] < trie.token_start[size_t(at) + 1]) sink(at, target, flags[size_t(depth)]);
            at++;
        }
        return true;
    }

    Id follow(Id from, uint8_t byte, uint8_t before, uint8_t& after) {
        const Node& state = machine.node(from);
        Id target;
        if (state.only_symbol >= 0) {
            if (state.only_symbol != byte) return NOTHING_ID;
            target = state.only_target;
        } else {
            target = state.row ? state.row[byte] : -1;
        }
        if (target < 0) target = machine.derive(from, byte);
        if (target == NOTHING_ID) return NOTHING_ID;
        after = before;
        if (machine.node(target).has_guard) {
            const Machine::Stripped& parts = machine.strip(target);
            target = parts.whole;
            uint8_t more = parts.flags;
            if (more & FLAG_SINGLE && before & (FLAG_BEGAN | FLAG_SINGLE)) more |= FLAG_MULTIPLE;
            after = before | more;
        }
        return machine.is_alive(target) ? target : NOTHING_ID;
    }
};

inline void set_bit(std::vector<uint32_t>& row, int32_t token) { row[size_t(token) >> 5] |= 1u << (token & 31); }

}  // namespace sgrt
