#include "registers.hpp"

#include <functional>

namespace sgrt {

static bool is_recorded(const ScopeRegister& scope, const std::string& text, size_t hash) {
    for (const Record* record = scope.recorded.get(); record; record = record->older.get())
        if (record->hash == hash && record->text == text) return true;
    return false;
}

bool apply_actions(const std::vector<uint8_t>& actions, const std::vector<uint8_t>& text, RegistersPtr& registers) {
    std::shared_ptr<const ScopeRegister> scope = registers ? registers->scope : nullptr;
    std::shared_ptr<const Capture> capture = registers ? registers->capture : nullptr;
    for (uint8_t action : actions) {
        if (action == ENTER) {
            scope = std::make_shared<ScopeRegister>(ScopeRegister{nullptr, 0, scope ? scope->depth + 1 : 0, scope});
        } else if (action == EXIT) {
            if (scope) scope = scope->outer;
        } else if (action == BEGIN) {
            capture = std::make_shared<Capture>(Capture{int64_t(text.size()), scope ? scope->depth : -1, capture});
        } else {
            if (!capture) throw InvalidExpression("a capture ends only after it began");
            const uint8_t* start = text.data() + capture->start;
            const size_t size = text.size() - size_t(capture->start);
            capture = capture->outer;
            if (!scope) continue;
            std::string captured = action == END_JSON ? canonical_json(start, size)
                                                      : std::string(reinterpret_cast<const char*>(start), size);
            const size_t hash = std::hash<std::string>()(captured);
            if (is_recorded(*scope, captured, hash)) return false;
            auto record = std::make_shared<Record>(Record{std::move(captured), hash, scope->recorded});
            scope = std::make_shared<ScopeRegister>(
                ScopeRegister{record, scope->count + 1, scope->depth, scope->outer});
        }
    }
    registers = scope || capture ? std::make_shared<Registers>(Registers{scope, capture}) : nullptr;
    return true;
}

static bool same_scopes(const ScopeRegister* left, const ScopeRegister* right) {
    for (; left && right; left = left->outer.get(), right = right->outer.get()) {
        if (left == right) return true;
        if (left->recorded == right->recorded) continue;
        if (left->count != right->count) return false;
        for (const Record* record = left->recorded.get(); record; record = record->older.get())
            if (!is_recorded(*right, record->text, record->hash)) return false;
    }
    return left == right;
}

static bool same_captures(const Capture* left, const Capture* right) {
    for (; left && right; left = left->outer.get(), right = right->outer.get()) {
        if (left == right) return true;
        if (left->start != right->start || left->depth != right->depth) return false;
    }
    return left == right;
}

bool same_registers(const RegistersPtr& left, const RegistersPtr& right) {
    if (left == right) return true;
    if (!left || !right) return false;
    return same_captures(left->capture.get(), right->capture.get()) &&
           same_scopes(left->scope.get(), right->scope.get());
}

int32_t num_recorded(const RegistersPtr& registers) {
    int32_t total = 0;
    for (const ScopeRegister* scope = registers ? registers->scope.get() : nullptr; scope; scope = scope->outer.get())
        total += scope->count;
    return total;
}

const ScopeRegister* capturing_scope(const Registers& registers) {
    const ScopeRegister* scope = registers.scope.get();
    while (registers.capture && scope && scope->depth > registers.capture->depth) scope = scope->outer.get();
    return scope;
}

bool find_plain_string(const Registers& registers, const std::vector<uint8_t>& text, PlainString& out) {
    const Capture* capture = registers.capture.get();
    if (!capture || size_t(capture->start) >= text.size() || text[size_t(capture->start)] != '"') return false;
    const char* start = reinterpret_cast<const char*>(text.data()) + capture->start;
    const size_t size = text.size() - size_t(capture->start);
    if (memchr(start, '\\', size)) return false;
    const void* closing = memchr(start + 1, '"', size - 1);
    out = {start, closing ? size_t(static_cast<const char*>(closing) - start) : size, closing != nullptr};
    return true;
}

// A plain string cannot repeat a recorded text that does not start like it. Anything else may collide.
bool may_collide(const RegistersPtr& registers, const std::vector<uint8_t>& text) {
    const ScopeRegister* scope = registers ? capturing_scope(*registers) : nullptr;
    if (!scope || !scope->recorded) return false;
    PlainString captured;
    if (!find_plain_string(*registers, text, captured)) return true;
    for (const Record* record = scope->recorded.get(); record; record = record->older.get())
        if (record->text.empty() || record->text[0] != '"' ||
            !record->text.compare(0, captured.size, captured.start, captured.size))
            return true;
    return false;
}

}  // namespace sgrt
