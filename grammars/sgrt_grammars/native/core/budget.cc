// Budgets: what each allowed token costs to complete, and masks filtered by it.
#include <algorithm>

#include "cursor.hpp"
#include "walk.hpp"

namespace sgrt {

constexpr int64_t FEW_DUE = 4;          // bodies of a counted head
constexpr size_t MANY_STATES = 64;      // that are many to complete

static std::vector<int32_t> bytes_as_symbols(const std::string& text) {
    std::vector<int32_t> symbols;
    for (char byte : text) symbols.push_back(uint8_t(byte));
    return symbols;
}

// The state each inside token ends in, found once for a split.
const EndIndex& Machine::end_index(Split& parts) {
    if (parts.index) return *parts.index;
    auto made = std::make_unique<EndIndex>();
    std::unordered_map<Id, uint16_t> number;
    auto index_of = [&](Id end) {
        auto found = number.emplace(end, uint16_t(number.size() + 1));
        if (found.second) made->ends.push_back(end);
        if (number.size() > 65000) throw LimitExceeded("max_states");
        return found.first->second;
    };
    std::vector<uint16_t> by_token(size_t(vocabulary.size), 0);     // 1 + index into ends
    auto note = [&](const Trie& walked, int32_t at, int32_t end) {
        std::vector<Id> states(size_t(walked.max_depth) + 1, parts.head);
        visited(end - at);
        while (at < end) {
            const size_t depth = size_t(walked.depth[size_t(at)]);
            const uint8_t byte = walked.byte[size_t(at)];
            Id target = node(states[depth - 1]).edge(byte);
            if (target < 0) target = derive(states[depth - 1], byte);
            if (target == NOTHING_ID || !is_alive(target)) {
                at = walked.skip[size_t(at)];
                continue;
            }
            states[depth] = target;
            const int32_t next = &walked == &trie && stays_below(target, at) ? walked.skip[size_t(at)] : at + 1;
            const int32_t first = walked.token_start[size_t(at)], last = walked.token_start[size_t(next)];
            const uint16_t number = first < last ? index_of(target) : 0;
            for (int32_t i = first; i < last; i++) by_token[size_t(walked.tokens[size_t(i)])] = number;
            at = next;
        }
    };
    const Node& n = node(parts.head);
    const bool is_sequence = is_sequence_of_base(parts);
    if (parts.base) {
        const EndIndex& known = end_index(*parts.base);
        std::vector<uint16_t> renamed;
        for (Id end : known.ends) renamed.push_back(index_of(is_sequence ? concatenation(end, n.b) : end));
        for (size_t word = 0; word < parts.base->row.size(); word++)
            for (uint32_t left = parts.base->row[word]; left; left &= left - 1)
                by_token[word * 32 + size_t(__builtin_ctz(left))] = renamed[known.common];
        for (size_t i = 0; i < known.tokens.size(); i++) by_token[size_t(known.tokens[i])] = renamed[known.end_of[i]];
    }
    if (is_sequence) {
        // What stays in the first part ends there in front of the second; what leaves it is walked.
        const Trie& rest = *parts.base->residual;
        note(rest, 0, rest.size);
    } else if (parts.base) {
        for (uint8_t byte : parts.patched) {
            const int32_t at = trie.root_child[byte], end = trie.skip[size_t(at)];
            for (int32_t i = trie.token_start[size_t(at)]; i < trie.token_start[size_t(end)]; i++)
                by_token[size_t(trie.tokens[size_t(i)])] = 0;
            note(trie, at, end);
        }
    } else {
        note(trie, 0, trie.size);
    }
    std::vector<uint32_t> counts(made->ends.size() + 1, 0);
    for (uint16_t end : by_token) counts[end]++;
    if (!made->ends.empty()) made->common = uint16_t(std::max_element(counts.begin() + 1, counts.end()) - counts.begin() - 1);
    for (size_t token = 0; token < by_token.size(); token++) {
        const uint16_t end = by_token[token];
        if (!end || end == made->common + 1) continue;
        made->tokens.push_back(int32_t(token));
        made->end_of.push_back(uint16_t(end - 1));
    }
    mask_bytes_ += made->tokens.size() * 6 + made->ends.size() * 4;
    parts.index = std::move(made);
    return *parts.index;
}

// Every live state that a regular node leads to by some text; false if those are many.
bool Machine::find_states(Id from, std::vector<Id>& out) {
    std::unordered_set<Id> met;
    for (size_t at = 0; at <= out.size(); at++) {
        const Id state = at ? out[at - 1] : from;
        for (const auto& members : partition(state).members) {
            const Id target = derive(state, members[0]);
            if (target != NOTHING_ID && is_alive(target) && met.insert(target).second) out.push_back(target);
        }
        if (out.size() > MANY_STATES) return false;
    }
    return true;
}

// States inside a counted head: what is due and what completes the body that has begun, whatever the upper bound left,
// which costs nothing. False if those are many.
bool Machine::counted_ends(Id head, std::vector<Id>& out) {
    const Node& n = node(head);
    if (n.low > FEW_DUE) return false;
    std::vector<Id> states;
    if (!find_states(n.a, states)) return false;
    for (int64_t used = 0; used <= n.low + 1 && used <= n.high; used++) {
        const int64_t low = std::max<int64_t>(0, n.low - used), high = n.high == UNBOUNDED ? UNBOUNDED : n.high - used;
        const Id rest = repetition(n.a, low, high);
        if (used == 0) out.push_back(rest);
        else for (Id state : states) out.push_back(concatenation(state, rest));
    }
    return true;
}

// Every state that an inside token may end in, as far as costs differ; false if the split does not tell.
bool Machine::known_ends(const Split& parts, std::vector<Id>& out) {
    const Node& n = node(parts.head);
    if (!parts.has_cost_ends) return find_states(parts.head, out);
    if (n.kind == REPETITION && (n.low > 0 || n.high != UNBOUNDED) && !counted_ends(parts.head, out)) return false;
    if (parts.base && !known_ends(*parts.base, out)) return false;
    if (is_sequence_of_base(parts))
        for (Id& end : out) end = concatenation(end, n.b);
    out.insert(out.end(), parts.ends.begin(), parts.ends.end());
    for (const auto& [token, end] : parts.outer) out.push_back(end);
    std::sort(out.begin(), out.end());
    out.erase(std::unique(out.begin(), out.end()), out.end());
    return true;
}

// The state an inside token ends in.
Id Machine::end_inside(const Split& parts, int32_t token) {
    int32_t taken = 0;
    return derive_all(parts.head, vocabulary.text(token), vocabulary.length(token), taken);
}

void Machine::add_cost(Id target, NodeMask& mask, std::vector<uint32_t>& costs, std::vector<uint8_t>& uses) {
    const Completion* found = completion(target);
    costs.push_back(found ? found->cost : NO_COST);
    uses.push_back(found ? found->uses : 0);
    mask.highest_cost = std::max(mask.highest_cost, costs.back());
    mask.uses_registers = mask.uses_registers || uses.back();
}

void Machine::ensure_end_costs(NodeMask& mask, DensePart& part) {
    while (part.costs.size() < part.ends.size())
        add_cost(concatenation(part.ends[part.costs.size()], part.tail), mask, part.costs, part.uses);
}

// From the ends of a part to those of its tokens.
void Machine::ensure_token_ends(NodeMask& mask, DensePart& part) {
    if (!part.is_by_token) {
        part.ends = end_index(*part.split).ends;
        part.costs.clear();
        part.uses.clear();
        part.is_by_token = true;
    }
    ensure_end_costs(mask, part);
}

// What each token leads to, then what that costs; of dense parts what their ends cost. An operation that stops to wait
// for a deferred expression goes on with the costs it has not found yet.
void Machine::ensure_costs(Id id, NodeMask& mask) {
    if (mask.has_costs) return;
    if (!mask.has_targets) note_targets(id, mask);
    while (mask.costs.size() < mask.targets.size())
        add_cost(mask.targets[mask.costs.size()], mask, mask.costs, mask.uses);
    for (DensePart& part : mask.dense) {
        std::vector<Id> ends;
        if (part.ends.empty() && known_ends(*part.split, ends)) part.ends = std::move(ends);
        else if (part.ends.empty()) ensure_token_ends(mask, part);
        ensure_end_costs(mask, part);
    }
    mask.has_costs = true;
}

void Machine::note_targets(Id id, NodeMask& mask) {
    mask.tokens.clear();
    mask.targets.clear();
    auto note = [&](const Trie& walked, int32_t at, Id target) {
        for (int32_t i = walked.token_start[size_t(at)]; i < walked.token_start[size_t(at) + 1]; i++) {
            mask.tokens.push_back(walked.tokens[size_t(i)]);
            mask.targets.push_back(target);
        }
    };
    Walk walk(*this);
    if (mask.dense.empty()) {
        walk.run(id, trie, INT64_MAX, [&](int32_t at, Places target) { note(trie, at, walk.whole(target)); });
    } else {
        note_dense(id, mask, note);
    }
    for (int32_t token : specials(id)) {
        Id target = derive(id, FIRST_SPECIAL + token);
        if (node(target).has_guard) target = strip(target).whole;
        if (target == NOTHING_ID || !is_alive(target)) continue;
        mask.tokens.push_back(token);
        mask.targets.push_back(target);
    }
    mask.has_targets = true;
}

// Walk what add_dense walked beside the inside tokens.
template <class Note> void Machine::note_dense(Id id, NodeMask& mask, Note note) {
    while (node(id).kind == DEFERRED) id = unfold(id);
    const Node& n = node(id);
    const std::vector<Id> options = choices(id);
    for (Id option : options)
        if (is_alive(option)) note_dense(option, mask, note);
    if (!options.empty()) return;
    const Trie* rest = &trie;
    const bool is_pair = n.kind == CONCATENATION && !n.regular && node(n.a).regular;
    for (const DensePart& part : mask.dense)
        if (part.tail == (is_pair ? n.b : EMPTY_ID) && part.asked == (is_pair ? n.a : id)) rest = part.split->residual;
    Walk walk(*this);
    walk.run(id, *rest, INT64_MAX, [&](int32_t at, Places target) { note(*rest, at, walk.whole(target)); });
}

// Tokens after which the text captured now may be, or become, one already recorded; false if that cannot be told
// by their bytes (a capture that is no plain string).
bool Cursor::colliding_tokens(const RegistersPtr& registers, std::vector<int32_t>& tokens) const {
    tokens.clear();
    if (num_recorded(registers) == 0) return true;
    PlainString captured;
    if (!find_plain_string(*registers, text, captured) || captured.is_closed) return false;
    const ScopeRegister* scope = capturing_scope(*registers);
    for (const Record* record = scope ? scope->recorded.get() : nullptr; record; record = record->older.get()) {
        if (record->text.empty() || record->text[0] != '"') return false;
        if (record->text.compare(0, captured.size, captured.start, captured.size)) continue;
        const std::string rest = record->text.substr(captured.size) + '"';
        const std::vector<int32_t> symbols = bytes_as_symbols(rest);
        machine->trie.matches(symbols.data(), int32_t(symbols.size()),
                              [&](int32_t, int32_t token) { tokens.push_back(token); });
    }
    return true;
}

// What a token may cost where its completion ends captures: exact for each token that may collide; for the others
// one search for each state they lead to, as what is captured later does not depend on them.
struct Cursor::CaptureCosts {
    Cursor& cursor;
    const Thread& thread;
    bool is_known = true;               // `colliding` says all
    std::vector<int32_t> colliding;
    std::unordered_map<Id, uint32_t> by_target;

