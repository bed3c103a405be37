// The machine of one vocabulary: arena, derivatives, liveness, completions, registers' search and masks.
#pragma once

#include <algorithm>
#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <unordered_set>

#include "node_table.hpp"
#include "registers.hpp"
#include "schema.hpp"
#include "trie.hpp"

namespace sgrt {

struct Limits {
    int64_t max_states = 1000000;
    int64_t max_mask_nodes = 20000000;
    int64_t max_bytes = int64_t(1) << 30;
};

// What one operation has used so far, and what it says at its end. An operation runs in one thread, if in several
// calls: other threads' calls come between them.
struct Budget {
    double limit_s = 1e300, deadline = -1;
    int64_t states = 0, visited = 0, bytes = 0;
    uint32_t ticks = 0;
    bool is_brief = false;          // gives up, to be called again otherwise, where the work turns out to be long
    std::string message;            // of the last error
    int32_t pending = -1;           // deferred expression the operation waits for; with a schema, the node of its value
    int32_t pending_schema = -1;
    uint32_t needed = 0;            // of the last budget error

    void start(double time_s);
};
struct NotBrief {};

// Bump allocation for what lives as long as the machine.
class Pool {
public:
    template <class T> T* make(size_t count) {
        size_t bytes = (count * sizeof(T) + 15) & ~size_t(15);
        if (bytes > left_) {
            left_ = bytes > CHUNK ? bytes : CHUNK;
            chunks_.emplace_back(new char[left_]);
            next_ = chunks_.back().get();
            held_ += left_;
        }
        T* out = reinterpret_cast<T*>(next_);
        next_ += bytes;
        left_ -= bytes;
        return out;
    }
    size_t held() const { return held_; }

private:
    static constexpr size_t CHUNK = 1 << 20;
    std::vector<std::unique_ptr<char[]>> chunks_;
    char* next_ = nullptr;
    size_t left_ = 0, held_ = 0;
};

// One text a node denotes: own symbols in front of a shared tail.
struct Completion {
    std::vector<int32_t> symbols;   // bytes, or FIRST_SPECIAL + token
    std::vector<uint32_t> costs;    // costs[i]: tokens from own symbol i to the end of the tail
    const Completion* tail = nullptr;
    uint32_t length = 0;            // symbols in all
    uint32_t cost = 0;              // tokens in all
    uint8_t uses = 0;               // USES_* below
};
constexpr int32_t COUNT_MARGIN = 16;    // bodies beyond a token's bytes for which a bound is still minded
constexpr uint8_t USES_OPEN_CAPTURE = 1, USES_NEW_CAPTURE = 2;

// A partition of the bytes within whose parts the derivatives of a node are equal.
struct Partition {
    uint8_t class_of[256];
    std::vector<std::vector<uint8_t>> members;
};

using Actions = std::vector<uint8_t>;

struct Thread {
    Id node;
    RegistersPtr registers;
};
using Threads = std::vector<Thread>;

// Of the inside tokens those that end in another state than most do.
struct EndIndex {
    std::vector<Id> ends;               // most tokens end in `ends[common]`
    uint16_t common = 0;
    std::vector<int32_t> tokens;        // the others, ascending
    std::vector<uint16_t> end_of;       // of `tokens`: an index into `ends`

