// Threads advanced symbol by symbol under their registers; automaton/simulation.py.
#include <algorithm>

#include "walk.hpp"

namespace sgrt {


static uint8_t after_actions(uint8_t flags, const Actions& actions) {
    for (uint8_t action : actions) {
        if (action == BEGIN) flags |= FLAG_BEGAN;
        else if (action >= END_BYTES) flags |= flags & (FLAG_BEGAN | FLAG_SINGLE) ? FLAG_MULTIPLE : FLAG_SINGLE;
        else flags |= FLAG_OTHER;
    }
    return flags;
}

const Machine::Stripped& Machine::strip(Id id) {
    auto found = stripped_.find(id);
    if (found != stripped_.end()) return *found->second;
    auto made = std::make_unique<Stripped>();
    const Node& n = node(id);
    std::vector<Id> plain, whole;
    made->flags = 0;
    auto sort_in = [&](Id part) {
        const Node& p = node(part);
        if (p.kind != GUARDED) {
            plain.push_back(part);
            whole.push_back(part);
            return;
        }
        made->guards.emplace_back(int32_t(p.low), p.a);
        made->flags = after_actions(made->flags, actions(int32_t(p.low)));
        whole.push_back(p.a);
    };
    if (n.kind == ALTERNATION)
        for (int32_t i = 0; i < n.count; i++) sort_in(n.parts[i]);
    else sort_in(id);
    made->plain = alternation(std::move(plain));
    made->whole = alternation(std::move(whole));
    return *(stripped_[id] = std::move(made));
}

void Machine::step(const Threads& threads, int32_t symbol, const std::vector<uint8_t>& text, Threads& out) {
    out.clear();
    auto add = [&](Id id, const RegistersPtr& registers) {
        if (id == NOTHING_ID) return;
        for (Thread& thread : out)
            if (same_registers(thread.registers, registers)) {
                thread.node = alternation({thread.node, id});
                return;
            }
        out.push_back({id, registers});
    };
    for (const Thread& thread : threads) {
        const Id target = derive(thread.node, symbol);
        if (!node(target).has_guard) {
            add(target, thread.registers);
            continue;
        }
        const Stripped& parts = strip(target);
        add(parts.plain, thread.registers);
        for (auto& [number, after] : parts.guards) {
            RegistersPtr registers = thread.registers;
            if (apply_actions(actions(number), text, registers)) add(after, registers);
        }
    }
}

bool Machine::accepts(const Threads& threads, const std::vector<uint8_t>& text) {
    for (const Thread& thread : threads)
        for (int32_t way : passes(thread.node)) {
            RegistersPtr registers = thread.registers;
            if (way == 0 || apply_actions(actions(way), text, registers)) return true;
        }
    return false;
}

}  // namespace sgrt
