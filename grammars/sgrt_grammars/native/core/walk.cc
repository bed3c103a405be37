// Masks of nodes; automaton/walk.py explains what is kept apart and why dense nodes are split.
#include "walk.hpp"

#include <algorithm>

namespace sgrt {

constexpr int64_t DENSE = 3000;     // trie nodes after which a walk gives up and splits the node instead
constexpr int MANY_BYTES = 64;      // first bytes of a head that is evidently dense

enum Verdict : uint8_t { PLAIN, SINGLE, TIGHT_END, MULTIPLE };

// How far a token that leads to `place` depends on registers. Of several places the least dependent one counts.
static Verdict verdict_of(const Walk& walk, const Place& place) {
    const Tightness tight = walk.tightness(place);
    const uint8_t flags = place.flags;
    if (flags & FLAG_MULTIPLE || (flags && tight == TIGHT)) return MULTIPLE;
    if (tight == PENDING) return flags & (FLAG_BEGAN | FLAG_SINGLE) ? MULTIPLE : SINGLE;
    if (flags & FLAG_SINGLE) return SINGLE;
    return tight == TIGHT ? TIGHT_END : PLAIN;
}

static void sort_in(const Walk& walk, const Trie& trie, int32_t at, Places places, NodeMask& mask) {
    Verdict verdict = MULTIPLE;
    for (const Place& place : places)
        if (verdict != PLAIN) verdict = std::min(verdict, verdict_of(walk, place));
    std::vector<int32_t>* lists[] = {nullptr, &mask.single, &mask.tight, &mask.multiple};
    for (int32_t i = trie.token_start[size_t(at)]; i < trie.token_start[size_t(at) + 1]; i++) {
        if (verdict == PLAIN) set_bit(mask.row, trie.tokens[size_t(i)]);
        else lists[verdict]->push_back(trie.tokens[size_t(i)]);
    }
}

NodeMask& Machine::mask(Id id) {
    if (node(id).mask) return *node(id).mask;
    auto made = std::make_unique<NodeMask>();
    compute_mask(id, *made);
    mask_bytes_ += made->row.size() * 4 + sizeof(NodeMask);
    masks_.push_back(std::move(made));
    return *(node(id).mask = masks_.back().get());
}

static void without(std::vector<int32_t>& tokens, const std::vector<int32_t>& others) {
    std::vector<int32_t> left;
    std::set_difference(tokens.begin(), tokens.end(), others.begin(), others.end(), std::back_inserter(left));
    tokens.swap(left);
}

static void unique_sorted(std::vector<int32_t>& tokens) {
    std::sort(tokens.begin(), tokens.end());
    tokens.erase(std::unique(tokens.begin(), tokens.end()), tokens.end());
}

void Machine::compute_mask(Id id, NodeMask& mask) {
    auto reset = [&] {
        mask = NodeMask();
        mask.id = id;
        mask.row.assign(size_t(words), 0);
    };
    reset();
    const Node& n = node(id);
    bool is_done = false;
    const bool is_pair = n.kind == CONCATENATION && !n.regular && node(n.a).regular;
    const Id head = is_pair ? n.a : id;
    const bool is_known_dense = (is_pair || n.regular) && (first(head).count() > MANY_BYTES ||
                                                           is_split_known(head, first(is_pair ? n.b : EMPTY_ID)));
    if (!is_known_dense) {
        Walk walk(*this);
        is_done = walk.run(id, trie, DENSE, [&](int32_t at, Places places) {
            sort_in(walk, trie, at, places, mask);
        });
    }
    if (!is_done) {
        reset();
        add_dense(id, mask);
    }
    add_specials(id, mask);
    for (auto* list : {&mask.single, &mask.multiple, &mask.tight}) unique_sorted(*list);
    // What one option allows outright needs no look at the others.
    for (auto* list : {&mask.single, &mask.multiple, &mask.tight})
        list->erase(std::remove_if(list->begin(), list->end(), [&](int32_t token) { return has_bit(mask.row, token); }),
                    list->end());
    without(mask.multiple, mask.single);
    without(mask.multiple, mask.tight);
    without(mask.tight, mask.single);
    if (mask.single.empty()) return;
    mask.open_row = mask.row;
    for (int32_t token : mask.single) set_bit(mask.open_row, token);
}

void Machine::add_specials(Id id, NodeMask& mask) {
    for (int32_t token : specials(id)) {
        Id target = derive(id, FIRST_SPECIAL + token);
        if (node(target).has_guard) target = strip(target).whole;
        if (target != NOTHING_ID && is_alive(target)) set_bit(mask.row, token);
    }
}

void Machine::add_dense(Id id, NodeMask& mask) {
    while (node(id).kind == DEFERRED) id = unfold(id);
    const Node& n = node(id);
    if (n.kind == ALTERNATION) {
        for (int32_t i = 0; i < n.count; i++) add_dense(n.parts[i], mask);
        return;
    }
    const Trie* rest = &trie;
    const bool is_pair = n.kind == CONCATENATION && !n.regular && node(n.a).regular;
    if (n.regular || is_pair) {
        const Id head = is_pair ? n.a : id, tail = is_pair ? n.b : EMPTY_ID;
        first(head);
        if (node(head).only_symbol < 0) {
            Split& parts = split(head, first(tail));
            if (!has_tight_end(head, parts, tail)) {
                add_split(parts, tail, mask);
                mask.dense.push_back({&parts, head, tail, {}, {}});
                rest = parts.residual;
            }
        }
    }
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
            if (end != last) tight = tightness(concatenation(end, tail));
            last = end;
            if (tight != LOOSE) apart.emplace_back(token, tight);
        }
    }
    if (apart.empty()) {
        for (size_t i = 0; i < mask.row.size(); i++) mask.row[i] |= parts.row[i];
        return;
    }
    std::vector<uint32_t> row = parts.row;
    for (auto& [token, tight] : apart) {
        row[size_t(token) >> 5] &= ~(1u << (token & 31));
        (tight == PENDING ? mask.single : mask.tight).push_back(token);
    }
    for (size_t i = 0; i < mask.row.size(); i++) mask.row[i] |= row[i];
}

bool Machine::has_tight_end(Id head, const Split& parts, Id tail) {
    if (!node(tail).has_capture) return false;
    if (parts.head != head && is_small({head})) return true;
    for (Id end : parts.ends)
        if (tightness(concatenation(end, tail)) != LOOSE) return true;
    return false;
}

void Machine::clear_masks() {
    for (auto& mask : masks_) node(mask->id).mask = nullptr;
    masks_.clear();
    splits_.clear();
    slices_.clear();
    mask_bytes_ = 0;
}

void Machine::start_operation(double time_s) {
    using clock = std::chrono::steady_clock;
    deadline_ = time_s >= 1e9 ? 1e300 : std::chrono::duration<double>(clock::now().time_since_epoch()).count() + time_s;
    states_ = visited_ = 0;
}

void Machine::tick() {
    if ((++ticks_ & 1023) || deadline_ >= 1e300) return;
    using clock = std::chrono::steady_clock;
    if (std::chrono::duration<double>(clock::now().time_since_epoch()).count() > deadline_) throw LimitExceeded("time_s");
}

void Machine::visited(int64_t trie_nodes) {
    visited_ += trie_nodes;
    if (visited_ > limits_.max_mask_nodes) throw LimitExceeded("max_mask_nodes");
}

size_t Machine::num_bytes() const {
    return pool_.held() + mask_bytes_ + nodes_.size() * 24 + completions_.size() * 200;
}

}  // namespace sgrt
