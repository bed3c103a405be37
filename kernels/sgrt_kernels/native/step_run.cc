#include "step_run.h"

#include <cmath>
#include <cstring>

#include "attention_sealed.h"
#include "pack.h"
#include "page_seal.h"

namespace sgrt {

namespace {

constexpr int kRepeatedRows = 4;  // rows that every thread prepares for itself
constexpr int kRowsPerShare = 4;

PackedMatrix as_packed(const SgrtMatrix& matrix) {
    return {matrix.data, matrix.rows, matrix.columns, static_cast<Kind>(matrix.kind)};
}

// Store up to 16 values of a row that ends at `columns`.
void store_within(float* row, int first, int columns, f32x16 values) {
    if (first + kLanes <= columns) {
        store(row + first, values);
        return;
    }
    float lanes[kLanes];
    store(lanes, values);
    std::memcpy(row + first, lanes, sizeof(float) * static_cast<size_t>(columns - first));
}

void write_page(PageType type, void* pages, size_t element, const float* x, int count) {
    if (type == PageType::kF32) {
        std::memcpy(static_cast<float*>(pages) + element, x, sizeof(float) * static_cast<size_t>(count));
        return;
    }
    uint16_t* out = static_cast<uint16_t*>(pages) + element;
    for (int i = 0; i < count; ++i) out[i] = to_bf16(x[i]);
}

// What a page may hold: NaN becomes 0, and what is too large (layout.LARGEST_KEY_VALUE) the largest.
void make_storable(float* x, int count) {
    constexpr float kLargest = 65504.0f;
    for (int i = 0; i < count; ++i) {
        const float clamped = std::min(std::max(x[i], -kLargest), kLargest);
        x[i] = x[i] == x[i] ? clamped : 0.0f;
    }
}

}  // namespace

StepRun::StepRun(Decoder& decoder, const SgrtStep& step)
    : decoder_(decoder), team_(decoder.team_), model_(decoder.model_), step_(step) {
    shape_ = {model_.heads,     model_.kv_heads, model_.head_dim, step.page_tokens, static_cast<PageType>(step.page_type),
              model_.attention_soft_cap};
    hidden_ = static_cast<size_t>(model_.hidden);
    query_width_ = static_cast<size_t>(model_.heads) * static_cast<size_t>(model_.head_dim);
    kv_width_ = static_cast<size_t>(model_.kv_heads) * static_cast<size_t>(model_.head_dim);
    qkv_width_ = query_width_ + 2 * kv_width_;
    int partials = 0;
    for (size_t i = 0; i < decoder.plans_.size(); ++i) {
        decoder.plans_[i].build(step.tokens, step.sequences, step.query_starts, step.context_lengths, step.page_table,
                                step.max_pages, step.page_tokens, decoder.windows_[i], tile_tokens(shape_),
                                step.seals != nullptr);
        decoder.plans_[i].share_out(shape_.kv_heads, team_.size());
        partials = std::max(partials, decoder.plans_[i].partials);
    }
    const size_t tokens = static_cast<size_t>(step.tokens);
    StepBuffers& buffers = decoder.buffers_;
    residual_ = buffers.residual.floats(tokens * hidden_);
    sublayer_ = buffers.sublayer.floats(tokens * hidden_);
    qkv_ = buffers.qkv.floats(tokens * qkv_width_);
    attended_ = buffers.attended.floats(tokens * query_width_);
    partials_ = buffers.partials.floats(static_cast<size_t>(partials) * partial_stride(shape_));
    bent_ = buffers.bent.bytes(Activations::bytes(step.tokens, model_.intermediate));
    rope_ = buffers.rope.floats(tokens * static_cast<size_t>(model_.head_dim) * decoder.ropes_.size());
    const size_t widest = std::max(hidden_, query_width_);
    const int rows = std::max(step.tokens, step.rows);
    shared_ = buffers.shared.bytes(Activations::bytes(rows, static_cast<int>(widest)));
    if (step.largest != nullptr) {
        const size_t parts = static_cast<size_t>(step.rows) * static_cast<size_t>(largest_parts(step.candidates));
        largest_ = reinterpret_cast<Largest*>(buffers.largest.bytes(parts * sizeof(Largest)));
    }
    // Threads find their own buffers large enough: nothing is allocated, and nothing can fail, inside `run`.
    for (const auto& own : decoder.own_) {
        own->row.floats(widest);
        own->activations.bytes(Activations::bytes(kRepeatedRows, static_cast<int>(widest)));
        own->scratch.floats(scratch_floats());
    }
}

size_t StepRun::scratch_floats() const {
    if (step_.seals == nullptr) return attention_scratch(shape_);
    return std::max(sealed_scratch(shape_), seal_scratch(shape_));
}

void StepRun::run(int thread) {
    embed(thread);
    for (int layer = 0; layer < model_.layer_count; ++layer) {
        attention(thread, layer);
        feed_forward(thread, layer);
    }
    predict(thread);
}

void StepRun::embed(int thread) {
    const PackedMatrix table = as_packed(model_.embedding);
    const int half = model_.head_dim / 2;
    for (int token; (token = team_.claim(thread, step_.tokens)) != ThreadTeam::kNone;) {
        float* x = residual(token);
        unpack_row(table, static_cast<int>(step_.token_ids[token]), x);
        if (model_.embedding_scale != 1.0f) {
            for (size_t i = 0; i < hidden_; ++i) x[i] *= model_.embedding_scale;
        }
        for (size_t r = 0; r < decoder_.ropes_.size(); ++r) {
            const SgrtRope& rope = decoder_.ropes_[r];
            float* table_row = rope_ + (r * static_cast<size_t>(step_.tokens) + static_cast<size_t>(token)) *
                                           static_cast<size_t>(model_.head_dim);
            for (int i = 0; i < half; ++i) {
                const double angle = static_cast<double>(step_.positions[token]) * rope.frequencies[i];
                table_row[i] = static_cast<float>(std::cos(angle) * rope.amplitude);
                table_row[half + i] = static_cast<float>(std::sin(angle) * rope.amplitude);
            }
        }
    }
    team_.barrier(thread);
}

template <typename Source>
Activations StepRun::prepare(int thread, int rows, int columns, bool can_repeat, Source source) {
    ThreadBuffers& own = *decoder_.own_[static_cast<size_t>(thread)];
    float* spare = own.row.floats(static_cast<size_t>(columns));
    Activations a;
    a.quantizes = decoder_.has_quantized_;
    a.keeps_floats = decoder_.has_floats_;
    if (rows <= kRepeatedRows && can_repeat) {
        a.bind(own.activations.bytes(Activations::bytes(rows, columns)), rows, columns);
        for (int row = 0; row < rows; ++row) a.put(row, source(row, spare));
        return a;
    }
    a.bind(shared_, rows, columns);
    const int shares = (rows + kRowsPerShare - 1) / kRowsPerShare;
    for (int share; (share = team_.claim(thread, shares)) != ThreadTeam::kNone;) {
        const int last = std::min(rows, (share + 1) * kRowsPerShare);
        for (int row = share * kRowsPerShare; row < last; ++row) a.put(row, source(row, spare));
    }
    team_.barrier(thread);
    return a;
}

// The residual row, with the last sublayer's output added if it waits for its norm, normed into `spare`.
const float* StepRun::normed_residual(int row, const float* post_norm, const float* norm, float* spare) {
    const int columns = model_.hidden;
    const float* x = summed_residual(row, post_norm, spare);
    if (post_norm != nullptr) std::memcpy(residual(row), spare, sizeof(float) * hidden_);
    rms_norm_row(x, norm, model_.epsilon, columns, spare);
    return spare;
}

const float* StepRun::summed_residual(int row, const float* post_norm, float* spare) {
    if (post_norm == nullptr) return residual(row);
    const float* waiting = sublayer_ + static_cast<size_t>(row) * hidden_;
    rms_norm_row(waiting, post_norm, model_.epsilon, model_.hidden, spare);
    add_row(spare, residual(row), model_.hidden);
    return spare;
}

void StepRun::add_output(int thread, const PackedMatrix& matrix, const Activations& a, const float* bias,
                         const float* post_norm) {
    multiply_all(team_, thread, &matrix, 1, a, [&](int, int token, int row, f32x16 values) {
        if (bias != nullptr) values = add(values, load(bias + row));
        if (post_norm != nullptr) {
            store(sublayer_ + static_cast<size_t>(token) * hidden_ + row, values);
        } else {
            float* x = residual(token) + row;
            store(x, add(load(x), values));
        }
    });
    team_.barrier(thread);
}

void StepRun::attention(int thread, int layer) {
    const SgrtLayer& weights = decoder_.layers_[static_cast<size_t>(layer)];
    const float* post_norm = layer == 0 ? nullptr : decoder_.layers_[static_cast<size_t>(layer - 1)].post_mlp_norm;
    const Activations normed =
        prepare(thread, step_.tokens, model_.hidden, post_norm == nullptr, [&](int row, float* spare) {
            return normed_residual(row, post_norm, weights.attention_norm, spare);
        });
    const PackedMatrix matrices[3] = {as_packed(weights.query), as_packed(weights.key), as_packed(weights.value)};
    const float* biases[3] = {weights.query_bias, weights.key_bias, weights.value_bias};
    const size_t starts[3] = {0, query_width_, query_width_ + kv_width_};
    multiply_all(team_, thread, matrices, 3, normed, [&](int m, int token, int row, f32x16 values) {
        if (biases[m] != nullptr) values = add(values, load(biases[m] + row));
        store(qkv_ + static_cast<size_t>(token) * qkv_width_ + starts[m] + static_cast<size_t>(row), values);
    });
    team_.barrier(thread);
    rotate_and_store(thread, layer);
    if (step_.seals != nullptr && step_.seals->count > 0) seal_all(thread, layer);
    attend_all(thread, layer);
    const AttentionPlan& plan = decoder_.plans_[static_cast<size_t>(decoder_.plan_of_layer_[static_cast<size_t>(layer)])];
    const Activations attended =
        prepare(thread, step_.tokens, static_cast<int>(query_width_), true, [&](int row, float* spare) -> const float* {
            if (plan.first_partial[static_cast<size_t>(row)] < 0)
                return attended_ + static_cast<size_t>(row) * query_width_;
            merge_partials(shape_, plan, row, partials_, spare);
            return spare;
        });
    add_output(thread, as_packed(weights.attention_output), attended, weights.attention_output_bias,
               weights.post_attention_norm);
}

void StepRun::rotate_and_store(int thread, int layer) {
    const int units = step_.tokens * model_.kv_heads;
    const int per_share = std::clamp(units / (team_.size() * 8), 1, 32);
    const int shares = (units + per_share - 1) / per_share;
    for (int share; (share = team_.claim(thread, shares)) != ThreadTeam::kNone;) {
        const int last = std::min(units, (share + 1) * per_share);
        for (int unit = share * per_share; unit < last; ++unit)
            rotate_heads(unit / model_.kv_heads, unit % model_.kv_heads, layer);
    }
    team_.barrier(thread);
}

void StepRun::rotate_heads(int token, int kv_head, int layer) {
    const SgrtLayer& weights = decoder_.layers_[static_cast<size_t>(layer)];
    const int head_dim = model_.head_dim, group = shape_.group();
    const size_t width = static_cast<size_t>(head_dim);
    float* row = qkv_ + static_cast<size_t>(token) * qkv_width_;
    const float* cosines = rope_ + (static_cast<size_t>(weights.rope) * static_cast<size_t>(step_.tokens) +
                                    static_cast<size_t>(token)) * width;
    const float* sines = cosines + head_dim / 2;
    for (int i = 0; i < group; ++i) {
        float* query = row + static_cast<size_t>(kv_head * group + i) * width;
        if (weights.query_norm != nullptr) rms_norm_row(query, weights.query_norm, model_.epsilon, head_dim, query);
        rotate_head(query, cosines, sines, head_dim / 2, model_.query_scale);
    }
    float* key = row + query_width_ + static_cast<size_t>(kv_head) * width;
    float* value = row + query_width_ + kv_width_ + static_cast<size_t>(kv_head) * width;
    if (weights.key_norm != nullptr) rms_norm_row(key, weights.key_norm, model_.epsilon, head_dim, key);
    rotate_head(key, cosines, sines, head_dim / 2, 1.0f);
    make_storable(key, head_dim);
    make_storable(value, head_dim);
    if (shape_.page_type == PageType::kInteger) {
        write_token(shape_.integer_layout(), step_.keys[layer], step_.values[layer],
                    static_cast<size_t>(step_.slots[token]), kv_head, key, value);
        return;
    }
    const size_t element =
        (static_cast<size_t>(step_.slots[token]) * static_cast<size_t>(model_.kv_heads) + static_cast<size_t>(kv_head)) *
        width;
    write_page(shape_.page_type, step_.keys[layer], element, key, head_dim);
    write_page(shape_.page_type, step_.values[layer], element, value, head_dim);
}

void StepRun::attend_all(int thread, int layer) {
    const AttentionPlan& plan = decoder_.plans_[static_cast<size_t>(decoder_.plan_of_layer_[static_cast<size_t>(layer)])];
    float* scratch = decoder_.own_[static_cast<size_t>(thread)]->scratch.floats(scratch_floats());
    const int shares = static_cast<int>(plan.shares.size());
    for (int share; (share = team_.claim(thread, shares)) != ThreadTeam::kNone;)
        attend_share(plan, plan.shares[static_cast<size_t>(share)], layer, scratch);
    team_.barrier(thread);
}

void StepRun::attend_share(const AttentionPlan& plan, const AttentionShare& share, int layer, float* scratch) {
    const AttentionBuffers buffers{qkv_,           qkv_width_,      step_.keys[layer], step_.values[layer],
                                   step_.page_table, step_.max_pages, attended_,         partials_};
    const AttentionItem& item = plan.items[static_cast<size_t>(share.item)];
    if (step_.seals == nullptr) {
        attend(shape_, plan, item, share.first_head, share.last_head, buffers, scratch);
        return;
    }
    const SgrtSeals& seals = *step_.seals;
    const SealedBuffers sealed{buffers, &seals.layers[layer], static_cast<SealedType>(seals.sealed_type),
                               seals.own_pages, seals.max_own_pages};
    attend_sealed(shape_, plan, item, share.first_head, share.last_head, sealed, scratch);
}

// Quantize the pages that this step has filled.
void StepRun::seal_all(int thread, int layer) {
    const SgrtSeals& seals = *step_.seals;
    float* scratch = decoder_.own_[static_cast<size_t>(thread)]->scratch.floats(scratch_floats());
    const int shares = seals.count * shape_.kv_heads;
    for (int share; (share = team_.claim(thread, shares)) != ThreadTeam::kNone;) {
        const int page = share / shape_.kv_heads;
        seal_page(shape_, static_cast<SealedType>(seals.sealed_type), step_.keys[layer], step_.values[layer],
                  static_cast<size_t>(seals.sources[page]), seals.layers[layer], static_cast<size_t>(seals.targets[page]),
                  share % shape_.kv_heads, scratch);
    }
    team_.barrier(thread);
}

void StepRun::feed_forward(int thread, int layer) {
    const SgrtLayer& weights = decoder_.layers_[static_cast<size_t>(layer)];
    const float* post_norm = weights.post_attention_norm;
    const Activations normed =
        prepare(thread, step_.tokens, model_.hidden, post_norm == nullptr, [&](int row, float* spare) {
            return normed_residual(row, post_norm, weights.mlp_norm, spare);
        });
    const Gate gate = static_cast<Gate>(model_.gate);
    Activations bent;
    bent.quantizes = decoder_.has_quantized_;
    bent.keeps_floats = decoder_.has_floats_;
    bent.bind(bent_, step_.tokens, model_.intermediate);
    // Who computes a group rounds it at once, while it is at hand.
    multiply_pair(
        team_, thread, as_packed(weights.gate), as_packed(weights.up), normed,
        [&](f32x16 gates, f32x16 ups) { return gated(gate, gates, ups); },
        [&](int token, int group, const float* values) { bent.put_groups(token, group, 1, values); });
    team_.barrier(thread);
    add_output(thread, as_packed(weights.down), bent, nullptr, weights.post_mlp_norm);
}

void StepRun::predict(int thread) {
    const float* post_norm = decoder_.layers_.back().post_mlp_norm;
    const Activations normed = prepare(thread, step_.rows, model_.hidden, true, [&](int row, float* spare) {
        const float* x = summed_residual(static_cast<int>(step_.logit_rows[row]), post_norm, spare);
        rms_norm_row(x, model_.final_norm, model_.epsilon, model_.hidden, spare);
        return spare;
    });
    const PackedMatrix output = as_packed(model_.output);
    const float cap = model_.logit_soft_cap;
    multiply_all(team_, thread, &output, 1, normed, [&](int, int token, int row, f32x16 values) {
        if (cap != 0.0f) values = mul(splat(cap), hyperbolic_tangent(div(values, splat(cap))));
        store_within(step_.logits + static_cast<size_t>(token) * static_cast<size_t>(model_.vocabulary), row,
                     model_.vocabulary, values);
    });
    if (step_.largest != nullptr) find_largest(thread);
}

// Of every row, in parts, so that all threads have a share of a single row.
void StepRun::find_largest(int thread) {
    team_.barrier(thread);
    const int parts = largest_parts(step_.candidates);
    for (int share; (share = team_.claim(thread, step_.rows * parts)) != ThreadTeam::kNone;) {
        const float* row = step_.logits + static_cast<size_t>(share / parts) * static_cast<size_t>(model_.vocabulary);
        largest_[share] = largest_of(row, share % parts * kLargestPart, step_.candidates);
    }
    team_.barrier(thread);
    if (thread != 0) return;
    for (int row = 0; row < step_.rows; ++row) step_.largest[row] = first_largest(largest_ + row * parts, parts);
}

}  // namespace sgrt
