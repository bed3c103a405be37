#include "schema.hpp"

namespace sgrt {
namespace {

constexpr int MAX_HOPS = 16, MAX_SATISFIABLE_DEPTH = 32;
constexpr size_t MAX_COUNT_DIGITS = 9;

constexpr std::pair<std::string_view, Keyword> KNOWN[] = {
    {"type", K_TYPE}, {"enum", K_ENUM}, {"const", K_CONST}, {"properties", K_PROPERTIES}, {"required", K_REQUIRED},
    {"additionalProperties", K_ADDITIONAL_PROPERTIES}, {"items", K_ITEMS}, {"minItems", K_MIN_ITEMS},
    {"maxItems", K_MAX_ITEMS}, {"uniqueItems", K_UNIQUE_ITEMS}, {"minLength", K_MIN_LENGTH}, {"maxLength", K_MAX_LENGTH},
    {"anyOf", K_ANY_OF}, {"oneOf", K_ONE_OF}, {"$ref", K_REF}, {"format", K_FORMAT}, {"minimum", K_MINIMUM},
    {"maximum", K_MAXIMUM}, {"patternProperties", K_LOOSE}, {"maxProperties", K_LOOSE}, {"prefixItems", K_LOOSE},
    {"additionalItems", K_LOOSE}, {"allOf", K_COMBINING}, {"not", K_COMBINING}, {"if", K_COMBINING},
    {"$dynamicRef", K_COMBINING}, {"$recursiveRef", K_COMBINING},
};

constexpr std::pair<std::string_view, uint8_t> TYPES[] = {
    {"null", T_NULL}, {"boolean", T_BOOLEAN}, {"integer", T_INTEGER}, {"number", T_NUMBER | T_INTEGER},
    {"string", T_STRING}, {"array", T_ARRAY}, {"object", T_OBJECT},
};

uint8_t type_of(std::string_view name) {
    for (const auto& [known, type] : TYPES)
        if (known == name) return type;
    return 0;
}

uint8_t kind_of(const JsonValue& value) {
    switch (value.kind) {
        case JsonKind::NIL: return T_NULL;
        case JsonKind::NO:
        case JsonKind::YES: return T_BOOLEAN;
        case JsonKind::NUMBER: return T_NUMBER | T_INTEGER;
        case JsonKind::STRING: return T_STRING;
        case JsonKind::ARRAY: return T_ARRAY;
        default: return T_OBJECT;
    }
}

}  // namespace

void Spelling::note_keywords(std::string_view names) {
    while (!names.empty()) {
        const size_t end = std::min(names.find('\n'), names.size());
        keywords[std::string(names.substr(0, end))] = K_OTHER;
        names.remove_prefix(std::min(end + 1, names.size()));
    }
    for (const auto& [name, keyword] : KNOWN) {
        const auto found = keywords.find(std::string(name));
        if (found != keywords.end()) found->second = keyword;
    }
}

Schema::Schema(const Spelling& spelling, int32_t spelling_number, int32_t number, std::string text, bool hides_siblings)
    : spelling(spelling), spelling_number(spelling_number), number(number), json(std::move(text)), hides_siblings_(hides_siblings) {
    for (int32_t place = 0; place < json.size(); place++) {
        const JsonValue& value = json.at(place);
        const bool is_name = value.key == "$id" || value.key == "id";
        if (is_name && value.kind == JsonKind::STRING && value.parent > 0 && value.text.substr(0, 1) != "#")
            resources_.insert(value.parent);
    }
}

// Whether a resource of the text, not the whole, is around a place: references mean something else there.
bool Schema::is_apart(int32_t place) const {
    if (!resources_.empty())
        for (; place > 0; place = json.at(place).parent)
            if (resources_.count(place)) return true;
    return false;
}

Keywords Schema::keywords(int32_t place) const {
    Keywords out;
    std::string name;
    for (int32_t one = json.at(place).first; one >= 0; one = json.at(one).next) {
        const auto found = spelling.keywords.find(name.assign(json.at(one).key));
        if (found == spelling.keywords.end()) continue;
        out.found |= 1u << found->second;
        out.at[found->second] = one;
    }
    return out;
}

uint8_t Schema::types(const Keywords& keywords) const {
    if (!keywords.has(K_TYPE)) return T_ANY;
    const JsonValue& operand = json.at(keywords.at[K_TYPE]);
    if (operand.kind == JsonKind::STRING) return type_of(operand.text);
    uint8_t found = 0;
    for (int32_t one = operand.first; one >= 0; one = json.at(one).next) found |= type_of(json.at(one).text);
    return found;
}

uint8_t Schema::kinds(int32_t place) const {
    place = target(place);
    if (place < 0 || json.at(place).kind != JsonKind::OBJECT) return T_ANY;
    const Keywords keywords = this->keywords(place);
    uint8_t found = types(keywords);
    if (keywords.has(K_CONST)) found &= kind_of(json.at(keywords.at[K_CONST]));
    if (keywords.has(K_ENUM)) {
        uint8_t listed = 0;
        const JsonValue& operand = json.at(keywords.at[K_ENUM]);
        for (int32_t one = operand.first; one >= 0; one = json.at(one).next) listed |= kind_of(json.at(one));
        found &= listed;
    }
    return found;
}

int32_t Schema::target(int32_t place) const {
    for (int hop = 0; hop < MAX_HOPS; hop++) {
        const JsonValue& value = json.at(place);
        if (value.kind != JsonKind::OBJECT) return place;
        const Keywords keywords = this->keywords(place);
        if (!keywords.has(K_REF)) return place;
        const std::string_view reference = json.at(keywords.at[K_REF]).text;
        const bool is_alone = hides_siblings_ || keywords.has_only(keyword_bits(K_REF));
        const bool is_pointer = reference == "#" || reference.substr(0, 2) == "#/";
        if (!is_alone || !is_pointer || reference.find('%') != std::string_view::npos || is_apart(place)) return -1;
        place = json.find(0, reference.substr(1));
        if (place < 0 || is_apart(place)) return -1;
    }
    return -1;
}

bool Schema::count(int32_t place, int64_t& out) const {
    const std::string_view digits = json.at(place).text;
    if (digits.size() > MAX_COUNT_DIGITS || digits.find_first_not_of("0123456789") != std::string_view::npos) return false;
    out = 0;
    for (char digit : digits) out = out * 10 + (digit - '0');
    return true;
}

// A value that is asked for again while it is looked at counts as doubtful.
bool Schema::is_satisfiable(int32_t place, int depth) {
    place = target(place);
    if (place < 0 || depth > MAX_SATISFIABLE_DEPTH) return false;
    if (json.at(place).kind != JsonKind::OBJECT) return json.at(place).kind == JsonKind::YES;
    const auto [known, is_new] = satisfiable_.emplace(place, false);
    if (!is_new) return known->second;
    const Keywords keywords = this->keywords(place);
    const bool found = has_choice(keywords, depth) || has_scalar(keywords) || has_structure(keywords, depth);
    satisfiable_[place] = found;
    return found;
}

bool Schema::has_choice(const Keywords& keywords, int depth) {
    if (keywords.has_only(keyword_bits(K_ANY_OF)) && keywords.found) {
        for (int32_t one = json.at(keywords.at[K_ANY_OF]).first; one >= 0; one = json.at(one).next)
            if (is_satisfiable(one, depth + 1)) return true;
        return false;
    }
    if (!keywords.has(K_ENUM) || !keywords.has_only(keyword_bits(K_TYPE, K_ENUM)) || !(types(keywords) & T_STRING)) return false;
    for (int32_t one = json.at(keywords.at[K_ENUM]).first; one >= 0; one = json.at(one).next) {
        const JsonValue& option = json.at(one);
        bool is_ascii = option.kind == JsonKind::STRING;
        for (char character : option.text) is_ascii = is_ascii && uint8_t(character) < 0x7F;
        if (is_ascii) return true;
    }
    return false;
}

bool Schema::has_scalar(const Keywords& keywords) const {
    const uint8_t types = this->types(keywords);
    constexpr uint32_t combining = keyword_bits(K_ENUM, K_CONST, K_ANY_OF, K_ONE_OF, K_REF, K_COMBINING);
    if ((types & T_NULL) && !(keywords.found & combining)) return true;  // it satisfies what speaks of another type
    if (keywords.has_only(keyword_bits(K_TYPE))) return types;
    if (types == T_STRING && keywords.has_only(keyword_bits(K_TYPE, K_FORMAT))) return true;
    if (types & T_STRING && keywords.has_only(keyword_bits(K_TYPE, K_MIN_LENGTH, K_MAX_LENGTH))) {
        int64_t low = 0, high = INT32_MAX;
        if (keywords.has(K_MIN_LENGTH) && !count(keywords.at[K_MIN_LENGTH], low)) return false;
        return !keywords.has(K_MAX_LENGTH) || (count(keywords.at[K_MAX_LENGTH], high) && low <= high);
    }
    const bool has_one_bound = keywords.has(K_MINIMUM) != keywords.has(K_MAXIMUM);
    return types & T_INTEGER && has_one_bound && keywords.has_only(keyword_bits(K_TYPE, K_MINIMUM, K_MAXIMUM));
}

bool Schema::has_structure(const Keywords& keywords, int depth) {
    const uint8_t types = this->types(keywords);
    constexpr uint32_t loose_array = keyword_bits(K_TYPE, K_ITEMS, K_LOOSE, K_MAX_ITEMS, K_UNIQUE_ITEMS);
    constexpr uint32_t named = keyword_bits(K_TYPE, K_PROPERTIES, K_ADDITIONAL_PROPERTIES);
    if (types & T_ARRAY && keywords.has_only(loose_array)) return true;
    if (types & T_OBJECT && keywords.has_only(named | keyword_bits(K_LOOSE))) return true;
    if (!(types & T_OBJECT) || !keywords.has_only(named | keyword_bits(K_REQUIRED))) return false;
    const int32_t properties = keywords.has(K_PROPERTIES) ? keywords.at[K_PROPERTIES] : -1;
    for (int32_t one = json.at(keywords.at[K_REQUIRED]).first; one >= 0; one = json.at(one).next) {
        int32_t member = properties < 0 ? -1 : json.at(properties).first;
        while (member >= 0 && json.at(member).key != json.at(one).text) member = json.at(member).next;
        if (member < 0 || !is_satisfiable(member, depth + 1)) return false;
    }
    return true;
}

}  // namespace sgrt
