#include "cursor.hpp"

#include <algorithm>

#include "walk.hpp"

namespace sgrt {

// The live threads after `token`. The text grows with the token's bytes while they are stepped over.
bool Cursor::after(const Threads& from, int32_t token, Threads& out) {
    Machine& m = *machine;
    const int32_t length = m.vocabulary.length(token);
    struct Restored {
        std::vector<uint8_t>& text;
        size_t size;
        ~Restored() { text.resize(size); }
    } restored{text, text.size()};
    if (length == 0) {
        m.step(from, FIRST_SPECIAL + token, text, out);
        m.keep_live(out, text);
        return !out.empty();
    }
    const uint8_t* bytes = m.vocabulary.text(token);
    Threads current = from;
    for (int32_t i = 0; i < length; i++) {
        m.step(current, bytes[i], text, out);
        if (out.empty()) return false;
        text.push_back(bytes[i]);
        current.swap(out);
    }
    m.keep_live(current, text);
    out.swap(current);
    return !out.empty();
}

bool Cursor::advance(int32_t token) {
    Threads following;
    Machine& m = *machine;
    if (token < 0 || token >= m.vocabulary.size) return false;
    const int32_t length = m.vocabulary.length(token);
    const uint8_t* bytes = m.vocabulary.text(token);
    bool is_simple = threads.size() == 1 && length > 0;
    if (is_simple) {    // one alternative and no guard on the way: no need for the text
        int32_t taken = 0;
        const Id at = m.derive_all(threads[0].node, bytes, length, taken);
        if (at == NOTHING_ID) return false;
        is_simple = taken == length;
        if (is_simple) {
            const Thread thread{at, threads[0].registers};
            if (thread.registers && m.tightness(at) != LOOSE) is_simple = false;
            else if (!m.is_alive(at)) return false;
            else following.push_back(thread);
        }
    }
    if (!is_simple && !after(threads, token, following)) return false;
    const bool follows = has_witness && !witness.empty() && witness[0] == token;
    std::vector<int32_t> rest;
    if (follows) rest.assign(witness.begin() + 1, witness.end());
    trail.push_back({std::move(threads), text.size(), token, has_witness, std::move(witness)});
    threads = std::move(following);
    has_witness = follows;
    witness = std::move(rest);
    text.insert(text.end(), bytes, bytes + length);
    return true;
}

void Cursor::rollback(size_t count) {
    for (; count-- > 0; trail.pop_back()) {
        Step& step = trail.back();
        threads = std::move(step.threads);
        text.resize(step.length);
        has_witness = step.has_witness;
        witness = std::move(step.witness);
    }
}

bool Cursor::is_accepting() { return machine->accepts(threads, text); }

bool Cursor::is_exhausted() {
    for (const Thread& thread : threads)
        if (machine->first(thread.node).any() || !machine->specials(thread.node).empty()) return false;
    return true;
}

void Cursor::verify(const Thread& thread, const std::vector<int32_t>& tokens, std::vector<uint32_t>& row) {
    Threads following;
    for (int32_t token : tokens)
        if (after({thread}, token, following)) set_bit(row, token);
}

// The tokens of one thread: those at hand, and those that its registers must allow.
void Cursor::fill_thread(const Thread& thread, NodeMask& found, std::vector<uint32_t>& row) {
    Machine& m = *machine;
    const Tightness tight = thread.registers ? m.tightness(thread.node) : LOOSE;
    const bool collides = (tight == PENDING || !found.single.empty()) && may_collide(thread.registers, text);
    if (tight == TIGHT || (tight == PENDING && collides)) {
        std::vector<uint32_t> plain(row.size(), 0);
        found.write(plain.data(), plain.size(), true, false);
        verify(thread, tokens_in(plain), row);
        verify(thread, found.single, row);
        verify(thread, found.tight, row);
    } else {
        found.write(row.data(), row.size(), false, !collides);
        if (collides) verify(thread, found.single, row);
        if (thread.registers) verify(thread, found.tight, row);
        else for (int32_t token : found.tight) set_bit(row, token);
    }
    verify(thread, found.multiple, row);
}

// Whether a mask is at hand: nothing has to be verified, no budget is felt.
bool Cursor::is_plain(const Thread& thread, NodeMask& found, int64_t remaining) {
    Machine& m = *machine;
    if (!found.multiple.empty() || !found.tight.empty()) return false;
    const Tightness tight = thread.registers ? m.tightness(thread.node) : LOOSE;
    if (tight == TIGHT) return false;
    if ((tight == PENDING || !found.single.empty()) && may_collide(thread.registers, text)) return false;
    if (remaining >= 0) {
        m.ensure_costs(thread.node, found);
        if (int64_t(found.highest_cost) >= remaining || (thread.registers && found.uses_registers)) return false;
    }
    return true;
}

void Cursor::mask(uint32_t* out, int64_t remaining) {
    Machine& m = *machine;
    if (remaining >= 0 && int64_t(find_witness(remaining).size()) > remaining) throw BudgetTooSmall{uint32_t(witness.size())};
    const size_t size = size_t(m.words);
    bool is_first = true;
    for (const Thread& thread : threads) {
        NodeMask& found = m.mask(thread.node);
        if (is_plain(thread, found, remaining)) {
            found.write(out, size, is_first, true);
        } else {
            scratch.assign(size, 0);
            fill_thread(thread, found, scratch);
            if (remaining >= 0) filter(thread, found, uint32_t(std::min<int64_t>(remaining, NO_COST)), scratch);
            if (is_first) memcpy(out, scratch.data(), size * 4);
            else for (size_t i = 0; i < size; i++) out[i] |= scratch[i];
        }
        is_first = false;
    }
    if (remaining >= 0 && !witness.empty()) out[witness[0] >> 5] |= 1u << (witness[0] & 31);
    if (is_accepting())
        for (int32_t token : m.vocabulary.ends) out[token >> 5] |= 1u << (token & 31);
}

bool Cursor::node_mask(uint32_t* out, int32_t& id) {
    if (threads.size() != 1) return false;
    const Thread& thread = threads[0];
    NodeMask& found = machine->mask(thread.node);
    if (!found.single.empty() || !found.multiple.empty()) return false;
    if (thread.registers && (!found.tight.empty() || machine->tightness(thread.node) != LOOSE)) return false;
    id = thread.node;
    mask(out, -1);
    return true;
}

Cursor::Cheapest Cursor::cheapest(const Threads& from, const std::vector<uint8_t>& past) {
    Machine& m = *machine;
    Cheapest best;
    for (const Thread& thread : from) {
        const Completion* known = m.completion(thread.node);
        if (!known) continue;
        if (!known->uses) {
            if (known->cost < best.cost) best = {known->cost, known, {}};
            continue;
        }
        std::vector<int32_t> symbols;
        if (!m.find_completion(thread, past, symbols)) continue;
        const uint32_t cost = m.cost_of(symbols);
        if (cost < best.cost) best = {cost, nullptr, std::move(symbols)};
    }
    return best;
}

uint32_t Cursor::cost_after(int32_t token) {
    Threads following;
    if (!after(threads, token, following)) return NO_COST;
    std::vector<uint8_t> past = text;
    past.insert(past.end(), machine->vocabulary.text(token),
                machine->vocabulary.text(token) + machine->vocabulary.length(token));
    return cheapest(following, past).cost;
}

// With `within`, a witness of at most so many tokens, if any is known.
const std::vector<int32_t>& Cursor::find_witness(int64_t within) {
    const Cheapest found = cheapest(threads, text);
    if (!has_witness || found.cost < witness.size()) {
        if (found.cost >= NO_COST) throw Unsatisfiable();
        witness = found.known ? machine->tokens_of(found.known) : machine->tokens_of(found.symbols);
        has_witness = true;
    }
    if (within >= 0 && int64_t(witness.size()) > within && !trail.empty()) recall_witness();
    return witness;
}

std::vector<int32_t> Cursor::symbols(const Threads& from) {
    Bits members;
    std::vector<int32_t> out, tokens;
    for (const Thread& thread : from) {
        members = members | machine->first(thread.node);
        const auto& more = machine->specials(thread.node);
        tokens.insert(tokens.end(), more.begin(), more.end());
    }
    members = members & machine->alphabet;
    for (int byte = 0; byte < 256; byte++)
        if (members.test(byte)) out.push_back(byte);
    std::sort(tokens.begin(), tokens.end());
    tokens.erase(std::unique(tokens.begin(), tokens.end()), tokens.end());
    for (int32_t token : tokens) out.push_back(FIRST_SPECIAL + token);
    return out;
}

std::vector<int32_t> Cursor::choices() {
    std::vector<int32_t> out;
    Threads following;
    for (int32_t symbol : symbols(threads)) {
        machine->step(threads, symbol, text, following);
        std::vector<uint8_t> past = text;
        if (symbol < 256) past.push_back(uint8_t(symbol));
        machine->keep_live(following, past);
        if (!following.empty()) out.push_back(symbol);
    }
    return out;
}

std::vector<int32_t> Cursor::forced(size_t limit) {
    std::vector<int32_t> out;
    Threads current = threads, following, chosen;
    std::vector<uint8_t> past = text;
    while (out.size() < limit && !machine->accepts(current, past)) {
        int32_t only = -1;
        for (int32_t symbol : symbols(current)) {
            machine->step(current, symbol, past, following);
            if (symbol < 256) past.push_back(uint8_t(symbol));
            machine->keep_live(following, past);
            if (symbol < 256) past.pop_back();
            if (following.empty()) continue;
            if (only >= 0) return out;
            only = symbol;
            chosen = following;
        }
        if (only < 0) break;
        out.push_back(only);
        if (only < 256) past.push_back(uint8_t(only));
        current.swap(chosen);
    }
    return out;
}

}  // namespace sgrt
