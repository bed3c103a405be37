// The depth-first walk of the token trie by derivatives.
#pragma once

#include "machine.hpp"

namespace sgrt {

enum { FLAG_SINGLE = 1, FLAG_MULTIPLE = 2, FLAG_BEGAN = 4, FLAG_OTHER = 8 };

// One alternative of a walk: a node, or a regular head in front of a tail that is not joined to it (tail < 0: none).
struct Place {
    Id head, tail;
    uint8_t flags;      // of the actions passed on the way
};

struct Places {
    const Place* first;
    size_t count;
    const Place* begin() const { return first; }
    const Place* end() const { return first + count; }
};

// Calls sink(trie node, places) for every trie node that spells tokens and is allowed. Guards count as passed.
// Heads move without their tails and alternatives side by side, so a walk makes no new nodes until it leaves a head.
struct Walk {
    Machine& machine;
    std::vector<Place> pool;        // the places of every depth on the path, one depth after the other
    std::vector<size_t> start;      // where each depth begins
    int64_t visited = 0;

    explicit Walk(Machine& machine) : machine(machine) {}

    // False if more than `limit` trie nodes were visited.
    template <class Sink> bool run(Id from, const Trie& trie, int64_t limit, Sink sink) {
        prepare(from, trie);
        Bits members;
        for (const Place& place : at_depth(0)) members = members | first_of(place);
        for (int w = 0; w < 4; w++)
            for (uint64_t left = members.word[w]; left; left &= left - 1) {
                const int32_t at = trie.root_child[w * 64 + __builtin_ctzll(left)];
                if (at >= 0 && !subtree(trie, at, trie.skip[size_t(at)], limit, sink)) return false;
            }
        machine.visited(visited);
        return true;
    }

    void prepare(Id from, const Trie& trie) {
        start.assign(size_t(trie.max_depth) + 2, 0);
        pool.clear();
        while (machine.node(from).kind == DEFERRED) from = machine.unfold(from);
        add(from, 0, 0);
        start[1] = pool.size();
    }

    Places at_depth(size_t depth) const { return {pool.data() + start[depth], start[depth + 1] - start[depth]}; }

    template <class Sink> bool subtree(const Trie& trie, int32_t at, int32_t end, int64_t limit, Sink sink) {
        while (at < end) {
            const size_t depth = size_t(trie.depth[size_t(at)]);
            if (++visited > limit) return false;
            if (!follow(depth, trie.byte[size_t(at)])) {
                at = trie.skip[size_t(at)];
                continue;
            }
            if (trie.token_start[size_t(at)] < trie.token_start[size_t(at) + 1]) sink(at, at_depth(depth));
            at++;
        }
        return true;
    }

    Id whole(const Place& place) const {
        return place.tail < 0 ? place.head : machine.concatenation(place.head, place.tail);
    }

    Id whole(Places places) const {
        if (places.count == 1) return whole(*places.first);
        std::vector<Id> options;
        for (const Place& place : places) options.push_back(whole(place));
        return machine.alternation(std::move(options));
    }

    Tightness tightness(const Place& place) const {
        if (place.tail < 0) return machine.tightness(place.head);
        if (machine.node(place.tail).has_capture) return machine.tightness(whole(place));
        return machine.is_nullable(place.head) ? machine.tightness(place.tail) : LOOSE;
    }

private:
    Bits first_of(const Place& place) const {
        Bits members = machine.first(place.head);
        if (place.tail >= 0 && machine.is_nullable(place.head)) members = members | machine.first(place.tail);
        return members;
    }

    Id derived(Id from, uint8_t byte) const {
        const Id known = machine.node(from).edge(byte);
        return known >= 0 ? known : machine.derive(from, byte);
    }

    // The places after `byte` become those of `depth`; false if there are none.
    bool follow(size_t depth, uint8_t byte) {
        const size_t begin = start[depth];
        pool.resize(begin);
        for (size_t i = start[depth - 1]; i < begin; i++) {
            const Place from = pool[i];
            const Id target = derived(from.head, byte);
            if (from.tail < 0) {
                if (target != NOTHING_ID && machine.is_alive(target)) add(target, from.flags, begin);
                continue;
            }
            if (target == EMPTY_ID) add(from.tail, from.flags, begin);
            else if (target != NOTHING_ID && machine.is_alive(target)) put({target, from.tail, from.flags}, begin);
            if (machine.is_nullable(from.head) && machine.first(from.tail).test(byte)) {
                const Id beyond = derived(from.tail, byte);
                if (beyond != NOTHING_ID && machine.is_alive(beyond)) add(beyond, from.flags, begin);
            }
        }
        start[depth + 1] = pool.size();
        return pool.size() > begin;
    }

    void put(Place place, size_t begin) {
        for (size_t i = begin; i < pool.size(); i++)
            if (pool[i].head == place.head && pool[i].tail == place.tail && pool[i].flags == place.flags) return;
        pool.push_back(place);
    }

    // The alternatives of `id`, apart.
    void add(Id id, uint8_t flags, size_t begin) {
        const Node& n = machine.node(id);
        if (n.regular) {
            put({id, -1, flags}, begin);
        } else if (n.kind == ALTERNATION && pool.size() - begin < MAX_PLACES) {
            for (int32_t i = 0; i < n.count; i++)
                if (machine.is_alive(n.parts[i])) add(n.parts[i], flags, begin);
        } else if (n.kind == ALTERNATION && n.has_guard) {
            const Machine::Stripped& parts = machine.strip(id);
            put({parts.whole, -1, merged(flags, parts.flags)}, begin);
        } else if (n.kind == GUARDED) {
            add(n.a, merged(flags, machine.strip(id).flags), begin);
        } else if (n.kind == CONCATENATION && machine.node(n.a).regular) {
            put({n.a, n.b, flags}, begin);
        } else {
            put({id, -1, flags}, begin);
        }
    }

    static uint8_t merged(uint8_t before, uint8_t more) {
        if (more & FLAG_SINGLE && before & (FLAG_BEGAN | FLAG_SINGLE)) more |= FLAG_MULTIPLE;
        return before | more;
    }

    static constexpr size_t MAX_PLACES = 512;
};

inline bool has_bit(const std::vector<uint32_t>& row, int32_t token) { return row[size_t(token) >> 5] >> (token & 31) & 1; }

inline void set_bit(std::vector<uint32_t>& row, int32_t token) { row[size_t(token) >> 5] |= 1u << (token & 31); }

}  // namespace sgrt
