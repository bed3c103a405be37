// Completions and liveness under registers; automaton/search.py explains what is searched and when.
#include <algorithm>
#include <map>
#include <queue>
#include <set>

#include "machine.hpp"

namespace sgrt {
namespace {

constexpr int64_t SMALL_LANGUAGE = 10000;
constexpr int EXACT_EXPANSIONS = 1000;
constexpr int MAX_EXPANSIONS = 50000;
constexpr int MIN_VARIANTS = 8;
constexpr int MAX_TIGHT_DEPTH = 2000;

int liking(int byte) {
    const bool is_printable = byte >= 0x20 && byte < 0x7F;
    return (is_printable ? 0 : 512) + (byte == '"' || byte == '\\' ? 256 : 0) + byte;
}

}  // namespace

bool Machine::is_live(const Thread& thread, const std::vector<uint8_t>& text) {
    if (!is_alive(thread.node)) return false;
    const Tightness tight = thread.registers ? tightness(thread.node) : LOOSE;
    if (tight == LOOSE || (tight == PENDING && !may_collide(thread.registers, text))) return true;
    std::vector<int32_t> symbols;
    return find_completion(thread, text, symbols);
}

void Machine::keep_live(Threads& threads, const std::vector<uint8_t>& text) {
    threads.erase(std::remove_if(threads.begin(), threads.end(), [&](const Thread& t) { return !is_live(t, text); }),
                  threads.end());
}

bool Machine::find_completion(const Thread& thread, const std::vector<uint8_t>& text, std::vector<int32_t>& symbols) {
    const Completion* known = completion(thread.node);
    if (!known) return false;
    symbols = symbols_of(known);
    if (!known->uses || holds(thread, symbols, text)) return true;
    return search(thread, text, symbols);
}

bool Machine::holds(const Thread& thread, const std::vector<int32_t>& symbols, std::vector<uint8_t> text) {
    Threads threads{thread}, following;
    for (int32_t symbol : symbols) {
        step(threads, symbol, text, following);
        threads.swap(following);
        if (threads.empty()) return false;
        if (symbol < 256) text.push_back(uint8_t(symbol));
    }
    return accepts(threads, text);
}

bool Machine::search(const Thread& start, const std::vector<uint8_t>& text, std::vector<int32_t>& symbols) {
    struct Item {
        size_t cost;
        int64_t order;
        Thread thread;
        std::vector<int32_t> symbols;
    };
    struct Later {
        bool operator()(const Item& l, const Item& r) const {
            if (l.cost != r.cost) return l.cost > r.cost;
            return l.symbols.size() != r.symbols.size() ? l.symbols.size() < r.symbols.size() : l.order > r.order;
        }
    };
    using Queue = std::priority_queue<Item, std::vector<Item>, Later>;
    Queue queue;
    std::set<std::pair<Id, std::string>> seen;
    int64_t pushed = 0;
    int expanded = 0;
    queue.push({0, 0, start, {}});
    std::vector<int> bytes(256);
    for (int i = 0; i < 256; i++) bytes[size_t(i)] = i;
    std::sort(bytes.begin(), bytes.end(), [](int l, int r) { return liking(l) < liking(r); });
    Threads following;
    while (!queue.empty()) {
        const Item item = queue.top();
        queue.pop();
        std::vector<uint8_t> past = text;
        for (int32_t symbol : item.symbols)
            if (symbol < 256) past.push_back(uint8_t(symbol));
        if (accepts({item.thread}, past)) {
            symbols = item.symbols;
            return true;
        }
        tick();
        if (++expanded == EXACT_EXPANSIONS) {
            Queue by_what_is_left;
            for (; !queue.empty(); queue.pop()) {
                Item one = queue.top();
                one.cost -= one.symbols.size();
                by_what_is_left.push(std::move(one));
            }
            queue.swap(by_what_is_left);
        }
        if (expanded > MAX_EXPANSIONS) throw LimitExceeded("max_states");
        const int limit = MIN_VARIANTS + num_recorded(item.thread.registers);
        std::map<Id, int> used;
        auto expand = [&](int32_t symbol) {
            if (++used[derive(item.thread.node, symbol)] > limit) return;
            step({item.thread}, symbol, past, following);
            for (const Thread& thread : following) {
                const Completion* estimate = completion(thread.node);
                if (!estimate) continue;
                std::string key;
                for (const ScopeRegister* s = thread.registers ? thread.registers->scope.get() : nullptr; s;
                     s = s->outer.get()) {
                    std::vector<std::string> texts;
                    for (const Record* r = s->recorded.get(); r; r = r->older.get()) texts.push_back(r->text);
                    std::sort(texts.begin(), texts.end());
                    for (const std::string& one : texts) key += std::to_string(one.size()) + ":" + one;
                    key += "|";
                }
                const Capture* capture = thread.registers ? thread.registers->capture.get() : nullptr;
                while (capture && capture->outer) capture = capture->outer.get();
                if (capture) {
                    key.append(past.begin() + std::min<int64_t>(capture->start, int64_t(past.size())), past.end());
                    if (symbol < 256) key += char(symbol);
                }
                if (!seen.emplace(thread.node, key).second) continue;
                std::vector<int32_t> longer = item.symbols;
                longer.push_back(symbol);
                takes(sizeof(Item) + key.size() + longer.size() * sizeof(int32_t) + 100);
                const size_t spent = expanded >= EXACT_EXPANSIONS ? 0 : longer.size();
                queue.push({spent + estimate->length, ++pushed, thread, std::move(longer)});
            }
        };
        const Bits members = first(item.thread.node) & alphabet;
        for (int byte : bytes)
            if (members.test(byte)) expand(byte);
        for (int32_t token : specials(item.thread.node)) expand(FIRST_SPECIAL + token);
    }
    return false;
}

Tightness Machine::tightness(Id id) {
    Node& n = node(id);
    if (n.regular) return LOOSE;
    if (n.tight < 0) {
        const Tightness found = decide_tight(id, true, 0);
        n.tight = int8_t(found);
    }
    return Tightness(n.tight);
}

Tightness Machine::visible_tightness(Id id, int depth) {
    Node& n = node(id);
    if (n.regular || !n.has_capture) return LOOSE;
    if (n.visibly_tight < 0) {
        const Tightness found = decide_tight(id, false, depth);
        n.visibly_tight = int8_t(found);
    }
    return Tightness(n.visibly_tight);
}

// Whether every way on has a capture due soon with few texts to choose from. Only at the head of what follows are
// deferred expressions unfolded. Beyond the depth guard the answer is yes, which costs time and nothing else.
Tightness Machine::decide_tight(Id id, bool is_head, int depth) {
    const Node& n = node(id);
    if (n.regular) return LOOSE;
    if (depth > MAX_TIGHT_DEPTH) return TIGHT;
    auto of_part = [&](Id part) {
        if (!is_head) return visible_tightness(part, depth + 1);
        const Node& p = node(part);
        return p.tight >= 0 ? Tightness(p.tight) : decide_tight(part, true, depth + 1);
    };
    switch (n.kind) {
        case DEFERRED: return is_head ? decide_tight(unfold(id), true, depth + 1) : LOOSE;
        case ALTERNATION: {
            Tightness least = TIGHT;
            for (int32_t i = 0; i < n.count && least != LOOSE; i++)
                if (is_alive(n.parts[i])) least = std::min(least, of_part(n.parts[i]));
            return least;
        }
        case REPETITION: return n.low > 0 ? of_part(n.a) : LOOSE;
        case DISTINCT: return of_part(n.a);
        case CONCATENATION: break;
        default: return LOOSE;
    }
    return chain_tightness({}, id, is_head, depth);
}

// Of a regular head in front of a tail, without making a node of both.
Tightness Machine::tightness(Id head, Id tail) {
    if (head == EMPTY_ID) return tightness(tail);
    const bool is_passed = is_nullable(head);
    if (!is_passed && !node(tail).has_capture) return LOOSE;
    const uint64_t key = uint64_t(uint32_t(head)) << 32 | uint32_t(tail);
    const auto found = tights_.find(key);
    if (found != tights_.end()) return found->second;
    const Tightness tight = chain_tightness({head}, tail, is_passed, 0);
    tights_[key] = tight;
    return tight;
}

// Of a chain whose first parts are in `run` already.
Tightness Machine::chain_tightness(std::vector<Id> run, Id at, bool is_head, int depth) {
    auto of_part = [&](Id part) {
        if (!is_head) return visible_tightness(part, depth + 1);
        const Node& p = node(part);
        return p.tight >= 0 ? Tightness(p.tight) : decide_tight(part, true, depth + 1);
    };
    Tightness most = LOOSE;
    bool is_open = true;    // no capture has begun in the chain, so its first end is that of the open one
    for (;;) {
        const Node& current = node(at);
        const Id part = current.kind == CONCATENATION ? current.a : at;
        if (node(part).kind == ACTION && node(part).low >= END_BYTES) {
            if (is_small(run)) most = std::max(most, is_open ? PENDING : TIGHT);
            run.clear();
            is_open = false;
        } else {
            is_open = is_open && !(node(part).kind == ACTION && node(part).low == BEGIN);
            run.push_back(part);
            most = std::max(most, of_part(part));
        }
        if (most == TIGHT || current.kind != CONCATENATION) return most;
        is_head = is_head && is_nullable(part);
        at = current.b;
        if (!is_head && !node(at).has_capture) return most;
    }
}

bool Machine::is_small(const std::vector<Id>& run) {
    int64_t total = 1;
    for (Id part : run) {
        std::unordered_set<Id> open;
        const int64_t count = count_words(part, 0, open);
        if (count < 0) return false;
        total *= count;
        if (total > SMALL_LANGUAGE) return false;
    }
    return true;
}

// Number of texts; -1: many, or recursive.
int64_t Machine::count_words(Id id, int depth, std::unordered_set<Id>& open) {
    if (node(id).words > -2) return node(id).words;
    if (!is_alive(id)) return node(id).words = 0;
    const Node& n = node(id);
    if (depth > 2000 || !open.insert(id).second) return -1;
    int64_t total = 0;
    auto add = [&](int64_t count) {
        total = count < 0 || total < 0 ? -1 : total + count;
        if (total > SMALL_LANGUAGE) total = -1;
    };
    switch (n.kind) {
        case EMPTY:
        case ACTION:
        case LITERAL:
        case SPECIAL: total = 1; break;
        case SET: total = (*n.members & alphabet).count(); break;
        case INTERSECTION:
        case COMPLEMENT: {
            total = is_nullable(id);
            const Partition& classes = partition(id);
            for (const auto& members : classes.members) {
                int spelled = 0, byte = 0;
                for (uint8_t member : members)
                    if (alphabet.test(member)) {
                        spelled++;
                        byte = member;
                    }
                if (!spelled || total < 0) continue;
                const Id target = derive(id, byte);
                if (target == NOTHING_ID || !is_alive(target)) continue;
                const int64_t count = count_words(target, depth + 1, open);
                add(count < 0 ? -1 : count * spelled);
            }
            break;
        }
        case REPETITION: {
            const int64_t count = n.high == UNBOUNDED ? -1 : count_words(n.a, depth + 1, open);
            if (count < 0) {
                total = -1;
                break;
            }
            int64_t power = 1;
            for (int64_t times = 0; times <= n.high && total >= 0; times++) {
                if (times >= n.low) add(times < 64 ? power : SMALL_LANGUAGE);
                power = std::min<int64_t>(power * std::max<int64_t>(count, 1), SMALL_LANGUAGE + 1);
            }
            break;
        }
        case CONCATENATION: {
            const int64_t head = count_words(n.a, depth + 1, open);
            const int64_t tail = head < 0 ? -1 : count_words(n.b, depth + 1, open);
            total = tail < 0 ? -1 : head * tail;
            break;
        }
        case ALTERNATION:
            for (int32_t i = 0; i < n.count && total >= 0; i++) add(count_words(n.parts[i], depth + 1, open));
            break;
        default: total = count_words(n.kind == DEFERRED ? unfold(id) : n.a, depth + 1, open);
    }
    open.erase(id);
    if (total > SMALL_LANGUAGE) total = -1;
    return node(id).words = total;
}

}  // namespace sgrt
