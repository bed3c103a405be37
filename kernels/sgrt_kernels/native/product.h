// A matrix product shared out among the threads of a team.
#pragma once

#include <algorithm>
#include <initializer_list>

#include "multiply.h"
#include "thread_team.h"

namespace sgrt {

constexpr int kSuperRows = 128;  // tokens whose activations stay in the second-level cache while weights pass

// How the tiles of a product are cut into shares.
struct Shares {
    int tiles, per_share, tokens;

    Shares(int tile_count, int token_count, int threads) : tiles(tile_count), tokens(token_count) {
        per_share = std::clamp(tile_count / (threads * 16), 1, 8);
    }
    int runs() const { return (tiles + per_share - 1) / per_share; }
    int count() const { return (tokens + kSuperRows - 1) / kSuperRows * runs(); }
    // Tiles change fastest: a thread keeps its tokens' activations and lets the weights pass.
    int first_tile(int share) const { return share % runs() * per_share; }
    int last_tile(int share) const { return std::min(tiles, first_tile(share) + per_share); }
    int first_token(int share) const { return share / runs() * kSuperRows; }
    int last_token(int share) const { return std::min(tokens, first_token(share) + kSuperRows); }
};

// emit(matrix, token, first row, values of 16 rows) for every output of `count` matrices with the same input.
template <typename Emit>
void multiply_all(ThreadTeam& team, int thread, const PackedMatrix* matrices, int count, const Activations& a,
                  Emit emit) {
    int tiles = 0;
    for (int m = 0; m < count; ++m) tiles += matrices[m].tiles();
    const Shares shares(tiles, a.rows, team.size());
    for (int share; (share = team.claim(thread, shares.count())) != ThreadTeam::kNone;) {
        for (int index = shares.first_tile(share); index < shares.last_tile(share); ++index) {
            int m = 0, tile = index;
            while (tile >= matrices[m].tiles()) tile -= matrices[m++].tiles();
            multiply_tile(matrices[m], tile, a, shares.first_token(share), shares.last_token(share),
                          [&](int token, int row, f32x16 values) { emit(m, token, row, values); });
        }
    }
}

// emit(token, group, 32 values) for `join(gate values, up values)` of two matrices of one shape, whose rows make up
// whole groups.
template <typename Join, typename Emit>
void multiply_pair(ThreadTeam& team, int thread, const PackedMatrix& gate, const PackedMatrix& up, const Activations& a,
                   Join join, Emit emit) {
    constexpr int kTiles = kGroup / kTileRows;
    const Shares shares(gate.tiles() / kTiles, a.rows, team.size());
    alignas(64) float gates[kSuperRows * kLanes];
    alignas(64) float joined[kSuperRows * kGroup];
    for (int share; (share = team.claim(thread, shares.count())) != ThreadTeam::kNone;) {
        const int first = shares.first_token(share), last = shares.last_token(share);
        for (int group = shares.first_tile(share); group < shares.last_tile(share); ++group) {
            for (int i = 0; i < kTiles; ++i) {
                const int tile = group * kTiles + i;
                multiply_tile(gate, tile, a, first, last, [&](int token, int, f32x16 values) {
                    store(gates + (token - first) * kLanes, values);
                });
                multiply_tile(up, tile, a, first, last, [&](int token, int, f32x16 values) {
                    store(joined + (token - first) * kGroup + i * kTileRows,
                          join(load(gates + (token - first) * kLanes), values));
                });
            }
            for (int token = first; token < last; ++token) emit(token, group, joined + (token - first) * kGroup);
        }
    }
}

}  // namespace sgrt
