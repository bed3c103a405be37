// All layers of one step for a ragged batch, on a team of threads.
#pragma once

#include <memory>
#include <vector>

#include "activations.h"
#include "attention.h"
#include "model.h"
#include "rows.h"
#include "thread_team.h"
#include "workspace.h"

namespace sgrt {

// Buffers of one step, [tokens] rows each.
struct StepBuffers {
    Workspace residual, qkv, attended, partials, sublayer, rope, largest;
    Workspace shared, bent;  // the activations that all threads read; the second ones are of the feed-forward block
};

// A thread's own buffers.
struct ThreadBuffers {
    Workspace activations, row, scratch;
};

class Decoder {
  public:
    // The model's arrays must outlive the decoder; the team is shared with nobody while `forward` runs.
    Decoder(const SgrtModel& model, ThreadTeam& team);

    // Run one step: write keys and values into their slots, logits of the wanted rows into `step.logits`.
    // Throws std::out_of_range for a token id outside the vocabulary, std::bad_alloc.
    void forward(const SgrtStep& step);

  private:
    friend class StepRun;
    void note_kind(const SgrtMatrix& matrix);

    SgrtModel model_;
    std::vector<SgrtLayer> layers_;
    std::vector<SgrtRope> ropes_;
    ThreadTeam& team_;
    StepBuffers buffers_;
    std::vector<std::unique_ptr<ThreadBuffers>> own_;
    std::vector<AttentionPlan> plans_;  // one per distinct window
    std::vector<int> plan_of_layer_;
    std::vector<int> windows_;
    bool has_quantized_ = false, has_floats_ = false;  // among the matrices that are multiplied
};

}  // namespace sgrt
