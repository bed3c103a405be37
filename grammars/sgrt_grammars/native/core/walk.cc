// Masks of nodes; automaton/walk.py explains what is kept apart and why dense nodes are split.
#include "walk.hpp"

#include <algorithm>
#include <chrono>

namespace sgrt {

constexpr int64_t DENSE = 3000;     // trie nodes after which a walk gives up and splits the node instead
constexpr size_t MANY_TOKENS = 256; // for which a row costs less than a list
constexpr int64_t MANY_VISITS = 4 * DENSE;      // more than a brief operation makes
constexpr int MANY_BYTES = 64;      // first bytes of a head that is evidently dense

enum Verdict : uint8_t { PLAIN, SINGLE, TIGHT_END, MULTIPLE };

// How far a token that leads to `place` depends on registers. Of several places the least dependent one counts.
static Verdict verdict_of(Walk& walk, const Place& place) {
    const Tightness tight = walk.tightness(place);
    const uint8_t flags = place.flags;
    if (!flags && tight == LOOSE) return PLAIN;
    if (flags & FLAG_MULTIPLE || (flags && tight == TIGHT)) return MULTIPLE;
    if (tight == PENDING) return flags & (FLAG_BEGAN | FLAG_SINGLE) ? MULTIPLE : SINGLE;
    if (flags & FLAG_SINGLE) return SINGLE;
    return tight == TIGHT ? TIGHT_END : PLAIN;
}

static void sort_in(Walk& walk, const Trie& trie, int32_t at, Places places, NodeMask& mask) {
    Verdict verdict = MULTIPLE;
    for (const Place& place : places)
        if (verdict != PLAIN) verdict = std::min(verdict, verdict_of(walk, place));
    std::vector<int32_t>* lists[] = {nullptr, &mask.single, &mask.tight, &mask.multiple};
    for (int32_t i = trie.token_start[size_t(at)]; i < trie.token_start[size_t(at) + 1]; i++) {
        if (verdict == PLAIN) mask.allow(trie.tokens[size_t(i)]);
        else lists[verdict]->push_back(trie.tokens[size_t(i)]);
    }
}

static void unique_sorted(std::vector<int32_t>& tokens) {
    std::sort(tokens.begin(), tokens.end());
    tokens.erase(std::unique(tokens.begin(), tokens.end()), tokens.end());
}

void NodeMask::allow(int32_t token) {
    if (own.empty()) more.push_back(token);
    else set_bit(own, token);
}

void NodeMask::allow_all(const std::vector<uint32_t>& row) {
    if (!base) {
        base = &row;
    } else if (base != &row) {
        make_own(row.size());
        for (size_t i = 0; i < own.size(); i++) own[i] |= row[i];
    }
}

void NodeMask::make_own(size_t words) {
    if (!own.empty()) return;
    if (base) own = *base;
    else own.assign(words, 0);
    base = &own;
}

void NodeMask::finish(size_t words) {
    if (more.size() > MANY_TOKENS) make_own(words);
    if (own.empty()) {
        unique_sorted(more);
        return;
    }
    for (int32_t token : more) set_bit(own, token);
    more.clear();
}

void NodeMask::write(uint32_t* out, size_t words, bool is_first, bool with_single) const {
    if (!is_first) {
        if (base) for (size_t i = 0; i < words; i++) out[i] |= (*base)[i];
    } else if (base) {
        memcpy(out, base->data(), words * 4);
    } else {
        memset(out, 0, words * 4);
    }
    for (int32_t token : more) out[token >> 5] |= 1u << (token & 31);
    if (few)
        for (int32_t token : *few) out[token >> 5] |= 1u << (token & 31);
    if (with_single)
        for (int32_t token : single) out[token >> 5] |= 1u << (token & 31);
}

NodeMask& Machine::mask(Id id) {
    if (node(id).mask) return *node(id).mask;
    auto made = std::make_unique<NodeMask>();
    compute_mask(id, *made);
    mask_bytes_ += made->own.size() * 4 + made->more.size() * 4 + sizeof(NodeMask);
    masks_.push_back(std::move(made));
    return *(node(id).mask = masks_.back().get());
}

static void without(std::vector<int32_t>& tokens, const std::vector<int32_t>& others) {
    std::vector<int32_t> left;
    std::set_difference(tokens.begin(), tokens.end(), others.begin(), others.end(), std::back_inserter(left));
    tokens.swap(left);
}

void Machine::compute_mask(Id id, NodeMask& mask) {
    auto reset = [&] {
        mask = NodeMask();
        mask.id = id;
    };
    reset();
    const Node& n = node(id);
    bool is_done = false;
    const bool is_pair = n.kind == CONCATENATION && !n.regular && node(n.a).regular;
    const Id head = is_pair ? n.a : id;
    const bool is_known_dense = first(id).count() > MANY_BYTES ||
                                ((is_pair || n.regular) && is_split_known(head, first(is_pair ? n.b : EMPTY_ID)));
    if (!is_known_dense) {
        const Split* parts = inside(id);
        if (parts) mask.few = &parts->few;
        const Trie& walked = parts ? *parts->residual : trie;
        Walk walk(*this);
        is_done = walk.run(id, walked, DENSE, [&](int32_t at, Places places) {
            sort_in(walk, walked, at, places, mask);
        });
    }
    if (!is_done) {
        if (!is_known_dense && budget->is_brief) throw NotBrief();
        reset();
        add_dense(id, mask);
    }
    add_specials(id, mask);
    for (auto* list : {&mask.single, &mask.multiple, &mask.tight}) unique_sorted(*list);
    mask.finish(size_t(words));
    // What one option allows outright needs no look at the others.
    for (auto* list : {&mask.single, &mask.multiple, &mask.tight})
        list->erase(std::remove_if(list->begin(), list->end(), [&](int32_t token) { return mask.has(token); }),
                    list->end());
    without(mask.multiple, mask.single);
    without(mask.multiple, mask.tight);
    without(mask.tight, mask.single);
}

void Machine::add_specials(Id id, NodeMask& mask) {
    for (int32_t token : specials(id)) {
        Id target = derive(id, FIRST_SPECIAL + token);
        if (node(target).has_guard) target = strip(target).whole;
        if (target != NOTHING_ID && is_alive(target)) mask.allow(token);
    }
}

// The options of a node, those behind which something follows included; none if it is no choice.
std::vector<Id> Machine::choices(Id id) {
    const Node& n = node(id);
    if (n.kind == ALTERNATION) return {n.parts, n.parts + n.count};
    if (n.kind != CONCATENATION) return {};
    Id head = n.a;
    while (node(head).kind == DEFERRED) head = unfold(head);
    const Node& h = node(head);
    if (h.regular || h.kind != ALTERNATION) return head == n.a ? std::vector<Id>() : std::vector<Id>{concatenation(head, n.b)};
    std::vector<Id> options(h.parts, h.parts + h.count);
    for (Id& option : options) option = concatenation(option, n.b);
    return options;
}

void Machine::add_dense(Id id, NodeMask& mask) {
    while (node(id).kind == DEFERRED) id = unfold(id);
    const Node& n = node(id);
    const std::vector<Id> options = choices(id);
    for (Id option : options)
        if (is_alive(option)) add_dense(option, mask);
    if (!options.empty()) return;
    const Trie* rest = &trie;
    const bool is_pair = n.kind == CONCATENATION && !n.regular && node(n.a).regular;
    if (n.regular || is_pair) {
        const Id head = is_pair ? n.a : id, tail = is_pair ? n.b : EMPTY_ID;
        first(head);
        if (node(head).only_symbol < 0) {
            Split& parts = split(head, first(tail));
            if (!has_tight_end(head, parts, tail)) {
                add_split(parts, tail, mask);
                mask.dense.push_back({&parts, head, tail, false, {}, {}, {}});
                rest = parts.residual;
            }
        }
    }
    if (rest == &trie) mask.make_own(size_t(words));
    Walk walk(*this);
    walk.run(id, *rest, INT64_MAX, [&](int32_t at, Places places) {
        sort_in(walk, *rest, at, places, mask);
    });
}

// The inside tokens; those after which a capture is due in front of `tail` are kept apart.
void Machine::add_split(const Split& parts, Id tail, NodeMask& mask) {
    std::vector<std::pair<int32_t, Tightness>> apart;
    if (node(tail).has_capture || node(tail).kind == DEFERRED) {
        Id last = -1;
        Tightness tight = LOOSE;
        for (auto& [token, end] : parts.outer) {
            if (end != last) tight = tightness(end, tail);
            last = end;
            if (tight != LOOSE) apart.emplace_back(token, tight);
        }
    }
    if (apart.empty()) {
        mask.allow_all(parts.row);
        return;
    }
    std::vector<uint32_t> row = parts.row;
    for (auto& [token, tight] : apart) {
        row[size_t(token) >> 5] &= ~(1u << (token & 31));
        (tight == PENDING ? mask.single : mask.tight).push_back(token);
    }
    mask.make_own(row.size());
    mask.allow_all(row);
}

bool Machine::has_tight_end(Id head, const Split& parts, Id tail) {
    if (!node(tail).has_capture) return false;
    if (!parts.has_all_ends || (parts.head != head && is_small({head}))) return true;
    for (Id end : parts.ends)
        if (tightness(end, tail) != LOOSE) return true;
    return false;
}

void Machine::clear_masks() {
    for (auto& mask : masks_) node(mask->id).mask = nullptr;
    masks_.clear();
    splits_.clear();
    insides_.clear();
    slices_.clear();
    mask_bytes_ = 0;
}

using Clock = std::chrono::steady_clock;

static double seconds() { return std::chrono::duration<double>(Clock::now().time_since_epoch()).count(); }

void Budget::start(double time_s) {
    limit_s = time_s;
    deadline = -1;
    states = visited = bytes = 0;
    ticks = 0;
}

void Machine::tick() {
    if (++budget->ticks & 1023) return;
    if (budget->is_brief) throw NotBrief();
    if (budget->limit_s >= 1e9) return;
    const double now = seconds();
    if (budget->deadline < 0) budget->deadline = now + budget->limit_s;     // the clock is read when work lasts
    if (now > budget->deadline) throw LimitExceeded("time_s");
}

void Machine::takes(size_t bytes) {
    budget->bytes += int64_t(bytes);
    if (budget->bytes > limits_.max_bytes) throw LimitExceeded("max_operation_bytes");
}

void Machine::visited(int64_t trie_nodes) {
    budget->visited += trie_nodes;
    if (budget->is_brief && budget->visited > MANY_VISITS) throw NotBrief();
    if (budget->visited > limits_.max_mask_nodes) throw LimitExceeded("max_mask_nodes");
}

size_t Machine::num_bytes() const {
    return pool_.held() + mask_bytes_ + schema_bytes_ + nodes_.size() * (sizeof(Node) + 24) + completions_.size() * 200;
}

}  // namespace sgrt
