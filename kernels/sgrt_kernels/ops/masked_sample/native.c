/* Masked sampling on a CPU: the definition of reference.py, one row at a time.
 *
 * A row is read once into scratch (mask, penalties, bias, temperature) and decided without sorting it: top-k and
 * top-p each need the last token that stays, which lies in one bin of a histogram of scores, and only that bin
 * is sorted. Noise is drawn only where it could win: a token's bits bound its noise from above, and most
 * bounds are too low.
 */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK 256
#define BINS 2048
#define NO_TOKEN (-1)

struct sparse_entries { /* one value per entry, ordered by row */
    int64_t count;
    const int64_t *rows;
    const int64_t *tokens;
    const float *values;
};

struct sample_rows {
    const float *logits; /* [rows, vocabulary], rows `stride` floats apart */
    int64_t stride, rows, vocabulary;
    const float *temperature; /* each of these: [rows], or null where no row asks for it */
    const int64_t *top_k;
    const float *top_p;
    const float *min_p;
    const int64_t *seeds;
    const int64_t *positions;
    const uint32_t *masks; /* [rows, mask_words], or null */
    int64_t mask_words;
    struct sparse_entries history; /* values: output counts */
    const float *repetition, *presence, *frequency;
    struct sparse_entries bias;
    int64_t *tokens; /* result [rows] */
};

struct candidate {
    float score;
    int32_t token;
};

static inline uint32_t mix(uint32_t x) {
    x ^= x >> 16;
    x *= 0x7FEB352Du;
    x ^= x >> 15;
    x *= 0x846CA68Bu;
    return x ^ (x >> 16);
}

/* exp(x) for x <= 0 to about one unit in the last place; 0 below -87. A degree-6 polynomial on [-ln2/2, ln2/2]. */
static inline float exp_negative(float x) {
    float clamped = x < -87.0f ? -87.0f : x;
    float whole = (clamped * 1.44269504f + 12582912.0f) - 12582912.0f; /* to the nearest whole number */
    float r = clamped - whole * 0.693359375f;
    r = r + whole * 2.12194440e-4f;
    float p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * r * r + r + 1.0f;
    union { int32_t bits; float value; } scale;
    scale.bits = ((int32_t)whole + 127) << 23;
    return x < -87.0f ? 0.0f : p * scale.value;
}

static inline float gumbel(uint32_t bits) {
    float uniform = ((float)(bits >> 9) + 0.5f) * 0x1p-23f;
    return -logf(-logf(uniform));
}

#define LANES 64

static float largest(const float *scores, int64_t count) {
    float lanes[LANES], best = -INFINITY;
    int64_t t = 0;
    for (int lane = 0; lane < LANES; lane++) lanes[lane] = -INFINITY;
    for (; t + LANES <= count; t += LANES)
        for (int lane = 0; lane < LANES; lane++)
            lanes[lane] = scores[t + lane] > lanes[lane] ? scores[t + lane] : lanes[lane];
    for (; t < count; t++) best = scores[t] > best ? scores[t] : best;
    for (int lane = 0; lane < LANES; lane++) best = lanes[lane] > best ? lanes[lane] : best;
    return best;
}

static int64_t first_of(const float *scores, int64_t count, float value) {
    int64_t start = 0;
    for (; start + LANES <= count; start += LANES) { /* whole blocks: a loop that may end early has no lanes */
        int found = 0;
        for (int lane = 0; lane < LANES; lane++) found |= scores[start + lane] == value;
        if (found) break;
    }
    for (int64_t t = start; t < count; t++)
        if (scores[t] == value) return t;
    return 0;
}

/* The first of the largest scores; NO_TOKEN where none is above -inf. What is not a number is never the largest. */
static int64_t first_largest(const float *scores, int64_t count) {
    float best = largest(scores, count);
    return best == -INFINITY ? NO_TOKEN : first_of(scores, count, best);
}

/* The largest of 32 scores among those whose bit is set. */
static float largest_of_word(const float *scores, uint32_t bits) {
    float lanes[16], best = -INFINITY;
    for (int lane = 0; lane < 16; lane++) {
        float low = bits >> lane & 1 ? scores[lane] : -INFINITY;
        float high = bits >> (lane + 16) & 1 ? scores[lane + 16] : -INFINITY;
        low = low > -INFINITY ? low : -INFINITY; /* not a number */
        lanes[lane] = high > low ? high : low;
    }
    for (int lane = 0; lane < 16; lane++) best = lanes[lane] > best ? lanes[lane] : best;
    return best;
}

