// Derivatives and what they rest on; automaton/derive.py explains the rules.
#include <algorithm>

#include "machine.hpp"

namespace sgrt {

enum { PASSES, FIRST, SPECIALS, DERIVE, CLASSES };

constexpr size_t MAX_RANKED = 12;

const std::vector<int32_t>& Machine::passes(Id id) {
    if (node(id).passes < 0)
        evaluate(PASSES, id, [&](Id n) { return node(n).passes >= 0; },
                 [&](Id n, std::vector<Id>& missing) { passes_step(n, missing); });
    return *ways_[size_t(node(id).passes)];
}

int32_t Machine::intern_ways(std::vector<int32_t> ways) {
    std::sort(ways.begin(), ways.end());
    ways.erase(std::unique(ways.begin(), ways.end()), ways.end());
    std::string key(reinterpret_cast<const char*>(ways.data()), ways.size() * 4);
    auto found = way_numbers_.find(key);
    if (found != way_numbers_.end()) return found->second;
    ways_.push_back(new std::vector<int32_t>(std::move(ways)));
    return way_numbers_[key] = int32_t(ways_.size()) - 1;
}

void Machine::passes_step(Id id, std::vector<Id>& missing) {
    Node& n = node(id);
    auto need = [&](Id part) {
        if (node(part).passes < 0) missing.push_back(part);
        return node(part).passes;
    };
    switch (n.kind) {
        case ACTION:
            n.passes = intern_ways({intern_actions({uint8_t(n.low)})});
            return;
        case CONCATENATION: {
            const int32_t head = need(n.a);
            if (head < 0) return;
            if (head == 0) {
                n.passes = 0;
                return;
            }
            const int32_t tail = need(n.b);
            if (tail < 0) return;
            std::vector<int32_t> ways;
            for (int32_t one : *ways_[size_t(head)])
                for (int32_t other : *ways_[size_t(tail)]) {
                    Actions both = actions(one);
                    both.insert(both.end(), actions(other).begin(), actions(other).end());
                    ways.push_back(intern_actions(both));
                }
            n.passes = intern_ways(std::move(ways));
            return;
        }
        case ALTERNATION: {
            std::vector<int32_t> ways;
            for (int32_t i = 0; i < n.count; i++)
                if (need(n.parts[i]) > 0) {
                    const auto& part = *ways_[size_t(node(n.parts[i]).passes)];
                    ways.insert(ways.end(), part.begin(), part.end());
                }
            if (missing.empty()) n.passes = intern_ways(std::move(ways));
            return;
        }
        case REPETITION: {
            if (n.low == 0) {
                n.passes = 1;
                return;
            }
            const int32_t body = need(n.a);
            if (body < 0) return;
            if (body > 1 && n.low > 1) throw InvalidExpression("a repeated capture may not be empty");
            n.passes = body;
            return;
        }
        case INTERSECTION: {
            bool all = true;
            for (int32_t i = 0; i < n.count; i++) all = need(n.parts[i]) != 0 && all;
            if (missing.empty()) n.passes = all ? 1 : 0;
            return;
        }
        case COMPLEMENT:
            if (need(n.a) >= 0) n.passes = node(n.a).passes == 0 ? 1 : 0;
            return;
        case DEFERRED: {
            const Id target = unfold(id);
            if (need(target) >= 0) n.passes = node(target).passes;
            return;
        }
        case SCOPE:
        case DISTINCT:
            if (need(n.a) >= 0) n.passes = node(n.a).passes;
            return;
        default:
            n.passes = n.kind == EMPTY ? 1 : 0;
    }
}

const Bits& Machine::first(Id id) {
    if (!node(id).first_known)
        evaluate(FIRST, id, [&](Id n) { return node(n).first_known; },
                 [&](Id n, std::vector<Id>& missing) { first_step(n, missing); });
    return node(id).first;
}

void Machine::first_step(Id id, std::vector<Id>& missing) {
    Node& n = node(id);
    Bits found;
    auto need = [&](Id part) -> const Bits& {
        if (!node(part).first_known) missing.push_back(part);
        return node(part).first;
    };
    switch (n.kind) {
        case CONCATENATION:
            found = need(n.a);
            if (!missing.empty()) return;
            if (is_nullable(n.a)) found = found | need(n.b);
            break;
        case ALTERNATION:
            for (int32_t i = 0; i < n.count; i++) found = found | need(n.parts[i]);
            break;
        case INTERSECTION:
            found = Bits::all();
            for (int32_t i = 0; i < n.count; i++) found = found & need(n.parts[i]);
            break;
        case REPETITION:
        case SCOPE:
        case DISTINCT:
            found = need(n.a);
            break;
        case DEFERRED:
            found = is_key_choice(n) ? first_of_keys(n) : need(unfold(id));
            break;
        default:
            break;
    }
    if (!missing.empty()) return;
    n.first = found;
    n.first_known = true;
    if (found.count() == 1) n.only_symbol = int16_t(found.lowest());
}

const std::vector<int32_t>& Machine::specials(Id id) {
    if (!node(id).specials)
        evaluate(SPECIALS, id, [&](Id n) { return node(n).specials != nullptr; },
                 [&](Id n, std::vector<Id>& missing) { specials_step(n, missing); });
    return *node(id).specials;
}

void Machine::specials_step(Id id, std::vector<Id>& missing) {
    Node& n = node(id);
    std::vector<int32_t> found;
    auto add = [&](Id part) {
        if (!node(part).specials) missing.push_back(part);
        else found.insert(found.end(), node(part).specials->begin(), node(part).specials->end());
    };
    if (n.regular || n.kind == ACTION) {
        n.specials = &no_specials_;
        return;
    }
    switch (n.kind) {
        case SPECIAL: found.push_back(int32_t(n.low)); break;
        case CONCATENATION:
            add(n.a);
            if (is_nullable(n.a)) add(n.b);
            break;
        case ALTERNATION:
            for (int32_t i = 0; i < n.count; i++) add(n.parts[i]);
            break;
        case DEFERRED: add(unfold(id)); break;
        default: add(n.a);
    }
    if (!missing.empty()) return;
    if (found.empty()) {
        n.specials = &no_specials_;
        return;
    }
    std::sort(found.begin(), found.end());
    found.erase(std::unique(found.begin(), found.end()), found.end());
    special_lists_.push_back(std::move(found));
    n.specials = &special_lists_.back();
}

bool Machine::may_start(Id id, int32_t symbol) {
    if (symbol < 256) return first(id).test(symbol);
    const auto& tokens = specials(id);
    return std::binary_search(tokens.begin(), tokens.end(), symbol - FIRST_SPECIAL);
}

Id Machine::known(const Node& n, int32_t symbol, Id id) const {
    if (symbol < 256) return n.edge(symbol);
    auto found = special_rows_.find(uint64_t(uint32_t(id)) << 32 | uint32_t(symbol));
    return found == special_rows_.end() ? -1 : found->second;
}

// Nodes that start with few bytes keep a target for each of those, the others one for each class of bytes.
void Machine::remember(Id id, int32_t symbol, Id target) {
    Node& n = node(id);
    if (symbol >= 256) {
        special_rows_[uint64_t(uint32_t(id)) << 32 | uint32_t(symbol)] = target;
        return;
    }
    if (!first(id).test(symbol)) return;
    if (n.only_symbol >= 0) {
        n.only_target = target;
        return;
    }
    if (!n.row) {
        size_t width = size_t(n.first.count());
        if (width > MAX_RANKED) {
            const Partition& classes = partition(id);
            n.class_of = classes.class_of;
            width = classes.members.size();
        }
        Id* row = pool_.make<Id>(width);
        std::fill_n(row, width, -1);
        n.row = row;
    }
    n.row[n.class_of ? n.class_of[symbol] : n.first.rank(symbol)] = target;
}

Id Machine::derive(Id id, int32_t symbol) {
    const Id found = known(node(id), symbol, id);
    if (found >= 0) return found;
    if (!may_start(id, symbol)) return NOTHING_ID;
    evaluate(DERIVE, id, [&](Id n) { return known(node(n), symbol, n) >= 0 || is_refused(n, symbol); },
             [&](Id n, std::vector<Id>& missing) { derive_step(n, symbol, missing); });
    return known(node(id), symbol, id);
}

// Known not to start with the byte, so it has no derivative to keep.
bool Machine::is_refused(Id id, int32_t symbol) {
    return symbol < 256 && node(id).first_known && !node(id).first.test(symbol);
}

void Machine::derive_step(Id id, int32_t symbol, std::vector<Id>& missing) {
    Node& n = node(id);
    if (!may_start(id, symbol)) {
        remember(id, symbol, NOTHING_ID);
        return;
    }
    auto need = [&](Id part) {
        if (is_refused(part, symbol)) return NOTHING_ID;
        const Id target = known(node(part), symbol, part);
        if (target < 0) missing.push_back(part);
        return target;
    };
    switch (n.kind) {
        case LITERAL: remember(id, symbol, literal(n.data + 1, n.size - 1)); return;
        case SET:
        case SPECIAL: remember(id, symbol, EMPTY_ID); return;
        case CONCATENATION: derive_concatenation(n, id, symbol, missing); return;
        case ALTERNATION:
        case INTERSECTION: {
            std::vector<Id> parts;
            for (int32_t i = 0; i < n.count; i++) parts.push_back(need(n.parts[i]));
            if (!missing.empty()) return;
            remember(id, symbol, n.kind == ALTERNATION ? alternation(std::move(parts)) : intersection(std::move(parts)));
            return;
        }
        case COMPLEMENT: {
            const Id body = need(n.a);
            if (body >= 0) remember(id, symbol, complement(body));
            return;
        }
        case REPETITION: {
            const Id body = need(n.a);
            if (body < 0) return;
            const int64_t low = is_nullable(n.a) ? 0 : std::max<int64_t>(0, n.low - 1);
            const int64_t high = n.high == UNBOUNDED ? UNBOUNDED : n.high - 1;
            remember(id, symbol, concatenation(body, repetition(n.a, low, high)));
            return;
        }
        case DEFERRED: {
            const bool is_byte = symbol < 256 && is_key_choice(n);
            const Id target = need(is_byte ? key_option(id, uint8_t(symbol)) : unfold(id));
            if (target >= 0) remember(id, symbol, target);
            return;
        }
        case SCOPE:
        case DISTINCT: {
            const Id target = need(n.a);
            if (target >= 0) remember(id, symbol, target);
            return;
        }
        default: remember(id, symbol, NOTHING_ID);
    }
}

void Machine::derive_concatenation(Node& n, Id id, int32_t symbol, std::vector<Id>& missing) {
    const std::vector<int32_t>& ways = passes(n.a);
    const Id head = is_refused(n.a, symbol) ? NOTHING_ID : known(node(n.a), symbol, n.a);
    if (head < 0) missing.push_back(n.a);
    Id tail = NOTHING_ID;
    if (!ways.empty()) {
        tail = is_refused(n.b, symbol) ? NOTHING_ID : known(node(n.b), symbol, n.b);
        if (tail < 0) missing.push_back(n.b);
    }
    if (!missing.empty()) return;
    Id result = concatenation(head, n.b);
    if (!ways.empty() && tail != NOTHING_ID) {
        std::vector<Id> options{result};
        for (int32_t way : ways) options.push_back(guarded(way, tail));
        result = alternation(std::move(options));
    }
    remember(id, symbol, result);
}

// Byte classes: all bytes of a class have one derivative.

const Partition& Machine::partition(Id id) {
    if (node(id).classes < 0)
        evaluate(CLASSES, id, [&](Id n) { return node(n).classes >= 0; },
                 [&](Id n, std::vector<Id>& missing) { classes_step(n, missing); });
    return *partitions_[size_t(node(id).classes)];
}

int32_t Machine::intern_partition(const uint8_t* class_of) {
    std::string key(reinterpret_cast<const char*>(class_of), 256);
    auto found = partition_numbers_.find(key);
    if (found != partition_numbers_.end()) return found->second;
    auto made = std::make_unique<Partition>();
    memcpy(made->class_of, class_of, 256);
    for (int byte = 0; byte < 256; byte++) {
        if (made->members.size() <= class_of[byte]) made->members.resize(size_t(class_of[byte]) + 1);
        made->members[class_of[byte]].push_back(uint8_t(byte));
    }
    partitions_.push_back(std::move(made));
    return partition_numbers_[key] = int32_t(partitions_.size()) - 1;
}

// Classes are numbered by their lowest byte, so equal partitions have equal tables.
int32_t Machine::refined(int32_t left, int32_t right) {
    if (left == right) return left;
    const uint64_t key = uint64_t(uint32_t(left)) << 32 | uint32_t(right);
    auto found = refinements_.find(key);
    if (found != refinements_.end()) return found->second;
    const Partition &l = *partitions_[size_t(left)], &r = *partitions_[size_t(right)];
    std::unordered_map<int, int> numbers;
    uint8_t class_of[256];
    for (int byte = 0; byte < 256; byte++) {
        const int both = l.class_of[byte] << 8 | r.class_of[byte];
        class_of[byte] = uint8_t(numbers.emplace(both, int(numbers.size())).first->second);
    }
    return refinements_[key] = intern_partition(class_of);
}

void Machine::classes_step(Id id, std::vector<Id>& missing) {
    Node& n = node(id);
    uint8_t class_of[256] = {0};
    int32_t result = intern_partition(class_of);
    auto meet = [&](Id part) {
        if (node(part).classes < 0) missing.push_back(part);
        else result = refined(result, node(part).classes);
    };
    switch (n.kind) {
        case LITERAL:
        case SET: {
            const Bits members = n.kind == SET ? *n.members : n.first;
            const bool zero = members.test(0);
            for (int byte = 0; byte < 256; byte++) class_of[byte] = members.test(byte) != zero;
            result = intern_partition(class_of);
            break;
        }
        case CONCATENATION:
            meet(n.a);
            if (is_nullable(n.a)) meet(n.b);
            break;
        case ALTERNATION:
        case INTERSECTION:
            for (int32_t i = 0; i < n.count; i++) meet(n.parts[i]);
            break;
        case REPETITION:
        case COMPLEMENT:
        case SCOPE:
        case DISTINCT: meet(n.a); break;
        case DEFERRED: meet(unfold(id)); break;
        default: break;
    }
    if (missing.empty()) n.classes = result;
}

}  // namespace sgrt
