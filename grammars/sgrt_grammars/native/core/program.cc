// Expressions arrive as programs in postfix order: see native/program.py for the operations.
#include <algorithm>

#include "texts.hpp"

namespace sgrt {
namespace {

enum Operation : uint8_t {
    OP_EMPTY, OP_LITERAL, OP_SET, OP_CONCATENATION, OP_ALTERNATION, OP_REPETITION, OP_INTERSECTION,
    OP_COMPLEMENT, OP_DEFERRED, OP_SPECIAL, OP_SCOPE, OP_DISTINCT_BYTES, OP_DISTINCT_JSON, OP_AGAIN, OP_NODE,
    OP_DEFERRED_SATISFIABLE, OP_DEFERRED_SHORT, OP_DEFERRED_BOTH, OP_MEMBERS, OP_TEXTS, OP_VALUE,
};

struct Reader {
    const uint8_t* at;
    const uint8_t* end;

    template <class T> T number() {
        T value;
        if (size_t(end - at) < sizeof value) throw InvalidExpression("a program ends early");
        memcpy(&value, at, sizeof value);
        at += sizeof value;
        return value;
    }
    const uint8_t* bytes(size_t count) {
        if (size_t(end - at) < count) throw InvalidExpression("a program ends early");
        const uint8_t* out = at;
        at += count;
        return out;
    }
};

std::vector<Id> popped(std::vector<Id>& stack, size_t count) {
    if (stack.size() < count) throw InvalidExpression("a program pops an empty stack");
    std::vector<Id> parts(stack.end() - std::ptrdiff_t(count), stack.end());
    stack.resize(stack.size() - count);
    return parts;
}

Id concatenated(Machine& machine, const std::vector<Id>& parts) {
    Id result = EMPTY_ID;
    for (size_t i = parts.size(); i-- > 0;) result = machine.concatenation(parts[i], result);
    return result;
}

Id repeated(Machine& machine, Reader& reader, Id body) {
    const int64_t low = reader.number<int64_t>();
    const int64_t high = reader.number<int64_t>();
    return machine.repetition(body, low, high < 0 ? UNBOUNDED : high);
}

}  // namespace

Id Machine::build(const uint8_t* program, size_t size, std::vector<Id>& results) {
    Reader reader{program, program + size};
    std::vector<Id> stack;
    while (reader.at < reader.end) {
        const uint8_t operation = reader.number<uint8_t>();
        Id result = EMPTY_ID;
        switch (operation) {
            case OP_EMPTY: break;
            case OP_LITERAL: {
                const int32_t length = reader.number<int32_t>();
                result = literal(reader.bytes(size_t(length)), length);
                break;
            }
            case OP_TEXTS: {
                std::vector<Headed> entries(reader.number<uint32_t>());
                for (Headed& entry : entries) {
                    entry.size = reader.number<int32_t>();
                    entry.data = reader.bytes(size_t(entry.size));
                    entry.tail = EMPTY_ID;
                }
                result = entries.empty() ? NOTHING_ID : prefix_tree(*this, entries);
                break;
            }
            case OP_SET: {
                Bits members;
                memcpy(members.word, reader.bytes(32), 32);
                result = byte_set(members);
                break;
            }
            case OP_CONCATENATION: result = concatenated(*this, popped(stack, reader.number<uint32_t>())); break;
            case OP_ALTERNATION: result = factored_alternation(*this, popped(stack, reader.number<uint32_t>())); break;
            case OP_REPETITION: result = repeated(*this, reader, popped(stack, 1)[0]); break;
            case OP_INTERSECTION: result = intersection(popped(stack, reader.number<uint32_t>())); break;
            case OP_COMPLEMENT: result = complement(popped(stack, 1)[0]); break;
            case OP_DEFERRED:
            case OP_DEFERRED_SATISFIABLE:
            case OP_DEFERRED_SHORT:
            case OP_DEFERRED_BOTH: {
                result = deferred(reader.number<int32_t>());
                Node& n = node(result);
                const bool is_vouched = operation == OP_DEFERRED_SATISFIABLE || operation == OP_DEFERRED_BOTH;
                if (is_vouched && spells_ascii_) n.alive = 1;
                n.has_short = operation == OP_DEFERRED_SHORT || operation == OP_DEFERRED_BOTH;
                break;
            }
            case OP_MEMBERS: {
                const uint32_t count = reader.number<uint32_t>();
                MemberTable table;
                table.sound_from = reader.number<int32_t>();
                const uint8_t* required = reader.bytes(count);
                for (uint32_t i = 0; i < count; i++) {
                    const uint32_t length = reader.number<uint32_t>();
                    const uint8_t* name = reader.bytes(length);
                    table.names.emplace_back(name, name + length);
                }
                table.values = popped(stack, size_t(count) + 4);
                result = members(std::move(table), required);
                break;
            }
            case OP_VALUE: {
                const int32_t schema = reader.number<int32_t>();
                const uint32_t length = reader.number<uint32_t>();
                const uint8_t* pointer = reader.bytes(length);
                result = schema_value(schema, {reinterpret_cast<const char*>(pointer), length});
                break;
            }
            case OP_SPECIAL: result = special(reader.number<int32_t>()); break;
            case OP_SCOPE: result = scope(popped(stack, 1)[0]); break;
            case OP_DISTINCT_BYTES: result = distinct(popped(stack, 1)[0], END_BYTES); break;
            case OP_DISTINCT_JSON: result = distinct(popped(stack, 1)[0], END_JSON); break;
            case OP_AGAIN: {
                const uint32_t index = reader.number<uint32_t>();
                if (index >= results.size()) throw InvalidExpression("a program refers forward");
                stack.push_back(results[index]);
                continue;
            }
            case OP_NODE: {
                const int32_t id = reader.number<int32_t>();
                if (id < 0 || size_t(id) >= nodes_.size()) throw InvalidExpression("a program names no node");
                stack.push_back(id);
                continue;
            }
            default: throw InvalidExpression("a program has an unknown operation");
        }
        stack.push_back(result);
        results.push_back(result);
    }
    if (stack.size() != 1) throw InvalidExpression("a program leaves other than one result");
    return stack[0];
}

void Machine::define(int32_t number, Id target) { definitions_[number] = target; }

Id Machine::unfold(Id id) {
    if (node(id).unfolded < 0) {
        const Id found = node(id).a ? unfold_members(id) : node(id).b ? unfold_value(id) : defined(int32_t(node(id).low));
        node(id).unfolded = found;
    }
    return node(id).unfolded;
}

// What a deferred node is completed by: its short form, or what it stands for.
Id Machine::unfold_shorter(Id id) {
    const Node& n = node(id);
    if (!n.has_short) return unfold(id);
    return n.a ? shortest_members(id) : defined(~int32_t(n.low));
}

Id Machine::defined(int32_t number) {
    auto found = definitions_.find(number);
    if (found == definitions_.end()) throw NeedsUnfolding{number};
    return found->second;
}

}  // namespace sgrt
