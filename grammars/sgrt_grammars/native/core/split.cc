// Dense nodes in two parts: the tokens inside a regular head, found once for all tails, and those that may leave it.
//
// Four things keep heads from being walked again and again: counted heads far from their bound are those without one;
// near it they are slices of one walk, or copies of what they are without it, walked only where the bound may be felt
// (bounds.cc); heads that differ from another in few first bytes are copied.
#include <algorithm>

#include "walk.hpp"

namespace sgrt {
namespace {

constexpr int64_t MAX_DIFFERENCE = 20000;
constexpr int MAX_BASES = 4;
constexpr int FEW_BYTES = 16;

}  // namespace

Split& Machine::split(Id head, const Bits& following) {
    const uint64_t key = split_key(head, following);
    auto found = splits_.find(key);
    if (found != splits_.end()) return *found->second;
    const Id equal = capped(head);
    if (equal != head) return split(equal, following);
    if (budget->is_brief) throw NotBrief();
    auto made = std::make_unique<Split>();
    made->head = head;
    if (!split_by_parts(*made, following) && !split_by_slices(*made, following) && !split_by_bounds(*made, following) &&
        !split_from_base(*made, following))
        split_plainly(*made, following);
    mask_bytes_ += made->row.size() * 4;
    return *(splits_[key] = std::move(made));
}

// One pass over a part of the trie by the head alone.
struct Machine::SplitWalk {
    Split& out;
    const Bits& following;
    std::vector<int32_t> leaving;
    std::unordered_set<Id> ends;
    bool keeps_outer = false;

    void run(Machine& m, const Trie& trie, int32_t at, int32_t end) {
        std::vector<Id> states(size_t(trie.max_depth) + 1, out.head);
        std::vector<uint8_t> nullable(states.size(), m.is_nullable(out.head));
        int32_t covered = at;   // everything before it is in `leaving` already
        Id last_end = -1;
        m.visited(end - at);
        while (at < end) {
            const size_t depth = size_t(trie.depth[size_t(at)]);
            const uint8_t byte = trie.byte[size_t(at)];
            const Id from = states[depth - 1];
            if (nullable[depth - 1] && at >= covered && following.test(byte)) {
                covered = trie.skip[size_t(at)];
                for (int32_t i = trie.token_start[size_t(at)]; i < trie.token_start[size_t(covered)]; i++)
                    leaving.push_back(trie.tokens[size_t(i)]);
            }
            const Node& state = m.node(from);
            Id target = state.edge(byte);
            if (target < 0) target = m.derive(from, byte);
            if (target == NOTHING_ID || !m.is_alive(target)) {
                at = trie.skip[size_t(at)];
                continue;
            }
            states[depth] = target;
            const int32_t passes = m.node(target).passes;
            nullable[depth] = passes >= 0 ? passes > 0 : m.is_nullable(target);
            const int32_t first = trie.token_start[size_t(at)], last = trie.token_start[size_t(at) + 1];
            for (int32_t i = first; i < last; i++) set_bit(out.row, trie.tokens[size_t(i)]);
            if (keeps_outer || target == EMPTY_ID) {
                for (int32_t i = first; i < last; i++) out.outer.emplace_back(trie.tokens[size_t(i)], target);
            } else if (first < last && target != last_end) {
                ends.insert(target);
                last_end = target;
            }
            if (&trie == &m.trie && m.stays_below(target, at) &&
                !(nullable[depth] && (trie.below[size_t(at)] & following).any())) {
                take_below(trie, at, target);
                last_end = target;
                at = trie.skip[size_t(at)];
                continue;
            }
            at++;
        }
    }

    // All tokens below a node end in the state they begin in.
    void take_below(const Trie& trie, int32_t at, Id target) {
        const int32_t last = trie.token_start[size_t(trie.skip[size_t(at)])];
        for (int32_t i = trie.token_start[size_t(at) + 1]; i < last; i++) {
            set_bit(out.row, trie.tokens[size_t(i)]);
            if (keeps_outer) out.outer.emplace_back(trie.tokens[size_t(i)], target);
        }
        if (!keeps_outer) ends.insert(target);
    }

