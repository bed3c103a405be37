// A JSON Schema as far as plain values are concerned: those whose keywords say what they say without more ado.
// All operands were checked before (schema/check.py). What is not plain is left to the front end.
#pragma once

#include <array>
#include <memory>
#include <unordered_map>
#include <unordered_set>

#include "json.hpp"
#include "node.hpp"

namespace sgrt {

enum Keyword : uint8_t {
    K_TYPE, K_ENUM, K_CONST, K_PROPERTIES, K_REQUIRED, K_ADDITIONAL_PROPERTIES, K_ITEMS, K_MIN_ITEMS, K_MAX_ITEMS,
    K_UNIQUE_ITEMS, K_MIN_LENGTH, K_MAX_LENGTH, K_ANY_OF, K_ONE_OF, K_REF, K_FORMAT, K_MINIMUM, K_MAXIMUM,
    K_LOOSE,        // any other that an empty object or array satisfies
    K_COMBINING,    // any other that speaks of a value of any type
    K_OTHER, NUM_KEYWORDS,
};

// Types as bits. A number that is an integer is of both types.
enum Type : uint8_t {
    T_NULL = 1, T_BOOLEAN = 2, T_INTEGER = 4, T_NUMBER = 8, T_STRING = 16, T_ARRAY = 32, T_OBJECT = 64,
    T_ANY = T_NULL | T_BOOLEAN | T_INTEGER | T_NUMBER | T_STRING | T_ARRAY | T_OBJECT,
};

template <class... Names> constexpr uint32_t keyword_bits(Names... names) {
    return (0u | ... | (1u << names));
}

// The keywords of one subschema that say something about a value.
struct Keywords {
    uint32_t found = 0;                         // by bits
    std::array<int32_t, NUM_KEYWORDS> at{};     // the place of each one's operand, where found

    bool has(Keyword one) const { return found >> one & 1; }
    bool has_only(uint32_t bits) const { return !(found & ~bits); }
};

// What all schemas of one manner of writing have in common: nodes that the front end made.
struct Spelling {
    Id any_value = 0, number = 0, integer = 0, string = 0, character = 0, key_text = 0, space = 0, colon = 0, comma = 0;
    bool has_fixed_order = true;        // of the keys of objects
    std::unordered_map<std::string, Keyword> keywords;     // that say something about a value

    void note_keywords(std::string_view names);     // a line each
};

class Schema {
public:
    Schema(const Spelling& spelling, int32_t spelling_number, int32_t number, std::string text, bool hides_siblings);

    Keywords keywords(int32_t place) const;
    uint8_t types(const Keywords& keywords) const;
    uint8_t kinds(int32_t place) const;         // the types that values of a subschema may have, roughly
    int32_t target(int32_t place) const;        // where references lead in the end; -1: not evident
    bool count(int32_t place, int64_t& out) const;      // whether the number is a plain count
    bool is_satisfiable(int32_t place, int depth = 0);  // evidently, over printable ASCII

    const Spelling& spelling;
    const int32_t spelling_number, number;      // in the machine
    const Json json;

private:
    bool is_apart(int32_t place) const;
    bool has_choice(const Keywords& keywords, int depth);
    bool has_scalar(const Keywords& keywords) const;
    bool has_structure(const Keywords& keywords, int depth);

    bool hides_siblings_;               // a reference hides its siblings
    std::unordered_set<int32_t> resources_;     // subschemas that name themselves
    std::unordered_map<int32_t, bool> satisfiable_;
};

}  // namespace sgrt
