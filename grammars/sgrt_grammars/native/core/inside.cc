// Heads that few tokens begin: what stays inside them (spaces, the digits of a number, the rest of a word) is found once
// for all that may follow, like a dense head's, but kept as a list. Heads of one schema alone are walked and forgotten,
// so a head is only kept when it is met again.
#include <algorithm>

#include "walk.hpp"

namespace sgrt {
namespace {

constexpr int64_t FEW_NODES = 2000;     // trie nodes of a head worth keeping

}  // namespace

int32_t Machine::following_number(const Bits& following) {
    const auto known = followings_.find(following);
    if (known != followings_.end()) return known->second;
    const int32_t number = int32_t(followings_.size());
    return followings_[following] = number;
}

uint64_t Machine::split_key(Id head, const Bits& following) {
    return uint64_t(uint32_t(head)) << 32 | uint32_t(following_number(following));
}

// Null if the head was not met before, or too much begins in it.
const Split* Machine::inside(Id head, const Bits& following) {
    Inside& found = insides_[split_key(head, following)];
    if (found.is_met && !found.split && !found.is_refused) {
        auto made = std::make_unique<Split>();
        made->head = head;
        if (split_few(*made, following)) found.split = std::move(made);
        else found.is_refused = true;
    }
    found.is_met = true;
    return found.split.get();
}

// Whether a regular sequence begins with what may be passed and is told by its bytes from what follows, like spaces in
// front of a word: its states are shared by many sequences, those of the whole are its own.
bool Machine::is_apart(const Node& n) {
    return n.kind == CONCATENATION && n.regular && node(n.a).kind != LITERAL && is_nullable(n.a) &&
           !(first(n.a) & first(n.b)).any();
}

// What stays inside the head of a node, or inside what that begins with; null if nothing is kept of either.
const Split* Machine::inside(Id id) {
    const Node& n = node(id);
    if (n.kind != CONCATENATION) return nullptr;
    Id head = id;
    if (!n.regular) {
        first(n.a);
        if (!node(n.a).regular || node(n.a).only_symbol >= 0) return nullptr;
        const Split* parts = inside(n.a, first(n.b));
        if (parts) return is_loose_inside(*parts, n.b) ? parts : nullptr;
        if (node(n.b).has_capture) return nullptr;
        head = n.a;
    }
    const Node& h = node(head);
    return is_apart(h) && !is_nullable(h.b) ? inside(h.a, first(h.b)) : nullptr;
}

bool Machine::split_few(Split& out, const Bits& following) {
    struct Level {
        Id state;
        int32_t edge, end;
    };
    std::vector<Level> path{{out.head, trie.edge_start[size_t(trie.size)], trie.edge_start[size_t(trie.size) + 1]}};
    std::vector<int32_t> leaving;
    int64_t steps = 0;
    while (!path.empty()) {
        Level& level = path.back();
        if (level.edge == level.end) {
            path.pop_back();
            continue;
        }
        const int32_t at = trie.edge_child[size_t(level.edge)];
        const uint8_t byte = trie.edge_byte[size_t(level.edge++)];
        const Id from = level.state;
        const bool leaves = following.test(byte) && is_nullable(from);
        if (leaves) {
            const int32_t last = trie.token_start[size_t(trie.skip[size_t(at)])];
            for (int32_t i = trie.token_start[size_t(at)]; i < last; i++) leaving.push_back(trie.tokens[size_t(i)]);
        }
        if (!first(from).test(byte)) {
            if (leaves && int64_t(leaving.size()) > FEW_NODES) return false;
            continue;
        }
        const Id target = derive(from, byte);
        if (target == NOTHING_ID || !is_alive(target)) continue;
        if (++steps + int64_t(leaving.size()) > FEW_NODES) return false;
        for (int32_t i = trie.token_start[size_t(at)]; i < trie.token_start[size_t(at) + 1]; i++) {
            const int32_t token = trie.tokens[size_t(i)];
            out.few.push_back(token);
            if (target == EMPTY_ID) out.outer.emplace_back(token, target);
        }
        if (trie.has_tokens(at) && target != EMPTY_ID) out.ends.push_back(target);
        path.push_back({target, trie.edge_start[size_t(at)], trie.edge_start[size_t(at) + 1]});
    }
    visited(steps);
    std::sort(out.few.begin(), out.few.end());
    std::sort(out.ends.begin(), out.ends.end());
    out.ends.erase(std::unique(out.ends.begin(), out.ends.end()), out.ends.end());
    for (Id end : out.ends) out.has_nullable_end = out.has_nullable_end || is_nullable(end);
    mask_bytes_ += (out.few.size() + out.ends.size() + leaving.size()) * 4;
    out.residual = residual_trie(std::move(leaving));
    return true;
}

// Whether a capture that is due in front of the tail, or behind what may be passed of it, keeps tokens apart.
bool Machine::is_loose_inside(const Split& parts, Id tail) {
    if (!parts.outer.empty() || parts.has_nullable_end)
        if (tightness(tail) != LOOSE) return false;
    if (!node(tail).has_capture) return true;
    for (Id end : parts.ends)
        if (tightness(end, tail) != LOOSE) return false;
    return true;
}

}  // namespace sgrt