    CaptureCosts(Cursor& cursor, const Thread& thread) : cursor(cursor), thread(thread) {
        is_known = cursor.colliding_tokens(thread.registers, colliding);
        std::sort(colliding.begin(), colliding.end());
    }

    bool is_exact(int32_t token) const {
        return !is_known || std::binary_search(colliding.begin(), colliding.end(), token);
    }

    // `token`: one that leads there, -1 where it opens no scope. Only with it is a scope that it opens known.
    uint32_t of_target(Id target, uint32_t cost, uint8_t uses, int32_t token) {
        if (!(uses & USES_NEW_CAPTURE)) return cost;
        auto found = by_target.find(target);
        if (found != by_target.end()) return found->second;
        if (!thread.registers && token >= 0) return by_target[target] = cursor.cost_after(token);
        std::vector<int32_t> symbols;
        const bool is_found = cursor.machine->find_completion({target, thread.registers}, cursor.text, symbols);
        return by_target[target] = is_found ? cursor.machine->cost_of(symbols) : NO_COST;
    }
};

// Whether a token ends a capture, so that what it records may be what a completion would repeat.
static bool records(const NodeMask& mask, int32_t token) {
    return std::binary_search(mask.single.begin(), mask.single.end(), token) ||
           std::binary_search(mask.multiple.begin(), mask.multiple.end(), token);
}

// The completion for which the last mask allowed the last token, where it is the shortest known. A mask costs the
// state a token leads to as its walk meets it; the state that stands here may say the same texts otherwise (options
// joined in front of one tail), and of the same texts it may know a longer one.
void Cursor::recall_witness() {
    Machine& m = *machine;
    const Step& last = trail.back();
    const std::vector<uint8_t> before(text.begin(), text.begin() + int64_t(last.length));
    std::vector<int32_t> symbols;
    auto consider = [&](const Thread& target) {
        if (!m.find_completion(target, before, symbols)) return;
        std::vector<int32_t> tokens = m.tokens_of(symbols);
        if (has_witness && tokens.size() >= witness.size()) return;
        for (const Thread& thread : threads)
            if (m.holds(thread, symbols, text)) {
                witness = std::move(tokens);
                has_witness = true;
                return;
            }
    };
    for (const Thread& thread : last.threads) {
        NodeMask& mask = m.mask(thread.node);
        m.ensure_costs(thread.node, mask);
        for (size_t i = 0; i < mask.tokens.size(); i++)
            if (mask.tokens[i] == last.token) consider({mask.targets[i], thread.registers});
        for (const DensePart& part : mask.dense)
            if (has_bit(part.split->row, last.token))
                consider({m.concatenation(m.end_inside(*part.split, last.token), part.tail), thread.registers});
    }
}

// Keep only tokens of `row` after which a completion of fewer than `remaining` tokens is known.
void Cursor::filter(const Thread& thread, NodeMask& mask, uint32_t remaining, std::vector<uint32_t>& row) {
    Machine& m = *machine;
    m.ensure_costs(thread.node, mask);
    const bool is_checked = mask.uses_registers;
    if (mask.highest_cost < remaining && !is_checked) return;
    std::vector<uint32_t> kept(row.size(), 0);
    CaptureCosts costs(*this, thread);
    for (size_t i = 0; i < mask.tokens.size(); i++) {
        const int32_t token = mask.tokens[i];
        if (!has_bit(row, token)) continue;
        const bool is_exact = is_checked && mask.uses[i] && (records(mask, token) || costs.is_exact(token));
        const uint32_t cost =
            is_exact ? cost_after(token) : costs.of_target(mask.targets[i], mask.costs[i], mask.uses[i], token);
        if (cost < remaining) set_bit(kept, token);
    }
    for (DensePart& part : mask.dense) keep_dense(part, mask, costs, remaining, row, kept);
    row.swap(kept);
}

// Of a dense part all tokens or none, where its ends agree; otherwise each by its end.
void Cursor::keep_dense(DensePart& part, NodeMask& mask, CaptureCosts& costs, uint32_t remaining,
                        const std::vector<uint32_t>& row, std::vector<uint32_t>& kept) {
    Machine& m = *machine;
    const bool has_exact = mask.uses_registers && (!costs.is_known || !costs.colliding.empty());
    std::vector<uint8_t> fits;
    size_t num_fitting = 0;
    auto find_fitting = [&] {
        fits.assign(part.ends.size(), 0);
        for (size_t i = 0; i < fits.size(); i++) {
            const Id target = part.uses[i] & USES_NEW_CAPTURE ? m.concatenation(part.ends[i], part.tail) : 0;
            fits[i] = costs.of_target(target, part.costs[i], part.uses[i], -1) < remaining;
        }
        num_fitting = size_t(std::count(fits.begin(), fits.end(), 1));
    };
    m.ensure_end_costs(mask, part);
    find_fitting();
    const std::vector<uint32_t>& inside = part.split->row;
    const bool is_exact = has_exact && std::any_of(part.uses.begin(), part.uses.end(), [](uint8_t uses) { return uses; });
    if (!is_exact && num_fitting == 0) return;
    if (!is_exact && num_fitting == fits.size()) {
        for (size_t word = 0; word < row.size(); word++) kept[word] |= row[word] & inside[word];
        return;
    }
    if (!part.is_by_token) {
        m.ensure_token_ends(mask, part);
        find_fitting();
    }
    const EndIndex& index = *part.split->index;
    std::vector<uint32_t> fitting(row.size(), 0);
    if (fits[index.common])
        for (size_t word = 0; word < row.size(); word++) fitting[word] = row[word] & inside[word];
    for (size_t i = 0; i < index.tokens.size(); i++) {
        const int32_t token = index.tokens[i];
        if (!fits[index.end_of[i]]) clear_bit(fitting, token);
        else if (has_bit(row, token)) set_bit(fitting, token);
    }
    auto decide = [&](int32_t token) {
        if (!has_bit(row, token) || !has_bit(inside, token) || !part.uses[index.end(token)]) return;
        if (cost_after(token) < remaining) set_bit(fitting, token);
        else clear_bit(fitting, token);
    };
    if (is_exact && costs.is_known)
        for (int32_t token : costs.colliding) decide(token);
    else if (is_exact)
        for (int32_t token : tokens_in(row)) decide(token);
    for (size_t word = 0; word < row.size(); word++) kept[word] |= fitting[word];
}

}  // namespace sgrt
