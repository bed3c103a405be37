// The depth-first walk of the token trie by derivatives.
#pragma once

#include "machine.hpp"

namespace sgrt {

enum { FLAG_SINGLE = 1, FLAG_MULTIPLE = 2, FLAG_BEGAN = 4, FLAG_OTHER = 8 };

// A state of a walk: a node, or a regular head in front of a tail that is not joined to it (tail < 0: no tail).
struct Place {
    Id head, tail;
};

// Calls sink(trie node, place, flags) for every trie node that spells tokens and is allowed. Guards count as passed.
// Heads move without their tails, so that a walk makes no new nodes until it leaves them.
struct Walk {
    Machine& machine;
    std::vector<Place> places;
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
                if (at >= 0 && !subtree(trie, at, trie.skip[size_t(at)], limit, sink)) return false;
            }
        machine.visited(visited);
        return true;
    }

    void prepare(Id start, const Trie& trie) {
        places.resize(size_t(trie.max_depth) + 1);
        flags.resize(size_t(trie.max_depth) + 1);
        places[0] = apart(start);
        flags[0] = 0;
    }

    template <class Sink> bool subtree(const Trie& trie, int32_t at, int32_t end, int64_t limit, Sink sink) {
        while (at < end) {
            const size_t depth = size_t(trie.depth[size_t(at)]);
            if (++visited > limit) return false;
            Place& target = places[depth];
            if (!follow(places[depth - 1], trie.byte[size_t(at)], flags[depth - 1], target, flags[depth])) {
                at = trie.skip[size_t(at)];
                continue;
            }
            if (trie.token_start[size_t(at)] < trie.token_start[size_t(at) + 1]) sink(at, target, flags[depth]);
            at++;
        }
        return true;
    }

    Place apart(Id id) const {
        const Node& n = machine.node(id);
        return n.kind == CONCATENATION && !n.regular && machine.node(n.a).regular ? Place{n.a, n.b} : Place{id, -1};
    }

    Id whole(Place place) const {
        return place.tail < 0 ? place.head : machine.concatenation(place.head, place.tail);
    }

    Tightness tightness(Place place) const {
        if (place.tail < 0) return machine.tightness(place.head);
        if (machine.node(place.tail).has_capture) return machine.tightness(whole(place));
        return machine.is_nullable(place.head) ? machine.tightness(place.tail) : LOOSE;
    }

    Id derived(Id from, uint8_t byte) const {
        const Id known = machine.node(from).edge(byte);
        return known >= 0 ? known : machine.derive(from, byte);
    }

    bool follow(Place from, uint8_t byte, uint8_t before, Place& to, uint8_t& after) {
        after = before;
        Id target = derived(from.head, byte);
        if (from.tail >= 0) {
            if (machine.is_nullable(from.head) && machine.first(from.tail).test(byte)) {
                target = target == NOTHING_ID ? derived(from.tail, byte) : machine.derive(whole(from), byte);
            } else if (target != NOTHING_ID && target != EMPTY_ID) {
                to = {target, from.tail};
                return machine.is_alive(target);
            } else if (target == EMPTY_ID) {
                to = apart(from.tail);
                return true;
            }
        }
        if (target == NOTHING_ID) return false;
        if (machine.node(target).has_guard) {
            const Machine::Stripped& parts = machine.strip(target);
            target = parts.whole;
            uint8_t more = parts.flags;
            if (more & FLAG_SINGLE && before & (FLAG_BEGAN | FLAG_SINGLE)) more |= FLAG_MULTIPLE;
            after = before | more;
        }
        to = apart(target);
        return machine.is_alive(target);
    }
};

inline void set_bit(std::vector<uint32_t>& row, int32_t token) { row[size_t(token) >> 5] |= 1u << (token & 31); }

}  // namespace sgrt
