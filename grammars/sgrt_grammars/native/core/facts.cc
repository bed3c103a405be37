// What is known of a node when it is made: facts of its parts, and memos that cost nothing.
#include <algorithm>

#include "machine.hpp"

namespace sgrt {

// What follows from the parts alone, without unfolding anything.
void Machine::fill_facts(Node& n) {
    constexpr int32_t CAP = 1 << 28;
    auto part = [&](Id id) -> const Node& { return nodes_[id]; };
    n.regular = n.kind < DEFERRED;
    switch (n.kind) {
        case LITERAL:
            n.shortest = n.size;
            break;
        case SET:
        case SPECIAL:
            n.shortest = 1;
            break;
        case CONCATENATION:
            n.regular = part(n.a).regular && part(n.b).regular;
            n.shortest = std::min(CAP, part(n.a).shortest + part(n.b).shortest);
            n.has_capture = part(n.a).has_capture || part(n.b).has_capture;
            break;
        case ALTERNATION:
        case INTERSECTION:
            n.shortest = n.kind == ALTERNATION ? CAP : 0;
            n.is_tree = n.kind == ALTERNATION;
            for (int32_t i = 0; i < n.count; i++) {
                const Node& p = part(n.parts[i]);
                n.regular = n.regular && p.regular;
                const Kind begins = p.kind == CONCATENATION ? part(p.a).kind : p.kind;
                n.is_tree = n.is_tree && p.regular && (begins == LITERAL || p.kind == SET);
                n.has_guard = n.has_guard || p.kind == GUARDED;
                n.has_capture = n.has_capture || p.has_capture;
                n.shortest = n.kind == ALTERNATION ? std::min(n.shortest, p.shortest) : std::max(n.shortest, p.shortest);
            }
            break;
        case REPETITION:
            n.regular = part(n.a).regular;
            n.has_capture = part(n.a).has_capture;
            n.shortest = int32_t(std::min<int64_t>(CAP, part(n.a).shortest * std::min<int64_t>(n.low, CAP)));
            break;
        case SCOPE:
        case DISTINCT:
            n.shortest = part(n.a).shortest;
            n.has_capture = n.kind == DISTINCT;
            break;
        case GUARDED:
            n.has_guard = true;
            n.shortest = part(n.a).shortest;
            break;
        case ACTION:
            n.has_capture = n.low >= BEGIN;
            break;
        default:
            break;
    }
}

// Memos that are cheap to know at once; the rest is found on demand.
void Machine::fill_eagerly(Node& n) {
    auto part = [&](Id id) -> const Node& { return nodes_[id]; };
    switch (n.kind) {
        case NOTHING:
            n.alive = 0;
            n.passes = 0;
            break;
        case EMPTY:
            n.alive = 1;
            n.passes = 1;
            break;
        case LITERAL:
            n.alive = 1;
            for (int32_t i = 0; i < n.size; i++) n.alive = n.alive && alphabet.test(n.data[i]);
            n.passes = 0;
            break;
        case SET:
            n.alive = (*n.members & alphabet).any();
            n.passes = 0;
            break;
        case SPECIAL:
            n.alive = n.low >= 0 && n.low < vocabulary.size;
            n.passes = 0;
            break;
        case CONCATENATION:
            if (part(n.a).alive == 1) n.alive = part(n.b).alive;
            if (part(n.a).alive == 0 || part(n.b).alive == 0) n.alive = 0;
            if (part(n.a).passes == 0) n.passes = 0;
            if (part(n.a).passes == 1) n.passes = part(n.b).passes;
            break;
        case ALTERNATION:
            for (int32_t i = 0; i < n.count; i++)
                if (part(n.parts[i]).alive == 1) n.alive = 1;
            break;
        case REPETITION:
            n.alive = n.low == 0 ? 1 : part(n.a).alive;
            if (n.low == 0) n.passes = 1;
            break;
        case ACTION:
            n.alive = 1;
            break;
        case GUARDED:
            n.alive = part(n.a).alive;
            break;
        default:
            break;
    }
    fill_first(n);
}

void Machine::fill_first(Node& n) {
    auto part = [&](Id id) -> const Node& { return nodes_[id]; };
    if (n.kind == LITERAL) {
        n.first.set(n.data[0]);
        n.first_known = true;
    } else if (n.kind == SET) {
        n.first = *n.members;
        n.first_known = true;
    } else if (n.kind == COMPLEMENT) {
        n.first = Bits::all();
        n.first_known = true;
    } else if (n.kind == CONCATENATION && part(n.a).first_known && part(n.a).passes >= 0) {
        if (part(n.a).passes == 0) {
            n.first = part(n.a).first;
            n.first_known = true;
        } else if (part(n.b).first_known) {
            n.first = part(n.a).first | part(n.b).first;
            n.first_known = true;
        }
    }
    if (n.first_known && n.kind != COMPLEMENT && n.first.count() == 1) n.only_symbol = int16_t(n.first.lowest());
}

}  // namespace sgrt
