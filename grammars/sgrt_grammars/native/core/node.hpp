// The nodes of the automaton and the small values around them. See automaton/node.py for what each kind denotes.
#pragma once

#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

namespace sgrt {

using Id = int32_t;

enum Kind : uint8_t {
    NOTHING, EMPTY, LITERAL, SET, CONCATENATION, ALTERNATION, REPETITION, INTERSECTION, COMPLEMENT,
    DEFERRED, SPECIAL, SCOPE, DISTINCT, ACTION, GUARDED,
};

enum Action : uint8_t { ENTER, EXIT, BEGIN, END_BYTES, END_JSON };

constexpr int64_t UNBOUNDED = int64_t(1) << 62;
constexpr int32_t FIRST_SPECIAL = 257;
constexpr uint32_t NO_COST = 1u << 30;
constexpr Id NOTHING_ID = 0, EMPTY_ID = 1;

struct Bits {
    uint64_t word[4] = {0, 0, 0, 0};

    bool test(int bit) const { return word[bit >> 6] >> (bit & 63) & 1; }
    void set(int bit) { word[bit >> 6] |= uint64_t(1) << (bit & 63); }
    bool any() const { return word[0] | word[1] | word[2] | word[3]; }
    int count() const {
        int total = 0;
        for (uint64_t w : word) total += __builtin_popcountll(w);
        return total;
    }
    int rank(int bit) const {   // set bits below `bit`
        int total = __builtin_popcountll(word[bit >> 6] & ((uint64_t(1) << (bit & 63)) - 1));
        for (int i = 0; i < bit >> 6; i++) total += __builtin_popcountll(word[i]);
        return total;
    }
    int lowest() const {
        for (int i = 0; i < 4; i++)
            if (word[i]) return i * 64 + __builtin_ctzll(word[i]);
        return -1;
    }
    bool operator==(const Bits& other) const { return !memcmp(word, other.word, sizeof word); }
    Bits operator&(const Bits& other) const {
        Bits out;
        for (int i = 0; i < 4; i++) out.word[i] = word[i] & other.word[i];
        return out;
    }
    Bits operator|(const Bits& other) const {
        Bits out;
        for (int i = 0; i < 4; i++) out.word[i] = word[i] | other.word[i];
        return out;
    }
    static Bits all() {
        Bits out;
        for (uint64_t& w : out.word) w = ~uint64_t(0);
        return out;
    }
};

struct Completion;
struct NodeMask;

// What a step of a walk looks at stands in the first two cache lines.
struct alignas(64) Node {
    Kind kind = NOTHING;
    bool regular = false;
    bool has_guard = false;     // an alternation with guarded options
    bool has_capture = false;   // holds a capture of a scope that is not its own, as far as unfolded
    int8_t alive = -1;          // -1: not known yet
    int8_t tight = -1;
    int8_t visibly_tight = -1;
    bool first_known = false;
    bool is_tree = false;       // an alternation of texts that each begin with a literal, or are one byte
    bool has_short = false;     // a deferred node with a short form, which its completion comes from
    uint8_t waiting = 0;        // one bit for each kind of evaluation in progress
    int8_t completion_known = 0;
    int16_t only_symbol = -1;   // memo of a derivative by the only byte it can start with
    int32_t passes = -1;        // index into the table of ways to pass as empty; 0: none, 1: plainly
    Id only_target = -1;
    Id unfolded = -1;           // of a deferred node, once known
    Id a = 0, b = 0;
    Id* row = nullptr;          // derivatives by class of the byte, or by its rank in `first`; -1: not known
    const uint8_t* class_of = nullptr;  // null: by rank
    union {                     // which one goes by the kind
        const Id* parts = nullptr;
        const uint8_t* data;
        const Bits* members;
    };
    union {
        int32_t count = 0;      // of parts
        int32_t size;           // of data
    };
    int32_t shortest = 0;       // lower bound of symbols, nothing unfolded
    Bits first;
    NodeMask* mask = nullptr;
    int64_t low = 0, high = 0;
    int32_t classes = -1;       // index of the byte partition of a regular node
    int32_t words = -2;         // number of texts; -1: many, -2: not known
    const std::vector<int32_t>* specials = nullptr;
    Completion* completion = nullptr;

    // The derivative by a byte, -1 if it is not known.
    Id edge(int byte) const {
        if (only_symbol >= 0) return only_symbol == byte ? only_target : NOTHING_ID;
        if (!row) return -1;
        if (!first.test(byte)) return NOTHING_ID;
        return row[class_of ? class_of[byte] : first.rank(byte)];
    }
};

// Control leaves an operation by these; the interface turns them into codes.
struct NeedsUnfolding {
    int32_t number;         // of a deferred expression; with a schema, the node of its value
    int32_t schema = -1;
};
struct LimitExceeded : std::runtime_error {
    using std::runtime_error::runtime_error;
};
struct InvalidExpression : std::runtime_error {
    using std::runtime_error::runtime_error;
};
struct BudgetTooSmall {
    uint32_t needed;
};
struct Unsatisfiable {};

}  // namespace sgrt
