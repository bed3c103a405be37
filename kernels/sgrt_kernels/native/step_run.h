// One step in flight: what every thread of the team executes, phase by phase.
#pragma once

#include "decoder.h"
#include "largest.h"
#include "product.h"

namespace sgrt {

class StepRun {
  public:
    // Sizes all buffers; throws std::bad_alloc.
    StepRun(Decoder& decoder, const SgrtStep& step);

    // To be called by every thread of the team.
    void run(int thread);

  private:
    void embed(int thread);
    void attention(int thread, int layer);
    void rotate_and_store(int thread, int layer);
    void rotate_heads(int token, int kv_head, int layer);
    void attend_all(int thread, int layer);
    void seal_all(int thread, int layer);
    void attend_share(const AttentionPlan& plan, const AttentionShare& share, int layer, float* scratch);
    size_t scratch_floats() const;
    void feed_forward(int thread, int layer);
    void predict(int thread);
    void find_largest(int thread);

    // `source(row, spare)` gives a row of `columns` floats, in `spare` or elsewhere. The activations are this thread's
    // own for a few rows, which costs less than waiting for another thread; else all threads share the work.
    template <typename Source>
    Activations prepare(int thread, int rows, int columns, bool can_repeat, Source source);

    // residual[row] += values, at once or, where a norm comes first, by way of the sublayer's buffer.
    void add_output(int thread, const PackedMatrix& matrix, const Activations& a, const float* bias,
                    const float* post_norm);
    const float* normed_residual(int row, const float* post_norm, const float* norm, float* spare);
    const float* summed_residual(int row, const float* post_norm, float* spare);

    float* residual(int token) { return residual_ + static_cast<size_t>(token) * hidden_; }

    Decoder& decoder_;
    ThreadTeam& team_;
    const SgrtModel& model_;
    const SgrtStep& step_;
    AttentionShape shape_;
    size_t hidden_, query_width_, kv_width_, qkv_width_;
    float *residual_, *sublayer_, *qkv_, *attended_, *partials_, *rope_;
    Largest* largest_ = nullptr;  // [rows][largest_parts], where `largest` is wanted
    uint8_t *shared_, *bent_;
};

}  // namespace sgrt
