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
    std::shared_ptr<const ScopeRegister> outer;
};

struct Capture {
    int64_t start;
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

// Whether the text captured at present may turn out to be one already recorded.
bool may_collide(const RegistersPtr& registers, const std::vector<uint8_t>& text);

int32_t num_recorded(const RegistersPtr& registers);

// Canonical bytes of a JSON text; automaton/canonical.py defines the form.
std::string canonical_json(const uint8_t* data, size_t size);

}  // namespace sgrt