    // Correct a row that was copied from another head's: where both heads reach one state, nothing differs below.
    // False if they differ in too much.
    bool run_beside(Machine& m, Id other) {
        const Trie& trie = m.trie;
        struct Level {
            Id from, beside;
            Bits bytes;     // by which they may differ
            int32_t edge, end;
        };
        std::vector<Level> path;
        auto enter = [&](Id from, Id beside, int32_t at) {
            Bits bytes = m.differing(from, beside);
            if (m.is_nullable(from)) bytes = bytes | following;
            path.push_back({from, beside, bytes, trie.edge_start[size_t(at)], trie.edge_start[size_t(at) + 1]});
        };
        enter(out.head, other, trie.size);
        int64_t steps = 0;
        while (!path.empty()) {
            Level& level = path.back();
            if (level.edge == level.end) {
                path.pop_back();
                continue;
            }
            const int32_t at = trie.edge_child[size_t(level.edge)];
            const uint8_t byte = trie.edge_byte[size_t(level.edge++)];
            if (!level.bytes.test(byte)) continue;
            if (++steps > MAX_DIFFERENCE) return false;
            if (following.test(byte) && m.is_nullable(level.from)) {
                const int32_t last = trie.token_start[size_t(trie.skip[size_t(at)])];
                for (int32_t i = trie.token_start[size_t(at)]; i < last; i++) leaving.push_back(trie.tokens[size_t(i)]);
            }
            const Id target = m.derive(level.from, byte);
            const Id beside = level.beside == NOTHING_ID ? NOTHING_ID : m.derive(level.beside, byte);
            if (target == beside) continue;
            const bool is_alive = target != NOTHING_ID && m.is_alive(target);
            const int32_t below = is_alive ? at + 1 : trie.skip[size_t(at)];
            const int32_t first = trie.token_start[size_t(at)], last = trie.token_start[size_t(below)];
            for (int32_t i = first; i < last; i++) {
                const int32_t token = trie.tokens[size_t(i)];
                if (is_alive) set_bit(out.row, token);
                else clear_bit(out.row, token);
            }
            if (!is_alive) continue;
            if (first < last) ends.insert(target);
            enter(target, beside, at);
        }
        m.visited(steps);
        return true;
    }

