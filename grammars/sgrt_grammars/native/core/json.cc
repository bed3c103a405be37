#include <unordered_map>

#include "json.hpp"
#include "node.hpp"

namespace sgrt {
namespace {

constexpr int MAX_DEPTH = 2000;
constexpr std::string_view ESCAPES = "\"\\/bfnrt", ESCAPED = "\"\\/\b\f\n\r\t";

[[noreturn]] void refuse() { throw InvalidExpression("this is no JSON that can be read here"); }

void append_utf8(std::string& out, uint32_t code) {
    if (code < 0x80) {
        out += char(code);
        return;
    }
    const int more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
    out += char((0xFF00u >> (more + 1) & 0xFF) | code >> 6 * more);
    for (int i = more; i-- > 0;) out += char(0x80 | (code >> 6 * i & 0x3F));
}

}  // namespace

struct Json::Reader {
    Json& tree;
    const char* at;
    const char* end;

    char peek() const { return at < end ? *at : '\0'; }
    void skip_space() {
        while (at < end && (*at == ' ' || *at == '\n' || *at == '\t' || *at == '\r')) at++;
    }
    void take(char wanted) {
        if (peek() != wanted) refuse();
        at++;
    }
    void take(std::string_view word) {
        if (size_t(end - at) < word.size() || std::string_view(at, word.size()) != word) refuse();
        at += word.size();
    }

    int32_t value(int32_t parent, int depth) {
        if (depth > MAX_DEPTH) refuse();
        skip_space();
        const int32_t place = int32_t(tree.values_.size());
        tree.values_.emplace_back();
        const char* begin = at;
        std::string_view text;
        JsonKind kind = JsonKind::NUMBER;
        switch (peek()) {
            case '{': kind = JsonKind::OBJECT; members(place, depth); break;
            case '[': kind = JsonKind::ARRAY; items(place, depth); break;
            case '"': kind = JsonKind::STRING; text = string(); break;
            case 't': kind = JsonKind::YES; take("true"); break;
            case 'f': kind = JsonKind::NO; take("false"); break;
            case 'n': kind = JsonKind::NIL; take("null"); break;
            default: text = number(); break;
        }
        JsonValue& made = tree.values_[size_t(place)];
        made.kind = kind;
        made.text = text;
        made.source = {begin, size_t(at - begin)};
        made.parent = parent;
        return place;
    }

    std::string_view number() {
        const char* begin = at;
        while (at < end && std::string_view("+-.0123456789eE").find(*at) != std::string_view::npos) at++;
        if (at == begin) refuse();
        return {begin, size_t(at - begin)};
    }

    void items(int32_t place, int depth) {
        std::vector<int32_t> found;
        for (char before = '['; take_next(before, ']'); before = ',') found.push_back(value(place, depth + 1));
        link(place, found);
    }

    void members(int32_t place, int depth) {
        std::vector<int32_t> found;
        std::unordered_map<std::string_view, size_t> known;
        for (char before = '{'; take_next(before, '}'); before = ',') {
            skip_space();
            const std::string_view key = string();
            skip_space();
            take(':');
            const int32_t member = value(place, depth + 1);
            tree.values_[size_t(member)].key = key;
            const auto [entry, is_new] = known.emplace(key, found.size());
            if (is_new) found.push_back(member);
            else found[entry->second] = member;
        }
        link(place, found);
    }

    // Takes what stands before a further item, or the end; whether there is an item.
    bool take_next(char before, char close) {
        skip_space();
        if (peek() != close) {
            take(before);
            skip_space();
            if (before == ',' || peek() != close) return true;
        }
        at++;
        return false;
    }

    void link(int32_t place, const std::vector<int32_t>& found) {
        JsonValue& whole = tree.values_[size_t(place)];
        whole.count = int32_t(found.size());
        whole.first = found.empty() ? -1 : found[0];
        for (size_t i = 0; i + 1 < found.size(); i++) tree.values_[size_t(found[i])].next = found[i + 1];
    }

    std::string_view string() {
        take('"');
        const char* begin = at;
        while (at < end && *at != '"' && *at != '\\') at++;
        if (peek() == '"') return {begin, size_t(at++ - begin)};
        std::string& out = tree.decoded_.emplace_back(begin, size_t(at - begin));
        while (peek() != '"') {
            if (at >= end) refuse();
            if (*at != '\\') out += *at++;
            else escape(out);
        }
        at++;
        return out;
    }

    void escape(std::string& out) {
        at++;
        if (peek() != 'u') {
            const size_t which = ESCAPES.find(peek());
            if (at >= end || which == std::string_view::npos) refuse();
            out += ESCAPED[which];
            at++;
            return;
        }
        uint32_t code = unit();
        if (code >= 0xDC00 && code < 0xE000) refuse();
        if (code >= 0xD800 && code < 0xDC00) {
            take('\\');
            const uint32_t low = unit();
            if (low < 0xDC00 || low >= 0xE000) refuse();
            code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
        }
        append_utf8(out, code);
    }

    uint32_t unit() {
        take('u');
        uint32_t code = 0;
        for (int i = 0; i < 4; i++, at++) {
            const char digit = peek();
            if (!isxdigit(uint8_t(digit))) refuse();
            code = code << 4 | uint32_t(digit <= '9' ? digit - '0' : (digit | 0x20) - 'a' + 10);
        }
        return code;
    }
};

Json::Json(std::string text) : text_(std::move(text)) {
    Reader reader{*this, text_.data(), text_.data() + text_.size()};
    reader.value(-1, 0);
    reader.skip_space();
    if (reader.at != reader.end) refuse();
}

int32_t Json::find(int32_t from, std::string_view pointer) const {
    for (int32_t place = from; place >= 0;) {
        if (pointer.empty()) return place;
        const size_t end = std::min(pointer.find('/', 1), pointer.size());
        std::string step;
        for (size_t i = 1; i < end; i++) {
            const bool is_escape = pointer[i] == '~' && i + 1 < end && (pointer[i + 1] == '0' || pointer[i + 1] == '1');
            step += is_escape ? (pointer[++i] == '0' ? '~' : '/') : pointer[i];
        }
        pointer.remove_prefix(end);
        const JsonValue& whole = at(place);
        place = -1;
        int32_t index = 0;
        for (int32_t one = whole.first; one >= 0 && place < 0; one = at(one).next, index++)
            if (whole.kind == JsonKind::OBJECT ? at(one).key == step : std::to_string(index) == step) place = one;
    }
    return -1;
}

std::string Json::pointer(int32_t place) const {
    if (place == 0) return "";
    const JsonValue& whole = at(at(place).parent);
    std::string step;
    if (whole.kind == JsonKind::ARRAY) {
        int32_t index = 0;
        for (int32_t one = whole.first; one != place; one = at(one).next) index++;
        step = std::to_string(index);
    }
    for (char one : at(place).key) step += one == '~' ? "~0" : one == '/' ? "~1" : std::string(1, one);
    return pointer(at(place).parent) + "/" + step;
}

std::string quoted_json(std::string_view text) {
    std::string out = "\"";
    for (char one : text) {
        const size_t which = ESCAPED.find(one);
        if (which != std::string_view::npos && one != '/') {
            out += '\\';
            out += ESCAPES[which];
        } else if (uint8_t(one) < 0x20) {
            const char* digits = "0123456789abcdef";
            out += "\\u00";
            out += digits[uint8_t(one) >> 4];
            out += digits[one & 15];
        } else {
            out += one;
        }
    }
    return out + '"';
}

}  // namespace sgrt
