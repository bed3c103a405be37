// The functions Python calls. None throws; those that can fail say so by their result.
#include <exception>
#include <new>
#include <stdexcept>

#include "arena.h"
#include "attention_sealed.h"
#include "decoder.h"
#include "limits.h"
#include "pack.h"
#include "page_seal.h"
#include "product.h"

using namespace sgrt;

namespace {

PackedMatrix as_packed(const SgrtMatrix& matrix) {
    return {matrix.data, matrix.rows, matrix.columns, static_cast<Kind>(matrix.kind)};
}

SealedBuffers as_sealed(const SgrtSeals& seals, const AttentionBuffers& exact) {
    return {exact, seals.layers, static_cast<SealedType>(seals.sealed_type), seals.own_pages, seals.max_own_pages};
}

}  // namespace

extern "C" {

const char* sgrt_vector_name() { return kVectorName; }

void* sgrt_team_create(int32_t threads) {
    try {
        return new ThreadTeam(threads);
    } catch (const std::exception&) {
        return nullptr;
    }
}

void sgrt_team_destroy(void* team) { delete static_cast<ThreadTeam*>(team); }

void* sgrt_arena_create(uint64_t bytes) {
    auto* arena = new (std::nothrow) Arena(bytes);
    if (arena != nullptr && !arena->valid()) {
        delete arena;
        return nullptr;
    }
    return arena;
}

void* sgrt_arena_data(void* arena) { return static_cast<Arena*>(arena)->data(); }

void sgrt_arena_destroy(void* arena) { delete static_cast<Arena*>(arena); }

void sgrt_drop_file_pages(const void* data, uint64_t bytes) { drop_file_pages(data, bytes); }

// Bytes the packed matrix takes, and its kind; 0 for a type or a number of columns that has no kind.
uint64_t sgrt_packed_bytes(int32_t block_type, int32_t rows, int32_t columns, int32_t* kind) {
    PackedMatrix matrix{nullptr, rows, columns, Kind::kF32};
    if (!kind_of(static_cast<BlockType>(block_type), columns, matrix.kind)) return 0;
    *kind = static_cast<int32_t>(matrix.kind);
    return packed_bytes(matrix);
}

// Pack `blocks` to `matrix->data`, which is zero; `row_bytes` separates rows.
void sgrt_pack(void* team, int32_t block_type, const uint8_t* blocks, uint64_t row_bytes, const SgrtMatrix* matrix) {
    const PackedMatrix packed = as_packed(*matrix);
    ThreadTeam& threads = *static_cast<ThreadTeam*>(team);
    threads.run([&](int thread) {
        constexpr int kTiles = 16;
        const int shares = (packed.tiles() + kTiles - 1) / kTiles;
        for (int share; (share = threads.claim(thread, shares)) != ThreadTeam::kNone;) {
            const int last = std::min(packed.tiles(), (share + 1) * kTiles);
            pack_tiles(static_cast<BlockType>(block_type), blocks, row_bytes, packed, share * kTiles, last,
                       const_cast<uint8_t*>(packed.data));
        }
    });
}

void sgrt_unpack_row(const SgrtMatrix* matrix, int32_t row, float* out) { unpack_row(as_packed(*matrix), row, out); }

// out[tokens, rows] = x[tokens, columns] times the matrix; rows a multiple of 16. False: out of memory.
int32_t sgrt_multiply(void* team, const SgrtMatrix* matrix, const float* x, int32_t tokens, float* out) {
    try {
        const PackedMatrix packed = as_packed(*matrix);
        ThreadTeam& threads = *static_cast<ThreadTeam*>(team);
        Workspace memory;
        Activations a;
        a.quantizes = is_quantized(packed.kind);
        a.keeps_floats = !a.quantizes;
        a.bind(memory.bytes(Activations::bytes(tokens, packed.columns)), tokens, packed.columns);
        const size_t columns = static_cast<size_t>(packed.columns), rows = static_cast<size_t>(packed.rows);
        threads.run([&](int thread) {
            for (int token; (token = threads.claim(thread, tokens)) != ThreadTeam::kNone;)
                a.put(token, x + static_cast<size_t>(token) * columns);
            threads.barrier(thread);
            multiply_all(threads, thread, &packed, 1, a, [&](int, int token, int row, f32x16 values) {
                store(out + static_cast<size_t>(token) * rows + row, values);
            });
        });
        return 1;
    } catch (const std::exception&) {
        return 0;
    }
}

void sgrt_read_all(void* team, const void* data, uint64_t bytes) {
    read_all(*static_cast<ThreadTeam*>(team), static_cast<const uint8_t*>(data), bytes);
}

uint64_t sgrt_multiply_many(void* team, int32_t rounds) {
    return multiply_many(*static_cast<ThreadTeam*>(team), rounds);
}

void sgrt_advise_large_pages(void* data, uint64_t bytes) { advise_large_pages(data, bytes); }

void sgrt_advise_small_pages(void* data, uint64_t bytes) { advise_small_pages(data, bytes); }

// Paged attention alone. False: out of memory.
int32_t sgrt_paged_attention(void* team, const SgrtAttention* call) {
    try {
        const SgrtAttention& c = *call;
        ThreadTeam& threads = *static_cast<ThreadTeam*>(team);
        const AttentionShape shape{c.heads,       c.kv_heads, c.head_dim, c.page_tokens, static_cast<PageType>(c.page_type),
                                   c.soft_cap};
        AttentionPlan plan;
        plan.build(c.tokens, c.sequences, c.query_starts, c.context_lengths, c.page_table, c.max_pages, c.page_tokens,
                   c.window, tile_tokens(shape), c.seals != nullptr);
        plan.share_out(c.kv_heads, threads.size());
        const size_t width = static_cast<size_t>(c.heads) * static_cast<size_t>(c.head_dim);
        std::vector<float> query(c.query, c.query + static_cast<size_t>(c.tokens) * width);
        for (float& x : query) x *= c.scale;
        std::vector<float> partials(static_cast<size_t>(plan.partials) * partial_stride(shape));
        std::vector<std::vector<float>> scratch(static_cast<size_t>(threads.size()));
        for (auto& own : scratch) own.resize(c.seals == nullptr ? attention_scratch(shape) : sealed_scratch(shape));
        const AttentionBuffers buffers{query.data(), width,       c.keys, c.values,
                                       c.page_table, c.max_pages, c.out,  partials.data()};
        threads.run([&](int thread) {
            const int shares = static_cast<int>(plan.shares.size());
            for (int claimed; (claimed = threads.claim(thread, shares)) != ThreadTeam::kNone;) {
                const AttentionShare& share = plan.shares[static_cast<size_t>(claimed)];
                const AttentionItem& item = plan.items[static_cast<size_t>(share.item)];
                float* memory = scratch[static_cast<size_t>(thread)].data();
                if (c.seals == nullptr) {
                    attend(shape, plan, item, share.first_head, share.last_head, buffers, memory);
                } else {
                    attend_sealed(shape, plan, item, share.first_head, share.last_head, as_sealed(*c.seals, buffers),
                                  memory);
                }
            }
            threads.barrier(thread);
            for (int token; (token = threads.claim(thread, c.tokens)) != ThreadTeam::kNone;) {
                if (plan.first_partial[static_cast<size_t>(token)] >= 0)
                    merge_partials(shape, plan, token, partials.data(), c.out + static_cast<size_t>(token) * width);
            }
        });
        return 1;
    } catch (const std::exception&) {
        return 0;
    }
}

// Quantize the exact pages of the seals into the first of its layers. False: out of memory.
int32_t sgrt_seal_pages(const SgrtAttention* call) {
    try {
        const SgrtAttention& c = *call;
        const AttentionShape shape{c.heads,       c.kv_heads, c.head_dim, c.page_tokens, static_cast<PageType>(c.page_type),
                                   c.soft_cap};
        std::vector<float> scratch(seal_scratch(shape));
        for (int page = 0; page < c.seals->count; ++page) {
            for (int head = 0; head < c.kv_heads; ++head)
                seal_page(shape, static_cast<SealedType>(c.seals->sealed_type), c.keys, c.values,
                          static_cast<size_t>(c.seals->sources[page]), c.seals->layers[0],
                          static_cast<size_t>(c.seals->targets[page]), head, scratch.data());
        }
        return 1;
    } catch (const std::exception&) {
        return 0;
    }
}

void* sgrt_decoder_create(const SgrtModel* model, void* team) {
    try {
        return new Decoder(*model, *static_cast<ThreadTeam*>(team));
    } catch (const std::exception&) {
        return nullptr;
    }
}

void sgrt_decoder_destroy(void* decoder) { delete static_cast<Decoder*>(decoder); }

// 1: done; 0: out of memory; -1: a token id lies outside the vocabulary.
int32_t sgrt_decoder_forward(void* decoder, const SgrtStep* step) {
    try {
        static_cast<Decoder*>(decoder)->forward(*step);
        return 1;
    } catch (const std::out_of_range&) {
        return -1;
    } catch (const std::exception&) {
        return 0;
    }
}

}  // extern "C"
