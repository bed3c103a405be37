// Budgets: what each allowed token costs to complete, and masks filtered by it.
#include <algorithm>

#include "cursor.hpp"
#include "walk.hpp"

namespace sgrt {

static std::vector<int32_t> bytes_as_symbols(const std::string& text) {
    std::vector<int32_t> symbols;
    for (char byte : text) symbols.push_back(uint8_t(byte));
    return symbols;
}

// For each inside token the state it ends in, built once for a split when a budget first asks.
void Machine::ensure_end_index(Split& parts) {
    if (parts.has_end_index) return;
    std::unordered_map<Id, uint16_t> number;
    auto index_of = [&](Id end) {
        auto found = number.emplace(end, uint16_t(number.size() + 1));
        if (found.second && size_t(number.size()) > parts.ends.size()) parts.ends.push_back(end);
        if (number.size() > 65000) throw LimitExceeded("max_states");
        return found.first->second;
    };
    std::vector<uint16_t> index;
    const std::vector<Id> old = std::move(parts.ends);
    parts.ends.clear();
    Walk walk(*this);
    auto note = [&](int32_t at, Places target) {
        const uint16_t end = index_of(walk.whole(target));
        for (int32_t i = trie.token_start[size_t(at)]; i < trie.token_start[size_t(at) + 1]; i++)
            index[size_t(trie.tokens[size_t(i)])] = end;
    };
    const Node& n = node(parts.head);
    if (parts.base && n.kind == CONCATENATION && parts.base->head != parts.head && parts.patched.empty()) {
        // What stays in the first part ends there in front of the second; what leaves it is walked.
        ensure_end_index(*parts.base);
        std::vector<uint16_t> renamed(parts.base->ends.size() + 1, 0);
        for (size_t i = 0; i < parts.base->ends.size(); i++)
            renamed[i + 1] = index_of(concatenation(parts.base->ends[i], n.b));
        index = parts.base->end_index;
        for (uint16_t& end : index) end = renamed[end];
        const Trie& rest = *parts.base->residual;
        walk.run(parts.head, rest, INT64_MAX, [&](int32_t at, Places target) {
            const uint16_t end = index_of(walk.whole(target));
            for (int32_t i = rest.token_start[size_t(at)]; i < rest.token_start[size_t(at) + 1]; i++)
                index[size_t(rest.tokens[size_t(i)])] = end;
        });
    } else if (parts.base) {
        ensure_end_index(*parts.base);
        for (Id end : parts.base->ends) index_of(end);
        index = parts.base->end_index;
        walk.prepare(parts.head, trie);
        for (uint8_t byte : parts.patched) {
            const int32_t at = trie.root_child[byte], end = trie.skip[size_t(at)];
            for (int32_t i = trie.token_start[size_t(at)]; i < trie.token_start[size_t(end)]; i++)
                index[size_t(trie.tokens[size_t(i)])] = 0;
            walk.subtree(trie, byte, note);
        }
    } else {
        index.assign(size_t(vocabulary.size), 0);
        walk.run(parts.head, trie, INT64_MAX, note);
    }
    mask_bytes_ += index.size() * 2;
    parts.end_index = std::move(index);
    parts.has_end_index = true;
}

// What each token leads to, then what that costs. An operation that stops to wait for a deferred expression goes on
// with the costs it has not found yet.
void Machine::ensure_costs(Id id, NodeMask& mask) {
    if (mask.has_costs) return;
    if (!mask.has_targets) note_targets(id, mask);
    auto find_cost = [&](Id target, std::vector<uint32_t>& costs, std::vector<uint8_t>& uses) {
        const Completion* found = completion(target);
        costs.push_back(found ? found->cost : NO_COST);
        uses.push_back(found ? found->uses : 0);
        mask.highest_cost = std::max(mask.highest_cost, costs.back());
        mask.uses_registers = mask.uses_registers || uses.back();
    };
    while (mask.costs.size() < mask.targets.size()) find_cost(mask.targets[mask.costs.size()], mask.costs, mask.uses);
    for (DensePart& part : mask.dense) {
        ensure_end_index(*part.split);
        while (part.costs.size() < part.split->ends.size())
            find_cost(concatenation(part.split->ends[part.costs.size()], part.tail), part.costs, part.uses);
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
            if (const uint16_t end = part.split->end_index[size_t(last.token)])
                consider({m.concatenation(part.split->ends[end - 1u], part.tail), thread.registers});
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
    for (DensePart& part : mask.dense) {
        std::vector<uint8_t> fits(part.costs.size() + 1, 0), uses(part.costs.size() + 1, 0);
        for (size_t i = 0; i < part.costs.size(); i++) {
            const Id target = part.uses[i] & USES_NEW_CAPTURE ? m.concatenation(part.split->ends[i], part.tail) : 0;
            fits[i + 1] = costs.of_target(target, part.costs[i], part.uses[i], -1) < remaining;
            uses[i + 1] = is_checked && part.uses[i];
        }
        keep_dense(part, fits, uses, costs, remaining, row, kept);
    }
    row.swap(kept);
}

void Cursor::keep_dense(const DensePart& part, const std::vector<uint8_t>& fits, const std::vector<uint8_t>& uses,
                        const CaptureCosts& costs, uint32_t remaining, const std::vector<uint32_t>& row,
                        std::vector<uint32_t>& kept) {
    const std::vector<uint16_t>& index = part.split->end_index;
    const bool has_exact = !costs.is_known || !costs.colliding.empty();
    for (size_t word = 0; word < row.size(); word++) {
        uint32_t bits = 0;
        for (uint32_t left = row[word]; left; left &= left - 1) {
            const int bit = __builtin_ctz(left);
            const int32_t token = int32_t(word * 32) + bit;
            const uint16_t end = index[size_t(token)];
            if (!end) continue;
            const bool is_exact = has_exact && uses[end] && costs.is_exact(token);
            if (is_exact ? cost_after(token) < remaining : fits[end]) bits |= 1u << bit;
        }
        kept[word] |= bits;
    }
}

}  // namespace sgrt
