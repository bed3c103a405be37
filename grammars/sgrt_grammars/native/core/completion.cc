// Completions: one text of each node whose tokens are counted. automaton/completion.py explains the choice.
#include <algorithm>
#include <deque>

#include "machine.hpp"

namespace sgrt {
namespace {

constexpr int32_t NO_CUT = 1 << 30;
constexpr char LIKED[] = "0a \"A_-1b";

struct Frame {
    Id id;
    int32_t next;
    int32_t cut;
    const Completion* best;         // of an alternation so far; of a concatenation: the head
    std::vector<Id> order;          // options of an alternation, shortest bound first
};

bool is_better(const Completion* left, const Completion* right) {
    if (!right) return true;
    return left->cost != right->cost ? left->cost < right->cost : left->length < right->length;
}

}  // namespace

// `symbols` in front of `tail`, with the fewest tokens that spell both together.
Completion* Machine::make_completion(std::vector<int32_t> symbols, const Completion* tail, uint8_t uses) {
    takes(sizeof(Completion) + symbols.size() * (sizeof(int32_t) + sizeof(uint32_t)));
    while (tail && tail->symbols.empty() && tail->tail) tail = tail->tail;
    const size_t own = symbols.size();
    std::vector<int32_t> joined = symbols;
    std::vector<uint32_t> costs(own);
    for (const Completion* at = tail; at && joined.size() < own + size_t(horizon_); at = at->tail) {
        joined.insert(joined.end(), at->symbols.begin(), at->symbols.end());
        costs.insert(costs.end(), at->costs.begin(), at->costs.end());
    }
    const bool is_cut = tail && joined.size() < own + tail->length;
    if (!is_cut) costs.push_back(0);
    for (size_t start = own; start-- > 0;) {
        uint32_t best = NO_COST;
        if (joined[start] >= FIRST_SPECIAL) best = costs[start + 1] + 1;
        trie.matches(joined.data() + start, int32_t(joined.size() - start), [&](int32_t length, int32_t) {
            const size_t after = start + size_t(length);
            if (after < costs.size()) best = std::min(best, costs[after] + 1);
        });
        costs[start] = best;
    }
    if (own && costs[0] >= NO_COST) return nullptr;
    completions_.emplace_back();
    Completion& made = completions_.back();
    made.symbols = std::move(symbols);
    made.cost = own ? costs[0] : tail ? tail->cost : 0;
    costs.resize(own);
    made.costs = std::move(costs);
    made.tail = tail;
    made.length = uint32_t(own) + (tail ? tail->length : 0);
    made.uses = uses;
    return &made;
}

// Tokens of these symbols, NO_COST if none spell them. Nothing is kept.
uint32_t Machine::cost_of(const std::vector<int32_t>& symbols) {
    const Completion* made = make_completion(symbols, nullptr, 0);
    if (!made) return NO_COST;
    const uint32_t cost = made->cost;
    completions_.pop_back();
    return cost;
}

std::vector<int32_t> Machine::tokens_of(const std::vector<int32_t>& symbols) {
    const Completion* made = make_completion(symbols, nullptr, 0);
    if (!made) throw Unsatisfiable();
    std::vector<int32_t> tokens = tokens_of(made);
    completions_.pop_back();
    return tokens;
}

std::vector<int32_t> Machine::symbols_of(const Completion* completion) const {
    std::vector<int32_t> out;
    for (; completion; completion = completion->tail)
        out.insert(out.end(), completion->symbols.begin(), completion->symbols.end());
    return out;
}

std::vector<int32_t> Machine::tokens_of(const Completion* completion) const {
    const std::vector<int32_t> symbols = symbols_of(completion);
    std::vector<uint32_t> costs;
    for (const Completion* at = completion; at; at = at->tail)
        costs.insert(costs.end(), at->costs.begin(), at->costs.end());
    costs.push_back(0);
    std::vector<int32_t> tokens;
    for (size_t at = 0; at < symbols.size();) {
        size_t step = 0;
        int32_t chosen = 0;
        if (symbols[at] >= FIRST_SPECIAL) {
            step = 1;
            chosen = symbols[at] - FIRST_SPECIAL;
        } else {
            trie.matches(symbols.data() + at, int32_t(symbols.size() - at), [&](int32_t length, int32_t token) {
                if (!step && costs[at + size_t(length)] + 1 == costs[at]) {
                    step = size_t(length);
                    chosen = token;
                }
            });
        }
        if (!step) throw InvalidExpression("the costs of a completion come from other tokens");
        tokens.push_back(chosen);
        at += step;
    }
    return tokens;
}

int Machine::liked(const Bits& members) const {
    const Bits usable = members & alphabet;
    for (const char* at = LIKED; *at; at++)
        if (usable.test(uint8_t(*at))) return uint8_t(*at);
    return usable.lowest();
}

const Completion* Machine::leaf_completion(Id id) {
    const Node& n = node(id);
    switch (n.kind) {
        case LITERAL: return make_completion(std::vector<int32_t>(n.data, n.data + n.size), nullptr, 0);
        case SET: {
            const int byte = liked(*n.members);
            return byte < 0 ? nullptr : make_completion({byte}, nullptr, 0);
        }
        case SPECIAL: return is_alive(id) ? make_completion({FIRST_SPECIAL + int32_t(n.low)}, nullptr, 0) : nullptr;
        case ACTION:
            return make_completion({}, nullptr, n.low == BEGIN ? USES_NEW_CAPTURE : n.low > BEGIN ? USES_OPEN_CAPTURE : 0);
        case INTERSECTION:
        case COMPLEMENT: return shortest_word(id);
        case NOTHING: return nullptr;
        default: return make_completion({}, nullptr, 0);
    }
}

const Completion* Machine::joined_completion(const Completion* head, const Completion* tail) {
    const uint8_t uses = head->uses | tail->uses;
    return make_completion(symbols_of(head), tail, uses);
}

// The shortest word of a regular node, by breadth over its derivatives.
const Completion* Machine::shortest_word(Id root) {
    if (!is_alive(root)) return nullptr;
    std::unordered_map<Id, std::pair<Id, int>> came_from{{root, {-1, 0}}};
    std::deque<Id> queue{root};
    while (!queue.empty()) {
        const Id id = queue.front();
        queue.pop_front();
        tick();
        if (is_nullable(id)) {
            std::vector<int32_t> symbols;
            for (Id at = id; at != root; at = came_from[at].first) symbols.push_back(came_from[at].second);
            std::reverse(symbols.begin(), symbols.end());
            return make_completion(std::move(symbols), nullptr, 0);
        }
        const Partition& classes = partition(id);
        for (const auto& members : classes.members) {
            Bits set;
            for (uint8_t byte : members) set.set(byte);
            const int byte = liked(set);
            if (byte < 0) continue;
            const Id target = derive(id, byte);
            if (target == NOTHING_ID || !is_alive(target)) continue;
            if (came_from.emplace(target, std::make_pair(id, byte)).second) queue.push_back(target);
        }
    }
    return nullptr;
}

const Completion* Machine::completion(Id root) {
    if (node(root).completion_known) return node(root).completion;
    std::vector<Frame> stack;
    std::unordered_map<Id, int32_t> depth_of;
    std::unordered_map<Id, std::pair<const Completion*, int32_t>> provisional;
    auto push = [&](Id id) {
        depth_of[id] = int32_t(stack.size());
        stack.push_back({id, 0, NO_CUT, nullptr, {}});
        const Node& n = node(id);
        if (n.kind != ALTERNATION) return;
        std::vector<Id>& order = stack.back().order;
        order.assign(n.parts, n.parts + n.count);
        std::stable_sort(order.begin(), order.end(), [&](Id l, Id r) { return node(l).shortest < node(r).shortest; });
    };
    push(root);
    bool has_value = false;
    const Completion* value = nullptr;
    while (!stack.empty()) {
        tick();
        Frame& frame = stack.back();
        const Node& n = node(frame.id);
        bool is_done = false;
        const Completion* result = nullptr;
        Id ask = -1;
        switch (n.kind) {
            case CONCATENATION:
                if (has_value) {
                    if (!value) is_done = true;
                    else if (frame.next == 0) frame.best = value;
                    else {
                        is_done = true;
                        result = joined_completion(frame.best, value);
                    }
                    frame.next++;
                }
                if (!is_done) ask = frame.next ? n.b : n.a;
                break;
            case ALTERNATION: {
                if (has_value) {
                    if (value && is_better(value, frame.best)) frame.best = value;
                    frame.next++;
                }
                is_done = frame.next == n.count;
                if (!is_done) {
                    ask = frame.order[size_t(frame.next)];
                    const int32_t bound = (node(ask).shortest + horizon_ - 1) / horizon_;
                    if (frame.best && uint32_t(bound) >= frame.best->cost) is_done = true;
                }
                result = frame.best;
                break;
            }
            case REPETITION:
                if (n.low == 0 || is_nullable(n.a)) {
                    is_done = true;
                    result = make_completion({}, nullptr, 0);
                } else if (has_value) {
                    is_done = true;
                    if (value) {
                        const std::vector<int32_t> once = symbols_of(value);
                        std::vector<int32_t> symbols;
                        for (int64_t i = 0; i < n.low; i++) {
                            symbols.insert(symbols.end(), once.begin(), once.end());
                            if (symbols.size() > (1u << 22)) throw LimitExceeded("max_depth");
                        }
                        result = make_completion(std::move(symbols), nullptr, value->uses);
                    }
                } else {
                    ask = n.a;
                }
                break;
            case DEFERRED:
            case SCOPE:
            case DISTINCT:
            case GUARDED:
                if (has_value) {
                    is_done = true;
                    result = value;
                    if (value && value->uses && n.kind == SCOPE && holds({n.a, nullptr}, symbols_of(value), {}))
                        result = make_completion({}, value, 0);
                } else {
                    ask = n.kind == DEFERRED ? unfold_shorter(frame.id) : n.a;
                }
                break;
            default:
                is_done = true;
                result = leaf_completion(frame.id);
        }
        has_value = false;
        if (!is_done) {
            const auto open = depth_of.find(ask);
            const auto tried = provisional.find(ask);
            has_value = true;
            if (node(ask).completion_known) {
                value = node(ask).completion;
            } else if (tried != provisional.end()) {
                value = tried->second.first;
                frame.cut = std::min(frame.cut, tried->second.second);
            } else if (open != depth_of.end()) {
                value = nullptr;
                frame.cut = std::min(frame.cut, open->second);
            } else {
                has_value = false;
                push(ask);
            }
            continue;
        }
        const Id id = frame.id;
        const int32_t cut = frame.cut;
        stack.pop_back();
        const int32_t depth = int32_t(stack.size());
        depth_of.erase(id);
        if (cut == depth)
            for (auto it = provisional.begin(); it != provisional.end();)
                it = it->second.second >= depth ? provisional.erase(it) : ++it;
        if (cut >= depth) {
            node(id).completion = const_cast<Completion*>(result);
            node(id).completion_known = 1;
        } else {
            provisional[id] = {result, cut};
            stack.back().cut = std::min(stack.back().cut, cut);
        }
        value = result;
        has_value = true;
    }
    return node(root).completion;
}

}  // namespace sgrt