    void finish() {
        out.ends.assign(ends.begin(), ends.end());
        std::sort(out.ends.begin(), out.ends.end());
    }
};

void Machine::split_plainly(Split& out, const Bits& following) {
    out.row.assign(size_t(words), 0);
    SplitWalk walk{out, following, {}, {}, false};
    walk.run(*this, trie, 0, trie.size);
    walk.finish();
    out.residual = residual_trie(std::move(walk.leaving));
}

// A head in parts: of options the union; of a sequence what stays in its first part, and what leaves that walked on.
bool Machine::split_by_parts(Split& out, const Bits& following) {
    const Node& n = node(out.head);
    if (n.kind != CONCATENATION && n.kind != ALTERNATION) return false;
    SplitWalk walk{out, following, {}, {}, false};
    if (n.kind == CONCATENATION) {
        // Worth it where few tokens leave the first part: where a delimiter ends it.
        if ((first(n.a) & first(n.b)).any() || node(n.a).only_symbol >= 0) return false;
        Split& inner = split(n.a, first(n.b));
        out.row = inner.row;
        out.has_all_ends = inner.has_all_ends;
        out.has_cost_ends = inner.has_cost_ends;
        for (Id end : inner.ends) walk.ends.insert(concatenation(end, n.b));
        walk.keeps_outer = true;
        walk.run(*this, *inner.residual, 0, inner.residual->size);
        out.base = &inner;
    } else {
        for (int32_t i = 0; i < n.count; i++)
            if (first(n.parts[i]).count() > FEW_BYTES && !is_split_known(n.parts[i], following)) return false;
        out.row.assign(size_t(words), 0);
        out.has_cost_ends = false;      // a token may stay in more than one
        for (int32_t i = 0; i < n.count; i++) {
            Split& option = split(n.parts[i], following);
            out.has_all_ends = out.has_all_ends && option.has_all_ends;
            for (size_t w = 0; w < out.row.size(); w++) out.row[w] |= option.row[w];
            walk.ends.insert(option.ends.begin(), option.ends.end());
            out.outer.insert(out.outer.end(), option.outer.begin(), option.outer.end());
            walk.leaving.insert(walk.leaving.end(), option.residual->tokens.begin(), option.residual->tokens.end());
        }
    }
    walk.finish();
    out.residual = residual_trie(std::move(walk.leaving));
    return true;
}

// A head whose derivatives are another's but for a few bytes: copy that one's row and walk those bytes again.
bool Machine::split_from_base(Split& out, const Bits& following) {
    const Id head = out.head;
    if (node(head).only_symbol >= 0) return false;
    const Partition& classes = partition(head);
    size_t largest = 0;
    for (size_t c = 1; c < classes.members.size(); c++)
        if (derive(head, classes.members[c][0]) != NOTHING_ID &&
            (derive(head, classes.members[largest][0]) == NOTHING_ID ||
             classes.members[c].size() > classes.members[largest].size()))
            largest = c;
    const Id base = derive(head, classes.members[largest][0]);
    if (base == NOTHING_ID || base == head || node(base).only_symbol >= 0 || !is_alive(base)) return false;
    if (is_nullable(head) && !is_nullable(base)) return false;
    // The base must be one that stays itself, and a chain of bases must end.
    if (derive(base, classes.members[largest][0]) != base || base_depth_ >= MAX_BASES) return false;
    struct Deeper {
        int& depth;
        explicit Deeper(int& depth) : depth(depth) { depth++; }
        ~Deeper() { depth--; }
    } deeper(base_depth_);
    Split& source = split(base, following);
    if (!source.outer.empty()) return false;
    out.row = source.row;
    out.has_all_ends = source.has_all_ends;
    out.has_cost_ends = source.has_cost_ends;
    SplitWalk walk{out, following, {}, {source.ends.begin(), source.ends.end()}, false};
    if (!walk.run_beside(*this, base)) return false;
    walk.finish();
    out.base = &source;
    for (int byte = 0; byte < 256; byte++)
        if (trie.root_child[byte] >= 0 && derive(head, byte) != derive(base, byte)) out.patched.push_back(uint8_t(byte));
    const std::vector<int32_t>& known = source.residual->tokens;
    std::vector<int32_t> sorted(known.begin(), known.end());
    std::sort(sorted.begin(), sorted.end());
    bool is_covered = true;
    for (int32_t token : walk.leaving) is_covered = is_covered && std::binary_search(sorted.begin(), sorted.end(), token);
    if (!is_covered) walk.leaving.insert(walk.leaving.end(), known.begin(), known.end());
    out.residual = is_covered ? source.residual : residual_trie(std::move(walk.leaving));
    return true;
}

// Counted heads near their bound: tokens by the number of bodies they begin, from one walk for each body. Heads without
// one: what stays inside does so however many bodies are still due.
bool Machine::split_by_slices(Split& out, const Bits& following) {
    const Node& n = node(out.head);
    if (n.kind == REPETITION && n.high == UNBOUNDED && n.low > 0 && is_alive(n.a)) {
        const Split& source = split(repetition(n.a, 0, UNBOUNDED), following);
        if (!source.outer.empty()) return false;
        out.row = source.row;
        out.residual = source.residual;
        out.ends = source.ends;         // as far as it matters: what is due leaves no fewer texts
        out.has_all_ends = source.has_all_ends;
        return true;
    }
    if (n.kind != REPETITION || n.high == UNBOUNDED || n.high > horizon_ + COUNT_MARGIN) return false;
    Slices& found = slices(n.a);
    if (!found.is_simple) return false;
    out.row = found.rows[size_t(std::min<int64_t>(n.high, horizon_ + 1))];
    out.residual = split(repetition(n.a, n.low, UNBOUNDED), following).residual;
    for (int64_t used = 0; used <= n.high; used++)
        out.ends.push_back(repetition(n.a, std::max<int64_t>(0, n.low - used), n.high - used));
    return true;
}

// The bytes by which the derivatives of two regular nodes may differ. Of texts without some words, and all of those texts,
// by the bytes that the words begin with.
Bits Machine::differing(Id id, Id other) {
    if (id == other) return Bits();
    const Node &n = node(id), &o = node(other);
    if (other == NOTHING_ID) return first(id);
    if (n.kind == CONCATENATION && o.kind == CONCATENATION && n.b == o.b) {
        const Bits heads = differing(n.a, o.a);
        return is_nullable(n.a) == is_nullable(o.a) ? heads : heads | first(n.b);
    }
    if (n.kind != INTERSECTION) return Bits::all();
    std::vector<Id> whole;
    Bits bytes;
    for (int32_t i = 0; i < n.count; i++) {
        if (node(n.parts[i]).kind == COMPLEMENT) bytes = bytes | first(node(n.parts[i]).a);
        else whole.push_back(n.parts[i]);
    }
    return intersection(std::move(whole)) == other ? bytes : Bits::all();
}

// The bytes by which a state stays itself.
const Bits& Machine::loops(Id id) {
    auto found = loops_.find(id);
    if (found != loops_.end()) return found->second;
    Bits bytes;
    const Bits members = first(id);
    if (members.count() > FEW_BYTES)
        for (int byte = 0; byte < 256; byte++)
            if (members.test(byte) && derive(id, byte) == id) bytes.set(byte);
    return loops_[id] = bytes;
}

// Whether a state stays itself whatever is below a node of the whole vocabulary's trie: worth asking where much is.
bool Machine::stays_below(Id id, int32_t at) {
    if (trie.skip[size_t(at)] - at < FEW_BYTES) return false;
    const Bits& inside = loops(id);
    const Bits& bytes = trie.below[size_t(at)];
    return (bytes & inside) == bytes;
}

// Tokens by how many bodies they begin; false if that is not one number for each token. Whatever is no whole body is
// within one, as long as no state but the first accepts.
bool Machine::count_bodies(Id body, std::vector<std::vector<int32_t>>& by_count) {
    if (is_nullable(body)) return false;
    const Id start = repetition(body, 0, UNBOUNDED);
    struct State {
        Id id;
        size_t whole;
    };
    std::vector<State> states(size_t(trie.max_depth) + 1, {start, 0});
    visited(trie.size);
    for (int32_t at = 0; at < trie.size;) {
        const size_t depth = size_t(trie.depth[size_t(at)]);
        const State from = states[depth - 1];
        const Id target = derive(from.id, trie.byte[size_t(at)]);
        if (target == NOTHING_ID || !is_alive(target)) {
            at = trie.skip[size_t(at)];
            continue;
        }
        if (target != start && is_nullable(target)) return false;
        states[depth] = {target, from.whole + (target == start)};
        const size_t begun = states[depth].whole + (target != start);
        const bool is_alike = target == start && stays_below(start, at);
        const int32_t below = is_alike ? trie.skip[size_t(at)] : at + 1;
        for (int32_t i = trie.token_start[size_t(at)]; i < trie.token_start[size_t(below)]; i++) {
            const int32_t token = trie.tokens[size_t(i)];
            by_count[is_alike ? begun + size_t(vocabulary.length(token)) - depth : begun].push_back(token);
        }
        at = below;
    }
    return true;
}

Machine::Slices& Machine::slices(Id body) {
    auto found = slices_.find(body);
    if (found != slices_.end()) return *found->second;
    auto made = std::make_unique<Slices>();
    std::vector<std::vector<int32_t>> by_count(size_t(horizon_) + 2);
    made->is_simple = count_bodies(body, by_count);
    std::vector<uint32_t> row(size_t(words), 0);
    for (const auto& tokens : by_count) {
        for (int32_t token : tokens) set_bit(row, token);
        made->rows.push_back(row);
    }
    mask_bytes_ += made->rows.size() * row.size() * 4;
    return *(slices_[body] = std::move(made));
}

const Trie* Machine::residual_trie(std::vector<int32_t> tokens) {
    std::sort(tokens.begin(), tokens.end());
    tokens.erase(std::unique(tokens.begin(), tokens.end()), tokens.end());
    std::string key(reinterpret_cast<const char*>(tokens.data()), tokens.size() * 4);
    auto found = residual_numbers_.find(key);
    if (found != residual_numbers_.end()) return found->second;
    residuals_.push_back(std::make_unique<Trie>(vocabulary, std::move(tokens)));
    return residual_numbers_[key] = residuals_.back().get();
}

}  // namespace sgrt