/* As first_largest, among the tokens of a mask; scores are read where it has some. */
static int64_t first_allowed(const float *scores, int64_t count, const uint32_t *mask) {
    float best = -INFINITY;
    int64_t token = NO_TOKEN;
    for (int64_t start = 0; start < count; start += 32) {
        uint32_t bits = mask[start / 32];
        int is_whole = count - start >= 32;
        if (!is_whole) bits &= (1u << (count - start)) - 1u;
        if (bits == 0) continue;
        if (is_whole && (bits & (bits - 1)) && !(largest_of_word(scores + start, bits) > best)) continue;
        for (; bits; bits &= bits - 1) {
            int64_t t = start + __builtin_ctz(bits);
            if (scores[t] > best) {
                best = scores[t];
                token = t;
            }
        }
    }
    return token;
}

/* exp(score - best) of up to BLOCK scores. */
static void weigh(const float *scores, int64_t count, float best, float *weights) {
    for (int64_t t = 0; t < count; t++) weights[t] = exp_negative(scores[t] - best);
}

/* Sum of exp(score - best), in float within a block and double across. */
static double mass_of(const float *scores, int64_t count, float best) {
    double total = 0.0;
    float weights[BLOCK];
    for (int64_t start = 0; start < count; start += BLOCK) {
        int64_t length = start + BLOCK < count ? BLOCK : count - start;
        float lanes[16] = {0};
        weigh(scores + start, length, best, weights);
        for (int64_t t = length; t < BLOCK; t++) weights[t] = 0.0f;
        for (int64_t t = 0; t < BLOCK; t += 16)
            for (int lane = 0; lane < 16; lane++) lanes[lane] += weights[t + lane];
        for (int lane = 0; lane < 16; lane++) total += lanes[lane];
    }
    return total;
}

static int by_score_then_token(const void *left, const void *right) {
    const struct candidate *a = left, *b = right;
    if (a->score != b->score) return a->score < b->score ? 1 : -1;
    return a->token < b->token ? -1 : a->token > b->token;
}

/* The last token that stays, in order of score and then id, and the mass up to and with it. */
struct border {
    float score;
    int32_t token;
    double mass;
};

static const struct border NO_BORDER = {-INFINITY, INT32_MAX, 0.0};

static inline int stays(float score, int64_t token, struct border last) {
    return score > last.score || (score == last.score && token <= last.token);
}

/* Bins grow monotonically as scores fall; the last one takes all that is further than 24 below the best. */
static inline int32_t bin_of(float score, float best) {
    float depth = (best - score) * ((BINS - 1) / 24.0f);
    return depth < BINS - 1 ? (int32_t)depth : BINS - 1;
}

/* The fewest best tokens that are `top_k`, or whose mass (in units of exp(best)) reaches `target`. Only tokens that
 * stay behind `within` count. `found` has room for all tokens. */
static struct border find_border(const float *scores, int64_t count, float best, int64_t top_k, double target,
                                 struct border within, struct candidate *found) {
    int32_t sizes[BINS] = {0};
    double masses[BINS] = {0};
    float weights[BLOCK];
    for (int64_t start = 0; start < count; start += BLOCK) {
        int64_t length = start + BLOCK < count ? BLOCK : count - start;
        weigh(scores + start, length, best, weights);
        for (int64_t i = 0; i < length; i++) {
            float score = scores[start + i];
            if (score == -INFINITY || !stays(score, start + i, within)) continue;
            int32_t bin = bin_of(score, best);
            sizes[bin]++;
            masses[bin] += weights[i];
        }
    }
    int32_t bin = 0;
    int64_t kept = 0, size = 0;
    double mass = 0.0;
    while (bin < BINS - 1 && kept + sizes[bin] < top_k && mass + masses[bin] < target) {
        kept += sizes[bin];
        mass += masses[bin++];
    }
    for (int64_t t = 0; t < count; t++)
        if (scores[t] > -INFINITY && bin_of(scores[t], best) == bin && stays(scores[t], t, within)) {
            found[size].score = scores[t];
            found[size++].token = (int32_t)t;
        }
    if (size == 0) return within; /* rounding kept the mass below its target: everything stays */
    qsort(found, (size_t)size, sizeof *found, by_score_then_token);
    struct border last = NO_BORDER;
    for (int64_t i = 0; i < size; i++) {
        mass += exp_negative(found[i].score - best);
        last = (struct border){found[i].score, found[i].token, mass};
        if (++kept >= top_k || mass >= target) break;
    }
    return last;
}

