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

    const Link& operator[](int32_t index) const { return links_[size_t(index)]; }
    int32_t push(Machine& machine, Id node, int32_t next);
    Id whole(Machine& machine, int32_t index);
    void clear();

private:
    static constexpr size_t FIRST_SLOTS = 64;

    std::vector<Link> links_;
    std::vector<int32_t> table_;
};

// What a walk works with, kept from one to the next.
struct WalkSpace {
    struct Edges {
        int32_t next, end;
    };

    struct Told {       // the tightness last asked for
        Id head = -1;
        int32_t tail = -1, offset = -1;
        Tightness tight = LOOSE;
    };

    Tails tails;
    Told told;
    std::vector<Place> pool;        // the places of every depth on the path, one depth after the other
    std::vector<size_t> start;      // where each depth begins
    std::vector<Bits> members;      // the bytes that may follow the places of a depth, where it pays to know them
    std::vector<Edges> open;        // of each depth those not tried yet
};

// Calls sink(trie node, places) for every trie node that spells tokens and is allowed. Guards count as passed.
// Heads move without their tails and alternatives side by side, so a walk makes no nodes but those of regular heads.
struct Walk {
    Machine& machine;
    std::unique_ptr<WalkSpace> space;
    Tails& tails;
    std::vector<Place>& pool;
    std::vector<size_t>& start;
    int64_t visited = 0;

    explicit Walk(Machine& machine)
        : machine(machine), space(machine.take_space()), tails(space->tails), pool(space->pool), start(space->start) {}
    ~Walk() { machine.return_space(std::move(space)); }

    // False if more than `limit` trie nodes were entered.
    template <class Sink> bool run(Id from, const Trie& trie, int64_t limit, Sink sink) {
        prepare(from, trie);
        if (!below(trie, trie.size, 0, limit, sink)) return false;
        machine.visited(visited);
        return true;
    }

    Places at_depth(size_t depth) const { return {pool.data() + start[depth], start[depth + 1] - start[depth]}; }

    void prepare(Id from, const Trie& trie);
    Id whole(const Place& place);
    Id whole(Places places);
    Tightness tightness(const Place& place);

private:
    Id head_of(const Place& place) const;
    Tightness find_tightness(const Place& place);
    Bits first_of(const Place& place) const;
    bool follow(size_t depth, uint8_t byte);
    bool open(const Trie& trie, int32_t at, size_t depth);
    void join(size_t begin);
    void step(const Place& from, uint8_t byte, size_t begin);
    void step_text(Place place, uint8_t byte, size_t begin);
    void step_node(Id id, int32_t tail, uint8_t flags, uint8_t byte, size_t begin);
    int32_t ways_of(Id id);
    void enter(Id target, int32_t tail, uint8_t flags, size_t begin);
    void add(Id id, int32_t tail, uint8_t flags, size_t begin);
    void put(const Place& place, size_t begin);

    template <class Sink> bool below(const Trie& trie, int32_t top, const size_t base, int64_t limit, Sink& sink) {
        size_t depth = base;
        if (!open(trie, top, depth)) return true;
        for (;;) {
            WalkSpace::Edges& edges = space->open[depth];
            if (edges.next == edges.end) {
                if (depth == base) return true;
                depth--;
                continue;
            }
            const int32_t edge = edges.next++;
            const uint8_t byte = trie.edge_byte[size_t(edge)];
            if (!space->members[depth].test(byte)) continue;
            if (++visited > limit) return false;
            if (!follow(depth + 1, byte)) continue;
            const int32_t at = trie.edge_child[size_t(edge)];
            if (trie.has_tokens(at)) sink(at, at_depth(depth + 1));
            if (open(trie, at, depth + 1)) depth++;
        }
    }
};

inline bool has_bit(const std::vector<uint32_t>& row, int32_t token) { return row[size_t(token) >> 5] >> (token & 31) & 1; }

inline void set_bit(std::vector<uint32_t>& row, int32_t token) { row[size_t(token) >> 5] |= 1u << (token & 31); }

inline std::vector<int32_t> tokens_in(const std::vector<uint32_t>& row) {
    std::vector<int32_t> tokens;
    for (size_t word = 0; word < row.size(); word++)
        for (uint32_t left = row[word]; left; left &= left - 1)
            tokens.push_back(int32_t(word * 32) + __builtin_ctz(left));
    return tokens;
}

inline void clear_bit(std::vector<uint32_t>& row, int32_t token) { row[size_t(token) >> 5] &= ~(1u << (token & 31)); }

}  // namespace sgrt
