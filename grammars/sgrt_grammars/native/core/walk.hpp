// The depth-first walk of the token trie by derivatives.
#pragma once

#include "machine.hpp"

namespace sgrt {

enum { FLAG_SINGLE = 1, FLAG_MULTIPLE = 2, FLAG_BEGAN = 4, FLAG_OTHER = 8 };

// One alternative of a walk: a head and what follows it (an index into the walk's tails, -1: nothing), which are not
// joined. A regular head that begins with a literal is followed inside that literal: `offset` bytes of it are behind
// (-1: no such head).
struct Place {
    Id head;
    int32_t tail;
    int32_t offset;
    uint8_t flags;      // of the actions passed on the way
};

struct Places {
    const Place* first;
    size_t count;
    const Place* begin() const { return first; }
    const Place* end() const { return first + count; }
};

// What follows a head: chains of nodes, each held once.
class Tails {
public:
    struct Link {
        Id node;
        int32_t next;       // -1: nothing
        bool has_capture;   // here or further on
        Id whole;           // both joined, -1: not made yet
    };

    explicit Tails(Machine& machine) : machine_(machine) { table_.assign(256, -1); }

    const Link& operator[](int32_t index) const { return links_[size_t(index)]; }
    int32_t push(Id node, int32_t next);
    Id whole(int32_t index);

private:
    Machine& machine_;
    std::vector<Link> links_;
    std::vector<int32_t> table_;
};

// Calls sink(trie node, places) for every trie node that spells tokens and is allowed. Guards count as passed.
// Heads move without their tails and alternatives side by side, so a walk makes no nodes but those of regular heads.
struct Walk {
    Machine& machine;
    Tails tails;
    std::vector<Place> pool;        // the places of every depth on the path, one depth after the other
    std::vector<size_t> start;      // where each depth begins
    std::vector<Bits> members;      // the bytes that may follow the places of a depth, where there are many
    std::vector<uint8_t> summed;    // whether they are known
    int64_t visited = 0;

    explicit Walk(Machine& machine) : machine(machine), tails(machine) {}

    // False if more than `limit` trie nodes were visited.
    template <class Sink> bool run(Id from, const Trie& trie, int64_t limit, Sink sink) {
        prepare(from, trie);
        Bits all;
        for (const Place& place : at_depth(0)) all = all | first_of(place);
        for (int w = 0; w < 4; w++)
            for (uint64_t left = all.word[w]; left; left &= left - 1) {
                const int32_t at = trie.root_child[w * 64 + __builtin_ctzll(left)];
                if (at >= 0 && !subtree(trie, at, trie.skip[size_t(at)], limit, sink)) return false;
            }
        machine.visited(visited);
        return true;
    }

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

    Places at_depth(size_t depth) const { return {pool.data() + start[depth], start[depth + 1] - start[depth]}; }

    void prepare(Id from, const Trie& trie);
    Id whole(const Place& place);
    Id whole(Places places);
    Tightness tightness(const Place& place);

private:
    Id head_of(const Place& place) const;
    Bits first_of(const Place& place) const;
    const Bits& members_at(size_t depth);
    bool follow(size_t depth, uint8_t byte);
    void join(size_t begin);
    void step(const Place& from, uint8_t byte, size_t begin);
    void step_text(Place place, uint8_t byte, size_t begin);
    void step_node(Id id, int32_t tail, uint8_t flags, uint8_t byte, size_t begin);
    int32_t ways_of(Id id);
    void enter(Id target, int32_t tail, uint8_t flags, size_t begin);
    void add(Id id, int32_t tail, uint8_t flags, size_t begin);
    void put(const Place& place, size_t begin);
};

inline bool has_bit(const std::vector<uint32_t>& row, int32_t token) { return row[size_t(token) >> 5] >> (token & 31) & 1; }

inline void set_bit(std::vector<uint32_t>& row, int32_t token) { row[size_t(token) >> 5] |= 1u << (token & 31); }

inline void clear_bit(std::vector<uint32_t>& row, int32_t token) { row[size_t(token) >> 5] &= ~(1u << (token & 31)); }

}  // namespace sgrt