    uint16_t end(int32_t token) const {
        const auto found = std::lower_bound(tokens.begin(), tokens.end(), token);
        return found != tokens.end() && *found == token ? end_of[size_t(found - tokens.begin())] : common;
    }
};

// The tokens that stay inside a regular head, and a trie of those that may leave it.
struct Split {
    Id head = 0;                        // what was walked: the head itself, or an equal one for these tokens
    std::vector<uint32_t> row;
    std::vector<int32_t> few;           // in place of a row, sorted, where they are few (inside.cc)
    bool has_nullable_end = false;      // of those
    std::vector<Id> ends;               // distinct states after inside tokens, but for those in `outer`
    bool has_all_ends = true;           // else they are found when a budget asks
    bool has_cost_ends = true;          // whether `ends` are known as far as what completes them is asked
    std::vector<std::pair<int32_t, Id>> outer;  // tokens beyond the first part of the head, or
                                                // to its end, and the states after them
    const Trie* residual = nullptr;
    Split* base = nullptr;              // the split this one was copied from, but for `patched` first bytes
    std::vector<uint8_t> patched;
    std::unique_ptr<EndIndex> index;    // built for budgets that some of these tokens fit into
};

// Whether what follows may run out of distinct texts: not soon; only by the end of the capture that is open now,
// which passes if no recorded text starts like it; otherwise.
enum Tightness : int8_t { LOOSE, PENDING, TIGHT };

// What a matcher must know of an inside part of a mask to apply a budget.
struct DensePart {
    Split* split;
    Id asked, tail;                     // the head and the tail it was asked for
    bool is_by_token = false;           // whether `ends` are those of the split's index, so that each token's is known
    std::vector<Id> ends;
    std::vector<uint32_t> costs;        // by end
    std::vector<uint8_t> uses;
};

struct NodeMask {
    Id id = 0;
    // The tokens that end no capture: a row, which may be that of a split, and more tokens beside it.
    const std::vector<uint32_t>* base = nullptr;    // null: empty
    std::vector<uint32_t> own;
    const std::vector<int32_t>* few = nullptr;      // of a split, and sorted; null: none
    std::vector<int32_t> more;
    std::vector<int32_t> single, multiple, tight;   // see automaton/walk.py
    std::vector<DensePart> dense;
    // Built when a budget is asked for: what each token outside the dense parts leads to, and what that costs.
    bool has_costs = false, has_targets = false;
    std::vector<int32_t> tokens;
    std::vector<Id> targets;
    std::vector<uint32_t> costs;
    std::vector<uint8_t> uses;
    uint32_t highest_cost = 0;
    bool uses_registers = false;

    bool has(int32_t token) const {
        const size_t word = size_t(token) >> 5;
        return (base && (*base)[word] >> (token & 31) & 1) || std::binary_search(more.begin(), more.end(), token) ||
               (few && std::binary_search(few->begin(), few->end(), token));
    }
    void allow(int32_t token);
    void allow_all(const std::vector<uint32_t>& row);
    void make_own(size_t words);                        // so that `allow` sets bits
    void finish(size_t words);
    void write(uint32_t* out, size_t words, bool is_first, bool with_single) const;     // over `out`, or into it
};

struct WalkSpace;

class Machine {
public:
    Machine(Vocabulary vocabulary, Limits limits);

    // Arena (arena.cc): constructors that intern nodes in a normal form; automaton/arena.py explains them.
    Node& node(Id id) { return nodes_[id]; }
    Id literal(const uint8_t* data, int32_t size);
    Id byte_set(const Bits& members);
    Id action(Action action) { return actions_[action]; }
    Id deferred(int32_t number);
    Id special(int32_t token);
    Id scope(Id body);
    Id distinct(Id body, Action end);
    Id guarded(int32_t actions, Id target);
    Id concatenation(Id head, Id tail);
    Id alternation(std::vector<Id> options);
    Id repetition(Id body, int64_t low, int64_t high);
    Id intersection(std::vector<Id> parts);
    Id complement(Id body);
    int32_t intern_actions(const Actions& actions);
    const Actions& actions(int32_t number) const { return *action_list_[number]; }
    size_t num_nodes() const { return nodes_.size(); }

    // Expressions (program.cc).
    Id build(const uint8_t* program, size_t size, std::vector<Id>& results);
    void define(int32_t number, Id target);
    Id unfold(Id id);
    Id unfold_shorter(Id id);
    Id defined(int32_t number);

    // Members in order (members.cc). Their states are deferred nodes of our own making: `a` is the table's number + 1.
    struct MemberTable {
        std::vector<std::vector<uint8_t>> names;
        std::vector<Id> values;             // of the members; then what is between name and value, between members, at the end, free
        std::vector<int32_t> by_name;       // places in the order of the names
        std::vector<int32_t> next_required; // from each place on; `size()`: none
        int32_t sound_from = 0;

        int32_t size() const { return int32_t(names.size()); }
        Id between() const { return values[names.size()]; }
        Id separator() const { return values[names.size() + 1]; }
        Id end() const { return values[names.size() + 2]; }
        Id free() const { return values[names.size() + 3]; }
    };
    Id members(MemberTable table, const uint8_t* required);
    Id unfold_members(Id id);
    Id shortest_members(Id id);
    bool is_key_choice(const Node& n) const { return n.kind == DEFERRED && n.a && n.b >= 0; }
    Bits first_of_keys(const Node& n) const;
    Id key_option(Id id, uint8_t byte);     // of a choice of keys those that go on with `byte`

