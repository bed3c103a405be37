// Plain values of schemas: a type with a bound, a choice of strings, a list, an object with named members, or evidently
// exclusive ones of these. They become nodes when they are reached; the front end writes all others (schema/lower.py).
#include <algorithm>
#include <unordered_set>

#include "machine.hpp"
#include "schema.hpp"
#include "texts.hpp"

namespace sgrt {
namespace {

constexpr Id NOT_PLAIN = -1;
constexpr uint8_t STRUCTURED = T_ARRAY | T_OBJECT;
constexpr uint32_t SCALAR_KEYWORDS =
    keyword_bits(K_TYPE, K_MIN_LENGTH, K_MAX_LENGTH, K_FORMAT, K_MINIMUM, K_MAXIMUM, K_OTHER);
constexpr uint32_t PLAIN_KEYWORDS =
    keyword_bits(K_TYPE, K_PROPERTIES, K_REQUIRED, K_ADDITIONAL_PROPERTIES, K_ITEMS, K_MIN_ITEMS, K_MAX_ITEMS,
                 K_UNIQUE_ITEMS, K_MIN_LENGTH, K_MAX_LENGTH);
constexpr uint32_t STRING_KEYWORDS = keyword_bits(K_FORMAT), NUMBER_KEYWORDS = keyword_bits(K_MINIMUM, K_MAXIMUM);

// Writes the values of one subschema.
struct PlainText {
    Machine& machine;
    const Schema& schema;
    const Spelling& spelling;
    const Keywords keywords;

    PlainText(Machine& machine, const Schema& schema, int32_t place)
        : machine(machine), schema(schema), spelling(schema.spelling), keywords(schema.keywords(place)) {}

    bool has(Keyword one) const { return keywords.has(one); }
    int32_t at(Keyword one) const { return keywords.at[one]; }
    Id text(std::string_view bytes) {
        return machine.literal(reinterpret_cast<const uint8_t*>(bytes.data()), int32_t(bytes.size()));
    }
    Id chain(std::initializer_list<Id> parts) {
        Id result = EMPTY_ID;
        for (auto part = parts.end(); part-- != parts.begin();) result = machine.concatenation(*part, result);
        return result;
    }
    Id child(int32_t place) { return machine.schema_value(schema.number, place); }

    Id value() {
        if (has(K_ENUM) || has(K_CONST)) return choice();
        if (has(K_ANY_OF) || has(K_ONE_OF)) return alternatives();
        const uint8_t types = schema.types(keywords);
        uint32_t minded = PLAIN_KEYWORDS;
        if (!(types & T_STRING)) minded |= STRING_KEYWORDS;
        if (!(types & T_INTEGER)) minded |= NUMBER_KEYWORDS;
        if (!keywords.has_only(minded)) return NOT_PLAIN;
        std::vector<Id> options;
        if (types & T_NULL) options.push_back(text("null"));
        if (types & T_BOOLEAN) options.insert(options.end(), {text("false"), text("true")});
        if (types & T_INTEGER) options.push_back(types & T_NUMBER ? spelling.number : spelling.integer);
        if (types & T_STRING) options.push_back(string());
        if (types & T_ARRAY) options.push_back(array());
        if (types & T_OBJECT) options.push_back(object());
        return united(options);
    }

    Id united(const std::vector<Id>& options) {
        const bool is_plain = std::find(options.begin(), options.end(), NOT_PLAIN) == options.end();
        return is_plain ? factored_alternation(machine, options) : NOT_PLAIN;
    }

    // One of some strings, `null`, `true` and `false`.
    Id choice() {
        const bool is_list = has(K_ENUM);
        if (!keywords.has_only(keyword_bits(K_TYPE, is_list ? K_ENUM : K_CONST))) return NOT_PLAIN;
        const uint8_t types = schema.types(keywords);
        std::vector<std::string> texts;
        for (int32_t one = is_list ? schema.json.at(at(K_ENUM)).first : at(K_CONST); one >= 0;) {
            const JsonValue& option = schema.json.at(one);
            const bool is_scalar = option.kind <= JsonKind::YES;
            if (!is_scalar && option.kind != JsonKind::STRING) return NOT_PLAIN;
            const uint8_t type = option.kind == JsonKind::NIL ? T_NULL : is_scalar ? T_BOOLEAN : T_STRING;
            if (types & type) texts.push_back(is_scalar ? std::string(option.source) : quoted_json(option.text));
            one = is_list ? option.next : -1;
        }
        return one_of_texts(machine, texts);
    }

