// The C interface. Every call locks the machine; none of them runs Python. Results below zero are the codes of
// native/library.py, and sgrt_detail says more.
#include <algorithm>

#include "cursor.hpp"

using namespace sgrt;

namespace {

enum Code : int64_t { NEEDS_UNFOLDING = -1, LIMIT = -2, INVALID = -3, BUDGET = -4, UNSATISFIABLE = -5, BUSY = -6 };

// Of the operation that runs in this thread.
thread_local Budget current;

template <class Body> int64_t guarded(Machine& machine, Body body) {
    machine.budget = &current;
    try {
        return body();
    } catch (const NotBrief&) {
        return BUSY;
    } catch (const NeedsUnfolding& need) {
        current.pending = need.number;
        current.pending_schema = need.schema;
        if (need.schema >= 0) current.message = machine.pointer(need.number);
        return NEEDS_UNFOLDING;
    } catch (const LimitExceeded& error) {
        current.message = error.what();
        return LIMIT;
    } catch (const InvalidExpression& error) {
        current.message = error.what();
        return INVALID;
    } catch (const BudgetTooSmall& error) {
        current.needed = error.needed;
        return BUDGET;
    } catch (const Unsatisfiable&) {
        return UNSATISFIABLE;
    } catch (const std::bad_alloc&) {
        current.message = "max_bytes";
        return LIMIT;
    }
}

template <class Body> int64_t locked(Machine& machine, Body body) {
    std::lock_guard<std::mutex> lock(machine.mutex);
    return guarded(machine, body);
}

// Meant to be called without giving up the interpreter: BUSY unless the machine is free and the work is brief.
// `time_s` 0 goes on with what was begun.
template <class Body> int64_t brief(Machine& machine, double time_s, Body body) {
    std::unique_lock<std::mutex> lock(machine.mutex, std::try_to_lock);
    if (!lock.owns_lock()) return BUSY;
    if (time_s > 0) current.start(time_s);
    current.is_brief = true;
    const int64_t result = guarded(machine, body);
    current.is_brief = false;
    return result;
}

int64_t copied(const std::vector<int32_t>& values, int32_t* out, int64_t room) {
    std::copy_n(values.begin(), std::min<size_t>(values.size(), size_t(room)), out);
    return int64_t(values.size());
}

}  // namespace