    // Values of schemas (plain.cc). Their states are deferred nodes too: `b` is the schema's number + 1, `low` the place.
    int32_t add_spelling(const Spelling& spelling);
    int32_t add_schema(int32_t spelling, std::string text, bool hides_siblings);
    Id schema_value(int32_t schema, int32_t place);
    Id schema_value(int32_t schema, std::string_view pointer);
    Id unfold_value(Id id);
    void define_value(Id id, Id value);
    std::string pointer(Id id) const;       // of a value

    // Derivatives (derive.cc, derive_text.cc).
    const std::vector<int32_t>& passes(Id id);
    bool is_nullable(Id id) { return !passes(id).empty(); }
    const Bits& first(Id id);
    const std::vector<int32_t>& specials(Id id);
    Id derive(Id id, int32_t symbol);
    Id derive_text(Id id, const uint8_t* bytes, int32_t count, int32_t& taken);
    Id derive_all(Id id, const uint8_t* bytes, int32_t count, int32_t& taken);
    const Partition& partition(Id id);

    // Liveness (liveness.cc).
    bool is_alive(Id id) {
        int8_t known = node(id).alive;
        return known >= 0 ? known : decide_alive(id);
    }

    // Completions (completion.cc).
    const Completion* completion(Id id);
    uint32_t cost_of(const std::vector<int32_t>& symbols);
    std::vector<int32_t> tokens_of(const std::vector<int32_t>& symbols);
    std::vector<int32_t> symbols_of(const Completion* completion) const;
    std::vector<int32_t> tokens_of(const Completion* completion) const;

    // Threads and searches under registers (simulation.cc, search.cc).
    struct Stripped {
        Id whole, plain;
        uint8_t flags;
        std::vector<std::pair<int32_t, Id>> guards;
    };
    const Stripped& strip(Id id);
    void step(const Threads& threads, int32_t symbol, const std::vector<uint8_t>& text, Threads& out);
    bool accepts(const Threads& threads, const std::vector<uint8_t>& text);
    bool is_live(const Thread& thread, const std::vector<uint8_t>& text);
    void keep_live(Threads& threads, const std::vector<uint8_t>& text);
    Tightness tightness(Id id);
    Tightness tightness(Id head, Id tail);
    bool find_completion(const Thread& thread, const std::vector<uint8_t>& text, std::vector<int32_t>& symbols);
    bool holds(const Thread& thread, const std::vector<int32_t>& symbols, std::vector<uint8_t> text);

    // Masks (walk.cc, split.cc, budget.cc).
    NodeMask& mask(Id id);
    void ensure_costs(Id id, NodeMask& mask);
    void ensure_end_costs(NodeMask& mask, DensePart& part);
    void ensure_token_ends(NodeMask& mask, DensePart& part);
    Id end_inside(const Split& split, int32_t token);
    void clear_masks();

    std::unique_ptr<WalkSpace> take_space();
    void return_space(std::unique_ptr<WalkSpace> space);

    void tick();
    void takes(size_t bytes);
    void visited(int64_t trie_nodes);
    size_t num_bytes() const;

    const Vocabulary vocabulary;
    const Trie trie;
    const int32_t words;            // of a mask row
    Bits alphabet;                  // bytes a token of their own spells
    std::mutex mutex;
    Budget* budget;                 // of the operation that runs now

private:
    friend struct Walk;
    template <class Done, class Step> void evaluate(int bit, Id root, Done done, Step step);

    Id after_member(int32_t table, int32_t place);
    Id member_keys(int32_t table, int32_t place);
    Id member_keys(int32_t table, int32_t begin, int32_t end, int32_t depth, int32_t low, int32_t high);
    Id member(int32_t table, int32_t place, int32_t depth);
    bool is_evident(const MemberTable& table, int32_t place) const;

    Id later_value(int32_t schema, int32_t place);

    Id intern(Node& probe, uint64_t hash);
    Id intern_deferred(Node& probe);
    Id intern_parts(Kind kind, std::vector<Id>& parts);
    Id pair(Id head, Id tail);
    Id wrap(Kind kind, Id body, Id begin, Id end);
    void fill_facts(Node& node);
    void fill_eagerly(Node& node);
    void fill_first(Node& node);
    std::vector<Id> merged(std::vector<Id> options);
    std::vector<Id> joined(const std::vector<Id>& heads);
    bool same(const Node& left, const Node& right) const;

