// Canonical bytes of JSON values: equal exactly when the values are equal.
#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "registers.hpp"

namespace sgrt {
namespace {

struct NotJson {};

struct Container {
    bool is_object;
    bool has_key = false;
    std::string key;
    std::vector<std::string> entries;
};

std::string sized(const std::string& value) { return std::to_string(value.size()) + ":" + value; }

void add(Container& container, std::string value) {
    if (container.is_object && !container.has_key) {
        container.key = std::move(value);
        container.has_key = true;
        return;
    }
    container.entries.push_back(container.is_object ? sized(container.key) + sized(value) : sized(value));
    container.has_key = false;
}

std::string close(Container& container) {
    if (container.is_object) std::sort(container.entries.begin(), container.entries.end());
    std::string out(1, container.is_object ? '{' : '[');
    for (const std::string& entry : container.entries) out += entry;
    return out;
}

struct JsonReader {
    const uint8_t* data;
    size_t size, at = 0;

    uint8_t peek(size_t ahead = 0) const {
        if (at + ahead >= size) throw NotJson();
        return data[at + ahead];
    }

    static void append_character(std::string& out, uint32_t code) {
        if (code < 0x80) {
            out += char(code);
        } else if (code < 0x800) {
            out += char(0xC0 | code >> 6);
            out += char(0x80 | (code & 63));
        } else if (code < 0x10000) {
            out += char(0xE0 | code >> 12);
            out += char(0x80 | (code >> 6 & 63));
            out += char(0x80 | (code & 63));
        } else {
            out += char(0xF0 | code >> 18);
            out += char(0x80 | (code >> 12 & 63));
            out += char(0x80 | (code >> 6 & 63));
            out += char(0x80 | (code & 63));
        }
    }

    uint32_t unit() {
        uint32_t value = 0;
        for (size_t i = 2; i < 6; i++) {
            const uint8_t c = peek(i);
            const int digit = c >= '0' && c <= '9'   ? c - '0'
                              : c >= 'a' && c <= 'f' ? c - 'a' + 10
                              : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                                     : -1;
            if (digit < 0) throw NotJson();
            value = value << 4 | uint32_t(digit);
        }
        at += 6;
        return value;
    }

    std::string string() {
        std::string out(1, '"');
        uint32_t high = 0;
        auto flush = [&] {
            if (high) append_character(out, high);
            high = 0;
        };
        for (at++;;) {
            const uint8_t c = peek();
            if (c == '\\' && peek(1) == 'u') {
                const uint32_t value = unit();
                if (high && value >= 0xDC00 && value < 0xE000) {
                    append_character(out, 0x10000 + ((high - 0xD800) << 10) + (value - 0xDC00));
                    high = 0;
                    continue;
                }
                flush();
                if (value >= 0xD800 && value < 0xDC00) high = value;
                else append_character(out, value);
                continue;
            }
            flush();
            at++;
            if (c == '"') return out;
            if (c != '\\') {
                out += char(c);
                continue;
            }
            const uint8_t escaped = peek();
            at++;
            static const char from[] = "bfnrt", to[] = "\b\f\n\r\t";
            const char* found = escaped ? strchr(from, escaped) : nullptr;
            out += found ? to[found - from] : char(escaped);
        }
    }

    bool is_digit() const { return at < size && data[at] >= '0' && data[at] <= '9'; }

    std::string number() {
        std::string sign, digits;
        if (peek() == '-') {
            sign = "-";
            at++;
        }
        if (!is_digit()) throw NotJson();
        for (; is_digit(); at++) digits += char(data[at]);
        int64_t scale = 0;
        if (at + 1 < size && data[at] == '.' && data[at + 1] >= '0' && data[at + 1] <= '9')
            for (at++; is_digit(); at++, scale--) digits += char(data[at]);
        if (at < size && (data[at] | 32) == 'e') {
            size_t mark = at++;
            int64_t exponent = 0, direction = 1;
            if (at < size && (data[at] == '+' || data[at] == '-')) direction = data[at++] == '-' ? -1 : 1;
            if (!is_digit()) at = mark;
            for (; is_digit(); at++) exponent = std::min<int64_t>(exponent * 10 + (data[at] - '0'), int64_t(1) << 50);
            scale += direction * exponent;
        }
        digits.erase(0, std::min(digits.find_first_not_of('0'), digits.size()));
        while (!digits.empty() && digits.back() == '0') {
            digits.pop_back();
            scale++;
        }
        return digits.empty() ? "0" : sign + digits + "e" + std::to_string(scale);
    }

    std::string scalar() {
        for (const char* word : {"true", "false", "null"}) {
            const size_t length = strlen(word);
            if (size - at >= length && !memcmp(data + at, word, length)) {
                at += length;
                return word;
            }
        }
        return number();
    }

    std::string value() {
        std::vector<Container> stack(1);
        stack[0].is_object = false;
        while (at < size) {
            const uint8_t c = data[at];
            if (c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == ',' || c == ':') {
                at++;
            } else if (c == '{' || c == '[') {
                stack.emplace_back();
                stack.back().is_object = c == '{';
                at++;
            } else if (c == '}' || c == ']') {
                if (stack.size() < 2) throw NotJson();
                std::string closed = close(stack.back());
                stack.pop_back();
                add(stack.back(), std::move(closed));
                at++;
            } else {
                add(stack.back(), c == '"' ? string() : scalar());
            }
        }
        if (stack.size() != 1 || stack[0].entries.size() != 1) throw NotJson();
        std::string only = stack[0].entries[0];
        return only.substr(only.find(':') + 1);
    }
};

}  // namespace

std::string canonical_json(const uint8_t* data, size_t size) {
    try {
        return JsonReader{data, size}.value();
    } catch (const NotJson&) {
        return "?" + std::string(reinterpret_cast<const char*>(data), size);
    }
}

}  // namespace sgrt
