// Counted parts of dense heads: bounds that no token can feel are left out, so that many heads are one; where one may be
// felt, the walk goes down only as far as that.
#include <algorithm>

#include "walk.hpp"

namespace sgrt {
namespace {

constexpr int64_t SMALL_BOUND = 8;              // below, a bound is kept as it is
constexpr size_t MAX_PRODUCT_STATES = 512;
constexpr int64_t NO_BOUND = UNBOUNDED;

}  // namespace

// The head without an upper bound that no token can reach. What is equal inside tokens has one split.
Id Machine::capped(Id head) {
    auto found = capped_.find(head);
    if (found != capped_.end()) return found->second;
    const Node& n = node(head);
    Id result = head;
    if (n.kind == REPETITION && n.high != UNBOUNDED && n.high > horizon_ + COUNT_MARGIN) {
        result = repetition(n.a, n.low, UNBOUNDED);
    } else if (n.kind == CONCATENATION) {
        result = concatenation(capped(n.a), n.b);
    } else if (n.kind == INTERSECTION) {
        const Lifted free = lifted(head);
        if (free.head != head && is_alive(free.head)) {
            const int64_t needed = longest_completion(free.head);
            if (needed >= 0 && free.margin >= horizon_ + needed) result = free.head;
        }
    }
    return capped_[head] = result;
}

// The same with no upper bounds on what is counted, but for small ones. A text of at most `margin` bytes belongs to
// both or to neither: it holds no more bodies than that.
Machine::Lifted Machine::lifted(Id id) {
    auto found = lifted_.find(id);
    if (found != lifted_.end()) return found->second;
    const Node& n = node(id);
    Lifted result{id, NO_BOUND};
    if (n.kind == REPETITION && n.high != UNBOUNDED && n.high >= SMALL_BOUND) {
        const int64_t shortest = std::max(1, node(n.a).shortest);
        result.margin = std::min(NO_BOUND / shortest, n.high) * shortest;
        result.head = repetition(n.a, n.low, UNBOUNDED);
    } else if (n.kind == CONCATENATION) {
        const Lifted head = lifted(n.a), tail = lifted(n.b);
        result = {concatenation(head.head, tail.head), std::min(head.margin, tail.margin)};
    } else if (n.kind == INTERSECTION || n.kind == ALTERNATION) {
        std::vector<Id> parts(n.parts, n.parts + n.count);
        for (Id& part : parts) {
            const Lifted one = lifted(part);
            part = one.head;
            result.margin = std::min(result.margin, one.margin);
        }
        if (result.margin < NO_BOUND)
            result.head = n.kind == INTERSECTION ? intersection(std::move(parts)) : alternation(std::move(parts));
    }
    return lifted_[id] = result;
}

// Bytes that complete any text that begins in a regular node, at most: -1 if it has too many states to say.
int64_t Machine::longest_completion(Id root) {
    auto found = longest_.find(root);
    if (found != longest_.end()) return found->second;
    std::unordered_map<Id, size_t> number{{root, 0}};
    std::vector<Id> states{root};
    std::vector<std::vector<size_t>> sources(1);
    for (size_t at = 0; at < states.size() && states.size() <= MAX_PRODUCT_STATES; at++)
        for (const auto& members : partition(states[at]).members) {
            if (!std::any_of(members.begin(), members.end(), [&](uint8_t byte) { return alphabet.test(byte); })) continue;
            const Id target = derive(states[at], members[0]);
            if (target == NOTHING_ID) continue;
            const auto [place, is_new] = number.emplace(target, states.size());
            if (is_new) {
                states.push_back(target);
                sources.emplace_back();
            }
            sources[place->second].push_back(at);
        }
    if (states.size() > MAX_PRODUCT_STATES) return longest_[root] = -1;
    std::vector<size_t> queue;      // by distance from the end; states that are not reached are dead
    std::vector<int64_t> distance(states.size(), -1);
    for (size_t i = 0; i < states.size(); i++)
        if (is_nullable(states[i])) {
            distance[i] = 0;
            queue.push_back(i);
        }
    int64_t longest = 0;
    for (size_t at = 0; at < queue.size(); at++) {
        longest = distance[queue[at]];
        for (size_t source : sources[queue[at]])
            if (distance[source] < 0) {
                distance[source] = longest + 1;
                queue.push_back(source);
            }
    }
    return longest_[root] = longest;
}

// A head with bounds: the row of the head without them, walked again where a token and what completes it may be long
// enough to feel one.
bool Machine::split_by_bounds(Split& out, const Bits& following) {
    const Lifted free = lifted(out.head);
    if (free.head == out.head || !is_alive(free.head)) return false;
    const int64_t needed = longest_completion(free.head);
    if (needed < 0) return false;
    const Split& source = split(free.head, following);
    if (!source.outer.empty()) return false;
    out.row = source.row;
    out.residual = source.residual;
    out.has_all_ends = out.has_cost_ends = false;
    std::vector<std::pair<Id, Id>> states(size_t(trie.max_depth) + 1, {out.head, free.head});
    int64_t steps = 0;
    for (int32_t at = 0; at < trie.size; steps++) {
        const size_t depth = size_t(trie.depth[size_t(at)]);
        const uint8_t byte = trie.byte[size_t(at)];
        const auto [from, from_free] = states[depth - 1];
        const Id beside = derive(from_free, byte);
        if (beside == NOTHING_ID || !is_alive(beside)) {
            at = trie.skip[size_t(at)];
            continue;
        }
        const Id target = derive(from, byte);
        if (target == NOTHING_ID || !is_alive(target)) {
            const int32_t last = trie.token_start[size_t(trie.skip[size_t(at)])];
            for (int32_t i = trie.token_start[size_t(at)]; i < last; i++) clear_bit(out.row, trie.tokens[size_t(i)]);
            at = trie.skip[size_t(at)];
            continue;
        }
        const Lifted reached = lifted(target);
        const bool is_free = reached.head == beside && reached.margin >= trie.height[size_t(at)] + needed;
        states[depth] = {target, beside};
        at = is_free ? trie.skip[size_t(at)] : at + 1;
    }
    visited(steps);
    return true;
}

}  // namespace sgrt