    void passes_step(Id id, std::vector<Id>& missing);
    void first_step(Id id, std::vector<Id>& missing);
    void specials_step(Id id, std::vector<Id>& missing);
    void derive_step(Id id, int32_t symbol, std::vector<Id>& missing);
    void derive_concatenation(Node& n, Id id, int32_t symbol, std::vector<Id>& missing);
    Id derive_head(const Node& n, Id id, const uint8_t* bytes, int32_t count, int32_t& taken, bool& is_guarded);
    void classes_step(Id id, std::vector<Id>& missing);
    Id known(const Node& n, int32_t symbol, Id id) const;
    void remember(Id id, int32_t symbol, Id target);
    bool may_start(Id id, int32_t symbol);
    bool is_refused(Id id, int32_t symbol);
    int32_t intern_ways(std::vector<int32_t> ways);
    int32_t intern_partition(const uint8_t* class_of);
    int32_t refined(int32_t left, int32_t right);

    bool decide_alive(Id id);
    bool is_satisfiable_scope(Id scope);
    std::vector<Id> open_scopes;    // whose satisfiability is being decided
    int leaf_alive(Id id);
    bool explore(Id id);
    int search_accepting(Id id, size_t most);

    Completion* make_completion(std::vector<int32_t> symbols, const Completion* tail, uint8_t uses);
    const Completion* leaf_completion(Id id);
    const Completion* shortest_word(Id id);
    const Completion* joined_completion(const Completion* head, const Completion* tail);
    int liked(const Bits& members) const;
    bool search(const Thread& thread, const std::vector<uint8_t>& text, std::vector<int32_t>& symbols);
    Tightness visible_tightness(Id id, int depth);
    Tightness decide_tight(Id id, bool is_head, int depth);
    Tightness chain_tightness(std::vector<Id> run, Id at, bool is_head, int depth);
    bool is_small(const std::vector<Id>& run);
    int64_t count_words(Id id, int depth, std::unordered_set<Id>& open);

    struct Inside {
        bool is_met = false, is_refused = false;
        std::unique_ptr<Split> split;
    };
    struct HashOfBits {
        size_t operator()(const Bits& bits) const {
            uint64_t hash = 0;
            for (uint64_t word : bits.word) hash = (hash ^ word) * 0x9E3779B97F4A7C15ull ^ hash >> 29;
            return size_t(hash ^ hash >> 32);
        }
    };
    int32_t following_number(const Bits& following);
    uint64_t split_key(Id head, const Bits& following);
    const Split* inside(Id id);
    const Split* inside(Id head, const Bits& following);
    bool is_apart(const Node& n);
    bool split_few(Split& out, const Bits& following);
    bool is_loose_inside(const Split& parts, Id tail);

    struct SplitWalk;
    Split& split(Id head, const Bits& following);
    bool is_split_known(Id head, const Bits& following) { return splits_.count(split_key(head, following)) > 0; }
    void split_plainly(Split& out, const Bits& following);
    Bits differing(Id id, Id other);
    bool split_from_base(Split& out, const Bits& following);
    bool split_by_slices(Split& out, const Bits& following);
    bool split_by_parts(Split& out, const Bits& following);
    bool split_by_bounds(Split& out, const Bits& following);
    Id capped(Id head);
    struct Lifted {
        Id head;
        int64_t margin;     // bytes
    };
    Lifted lifted(Id id);
    int64_t longest_completion(Id root);
    const EndIndex& end_index(Split& split);
    bool is_sequence_of_base(const Split& split) {  // else it was copied from it
        return split.base && node(split.head).kind == CONCATENATION && split.base->head != split.head && split.patched.empty();
    }
    bool known_ends(const Split& split, std::vector<Id>& out);
    bool find_states(Id from, std::vector<Id>& out);
    bool counted_ends(Id head, std::vector<Id>& out);
    void add_cost(Id target, NodeMask& mask, std::vector<uint32_t>& costs, std::vector<uint8_t>& uses);
    void compute_mask(Id id, NodeMask& mask);
    std::vector<Id> choices(Id id);
    void add_dense(Id id, NodeMask& mask);
    void add_specials(Id id, NodeMask& mask);
    void note_targets(Id id, NodeMask& mask);
    template <class Note> void note_dense(Id id, NodeMask& mask, Note note);
    bool has_tight_end(Id head, const Split& split, Id tail);
    void add_split(const Split& split, Id tail, NodeMask& mask);
    const Trie* residual_trie(std::vector<int32_t> tokens);

