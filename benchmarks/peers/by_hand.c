/* The README's question as somebody would write it who knows it beforehand: AVX2, streamed stores,
   threads. Compiled once for each type of number in the results; arithmetic is in double, in the
   order of the formulas, without contraction to fused products: values are fleetcube's. */

#include <immintrin.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

#ifdef SINGLE
typedef float number;
#else
typedef double number;
#endif

enum { ROW = 512 }; /* values of storage in a row; more make several rows */

typedef struct {
    int64_t clusters, mttfs, fabrics, stages, storages;
    /* inputs: by storage; by cluster and mttf; by cluster, fabric and stages (two); numbers */
    const double *stall, *mtbf, *step, *fraction;
    double least_interval, restart, uptime, steps, availability;
    /* by cluster, mttf and storage, from an earlier call: attempted steps, interval and goodput,
       or NULL to compute them */
    const double *attempted, *every, *good;
    /* results, NULL where not asked for */
    number *job_time, *interval, *goodput, *mtbf_out, *step_out, *fraction_out;
    int64_t threads;
    atomic_long next;
} question;

static inline double two_to(double k) {
    double raised = k + (0x1p52 + 1023.0), result;
    uint64_t bits;
    memcpy(&bits, &raised, 8);
    bits <<= 52;
    memcpy(&result, &bits, 8);
    return result;
}

static inline double reduced(double x, double *rise) {
    double k = (x * 1.4426950408889634 + 0x1.8p52) - 0x1.8p52;
    double high = x - k * ((double)0x162E42FEFA3LL / 0x1p41), low = k * 2.8235290563031577e-13;
    double r = high - low, sum = 1.0 / 87178291200.0;
    sum = sum * r + 1.0 / 6227020800.0;
    sum = sum * r + 1.0 / 479001600.0;
    sum = sum * r + 1.0 / 39916800.0;
    sum = sum * r + 1.0 / 3628800.0;
    sum = sum * r + 1.0 / 362880.0;
    sum = sum * r + 1.0 / 40320.0;
    sum = sum * r + 1.0 / 5040.0;
    sum = sum * r + 1.0 / 720.0;
    sum = sum * r + 1.0 / 120.0;
    sum = sum * r + 1.0 / 24.0;
    sum = sum * r + 1.0 / 6.0;
    sum = sum * r + 1.0 / 2.0;
    *rise = high - (low - r * r * sum);
    return k;
}

static inline double larger(double x, double y) { return x > y ? x : y; }
static inline double smaller(double x, double y) { return x < y ? x : y; }

static inline double e_to(double x) {
    double rise, k = reduced(smaller(larger(x, -746.0), 710.0), &rise);
    double half = (0.5 * k + 0x1.8p52) - 0x1.8p52;
    return (1.0 + rise) * two_to(half) * two_to(k - half);
}

static inline double e_to_less_1(double x) {
    double rise, k = reduced(smaller(larger(x, -50.0), 710.0), &rise), half = two_to(k - 1.0);
    return 2.0 * (rise * half - (0.5 - half));
}

/* out[j] = row[j] * factor, past the cache; sizes are multiples of 8, arrays begin on a line. */
static inline void stream(number *out, const double *row, double factor, int64_t size) {
    __m256d by = _mm256_set1_pd(factor);
    for (int64_t j = 0; j < size; j += 8) {
        __m256d a = _mm256_mul_pd(_mm256_load_pd(row + j), by);
        __m256d b = _mm256_mul_pd(_mm256_load_pd(row + j + 4), by);
#ifdef SINGLE
        _mm256_stream_ps(out + j, _mm256_set_m128(_mm256_cvtpd_ps(b), _mm256_cvtpd_ps(a)));
#else
        _mm256_stream_pd(out + j, a);
        _mm256_stream_pd(out + j + 4, b);
#endif
    }
}

static void compute(const question *q, int64_t row, int64_t first, int64_t size,
                    double *restrict interval, double *restrict goodput,
                    double *restrict attempted) {
    double mtbf = q->mtbf[row], fails = mtbf < INFINITY, finite = fails ? mtbf : 1.0;
    double up = q->uptime * e_to(-q->restart / mtbf);
    const double *stall = q->stall + first;
    for (int64_t j = 0; j < size; j++) {
        double young = fails ? sqrt(2.0 * stall[j] * finite) : mtbf;
        double every = larger(young, q->least_interval);
        double share = (fails ? every + stall[j] : 0.0) / finite;
        double some = share > 0.0 ? share : 1.0, capped = smaller(some, 700.0);
        double kept = share < 700.0 ? capped / e_to_less_1(capped) : 0.0;
        kept = share > 0.0 ? kept : 1.0;
        int saves = (stall[j] > 0.0) & (every < INFINITY);
        double work = saves ? every / (every + stall[j]) : 1.0;
        double good = up * kept * work;
        interval[j] = every;
        goodput[j] = good;
        attempted[j] = q->steps / (good * q->availability);
    }
}

static void rows(const question *q, int64_t cluster, int64_t mttf, int64_t first) {
    _Alignas(64) double room[3][ROW];
    int64_t layouts = q->fabrics * q->stages, row = cluster * q->mttfs + mttf;
    int64_t size = q->storages - first < ROW ? q->storages - first : ROW;
    int64_t at = row * q->storages + first;
    const double *attempted = room[0], *interval = room[1], *goodput = room[2];
    if (q->attempted) {
        attempted = q->attempted + at;
        interval = q->every + at;
        goodput = q->good + at;
    } else {
        compute(q, row, first, size, room[1], room[2], room[0]);
    }
    if (q->interval) stream(q->interval + at, interval, 1.0, size);
    if (q->goodput) stream(q->goodput + at, goodput, 1.0, size);
    for (int64_t k = 0; k < layouts; k++)
        stream(q->job_time + (row * layouts + k) * q->storages + first, attempted,
               q->step[cluster * layouts + k], size);
}

static void *work(void *given) {
    question *q = given;
    int64_t all = q->clusters * q->mttfs, part = 16;
    for (int64_t from; (from = atomic_fetch_add(&q->next, part)) < all;)
        for (int64_t row = from; row < from + part && row < all; row++)
            for (int64_t first = 0; first < q->storages; first += ROW)
                rows(q, row / q->mttfs, row % q->mttfs, first);
    _mm_sfence();
    return NULL;
}

void answer(question *q) {
    int64_t layouts = q->clusters * q->fabrics * q->stages, pairs = q->clusters * q->mttfs;
    for (int64_t k = 0; q->mtbf_out && k < pairs; k++) q->mtbf_out[k] = (number)q->mtbf[k];
    for (int64_t k = 0; q->step_out && k < layouts; k++) q->step_out[k] = (number)q->step[k];
    for (int64_t k = 0; q->fraction_out && k < layouts; k++)
        q->fraction_out[k] = (number)q->fraction[k];
    pthread_t others[64];
    int64_t count = 0;
    q->next = 0;
    while (count < q->threads - 1 && count < 64 && !pthread_create(&others[count], NULL, work, q))
        count++;
    work(q);
    while (count > 0) pthread_join(others[--count], NULL);
}