extern "C" {

Machine* sgrt_machine(int32_t size, const uint8_t* data, const int64_t* offsets, const int32_t* ends, int32_t num_ends,
                      int64_t max_states, int64_t max_mask_nodes, int64_t max_bytes) {
    Vocabulary vocabulary;
    vocabulary.size = size;
    vocabulary.offsets.assign(offsets, offsets + size + 1);
    vocabulary.data.assign(data, data + offsets[size]);
    vocabulary.ends.assign(ends, ends + num_ends);
    Limits limits;
    limits.max_states = max_states;
    limits.max_mask_nodes = max_mask_nodes;
    limits.max_bytes = max_bytes;
    try {
        return new Machine(std::move(vocabulary), limits);
    } catch (const std::bad_alloc&) {
        return nullptr;
    }
}

void sgrt_machine_free(Machine* machine) { delete machine; }

// Of the operation in this thread. 0: the deferred expression waited for, or the node of the value that is, whose pointer
// is the message; 1: the budget needed; 2: the schema of the value waited for, or -1.
int64_t sgrt_detail(int32_t which) {
    return which == 0 ? int64_t(current.pending) : which == 1 ? int64_t(current.needed) : int64_t(current.pending_schema);
}

const char* sgrt_message() { return current.message.c_str(); }

// `out` has room for the results of all operations.
int64_t sgrt_build(Machine* machine, const uint8_t* program, int64_t size, int32_t* out, int64_t room) {
    return locked(*machine, [&] {
        machine->takes(size_t(size) * 50);      // which is about what the expression itself takes
        std::vector<Id> results;
        const Id root = machine->build(program, size_t(size), results);
        copied(results, out, room);
        return int64_t(root);
    });
}

void sgrt_define(Machine* machine, int32_t number, int32_t root) {
    std::lock_guard<std::mutex> lock(machine->mutex);
    machine->define(number, root);
}

// `nodes`: of a spelling, in its order. `names`: the keywords that say something about a value, a line each.
int64_t sgrt_spelling(Machine* machine, const int32_t* nodes, const char* names, int32_t has_fixed_order) {
    return locked(*machine, [&] {
        Spelling spelling;
        Id* const targets[] = {&spelling.any_value, &spelling.number,  &spelling.integer,
                               &spelling.string,    &spelling.character, &spelling.key_text,
                               &spelling.space,     &spelling.colon,   &spelling.comma};
        for (Id* target : targets) *target = *nodes++;
        spelling.has_fixed_order = has_fixed_order;
        spelling.note_keywords(names);
        return int64_t(machine->add_spelling(spelling));
    });
}

int64_t sgrt_schema(Machine* machine, int32_t spelling, const char* text, int64_t size, int32_t hides_siblings) {
    return locked(*machine, [&] {
        return int64_t(machine->add_schema(spelling, std::string(text, size_t(size)), hides_siblings));
    });
}

void sgrt_define_value(Machine* machine, int32_t node, int32_t root) {
    std::lock_guard<std::mutex> lock(machine->mutex);
    machine->define_value(node, root);
}

int64_t sgrt_is_alive(Machine* machine, int32_t root) {
    return locked(*machine, [&] { return int64_t(machine->is_alive(root)); });
}

void sgrt_start(double time_s) { current.start(time_s); }

int64_t sgrt_bytes(Machine* machine) { return int64_t(machine->num_bytes()); }

int64_t sgrt_nodes(Machine* machine) { return int64_t(machine->num_nodes()); }

Cursor* sgrt_cursor(Machine* machine, int32_t root) { return new Cursor(*machine, root); }

Cursor* sgrt_cursor_fork(Cursor* cursor) { return new Cursor(*cursor); }

void sgrt_cursor_free(Cursor* cursor) { delete cursor; }

int64_t sgrt_mask(Cursor* cursor, uint32_t* out, int64_t remaining) {
    return locked(*cursor->machine, [&] {
        cursor->mask(out, remaining);
        return int64_t(0);
    });
}

int64_t sgrt_mask_at_hand(Cursor* cursor, uint32_t* out, int64_t remaining, double time_s) {
    return brief(*cursor->machine, time_s, [&] {
        cursor->mask(out, remaining);
        return int64_t(0);
    });
}

int64_t sgrt_advance_at_hand(Cursor* cursor, int32_t token, double time_s) {
    return brief(*cursor->machine, time_s, [&] { return int64_t(cursor->advance(token)); });
}

int64_t sgrt_advance(Cursor* cursor, int32_t token) {
    return locked(*cursor->machine, [&] { return int64_t(cursor->advance(token)); });
}

int64_t sgrt_rollback(Cursor* cursor, int64_t count) {
    if (size_t(count) > cursor->trail.size()) return INVALID;
    cursor->rollback(size_t(count));
    return 0;
}

int64_t sgrt_num_steps(Cursor* cursor) { return int64_t(cursor->trail.size()); }

int64_t sgrt_is_accepting(Cursor* cursor) {
    return locked(*cursor->machine, [&] { return int64_t(cursor->is_accepting()); });
}

int64_t sgrt_is_exhausted(Cursor* cursor) {
    return locked(*cursor->machine, [&] { return int64_t(cursor->is_exhausted()); });
}

// The identity of the row, or INVALID where the mask depends on registers.
int64_t sgrt_node_mask(Cursor* cursor, uint32_t* out) {
    return locked(*cursor->machine, [&]() -> int64_t {
        int32_t id = 0;
        return cursor->node_mask(out, id) ? id : int64_t(BUSY);
    });
}

int64_t sgrt_witness(Cursor* cursor, int32_t* out, int64_t room, int64_t within) {
    return locked(*cursor->machine, [&] { return copied(cursor->find_witness(within), out, room); });
}

int64_t sgrt_forced(Cursor* cursor, int32_t* out, int64_t room) {
    return locked(*cursor->machine, [&] { return copied(cursor->forced(size_t(room)), out, room); });
}

int64_t sgrt_choices(Cursor* cursor, int32_t* out, int64_t room) {
    return locked(*cursor->machine, [&] { return copied(cursor->choices(), out, room); });
}

// Fills rows from `*done` on; stops at the first that needs attention, whose code is returned. Each row is an operation,
// begun unless `is_begun`.
int64_t sgrt_masks(Cursor** cursors, uint32_t* out, int64_t stride, const int64_t* remaining, int64_t count,
                   int64_t* done, double time_s, int32_t is_begun) {
    for (; *done < count; ++*done, is_begun = 0) {
        if (!is_begun) current.start(time_s);
        const int64_t code = sgrt_mask(cursors[*done], out + *done * stride, remaining[*done]);
        if (code < 0) return code;
    }
    return 0;
}

void sgrt_clear_masks(Machine* machine) {
    std::lock_guard<std::mutex> lock(machine->mutex);
    machine->clear_masks();
}

}  // extern "C"
