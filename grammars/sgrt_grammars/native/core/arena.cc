// Interning constructors. The normal form is that of automaton/arena.py.
#include <algorithm>
#include <map>

#include "walk.hpp"

namespace sgrt {
namespace {

uint64_t mixed(uint64_t hash, uint64_t value) {
    hash ^= value + 0x9E3779B97F4A7C15ull + (hash << 6) + (hash >> 2);
    hash *= 0xBF58476D1CE4E5B9ull;
    return hash ^ hash >> 31;
}

uint64_t hash_of(const Node& node) {
    uint64_t hash = node.kind;
    switch (node.kind) {
        case LITERAL:
            for (int32_t i = 0; i < node.size; i++) hash = hash * 1099511628211ull + node.data[i] + 1;
            return mixed(hash, uint64_t(node.size));
        case SET:
            for (uint64_t word : node.members->word) hash = mixed(hash, word);
            return hash;
        case ALTERNATION:
        case INTERSECTION:
            for (int32_t i = 0; i < node.count; i++) hash = mixed(hash, uint64_t(node.parts[i]));
            return hash;
        default:
            hash = mixed(hash, uint64_t(uint32_t(node.a)) << 32 | uint32_t(node.b));
            return mixed(mixed(hash, uint64_t(node.low)), uint64_t(node.high));
    }
}

}  // namespace

Machine::Machine(Vocabulary given, Limits limits)
    : vocabulary(std::move(given)),
      trie(vocabulary,
           [this] {
               std::vector<int32_t> tokens;
               for (int32_t token = 0; token < vocabulary.size; token++)
                   if (vocabulary.length(token)) tokens.push_back(token);
               return tokens;
           }(), true),
      words((vocabulary.size + 31) / 32),
      limits_(limits) {
    horizon_ = std::max(1, trie.max_depth);
    for (int byte = 0; byte < 256; byte++) {
        const int32_t at = trie.root_child[byte];
        if (at >= 0 && trie.token_start[at] < trie.token_start[at + 1]) alphabet.set(byte);
    }
    for (int byte = 0x20; byte < 0x7F; byte++) spells_ascii_ = spells_ascii_ && alphabet.test(byte);
    budget = &first_budget_;
    ways_.push_back(new std::vector<int32_t>());
    ways_.push_back(new std::vector<int32_t>{0});
    way_numbers_[std::string()] = 0;
    const int32_t zero = 0;
    way_numbers_[std::string(reinterpret_cast<const char*>(&zero), 4)] = 1;
    intern_actions({});
    Node probe;
    probe.kind = NOTHING;
    intern(probe, hash_of(probe));
    probe.kind = EMPTY;
    intern(probe, hash_of(probe));
    everything_ = complement(NOTHING_ID);
    for (int i = 0; i < 5; i++) {
        Node mark;
        mark.kind = ACTION;
        mark.low = i;
        actions_[i] = intern(mark, hash_of(mark));
    }
}

Machine::~Machine() {
    for (auto* ways : ways_) delete ways;
    for (auto* list : action_list_) delete list;
}

int32_t Machine::intern_actions(const Actions& actions) {
    std::string key(actions.begin(), actions.end());
    auto found = action_numbers_.find(key);
    if (found != action_numbers_.end()) return found->second;
    action_list_.push_back(new Actions(actions));
    return action_numbers_[key] = int32_t(action_list_.size()) - 1;
}

bool Machine::same(const Node& left, const Node& right) const {
    if (left.kind != right.kind) return false;
    switch (left.kind) {
        case LITERAL:
            return left.size == right.size && !memcmp(left.data, right.data, size_t(left.size));
        case SET:
            return *left.members == *right.members;
        case ALTERNATION:
        case INTERSECTION:
            return left.count == right.count && !memcmp(left.parts, right.parts, size_t(left.count) * sizeof(Id));
        default:
            return left.a == right.a && left.b == right.b && left.low == right.low && left.high == right.high;
    }
}

// `probe` may point at the caller's memory; what is new is copied into the pool.
Id Machine::intern(Node& probe, uint64_t hash) {
    const Id known = nodes_.find(hash, [&](const Node& other) { return same(other, probe); });
    if (known >= 0) return known;
    if (++budget->states > limits_.max_states) throw LimitExceeded("max_states");
    takes(sizeof(Node));
    if (probe.kind == LITERAL) {
        uint8_t* copy = pool_.make<uint8_t>(size_t(probe.size));
        memcpy(copy, probe.data, size_t(probe.size));
        probe.data = copy;
    } else if (probe.kind == SET) {
        Bits* copy = pool_.make<Bits>(1);
        *copy = *probe.members;
        probe.members = copy;
    } else if (probe.kind == ALTERNATION || probe.kind == INTERSECTION) {
        Id* copy = pool_.make<Id>(size_t(probe.count));
        memcpy(copy, probe.parts, size_t(probe.count) * sizeof(Id));
        probe.parts = copy;
    }
    fill_facts(probe);
    fill_eagerly(probe);
    const Id id = nodes_.add(hash, probe);
    tick();
    return id;
}

Id Machine::literal(const uint8_t* data, int32_t size) {
    if (size == 0) return EMPTY_ID;
    Node probe;
    probe.kind = LITERAL;
    probe.data = data;
    probe.size = size;
    return intern(probe, hash_of(probe));
}

Id Machine::byte_set(const Bits& members) {
    const int count = members.count();
    if (count == 0) return NOTHING_ID;
    if (count == 1) {
        const uint8_t byte = uint8_t(members.lowest());
        return literal(&byte, 1);
    }
    Node probe;
    probe.kind = SET;
    probe.members = &members;
    return intern(probe, hash_of(probe));
}

static Node made(Kind kind, Id a, Id b, int64_t low, int64_t high) {
    Node probe;
    probe.kind = kind;
    probe.a = a;
    probe.b = b;
    probe.low = low;
    probe.high = high;
    return probe;
}

Id Machine::deferred(int32_t number) {
    Node probe = made(DEFERRED, 0, 0, number, 0);
    return intern(probe, hash_of(probe));
}

Id Machine::intern_deferred(Node& probe) { return intern(probe, hash_of(probe)); }

Id Machine::special(int32_t token) {
    Node probe = made(SPECIAL, 0, 0, token, 0);
    return intern(probe, hash_of(probe));
}

Id Machine::scope(Id body) { return wrap(SCOPE, body, action(ENTER), action(EXIT)); }

Id Machine::distinct(Id body, Action end) { return wrap(DISTINCT, body, action(BEGIN), action(end)); }

Id Machine::wrap(Kind kind, Id body, Id begin, Id end) {
    if (body == NOTHING_ID) return NOTHING_ID;
    Node probe = made(kind, concatenation(begin, concatenation(body, end)), body, 0, 0);
    return intern(probe, hash_of(probe));
}

Id Machine::guarded(int32_t number, Id target) {
    if (number == 0 || target == NOTHING_ID) return target;
    const Node& n = node(target);
    if (n.kind == ALTERNATION) {
        std::vector<Id> options(n.parts, n.parts + n.count);
        for (Id& option : options) option = guarded(number, option);
        return alternation(std::move(options));
    }
    if (n.kind == GUARDED) {
        Actions all = actions(number);
        const Actions& later = actions(int32_t(n.low));
        all.insert(all.end(), later.begin(), later.end());
        number = intern_actions(all);
        target = n.a;
    }
    Node probe = made(GUARDED, target, 0, number, 0);
    return intern(probe, hash_of(probe));
}

Id Machine::concatenation(Id head, Id tail) {
    std::vector<Id> prefix;
    while (node(head).kind == CONCATENATION && (!node(head).regular || node(tail).regular)) {
        prefix.push_back(node(head).a);
        head = node(head).b;
    }
    Id result = pair(head, tail);
    for (size_t i = prefix.size(); i-- > 0;) result = pair(prefix[i], result);
    return result;
}

Id Machine::pair(Id head, Id tail) {
    if (head == NOTHING_ID || tail == NOTHING_ID) return NOTHING_ID;
    if (head == EMPTY_ID) return tail;
    if (tail == EMPTY_ID) return head;
    const Node& h = node(head);
    if (h.kind == GUARDED) return guarded(int32_t(h.low), concatenation(h.a, tail));
    if (h.kind == ALTERNATION && h.has_guard) {
        std::vector<Id> options(h.parts, h.parts + h.count);
        for (Id& option : options) option = concatenation(option, tail);
        return alternation(std::move(options));
    }
    const Node& t = node(tail);
    if (h.regular && t.kind == CONCATENATION && !t.regular && node(t.a).regular)
        return pair(concatenation(head, t.a), t.b);
    if (h.kind == LITERAL) {
        const bool is_nested = t.kind == CONCATENATION && node(t.a).kind == LITERAL;
        if (t.kind == LITERAL || is_nested) {
            const Node& next = is_nested ? node(t.a) : t;
            std::vector<uint8_t> both(h.data, h.data + h.size);
            both.insert(both.end(), next.data, next.data + next.size);
            const Id merged_literal = literal(both.data(), int32_t(both.size()));
            if (!is_nested) return merged_literal;
            head = merged_literal;
            tail = t.b;
        }
    }
    Node probe = made(CONCATENATION, head, tail, 0, 0);
    return intern(probe, hash_of(probe));
}

Id Machine::alternation(std::vector<Id> options) {
    Bits members;
    std::vector<Id> found;
    while (!options.empty()) {
        const Id option = options.back();
        options.pop_back();
        const Node& n = node(option);
        if (n.kind == ALTERNATION) options.insert(options.end(), n.parts, n.parts + n.count);
        else if (n.kind == SET) members = members | *n.members;
        else if (n.kind == LITERAL && n.size == 1) members.set(n.data[0]);
        else if (option != NOTHING_ID) found.push_back(option);
    }
    if (members.any()) found.push_back(byte_set(members));
    std::sort(found.begin(), found.end());
    found.erase(std::unique(found.begin(), found.end()), found.end());
    if (std::binary_search(found.begin(), found.end(), everything_)) {
        bool regular = true;
        for (Id id : found) regular = regular && node(id).regular;
        if (regular) return everything_;
    } else if (found.size() > 1) {
        found = merged(std::move(found));
    }
    return intern_parts(ALTERNATION, found);
}

Id Machine::intern_parts(Kind kind, std::vector<Id>& parts) {
    std::sort(parts.begin(), parts.end());
    parts.erase(std::unique(parts.begin(), parts.end()), parts.end());
    if (parts.empty()) return kind == ALTERNATION ? NOTHING_ID : everything_;
    if (parts.size() == 1) return parts[0];
    Node probe;
    probe.kind = kind;
    probe.parts = parts.data();
    probe.count = int32_t(parts.size());
    return intern(probe, hash_of(probe));
}

// Options with one tail and regular heads share that tail; see automaton/arena.py.
std::vector<Id> Machine::merged(std::vector<Id> options) {
    std::vector<std::pair<Id, Id>> by_tail;
    for (Id option : options) {
        const Node& n = node(option);
        const bool is_pair = n.kind == CONCATENATION;
        if (node(is_pair ? n.a : option).regular) by_tail.emplace_back(is_pair ? n.b : EMPTY_ID, option);
    }
    if (by_tail.size() < 2) return options;
    std::stable_sort(by_tail.begin(), by_tail.end(), [](auto& l, auto& r) { return l.first < r.first; });
    std::vector<Id> removed, added;
    for (size_t start = 0, end; start < by_tail.size(); start = end) {
        for (end = start + 1; end < by_tail.size() && by_tail[end].first == by_tail[start].first;) end++;
        if (end - start < 2) continue;
        const Id tail = by_tail[start].first;
        std::vector<Id> heads;
        for (size_t i = start; i < end; i++) {
            removed.push_back(by_tail[i].second);
            heads.push_back(tail == EMPTY_ID ? by_tail[i].second : node(by_tail[i].second).a);
        }
        heads = joined(heads);
        if (tail != EMPTY_ID) heads = {pair(alternation(std::move(heads)), tail)};
        added.insert(added.end(), heads.begin(), heads.end());
    }
    if (removed.empty()) return options;
    std::sort(removed.begin(), removed.end());
    std::vector<Id> result;
    for (Id option : options)
        if (!std::binary_search(removed.begin(), removed.end(), option)) result.push_back(option);
    result.insert(result.end(), added.begin(), added.end());
    return result;
}

// The same union with overlapping repetitions of one body joined.
std::vector<Id> Machine::joined(const std::vector<Id>& heads) {
    std::map<Id, std::vector<std::pair<int64_t, int64_t>>> spans;
    bool repeats = false;
    for (Id head : heads) {
        const Node& n = node(head);
        const bool is_repetition = n.kind == REPETITION;
        repeats = repeats || is_repetition;
        spans[is_repetition ? n.a : head].emplace_back(is_repetition ? n.low : 1, is_repetition ? n.high : 1);
    }
    if (!repeats) return heads;
    std::vector<Id> result;
    for (auto& [body, ranges] : spans) {
        std::sort(ranges.begin(), ranges.end());
        auto [low, high] = ranges[0];
        for (size_t i = 1; i < ranges.size(); i++) {
            if (ranges[i].first <= high + 1) {
                high = std::max(high, ranges[i].second);
            } else {
                result.push_back(repetition(body, low, high));
                low = ranges[i].first;
                high = ranges[i].second;
            }
        }
        result.push_back(repetition(body, low, high));
    }
    return result;
}

Id Machine::repetition(Id body, int64_t low, int64_t high) {
    if (low < 0 || high < low) throw InvalidExpression("a repetition of these bounds is not possible");
    if (body == NOTHING_ID) return low == 0 ? EMPTY_ID : NOTHING_ID;
    if (body == EMPTY_ID || high == 0) return EMPTY_ID;
    if (low == 1 && high == 1) return body;
    const Node& n = node(body);
    if (n.kind == REPETITION && n.low <= 1 && n.high == UNBOUNDED) {
        low *= n.low;
        high = UNBOUNDED;
        body = n.a;
    }
    Node probe = made(REPETITION, body, 0, low, high);
    return intern(probe, hash_of(probe));
}

Id Machine::intersection(std::vector<Id> waiting) {
    std::vector<Id> found;
    Bits members = Bits::all();
    bool has_set = false;
    while (!waiting.empty()) {
        const Id part = waiting.back();
        waiting.pop_back();
        const Node& n = node(part);
        if (!n.regular) throw InvalidExpression("the parts of an intersection must be regular");
        if (part == NOTHING_ID) return NOTHING_ID;
        if (n.kind == INTERSECTION) {
            waiting.insert(waiting.end(), n.parts, n.parts + n.count);
        } else if (n.kind == SET) {
            members = members & *n.members;
            has_set = true;
        } else if (part != everything_) {
            found.push_back(part);
        }
    }
    if (has_set) {
        const Id one = byte_set(members);
        if (one == NOTHING_ID) return NOTHING_ID;
        found.push_back(one);
    }
    std::sort(found.begin(), found.end());
    for (Id part : found)
        if (node(part).kind == COMPLEMENT && std::binary_search(found.begin(), found.end(), node(part).a))
            return NOTHING_ID;
    return intern_parts(INTERSECTION, found);
}

Id Machine::complement(Id body) {
    if (!node(body).regular) throw InvalidExpression("the body of a complement must be regular");
    if (node(body).kind == COMPLEMENT) return node(body).a;
    Node probe = made(COMPLEMENT, body, 0, 0, 0);
    return intern(probe, hash_of(probe));
}

}  // namespace sgrt
