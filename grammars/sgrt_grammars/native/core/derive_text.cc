// Derivatives by several bytes at once, without the nodes between.
#include <algorithm>

#include "machine.hpp"

namespace sgrt {

// The derivative by the first `taken` of some bytes: by all that a literal at the beginning holds, without making nodes
// on the way, where it is not known by one.
Id Machine::derive_text(Id id, const uint8_t* bytes, int32_t count, int32_t& taken) {
    const Node& n = node(id);
    const bool is_pair = n.kind == CONCATENATION && node(n.a).kind == LITERAL;
    taken = 1;
    if (n.edge(bytes[0]) >= 0 || !(is_pair || n.kind == LITERAL)) return derive(id, bytes[0]);
    const Node& text = is_pair ? node(n.a) : n;
    taken = std::min(count, text.size);
    if (memcmp(text.data, bytes, size_t(taken))) return NOTHING_ID;
    const Id rest = literal(text.data + taken, text.size - taken);
    return is_pair ? concatenation(rest, n.b) : rest;
}

// The derivative by some bytes. What a state begins with is followed by itself, and joined with what comes after only where
// the bytes end: the states between are not needed. Stops in front of a byte that acts on registers: `taken` says where.
Id Machine::derive_all(Id id, const uint8_t* bytes, int32_t count, int32_t& taken) {
    taken = 0;
    while (taken < count && id != NOTHING_ID) {
        const Node& n = node(id);
        if (n.kind == DEFERRED && n.edge(bytes[taken]) < 0) {
            id = is_key_choice(n) ? key_option(id, bytes[taken]) : unfold(id);
        } else if (n.kind == CONCATENATION && node(n.a).regular && !n.regular) {
            bool is_guarded = false;
            id = derive_head(n, id, bytes, count, taken, is_guarded);
            if (is_guarded) return id;
        } else {
            int32_t more = 1;
            const Id target = derive_text(id, bytes + taken, count - taken, more);
            if (node(target).has_guard) return id;
            id = target;
            taken += more;
        }
    }
    return id;
}

// Of a regular head and what follows it: by the bytes that stay in the head, or by one that may go either way.
Id Machine::derive_head(const Node& n, Id id, const uint8_t* bytes, int32_t count, int32_t& taken,
                        bool& is_guarded) {
    const Id tail = n.b;
    Id head = n.a;
    while (taken < count && head != EMPTY_ID) {
        const bool is_passed = is_nullable(head) && first(tail).test(bytes[taken]);
        if (!first(head).test(bytes[taken])) return is_passed ? tail : NOTHING_ID;
        if (is_passed) {
            const Id target = derive(head == n.a ? id : concatenation(head, tail), bytes[taken]);
            is_guarded = node(target).has_guard;
            if (is_guarded) break;
            taken++;
            return target;
        }
        int32_t more = 1;
        head = derive_text(head, bytes + taken, count - taken, more);
        if (head == NOTHING_ID) return NOTHING_ID;
        taken += more;
    }
    return head == EMPTY_ID ? tail : concatenation(head, tail);
}

}  // namespace sgrt