    // Those of `oneOf` must be told apart by their types.
    Id alternatives() {
        const Keyword keyword = has(K_ANY_OF) ? K_ANY_OF : K_ONE_OF;
        if (!keywords.has_only(keyword_bits(keyword))) return NOT_PLAIN;
        uint8_t seen = 0;
        std::vector<Id> options;
        for (int32_t one = schema.json.at(at(keyword)).first; one >= 0; one = schema.json.at(one).next) {
            const uint8_t kinds = schema.kinds(one);
            if (keyword == K_ONE_OF && seen & kinds) return NOT_PLAIN;
            seen |= kinds;
            options.push_back(child(one));
        }
        return united(options);
    }

    // What two operands bound; false if that is not plain.
    bool bounds(Keyword least, Keyword most, int64_t& low, int64_t& high) {
        low = 0;
        high = UNBOUNDED;
        if (has(least) && !schema.count(at(least), low)) return false;
        return (!has(most) || schema.count(at(most), high)) && low <= high;
    }

    Id string() {
        int64_t low, high;
        if (!has(K_MIN_LENGTH) && !has(K_MAX_LENGTH)) return spelling.string;
        if (!bounds(K_MIN_LENGTH, K_MAX_LENGTH, low, high)) return NOT_PLAIN;
        return chain({text("\""), machine.repetition(spelling.character, low, high), text("\"")});
    }

    Id array() {
        int64_t low, high;
        if (!bounds(K_MIN_ITEMS, K_MAX_ITEMS, low, high)) return NOT_PLAIN;
        if (has(K_UNIQUE_ITEMS) && schema.json.at(at(K_UNIQUE_ITEMS)).kind == JsonKind::YES) return NOT_PLAIN;
        if (has(K_ITEMS) && schema.json.at(at(K_ITEMS)).kind == JsonKind::ARRAY) return NOT_PLAIN;
        const Id item = has(K_ITEMS) ? child(at(K_ITEMS)) : spelling.any_value;
        if (item == NOTHING_ID) return NOT_PLAIN;
        Id items = EMPTY_ID;
        if (high > 0) {
            const int64_t most = high == UNBOUNDED ? UNBOUNDED : high - 1;
            const Id more = machine.repetition(chain({spelling.comma, item}), std::max<int64_t>(low - 1, 0), most);
            items = chain({item, more, spelling.space});
            if (low == 0) items = machine.alternation({EMPTY_ID, items});
        }
        return chain({text("["), spelling.space, items, text("]")});
    }

    Id object() {
        if (!spelling.has_fixed_order) return NOT_PLAIN;
        const bool is_bounded = has(K_ADDITIONAL_PROPERTIES);
        const Id rest = is_bounded ? child(at(K_ADDITIONAL_PROPERTIES)) : spelling.any_value;
        std::unordered_set<std::string_view> needed, declared;
        if (has(K_REQUIRED))
            for (int32_t one = schema.json.at(at(K_REQUIRED)).first; one >= 0; one = schema.json.at(one).next)
                needed.insert(schema.json.at(one).text);
        Machine::MemberTable table;
        std::vector<uint8_t> required;
        std::vector<std::string> names;     // impossible ones as well
        auto add = [&](std::string_view name, Id member) {
            const std::string spelled = quoted_json(name);
            declared.insert(name);
            names.push_back(spelled.substr(1, spelled.size() - 2));
            const bool is_required = needed.count(name);
            if (member == NOTHING_ID) return !is_required;
            table.names.emplace_back(spelled.begin(), spelled.end());
            table.values.push_back(member);
            required.push_back(is_required);
            return true;
        };
        if (has(K_PROPERTIES))
            for (int32_t one = schema.json.at(at(K_PROPERTIES)).first; one >= 0; one = schema.json.at(one).next)
                if (!add(schema.json.at(one).key, child(one))) return NOT_PLAIN;
        if (has(K_REQUIRED))
            for (int32_t one = schema.json.at(at(K_REQUIRED)).first; one >= 0; one = schema.json.at(one).next) {
                const std::string_view name = schema.json.at(one).text;
                if (!declared.count(name) && !add(name, rest)) return NOT_PLAIN;
            }
        for (int32_t i = 0; i < table.size(); i++)
            if (required[size_t(i)] && !is_evident(table, i)) table.sound_from = i + 1;
        table.values.insert(table.values.end(), {spelling.colon, spelling.comma, spelling.space, free(names, rest)});
        return chain({text("{"), spelling.space, machine.members(std::move(table), required.data()), text("}")});
    }

