// Registers beside the state: persistent values, shared by forks. See automaton/registers.py.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "node.hpp"

namespace sgrt {

struct Record {
    std::string text;       // canonical bytes
    size_t hash;
    std::shared_ptr<const Record> older;
};

struct ScopeRegister {
    std::shared_ptr<const Record> recorded;
    int32_t count = 0;
    int32_t depth = 0;      // scopes around this one
    std::shared_ptr<const ScopeRegister> outer;
};

struct Capture {
    int64_t start;
    int32_t depth;          // of the scope it belongs to; -1: none
    std::shared_ptr<const Capture> outer;
};

struct Registers {
    std::shared_ptr<const ScopeRegister> scope;
    std::shared_ptr<const Capture> capture;
};

// Null where nothing is open.
using RegistersPtr = std::shared_ptr<const Registers>;

// Do `actions` at the end of `text`; false if a capture repeats a recorded one.
bool apply_actions(const std::vector<uint8_t>& actions, const std::vector<uint8_t>& text, RegistersPtr& registers);

bool same_registers(const RegistersPtr& left, const RegistersPtr& right);

// The scope whose records the text captured at present is compared with: further scopes may be open within the
// capture. Null if there is none.
const ScopeRegister* capturing_scope(const Registers& registers);

// A captured text that is a JSON string without escapes so far, up to its closing quote. That much of it is how its
// canonical form starts.
struct PlainString {
    const char* start;
    size_t size;
    bool is_closed;
};

// False if the text captured at present is something else.
bool find_plain_string(const Registers& registers, const std::vector<uint8_t>& text, PlainString& out);

// Whether the text captured at present may turn out to be one already recorded.
bool may_collide(const RegistersPtr& registers, const std::vector<uint8_t>& text);

int32_t num_recorded(const RegistersPtr& registers);

// Canonical bytes of a JSON text; automaton/canonical.py defines the form.
std::string canonical_json(const uint8_t* data, size_t size);

}  // namespace sgrt
