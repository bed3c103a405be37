// Emptiness: a least fixpoint over recursive nodes, exploration of derivatives for intersections and complements.
// automaton/fixpoint.py and automaton/liveness.py explain both.
#include <algorithm>
#include <queue>

#include "machine.hpp"

namespace sgrt {
namespace {

constexpr int32_t NO_CUT = 1 << 30;

struct Frame {
    Id id;
    int32_t next;   // operand to ask for
    int32_t cut;    // lowest frame the value depends on
};

}  // namespace

// 1 or 0 where no operand is needed, -1 for compound nodes.
int Machine::leaf_alive(Id id) {
    const Node& n = node(id);
    switch (n.kind) {
        case INTERSECTION:
        case COMPLEMENT: return explore(id);
        case REPETITION: return n.low == 0 ? 1 : -1;
        case EMPTY:
        case ACTION: return 1;
        case CONCATENATION:
        case ALTERNATION:
        case DEFERRED:
        case SCOPE:
        case DISTINCT:
        case GUARDED: return -1;
        default: return n.alive > 0;
    }
}

bool Machine::decide_alive(Id root) {
    std::vector<Frame> stack{{root, 0, NO_CUT}};
    std::unordered_map<Id, int32_t> depth_of{{root, 0}}, failed;    // failed: to the frame it depends on
    int value = -1;     // of the operand last asked for; -1: none yet
    while (!stack.empty()) {
        tick();
        Frame& frame = stack.back();
        Node& n = node(frame.id);
        int result = -1;
        Id ask = -1;
        if (frame.next == 0 && value < 0) result = leaf_alive(frame.id);
        if (result < 0) {
            const bool is_any = n.kind == ALTERNATION;
            const int32_t operands = is_any ? n.count : n.kind == CONCATENATION ? 2 : 1;
            if (value >= 0) {
                frame.next++;
                if (is_any == (value == 1)) result = value;
            }
            if (result < 0 && frame.next == operands) result = !is_any;
            if (result < 0) {
                ask = is_any                    ? n.parts[frame.next]
                      : n.kind == DEFERRED      ? unfold_shorter(frame.id)
                      : n.kind == CONCATENATION ? (frame.next ? n.b : n.a)
                                                : n.a;
            }
        }
        value = -1;
        if (ask >= 0) {
            const auto open = depth_of.find(ask);
            const auto tried = failed.find(ask);
            if (node(ask).alive >= 0) {
                value = node(ask).alive;
            } else if (tried != failed.end()) {
                value = 0;
                frame.cut = std::min(frame.cut, tried->second);
            } else if (open != depth_of.end()) {
                value = 0;
                frame.cut = std::min(frame.cut, open->second);
            } else {
                depth_of[ask] = int32_t(stack.size());
                stack.push_back({ask, 0, NO_CUT});
            }
            continue;
        }
        if (result == 1 && n.kind == SCOPE) result = is_satisfiable_scope(frame.id);
        const Frame done = frame;
        stack.pop_back();
        const int32_t depth = int32_t(stack.size());
        depth_of.erase(done.id);
        if (done.cut == depth)
            for (auto it = failed.begin(); it != failed.end();) it = it->second >= depth ? failed.erase(it) : ++it;
        if (result == 1 || done.cut >= depth) {
            node(done.id).alive = int8_t(result);
        } else {
            failed[done.id] = done.cut;
            stack.back().cut = std::min(stack.back().cut, done.cut);
        }
        value = result;
    }
    return node(root).alive == 1;
}

// Whether the body, which is alive, has a text in which nothing is twice. A scope within itself is taken for one that
// has: what is asked is whether the outer one can be completed at all, and that does not go round in circles.
bool Machine::is_satisfiable_scope(Id scope) {
    if (std::find(open_scopes.begin(), open_scopes.end(), scope) != open_scopes.end()) return true;
    struct Opened {
        std::vector<Id>& scopes;
        ~Opened() { scopes.pop_back(); }
    };
    open_scopes.push_back(scope);
    const Opened opened{open_scopes};
    const Id body = node(scope).a;
    std::vector<int32_t> symbols;
    return tightness(body) == LOOSE || find_completion({body, nullptr}, {}, symbols);
}

// Search the derivatives of a regular node for one that accepts, those first that may be few bytes away from that.
//
// A part of an intersection that leaves another one nothing makes the whole empty, however many derivatives the rest
// has (a long counted text that must not hold what it has held already). So where a short search says nothing, each
// complement is looked at beside one other part alone, before a long one.
bool Machine::explore(Id root) {
    constexpr size_t FEW = 1000;
    std::vector<Id> pairs;
    if (node(root).kind == INTERSECTION && node(root).count > 2) {
        const std::vector<Id> parts(node(root).parts, node(root).parts + node(root).count);
        for (const Id one : parts)
            for (const Id other : parts)
                if (node(one).kind == COMPLEMENT && other != one && (node(other).kind != COMPLEMENT || one < other))
                    pairs.push_back(intersection({one, other}));
    }
    for (const Id pair : pairs)
        if (pair == NOTHING_ID || node(pair).alive == 0) return false;
    const int found = search_accepting(root, pairs.empty() ? SIZE_MAX : FEW);
    if (found >= 0) return found;
    for (const Id pair : pairs)
        if (search_accepting(pair, FEW) == 0) return false;
    return search_accepting(root, SIZE_MAX) == 1;
}

// 1 or 0, and what the search has found out is noted; -1 where more than `most` derivatives would have to be seen.
int Machine::search_accepting(Id root, size_t most) {
    struct Found {
        int64_t length;     // bytes to it, and a bound on those from it, which counts more
        int64_t order;
        Id id;
        int32_t depth;
        bool operator<(const Found& other) const {
            return length != other.length ? length > other.length : order > other.order;
        }
    };
    constexpr int64_t EAGERNESS = 4;
    std::unordered_map<Id, Id> parent{{root, -1}};
    std::priority_queue<Found> queue;
    queue.push({0, 0, root, 0});
    auto mark = [&](Id id) {
        for (Id at = id; at >= 0; at = parent[at]) node(at).alive = 1;
        return 1;
    };
    while (!queue.empty()) {
        const Found at = queue.top();
        queue.pop();
        tick();
        if (node(at.id).alive == 0) continue;
        if (node(at.id).alive == 1 || is_nullable(at.id)) return mark(at.id);
        if (parent.size() > most) return -1;
        for (const auto& members : partition(at.id).members) {
            const auto byte = std::find_if(members.begin(), members.end(), [&](uint8_t one) { return alphabet.test(one); });
            if (byte == members.end()) continue;
            const Id target = derive(at.id, *byte);
            if (target == NOTHING_ID || !parent.emplace(target, at.id).second) continue;
            if (node(target).alive == 1) return mark(target);
            const int64_t length = at.depth + EAGERNESS * node(target).shortest;
            queue.push({length, int64_t(parent.size()), target, at.depth + 1});
        }
    }
    for (const auto& [id, from] : parent) node(id).alive = 0;
    return 0;
}

}  // namespace sgrt
