// A position in the automaton: threads, the text behind them, and the way back.
#pragma once

#include "machine.hpp"

namespace sgrt {

struct Cursor {
    Machine* machine;
    Threads threads;
    std::vector<uint8_t> text;

    struct Step {
        Threads threads;
        size_t length;
        int32_t token;
        bool has_witness;
        std::vector<int32_t> witness;
    };
    std::vector<Step> trail;
    bool has_witness = false;
    std::vector<int32_t> witness;
    std::vector<uint32_t> scratch;

    Cursor(Machine& machine, Id root) : machine(&machine), threads{{root, nullptr}} {}

    bool advance(int32_t token);
    void rollback(size_t count);
    bool is_accepting();
    bool is_exhausted();
    void mask(uint32_t* out, int64_t remaining);    // remaining < 0: no budget
    bool node_mask(uint32_t* out, int32_t& id);
    const std::vector<int32_t>& find_witness(int64_t within = -1);  // `within`: see recall_witness
    std::vector<int32_t> forced(size_t limit);
    std::vector<int32_t> choices();

    bool after(const Threads& from, int32_t token, Threads& out);
    uint32_t cost_after(int32_t token);

    // The cheapest completion known: one of a node, or symbols found under the registers.
    struct Cheapest {
        uint32_t cost = NO_COST;
        const Completion* known = nullptr;
        std::vector<int32_t> symbols;
    };
    Cheapest cheapest(const Threads& from, const std::vector<uint8_t>& past);
    void fill_thread(const Thread& thread, NodeMask& found, std::vector<uint32_t>& row);
    bool is_plain(const Thread& thread, NodeMask& found, int64_t remaining);
    void verify(const Thread& thread, const std::vector<int32_t>& tokens, std::vector<uint32_t>& row);
    void filter(const Thread& thread, NodeMask& mask, uint32_t remaining, std::vector<uint32_t>& row);
    void recall_witness();
    struct CaptureCosts;
    bool colliding_tokens(const RegistersPtr& registers, std::vector<int32_t>& tokens) const;
    void keep_dense(DensePart& part, NodeMask& mask, CaptureCosts& costs, uint32_t remaining,
                    const std::vector<uint32_t>& row, std::vector<uint32_t>& kept);
    std::vector<int32_t> symbols(const Threads& from);
};

}  // namespace sgrt
