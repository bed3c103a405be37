#include "decoder.h"

#include <algorithm>
#include <stdexcept>

#include "step_run.h"

namespace sgrt {

Decoder::Decoder(const SgrtModel& model, ThreadTeam& team)
    : model_(model),
      layers_(model.layers, model.layers + model.layer_count),
      ropes_(model.ropes, model.ropes + model.rope_count),
      team_(team) {
    for (const SgrtLayer& layer : layers_) {
        const auto found = std::find(windows_.begin(), windows_.end(), layer.window);
        plan_of_layer_.push_back(static_cast<int>(found - windows_.begin()));
        if (found == windows_.end()) windows_.push_back(layer.window);
    }
    note_kind(model.output);
    for (const SgrtLayer& layer : layers_) {
        for (const SgrtMatrix* matrix : {&layer.query, &layer.key, &layer.value, &layer.attention_output, &layer.gate,
                                         &layer.up, &layer.down})
            note_kind(*matrix);
    }
    plans_.resize(windows_.size());
    for (int thread = 0; thread < team.size(); ++thread) own_.push_back(std::make_unique<ThreadBuffers>());
}

void Decoder::note_kind(const SgrtMatrix& matrix) {
    (is_quantized(static_cast<Kind>(matrix.kind)) ? has_quantized_ : has_floats_) = true;
}

void Decoder::forward(const SgrtStep& step) {
    if (step.tokens == 0) return;
    for (int token = 0; token < step.tokens; ++token) {
        if (step.token_ids[token] < 0 || step.token_ids[token] >= model_.vocabulary) throw std::out_of_range("token");
    }
    StepRun run(*this, step);
    team_.run([&](int thread) { run.run(thread); });
}

}  // namespace sgrt
