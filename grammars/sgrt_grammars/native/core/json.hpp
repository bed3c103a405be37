// JSON text as a tree of values in one array, in which a value is named by its place.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

namespace sgrt {

enum class JsonKind : uint8_t { NIL, NO, YES, NUMBER, STRING, ARRAY, OBJECT };

struct JsonValue {
    JsonKind kind = JsonKind::NIL;
    std::string_view key;       // of a member
    std::string_view text;      // of a string, decoded; of a number, as it stands
    std::string_view source;    // as it stands
    int32_t parent = -1, first = -1, next = -1, count = 0;
};

// Of two members of one name the last counts, in the place of the first, as Python reads them.
class Json {
public:
    explicit Json(std::string text);    // throws InvalidExpression: no JSON, nested very deep, or a lone surrogate
    Json(const Json&) = delete;

    const JsonValue& at(int32_t place) const { return values_[size_t(place)]; }
    int32_t size() const { return int32_t(values_.size()); }
    int32_t find(int32_t from, std::string_view pointer) const;     // -1: nothing is there
    std::string pointer(int32_t place) const;
    size_t num_bytes() const { return text_.size() * 2 + values_.size() * sizeof(JsonValue); }

private:
    struct Reader;

    std::string text_;
    std::deque<std::string> decoded_;   // strings with escapes
    std::vector<JsonValue> values_;
};

std::string quoted_json(std::string_view text);     // in its one canonical spelling

}  // namespace sgrt
