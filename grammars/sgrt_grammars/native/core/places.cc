// How the places of a walk follow a byte: expressions are looked through, not derived, wherever they are no regular
// heads, so that the many combinations of what may follow what never become nodes.
#include <map>

#include "walk.hpp"

namespace sgrt {
namespace {

constexpr int32_t FEW_EDGES = 2;        // for which it does not pay to know the bytes that may follow
constexpr size_t MAX_PLACES = 32;       // beyond, alternatives become one node, whose derivatives are remembered

uint8_t merged(uint8_t before, uint8_t more) {
    if (more & FLAG_SINGLE && before & (FLAG_BEGAN | FLAG_SINGLE)) more |= FLAG_MULTIPLE;
    return before | more;
}

// The literal a regular head begins with, null if there is none.
const Node* text_of(Machine& machine, Id head) {
    const Node& n = machine.node(head);
    if (n.kind == LITERAL) return &n;
    return n.kind == CONCATENATION && machine.node(n.a).kind == LITERAL ? &machine.node(n.a) : nullptr;
}

Id after_text(Machine& machine, Id head) {
    const Node& n = machine.node(head);
    return n.kind == LITERAL ? EMPTY_ID : n.b;
}

}  // namespace

int32_t Tails::push(Machine& machine, Id node, int32_t next) {
    const size_t mask = table_.size() - 1;
    size_t slot = (size_t(uint32_t(node)) * 0x9E3779B1u + size_t(uint32_t(next)) * 0x85EBCA77u) >> 7 & mask;
    for (; table_[slot] >= 0; slot = (slot + 1) & mask) {
        const Link& link = links_[size_t(table_[slot])];
        if (link.node == node && link.next == next) return table_[slot];
    }
    const bool has_capture = machine.node(node).has_capture || (next >= 0 && links_[size_t(next)].has_capture);
    links_.push_back({node, next, has_capture, next < 0 ? node : -1});
    const int32_t index = int32_t(links_.size()) - 1;
    table_[slot] = index;
    if (links_.size() * 2 > table_.size()) {
        const std::vector<Link> old = std::move(links_);
        links_.clear();
        table_.assign(table_.size() * 4, -1);
        for (const Link& link : old) links_[size_t(push(machine, link.node, link.next))] = link;
    }
    return index;
}

Id Tails::whole(Machine& machine, int32_t index) {
    if (links_[size_t(index)].whole < 0) {
        const Id rest = whole(machine, links_[size_t(index)].next);
        links_[size_t(index)].whole = machine.concatenation(links_[size_t(index)].node, rest);
    }
    return links_[size_t(index)].whole;
}

void Tails::clear() {
    links_.clear();
    table_.assign(FIRST_SLOTS, -1);
}

std::unique_ptr<WalkSpace> Machine::take_space() {
    if (spaces_.empty()) return std::make_unique<WalkSpace>();
    std::unique_ptr<WalkSpace> space = std::move(spaces_.back());
    spaces_.pop_back();
    return space;
}

void Machine::return_space(std::unique_ptr<WalkSpace> space) { spaces_.push_back(std::move(space)); }

void Walk::prepare(Id from, const Trie& trie) {
    const size_t depths = size_t(trie.max_depth) + 2;
    if (start.size() < depths) {
        start.resize(depths);
        space->members.resize(depths);
        space->open.resize(depths);
    }
    tails.clear();
    pool.clear();
    space->told = {};
    start[0] = 0;
    while (machine.node(from).kind == DEFERRED) from = machine.unfold(from);
    add(from, -1, 0, 0);
    start[1] = pool.size();
}

Id Walk::head_of(const Place& place) const {
    if (place.offset <= 0) return place.head;
    const Node& text = *text_of(machine, place.head);
    const Id rest = machine.literal(text.data + place.offset, text.size - place.offset);
    return machine.concatenation(rest, after_text(machine, place.head));
}

Id Walk::whole(const Place& place) {
    const Id head = head_of(place);
    return place.tail < 0 ? head : machine.concatenation(head, tails.whole(machine, place.tail));
}

Id Walk::whole(Places places) {
    if (places.count == 1) return whole(*places.first);
    std::vector<Id> options;
    for (const Place& place : places) options.push_back(whole(place));
    return machine.alternation(std::move(options));
}

Tightness Walk::tightness(const Place& place) {
    if (place.tail < 0 && machine.node(place.head).regular) return LOOSE;
    WalkSpace::Told& told = space->told;        // many tokens lead to one place
    if (told.head != place.head || told.tail != place.tail || told.offset != place.offset)
        told = {place.head, place.tail, place.offset, find_tightness(place)};
    return told.tight;
}

Tightness Walk::find_tightness(const Place& place) {
    const bool is_regular = machine.node(place.head).regular;
    if (place.tail < 0) return machine.tightness(place.head);
    if (!is_regular) return machine.tightness(whole(place));
    if (tails[place.tail].has_capture) return machine.tightness(head_of(place), tails.whole(machine, place.tail));
    if (place.offset >= 0 || !machine.is_nullable(place.head)) return LOOSE;
    Tightness most = LOOSE;     // of what may come next: without a capture in sight, whatever one of them says
    for (int32_t tail = place.tail; tail >= 0 && most != TIGHT; tail = tails[tail].next) {
        most = std::max(most, machine.tightness(tails[tail].node));
        if (!machine.is_nullable(tails[tail].node)) break;
    }
    return most;
}

Bits Walk::first_of(const Place& place) const {
    Bits all;
    if (place.offset >= 0) {
        all.set(text_of(machine, place.head)->data[place.offset]);
        return all;
    }
    all = machine.first(place.head);
    bool is_passed = machine.is_nullable(place.head);
    for (int32_t tail = place.tail; is_passed && tail >= 0; tail = tails[tail].next) {
        all = all | machine.first(tails[tail].node);
        is_passed = machine.is_nullable(tails[tail].node);
    }
    return all;
}

// The edges below a trie node that the places of its depth may take; false if there are none.
bool Walk::open(const Trie& trie, int32_t at, size_t depth) {
    WalkSpace::Edges& edges = space->open[depth];
    edges = {trie.edge_start[size_t(at)], trie.edge_start[size_t(at) + 1]};
    if (edges.next == edges.end) return false;
    const Places places = at_depth(depth);
    Bits& members = space->members[depth];
    if (edges.end - edges.next <= FEW_EDGES) {
        members = Bits::all();
        return true;
    }
    members = Bits();
    for (const Place& place : places) members = members | first_of(place);
    if (members.count() != 1) return true;
    edges.next = trie.find_edge(edges.next, edges.end, uint8_t(members.lowest()));
    if (edges.next < 0) return false;
    edges.end = edges.next + 1;
    return true;
}

// The places after `byte` become those of `depth`; false if there are none.
bool Walk::follow(size_t depth, uint8_t byte) {
    const size_t first = start[depth - 1], begin = start[depth];
    pool.resize(begin);
    for (size_t i = first; i < begin; i++) {
        const Place from = pool[i];
        step(from, byte, begin);
    }
    if (pool.size() - begin > MAX_PLACES) join(begin);
    start[depth + 1] = pool.size();
    return pool.size() > begin;
}

// Places that are no texts, of equal flags, become one node.
void Walk::join(size_t begin) {
    std::vector<Place> texts;
    std::map<uint8_t, std::vector<Id>> others;
    for (size_t i = begin; i < pool.size(); i++) {
        if (pool[i].offset >= 0) texts.push_back(pool[i]);
        else others[pool[i].flags].push_back(whole(pool[i]));
    }
    pool.resize(begin);
    pool.insert(pool.end(), texts.begin(), texts.end());
    for (auto& [flags, nodes] : others) pool.push_back({machine.alternation(std::move(nodes)), -1, -1, flags});
}

void Walk::step(const Place& from, uint8_t byte, size_t begin) {
    if (from.offset >= 0) {
        step_text(from, byte, begin);
        return;
    }
    const Node& n = machine.node(from.head);
    if (!n.regular) {
        step_node(from.head, from.tail, from.flags, byte, begin);
        return;
    }
    const Id known = n.edge(byte);
    const Id target = known >= 0 ? known : machine.derive(from.head, byte);
    if (target != NOTHING_ID) enter(target, from.tail, from.flags, begin);
    if (from.tail < 0 || !machine.is_nullable(from.head)) return;
    const Tails::Link beyond = tails[from.tail];
    step_node(beyond.node, beyond.next, from.flags, byte, begin);
}

void Walk::step_text(Place place, uint8_t byte, size_t begin) {
    const Node& text = *text_of(machine, place.head);
    if (text.data[place.offset] != byte) return;
    if (++place.offset < text.size) put(place, begin);
    else enter(after_text(machine, place.head), place.tail, place.flags, begin);
}

// The places after `byte` of a node and what follows it.
void Walk::step_node(Id id, int32_t tail, uint8_t flags, uint8_t byte, size_t begin) {
    auto step_beyond = [&] {
        const Tails::Link beyond = tails[tail];
        step_node(beyond.node, beyond.next, flags, byte, begin);
    };
    if (machine.node(id).regular) {
        if (machine.first(id).test(byte)) step({id, tail, text_of(machine, id) ? 0 : -1, flags}, byte, begin);
        else if (tail >= 0 && machine.is_nullable(id)) step_beyond();
        return;
    }
    if (tail >= 0 && ways_of(id) > 1) {     // passing it acts on registers, before what follows
        id = machine.concatenation(id, tails.whole(machine, tail));
        tail = -1;
    }
    const bool is_passed = tail >= 0 && ways_of(id) == 1;
    const Node& n = machine.node(id);
    if (!machine.first(id).test(byte)) {
        if (is_passed) step_beyond();
    } else if (n.kind == CONCATENATION && ways_of(n.a) <= 1) {
        if (machine.is_alive(id)) step_node(n.a, tails.push(machine, n.b, tail), flags, byte, begin);
    } else if (n.kind == DEFERRED) {
        const bool is_choice = machine.is_key_choice(n);
        step_node(is_choice ? machine.key_option(id, byte) : machine.unfold(id), tail, flags, byte, begin);
    } else if (n.kind == ALTERNATION && !n.has_guard && size_t(n.count) < MAX_PLACES) {
        for (int32_t i = 0; i < n.count; i++)
            if (machine.is_alive(n.parts[i])) step_node(n.parts[i], tail, flags, byte, begin);
    } else {
        if (is_passed) step_beyond();
        const Id target = machine.derive(id, byte);
        if (target != NOTHING_ID) enter(target, tail, flags, begin);
    }
}

// 0: it cannot be passed as empty; 1: it can, plainly; else with actions.
int32_t Walk::ways_of(Id id) {
    machine.passes(id);
    return machine.node(id).passes;
}

void Walk::enter(Id target, int32_t tail, uint8_t flags, size_t begin) {
    if (target == EMPTY_ID && tail >= 0) {
        const Tails::Link beyond = tails[tail];
        add(beyond.node, beyond.next, flags, begin);
    } else if (machine.is_alive(target)) {
        add(target, tail, flags, begin);
    }
}

// The alternatives of `id`, which is alive, apart.
void Walk::add(Id id, int32_t tail, uint8_t flags, size_t begin) {
    const Node& n = machine.node(id);
    if (n.kind == EMPTY && tail >= 0) {
        enter(id, tail, flags, begin);
    } else if (n.kind == ALTERNATION && (n.is_tree || !n.regular) && (size_t(n.count) < MAX_PLACES || n.has_guard)) {
        for (int32_t i = 0; i < n.count; i++)
            if (machine.is_alive(n.parts[i])) add(n.parts[i], tail, flags, begin);
    } else if (machine.is_apart(n)) {
        put({n.a, tails.push(machine, n.b, tail), -1, flags}, begin);
    } else if (n.regular) {
        put({id, tail, text_of(machine, id) ? 0 : -1, flags}, begin);
    } else if (n.kind == DEFERRED && n.a && !machine.is_key_choice(n)) {
        add(machine.unfold(id), tail, flags, begin);
    } else if (n.kind == ALTERNATION && n.has_guard) {
        const Machine::Stripped& parts = machine.strip(id);
        put({parts.whole, tail, -1, merged(flags, parts.flags)}, begin);
    } else if (n.kind == GUARDED) {
        add(n.a, tail, merged(flags, machine.strip(id).flags), begin);
    } else if (n.kind == CONCATENATION && machine.node(n.a).regular) {
        add(n.a, tails.push(machine, n.b, tail), flags, begin);
    } else {
        put({id, tail, -1, flags}, begin);
    }
}

void Walk::put(const Place& place, size_t begin) {
    for (size_t i = begin; i < pool.size(); i++)
        if (pool[i].head == place.head && pool[i].tail == place.tail && pool[i].flags == place.flags &&
            pool[i].offset == place.offset)
            return;
    pool.push_back(place);
}

}  // namespace sgrt
