// Members in order, any but the required ones left out. A state is what may follow one of them; the keys that may come
// next are a prefix tree of the whole table, cut to a range of places, of which only what is reached is built.
#include <algorithm>

#include "machine.hpp"

namespace sgrt {
namespace {

constexpr Id AFTER = -1;

int32_t common_length(const std::vector<uint8_t>& left, const std::vector<uint8_t>& right) {
    const auto limit = left.begin() + std::ptrdiff_t(std::min(left.size(), right.size()));
    return int32_t(std::mismatch(left.begin(), limit, right.begin()).first - left.begin());
}

}  // namespace

Id Machine::members(MemberTable table, const uint8_t* required) {
    const int32_t size = table.size();
    for (int32_t i = 0; i < size; i++) table.by_name.push_back(i);
    std::sort(table.by_name.begin(), table.by_name.end(),
              [&](int32_t l, int32_t r) { return table.names[size_t(l)] < table.names[size_t(r)]; });
    table.next_required.assign(size_t(size) + 1, size);
    for (int32_t i = size; i-- > 0;) table.next_required[size_t(i)] = required[i] ? i : table.next_required[size_t(i) + 1];
    for (int32_t i = 1; i < size; i++) {
        const auto& name = table.names[size_t(table.by_name[size_t(i) - 1])];
        if (common_length(name, table.names[size_t(table.by_name[size_t(i)])]) == int32_t(name.size()))
            throw InvalidExpression("a member's name is the beginning of another's");
    }
    tables_.push_back(std::move(table));
    const int32_t number = int32_t(tables_.size()) - 1;
    const Id keys = member_keys(number, 0);
    return tables_.back().next_required[0] < size ? keys : alternation({keys, EMPTY_ID});
}

// The end, or a separator and a further member.
Id Machine::after_member(int32_t number, int32_t place) {
    const MemberTable& table = tables_[size_t(number)];
    Node probe;
    probe.kind = DEFERRED;
    probe.a = number + 1;
    probe.b = AFTER;
    probe.low = place;
    const Id id = intern_deferred(probe);
    if (place >= table.sound_from && spells_ascii_) node(id).alive = 1;
    node(id).has_short = true;
    return id;
}

Id Machine::member(int32_t number, int32_t place, int32_t depth) {
    const MemberTable& table = tables_[size_t(number)];
    const auto& name = table.names[size_t(place)];
    const Id rest = literal(name.data() + depth, int32_t(name.size()) - depth);
    const Id value = concatenation(table.values[size_t(place)], after_member(number, place + 1));
    return concatenation(rest, concatenation(table.between(), value));
}

// A member that may come at `place`, or what is free there.
Id Machine::member_keys(int32_t number, int32_t place) {
    const MemberTable& table = tables_[size_t(number)];
    const int32_t required = table.next_required[size_t(place)];
    const bool is_free = required == table.size();
    const Id keys = member_keys(number, 0, table.size(), 0, place, is_free ? required - 1 : required);
    return is_free ? alternation({keys, table.free()}) : keys;
}

// The members of places [low, high] whose names, in their order, are [begin, end); these begin with `depth` bytes
// that were written.
Id Machine::member_keys(int32_t number, int32_t begin, int32_t end, int32_t depth, int32_t low, int32_t high) {
    const MemberTable& table = tables_[size_t(number)];
    int32_t first = -1, last = -1, lowest = high, highest = low;
    for (int32_t i = begin; i < end; i++) {
        const int32_t place = table.by_name[size_t(i)];
        if (place < low || place > high) continue;
        if (first < 0) first = i;
        last = i;
        lowest = std::min(lowest, place);
        highest = std::max(highest, place);
    }
    if (first < 0) return NOTHING_ID;
    if (first == last) return member(number, lowest, depth);
    const auto& name = table.names[size_t(table.by_name[size_t(first)])];
    const int32_t common = common_length(name, table.names[size_t(table.by_name[size_t(last)])]);
    Node probe;
    probe.kind = DEFERRED;
    probe.a = number + 1;
    probe.b = first;
    probe.low = int64_t(last + 1) << 32 | common;
    probe.high = int64_t(lowest) << 32 | highest;
    const Id rest = intern_deferred(probe);
    for (int32_t i = first; i <= last && node(rest).alive < 0; i++) {
        const int32_t place = table.by_name[size_t(i)];
        if (place >= low && place <= high && is_evident(table, place)) node(rest).alive = 1;
    }
    return concatenation(literal(name.data() + depth, common - depth), rest);
}

// Whether a member is known to be possible, and to be followed by something, so that nothing need be tried.
bool Machine::is_evident(const MemberTable& table, int32_t place) const {
    if (place + 1 < table.sound_from || !spells_ascii_ || nodes_[table.values[size_t(place)]].alive != 1) return false;
    const auto& name = table.names[size_t(place)];
    return std::all_of(name.begin(), name.end(), [&](uint8_t byte) { return alphabet.test(byte); });
}

Bits Machine::first_of_keys(const Node& n) const {
    const MemberTable& table = tables_[size_t(n.a) - 1];
    const int32_t end = int32_t(n.low >> 32), depth = int32_t(n.low & 0xFFFFFFFF);
    const int32_t low = int32_t(n.high >> 32), high = int32_t(n.high & 0xFFFFFFFF);
    Bits bytes;
    for (int32_t i = n.b; i < end; i++) {
        const int32_t place = table.by_name[size_t(i)];
        if (place >= low && place <= high) bytes.set(table.names[size_t(place)][size_t(depth)]);
    }
    return bytes;
}

Id Machine::key_option(Id id, uint8_t byte) {
    const Node& n = node(id);
    const MemberTable& table = tables_[size_t(n.a) - 1];
    const int32_t end = int32_t(n.low >> 32), depth = int32_t(n.low & 0xFFFFFFFF);
    auto byte_at = [&](int32_t i) { return table.names[size_t(table.by_name[size_t(i)])][size_t(depth)]; };
    int32_t start = n.b;
    while (start < end && byte_at(start) < byte) start++;
    int32_t stop = start;
    while (stop < end && byte_at(stop) == byte) stop++;
    return member_keys(n.a - 1, start, stop, depth, int32_t(n.high >> 32), int32_t(n.high & 0xFFFFFFFF));
}

Id Machine::unfold_members(Id id) {
    const Node n = node(id);
    const int32_t number = n.a - 1;
    const MemberTable& table = tables_[size_t(number)];
    std::vector<Id> options;
    if (n.b == AFTER) {
        const int32_t place = int32_t(n.low);
        options.push_back(concatenation(table.separator(), member_keys(number, place)));
        if (table.next_required[size_t(place)] == table.size()) options.push_back(table.end());
        return alternation(std::move(options));
    }
    const Bits bytes = first_of_keys(n);
    for (int byte = 0; byte < 256; byte++)
        if (bytes.test(byte)) options.push_back(key_option(id, uint8_t(byte)));
    return alternation(std::move(options));
}

// The end, or the next member that must come.
Id Machine::shortest_members(Id id) {
    const int32_t number = node(id).a - 1;
    const MemberTable& table = tables_[size_t(number)];
    const int32_t required = table.next_required[size_t(node(id).low)];
    if (required == table.size()) return table.end();
    return concatenation(table.separator(), member(number, required, 0));
}

}  // namespace sgrt