/* What top-k and then top-p leave. */
static struct border truncated(const float *scores, int64_t count, float best, int64_t top_k, float top_p,
                               struct candidate *found) {
    struct border last = NO_BORDER;
    if (top_k > 0 && top_k < count) last = find_border(scores, count, best, top_k, INFINITY, last, found);
    if (top_p < 1.0f) {
        double total = last.token == INT32_MAX ? mass_of(scores, count, best) : last.mass;
        last = find_border(scores, count, best, count, (double)top_p * total, last, found);
    }
    return last;
}

/* Draw among the tokens that stay and are at or above `floor`. With c = 2^23 - (bits >> 9), 1 - u = (c - 0.5) 2^-23 >= c 2^-24, and since
 * -log(u) >= 1 - u the noise is at most -log(1 - u) <= (24 - floor(log2 c)) ln 2. */
static int64_t draw(const float *scores, int64_t count, struct border last, float floor, uint32_t low,
                    uint32_t high) {
    uint32_t bits[BLOCK];
    int64_t winner = 0;
    float best = -INFINITY;
    for (int64_t start = 0; start < count; start += BLOCK) {
        int64_t length = start + BLOCK < count ? BLOCK : count - start;
        const float *block = scores + start;
        if (largest(block, length) + 17.0f < best) continue; /* no noise exceeds 16.7 */
        for (int64_t i = 0; i < length; i++) bits[i] = mix(mix((uint32_t)(start + i) ^ low) + high);
        int any = 0;
        for (int64_t i = 0; i < length; i++) {
            union { float value; int32_t bits; } c;
            c.value = (float)(int32_t)((1 << 23) - (int32_t)(bits[i] >> 9));
            float bound = (float)(151 - (c.bits >> 23)) * 0.6931472f + 1e-4f;
            any |= block[i] + bound >= best;
        }
        if (!any) continue;
        for (int64_t i = 0; i < length; i++) {
            union { float value; int32_t bits; } c;
            c.value = (float)(int32_t)((1 << 23) - (int32_t)(bits[i] >> 9));
            float bound = (float)(151 - (c.bits >> 23)) * 0.6931472f + 1e-4f;
            if (block[i] + bound < best || block[i] < floor || block[i] == -INFINITY) continue;
            if (!stays(block[i], start + i, last)) continue;
            float sum = block[i] + gumbel(bits[i]);
            if (sum > best) {
                best = sum;
                winner = start + i;
            }
        }
    }
    return winner;
}

/* The first entries that are not of an earlier row. */
struct cursor {
    int64_t seen, bias;
};

static void adjust(const struct sample_rows *all, int64_t row, float *scores, struct cursor *next) {
    const struct sparse_entries *seen = &all->history, *bias = &all->bias;
    for (; next->seen < seen->count && seen->rows[next->seen] == row; next->seen++) {
        float *score = scores + seen->tokens[next->seen], count = seen->values[next->seen];
        *score = *score > 0 ? *score / all->repetition[row] : *score * all->repetition[row];
        *score -= all->frequency[row] * count;
        if (count > 0) *score -= all->presence[row];
    }
    for (; next->bias < bias->count && bias->rows[next->bias] == row; next->bias++)
        scores[bias->tokens[next->bias]] += bias->values[next->bias];
}

/* Whether entries are ordered by row and lie inside the logits. */
static int are_inside(const struct sparse_entries *entries, int64_t rows, int64_t vocabulary) {
    int64_t last = 0;
    for (int64_t i = 0; i < entries->count; i++) {
        if (entries->rows[i] < last || entries->rows[i] >= rows) return 0;
        if (entries->tokens[i] < 0 || entries->tokens[i] >= vocabulary) return 0;
        last = entries->rows[i];
    }
    return 1;
}

static void mask_out(const uint32_t *mask, int64_t count, float *scores) {
    for (int64_t start = 0; start < count; start += 32) {
        uint32_t word = mask[start / 32];
        int64_t length = start + 32 < count ? 32 : count - start;
        if (word == 0xFFFFFFFFu) continue;
        for (int64_t i = 0; i < length; i++) scores[start + i] = word >> i & 1 ? scores[start + i] : -INFINITY;
    }
}