    // Whether a member evidently has a text over printable ASCII.
    bool is_evident(const Machine::MemberTable& table, int32_t place) {
        for (uint8_t byte : table.names[size_t(place)])
            if (byte < 0x20 || byte > 0x7E) return false;
        const Node& value = machine.node(table.values[size_t(place)]);
        return value.alive == 1 || (value.regular && machine.is_alive(table.values[size_t(place)]));
    }

    // Members of other names, none of them twice, and the end.
    Id free(std::vector<std::string>& names, Id rest) {
        if (rest == NOTHING_ID) return NOTHING_ID;
        Id name = spelling.key_text;
        if (!names.empty()) name = machine.intersection({name, machine.complement(one_of_texts(machine, names))});
        const Id key = machine.distinct(chain({text("\""), name, text("\"")}), END_BYTES);
        const Id entry = chain({key, spelling.colon, rest});
        const Id more = machine.repetition(machine.concatenation(spelling.comma, entry), 0, UNBOUNDED);
        return machine.concatenation(machine.scope(machine.concatenation(entry, more)), spelling.space);
    }
};

// What a scalar's language depends on.
std::string content_of(const Schema& schema, const Keywords& keywords) {
    std::string out = std::to_string(schema.spelling_number);
    for (int32_t one = schema.json.at(schema.json.at(keywords.at[K_TYPE]).parent).first; one >= 0; one = schema.json.at(one).next) {
        const JsonValue& operand = schema.json.at(one);
        if (!schema.spelling.keywords.count(std::string(operand.key))) continue;
        out.append(1, '\n').append(operand.key).append(1, ':').append(operand.source);
    }
    return out;
}

}  // namespace

int32_t Machine::add_spelling(const Spelling& spelling) {
    spellings_.push_back(spelling);
    return int32_t(spellings_.size()) - 1;
}

int32_t Machine::add_schema(int32_t spelling, std::string text, bool hides_siblings) {
    const int32_t number = int32_t(schemas_.size());
    schemas_.emplace_back(spellings_[size_t(spelling)], spelling, number, std::move(text), hides_siblings);
    takes(schemas_.back().json.num_bytes());
    schema_bytes_ += schemas_.back().json.num_bytes();
    return number;
}

// A value at hand, or a node that becomes it when it is reached.
Id Machine::schema_value(int32_t number, int32_t place) {
    const Schema& schema = schemas_[size_t(number)];
    const int32_t target = schema.target(place);
    if (target < 0) return later_value(number, place);
    const JsonKind kind = schema.json.at(target).kind;
    if (kind == JsonKind::NO) return NOTHING_ID;
    PlainText plain(*this, schema, target);
    if (!plain.keywords.found) return schema.spelling.any_value;
    if (!plain.has(K_TYPE) || schema.types(plain.keywords) & STRUCTURED || !plain.keywords.has_only(SCALAR_KEYWORDS))
        return later_value(number, target);
    if (plain.keywords.has_only(keyword_bits(K_TYPE))) return plain.value();
    const auto [entry, is_new] = scalars_.emplace(content_of(schema, plain.keywords), 0);
    if (is_new) entry->second = later_value(number, target);
    return entry->second;
}

Id Machine::later_value(int32_t number, int32_t place) {
    Node probe;
    probe.kind = DEFERRED;
    probe.b = number + 1;
    probe.low = place;
    const Id id = intern_deferred(probe);
    Node& made = node(id);
    if (made.alive < 0 && spells_ascii_ && schemas_[size_t(number)].is_satisfiable(place)) made.alive = 1;
    return id;
}

Id Machine::unfold_value(Id id) {
    const auto found = values_.find(id);
    if (found != values_.end()) return found->second;
    const int32_t number = node(id).b - 1, place = int32_t(node(id).low);
    const Schema& schema = schemas_[size_t(number)];
    const Id value = schema.target(place) == place ? PlainText(*this, schema, place).value() : NOT_PLAIN;
    if (value == NOT_PLAIN) throw NeedsUnfolding{id, number};
    return value;
}

void Machine::define_value(Id id, Id value) { values_[id] = value; }

Id Machine::schema_value(int32_t number, std::string_view pointer) {
    const int32_t place = schemas_.at(size_t(number)).json.find(0, pointer);
    if (place < 0) throw InvalidExpression("a program names no subschema");
    return schema_value(number, place);
}

std::string Machine::pointer(Id id) const {
    const Node& value = nodes_[id];
    return schemas_[size_t(value.b) - 1].json.pointer(int32_t(value.low));
}

}  // namespace sgrt
