// The nodes of a machine: held in slabs, so that a number leads to a node without a table of pointers, and found by what
// they are. A look-up touches one slot, whose tag tells nearly all other nodes apart.
#pragma once

#include <memory>
#include <new>
#include <vector>

#include "node.hpp"

namespace sgrt {

class NodeTable {
public:
    NodeTable() {
        for (Segment& segment : segments_) segment.slots.assign(FIRST_SLOTS, Slot());
    }

    Node& operator[](Id id) { return slabs_[size_t(id) / SLAB].get()[size_t(id) % SLAB]; }
    const Node& operator[](Id id) const { return slabs_[size_t(id) / SLAB].get()[size_t(id) % SLAB]; }
    size_t size() const { return size_; }

    // The node of this hash that `is_same` accepts, -1 if there is none.
    template <class Same> Id find(uint64_t hash, Same is_same) const {
        const Segment& segment = segments_[hash % SEGMENTS];
        const size_t mask = segment.slots.size() - 1;
        const uint32_t tag = tag_of(hash);
        for (size_t at = tag & mask; segment.slots[at].id >= 0; at = (at + 1) & mask)
            if (segment.slots[at].tag == tag && is_same((*this)[segment.slots[at].id])) return segment.slots[at].id;
        return -1;
    }

    Id add(uint64_t hash, const Node& node) {
        if (size_ % SLAB == 0) slabs_.emplace_back(static_cast<Node*>(::operator new(SLAB * sizeof(Node), ALIGNMENT)));
        const Id id = Id(size_++);
        new (&(*this)[id]) Node(node);
        Segment& segment = segments_[hash % SEGMENTS];
        insert(segment.slots, {tag_of(hash), id});
        if (++segment.count * 2 > segment.slots.size()) grow(segment);
        return id;
    }

private:
    struct Slot {
        uint32_t tag = 0;
        Id id = -1;
    };
    struct Segment {        // grown one at a time, so that no look-up waits for the whole table
        std::vector<Slot> slots;
        size_t count = 0;
    };
    struct Freed {
        void operator()(Node* slab) const { ::operator delete(slab, ALIGNMENT); }
    };

    static constexpr size_t SLAB = 512, SEGMENTS = 256, FIRST_SLOTS = 16;
    static constexpr std::align_val_t ALIGNMENT{alignof(Node)};

    static uint32_t tag_of(uint64_t hash) { return uint32_t(hash >> 32); }

    static void insert(std::vector<Slot>& slots, Slot slot) {
        const size_t mask = slots.size() - 1;
        size_t at = slot.tag & mask;
        while (slots[at].id >= 0) at = (at + 1) & mask;
        slots[at] = slot;
    }

    static void grow(Segment& segment) {
        std::vector<Slot> larger(segment.slots.size() * 2);
        for (const Slot& slot : segment.slots)
            if (slot.id >= 0) insert(larger, slot);
        segment.slots.swap(larger);
    }

    std::vector<std::unique_ptr<Node, Freed>> slabs_;
    Segment segments_[SEGMENTS];
    size_t size_ = 0;
};

}  // namespace sgrt
