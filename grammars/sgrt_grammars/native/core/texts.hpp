// Literals whose common beginnings are written once, as trees.
#pragma once

#include <string>
#include <vector>

#include "machine.hpp"

namespace sgrt {

struct Headed {         // a text, and what follows it
    const uint8_t* data;
    int32_t size;
    Id tail;
};

Id prefix_tree(Machine& machine, std::vector<Headed>& entries);
Id one_of_texts(Machine& machine, const std::vector<std::string>& texts);
Id factored_alternation(Machine& machine, const std::vector<Id>& options);

}  // namespace sgrt
