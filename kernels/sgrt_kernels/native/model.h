// The C interface: plain structs that Python fills through ctypes. Pointers stay the caller's.
#pragma once

#include <cstdint>

extern "C" {

struct SgrtMatrix {
    const uint8_t* data;  // packed tiles; null: absent
    int32_t rows, columns;
    int32_t kind;  // sgrt::Kind
    int32_t unused;
};

struct SgrtLayer {
    SgrtMatrix query, key, value, attention_output, gate, up, down;
    const float* attention_norm;  // [hidden]
    const float* mlp_norm;        // [hidden]
    const float* query_bias;      // [heads * head_dim], or null, as those below
    const float* key_bias;
    const float* value_bias;
    const float* attention_output_bias;  // [hidden]
    const float* query_norm;  // [head_dim]
    const float* key_norm;
    const float* post_attention_norm;  // [hidden]
    const float* post_mlp_norm;
    int32_t rope;    // index into the model's ropes
    int32_t window;  // tokens a query sees; 0: all
};

struct SgrtRope {
    const double* frequencies;  // [head_dim / 2], radians a token
    double amplitude;
};

struct SgrtModel {
    SgrtMatrix embedding, output;
    const SgrtLayer* layers;
    const SgrtRope* ropes;
    const float* final_norm;
    int32_t layer_count, rope_count;
    int32_t hidden, heads, kv_heads, head_dim, intermediate, vocabulary;
    int32_t gate;  // sgrt::Gate
    float epsilon, embedding_scale, query_scale;
    float attention_soft_cap, logit_soft_cap;  // 0: none
};

// Full pages of one layer, quantized: sgrt_kernels.layout.SealedPages, all contiguous.
struct SgrtSealedLayer {
    uint8_t* keys;               // [pages, page_tokens, kv_heads, head_dim], of sealed_type
    uint8_t* key_scales;         // [pages, kv_heads, head_dim], see scale_code.py
    float* key_scale_bases;      // [pages, kv_heads]
    int8_t* key_offsets;         // [pages, kv_heads, head_dim]
    float* key_offset_scales;    // [pages, kv_heads]
    uint8_t* values;             // [pages, page_tokens, kv_heads, head_dim], of sealed_type
    uint16_t* value_scales;      // [pages, page_tokens, kv_heads] bfloat16
};

// What a step over sealed pages needs beside its page table, which then names sealed pages.
struct SgrtSeals {
    const SgrtSealedLayer* layers;  // [layers]
    const int64_t* sources;         // [count], exact pages full after this step's writes
    const int64_t* targets;         // [count], the sealed pages they are quantized into
    const int32_t* own_pages;       // [sequences, max_own_pages], exact; the first holds the chunk's first token
    int32_t count, max_own_pages;
    int32_t sealed_type;  // sgrt::SealedType
    int32_t unused;
};

struct SgrtStep {
    const int64_t* token_ids;         // [tokens]
    const int64_t* positions;         // [tokens]
    const int64_t* slots;             // [tokens]
    const int32_t* query_starts;      // [sequences + 1]
    const int32_t* context_lengths;   // [sequences]
    const int32_t* page_table;        // [sequences, max_pages]
    const int64_t* logit_rows;        // [rows]
    void* const* keys;                // [layers], each [pages, page_tokens, kv_heads, head_dim]
    void* const* values;
    float* logits;  // [rows, vocabulary]
    const SgrtSeals* seals;  // null: pages are not sealed
    int64_t* largest;  // [rows], the first of a row's largest logits, -1 where none is above -inf; or null
    int32_t tokens, sequences, max_pages, rows, page_tokens;
    int32_t page_type;   // sgrt::PageType
    int32_t candidates;  // logits from this one on are not looked at for `largest`
    int32_t unused;
};

struct SgrtAttention {
    const float* query;  // [tokens, heads, head_dim]
    const void* keys;    // [pages, page_tokens, kv_heads, head_dim]
    const void* values;
    const int32_t* query_starts;     // [sequences + 1]
    const int32_t* context_lengths;  // [sequences]
    const int32_t* page_table;       // [sequences, max_pages]
    float* out;                      // [tokens, heads, head_dim]
    int32_t tokens, sequences, max_pages, page_tokens, page_type;
    int32_t heads, kv_heads, head_dim, window;
    float scale, soft_cap;
    const SgrtSeals* seals;  // null: pages are not sealed
};

}  // extern "C"