static int64_t sample_row(const struct sample_rows *all, int64_t row, float *scores, struct candidate *found,
                          struct cursor *next) {
    int64_t count = all->vocabulary;
    float temperature = all->temperature ? all->temperature[row] : 0.0f;
    if (temperature == 0.0f && all->masks && !all->history.count && !all->bias.count)
        return first_allowed(all->logits + row * all->stride, count, all->masks + row * all->mask_words);
    memcpy(scores, all->logits + row * all->stride, (size_t)count * sizeof *scores);
    adjust(all, row, scores, next);
    if (all->masks) mask_out(all->masks + row * all->mask_words, count, scores);
    if (temperature == 0.0f) return first_largest(scores, count);
    for (int64_t t = 0; t < count; t++) scores[t] = scores[t] == scores[t] ? scores[t] / temperature : -INFINITY;

    uint64_t seed = (uint64_t)all->seeds[row], position = (uint64_t)all->positions[row];
    uint32_t low = mix(mix((uint32_t)seed) + (uint32_t)(seed >> 32) + 0x9E3779B9u * (uint32_t)(position + 1));
    uint32_t high = mix(low ^ 0x85EBCA6Bu ^ (uint32_t)(position >> 32));
    int64_t top_k = all->top_k ? all->top_k[row] : 0;
    float top_p = all->top_p ? all->top_p[row] : 1.0f;
    float best = largest(scores, count);
    if (isinf(best)) return first_largest(scores, count);
    float floor = all->min_p && all->min_p[row] > 0 ? best + logf(all->min_p[row]) : -INFINITY;
    struct border last = truncated(scores, count, best, top_k, top_p, found);
    return draw(scores, count, last, floor, low, high);
}

/* The largest logit of every row, the first of equals; NO_TOKEN where none is a number above -inf. */
void sgrt_largest(const float *logits, int64_t stride, int64_t rows, int64_t vocabulary, int64_t *tokens) {
    for (int64_t row = 0; row < rows; row++) tokens[row] = first_largest(logits + row * stride, vocabulary);
}

/* Fills all->tokens; 0 when there is no memory, -1 when history or bias are out of order or outside the
 * logits, or masks are too narrow. */
int32_t sgrt_masked_sample(const struct sample_rows *all) {
    if (!are_inside(&all->history, all->rows, all->vocabulary)) return -1;
    if (!are_inside(&all->bias, all->rows, all->vocabulary)) return -1;
    if (all->masks && all->mask_words * 32 < all->vocabulary) return -1;
    struct cursor next = {0, 0};
    size_t count = (size_t)all->vocabulary;
    float *scores = malloc(count * sizeof *scores);
    struct candidate *found = malloc(count * sizeof *found);
    int32_t has_memory = scores && found;
    for (int64_t row = 0; has_memory && row < all->rows; row++)
        all->tokens[row] = sample_row(all, row, scores, found, &next);
    free(scores);
    free(found);
    return has_memory;
}

/* Log-probabilities of `tokens` [rows] and of the `top` best of each row [rows, top]; 0 when there is no memory, -1 when
 * a token is outside the logits. Places beyond the tokens that are numbers above -inf hold NO_TOKEN and -inf. */
int32_t sgrt_token_logprobs(const float *logits, int64_t stride, int64_t rows, int64_t vocabulary, const int64_t *tokens,
                            int64_t top, float *chosen, int64_t *best_tokens, float *best_values) {
    for (int64_t row = 0; row < rows; row++)
        if (tokens[row] < 0 || tokens[row] >= vocabulary) return -1;
    struct candidate *found = malloc((size_t)vocabulary * sizeof *found);
    if (!found) return 0;
    for (int64_t row = 0; row < rows; row++) {
        const float *scores = logits + row * stride;
        float best = largest(scores, vocabulary);
        float total = best == -INFINITY ? NAN : best + (float)log(mass_of(scores, vocabulary, best));
        int64_t kept = 0;
        chosen[row] = scores[tokens[row]] - total;
        if (top == 0) continue;
        struct border last = NO_BORDER;
        if (best > -INFINITY) last = truncated(scores, vocabulary, best, top, 1.0f, found);
        for (int64_t t = 0; t < vocabulary; t++)
            if (scores[t] > -INFINITY && stays(scores[t], t, last)) {
                found[kept].score = scores[t];
                found[kept++].token = (int32_t)t;
            }
        qsort(found, (size_t)kept, sizeof *found, by_score_then_token);
        for (int64_t i = 0; i < top; i++) {
            best_tokens[row * top + i] = i < kept ? found[i].token : NO_TOKEN;
            best_values[row * top + i] = i < kept ? found[i].score - total : -INFINITY;
        }
    }
    free(found);
    return 1;
}