    Limits limits_;
    Pool pool_;
    NodeTable nodes_;
    Id actions_[5];
    Id everything_ = 0;
    std::vector<const Actions*> action_list_;
    std::unordered_map<std::string, int32_t> action_numbers_;
    std::vector<const std::vector<int32_t>*> ways_;
    std::unordered_map<std::string, int32_t> way_numbers_;
    std::vector<std::unique_ptr<Partition>> partitions_;
    std::unordered_map<std::string, int32_t> partition_numbers_;
    std::unordered_map<uint64_t, int32_t> refinements_;
    std::unordered_map<int32_t, Id> definitions_;
    std::vector<MemberTable> tables_;
    std::deque<Spelling> spellings_;
    std::deque<Schema> schemas_;
    std::unordered_map<Id, Id> values_;                 // those that the front end wrote
    std::unordered_map<std::string, Id> scalars_;       // by content
    size_t schema_bytes_ = 0;
    std::unordered_map<uint64_t, Id> special_rows_;
    std::unordered_map<uint64_t, Tightness> tights_;
    std::unordered_map<Id, std::unique_ptr<Stripped>> stripped_;
    std::deque<Completion> completions_;
    std::deque<std::vector<int32_t>> special_lists_;
    std::unordered_map<Bits, int32_t, HashOfBits> followings_;
    std::unordered_map<uint64_t, Inside> insides_;
    std::unordered_map<uint64_t, std::unique_ptr<Split>> splits_;
    std::unordered_map<std::string, const Trie*> residual_numbers_;
    std::vector<std::unique_ptr<Trie>> residuals_;
    std::unordered_map<Id, Id> capped_;
    std::unordered_map<Id, Lifted> lifted_;
    std::unordered_map<Id, int64_t> longest_;
    struct Slices {
        bool is_simple = true;
        std::vector<std::vector<uint32_t>> rows;        // by bound: tokens that begin no more bodies
    };
    std::unordered_map<Id, std::unique_ptr<Slices>> slices_;
    Slices& slices(Id body);
    bool count_bodies(Id body, std::vector<std::vector<int32_t>>& by_count);
    std::unordered_map<Id, Bits> loops_;
    const Bits& loops(Id id);
    bool stays_below(Id id, int32_t at);
    std::vector<std::unique_ptr<NodeMask>> masks_;
    std::vector<std::unique_ptr<WalkSpace>> spaces_;
    std::vector<Id> stacks_[5];
    std::vector<Id> missing_[5];
    size_t mask_bytes_ = 0;
    Budget first_budget_;
    const std::vector<int32_t> no_specials_;
    int32_t horizon_ = 0;           // bytes of the longest token
    int base_depth_ = 0;            // of splits copied from one another
    bool spells_ascii_ = true;      // every printable byte is a token

public:
    ~Machine();
};

// Evaluate `root` after its operands without recursion; needing an operand that waits is left recursion.
template <class Done, class Step> void Machine::evaluate(int bit, Id root, Done done, Step step) {
    std::vector<Id>& stack = stacks_[bit];
    std::vector<Id>& missing = missing_[bit];
    const size_t base = stack.size();
    const uint8_t mark = uint8_t(1 << bit);
    struct Cleaner {
        Machine& machine;
        std::vector<Id>& stack;
        size_t base;
        uint8_t mark;
        ~Cleaner() {
            for (size_t i = base; i < stack.size(); i++) machine.node(stack[i]).waiting &= uint8_t(~mark);
            stack.resize(base);
        }
    } cleaner{*this, stack, base, mark};
    stack.push_back(root);
    while (stack.size() > base) {
        Id id = stack.back();
        if (done(id)) {
            node(id).waiting &= uint8_t(~mark);
            stack.pop_back();
            continue;
        }
        missing.clear();
        step(id, missing);
        if (missing.empty()) continue;
        node(id).waiting |= mark;
        for (Id operand : missing) {
            if (node(operand).waiting & mark)
                throw InvalidExpression("a rule is left-recursive: it refers to itself before any text");
            stack.push_back(operand);
        }
        tick();
    }
}

}  // namespace sgrt
