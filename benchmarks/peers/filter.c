/* Bootstrap particle filter for a linear Gaussian AR(1) model: the plain C peer of the benchmark.
 *
 *     x_1 ~ N(0, s0^2),   x_t = phi x_{t-1} + sx N(0, 1),   y_t = x_t + sy N(0, 1)
 *
 * Particles are proposed from the transition and weighted by the observation density, with
 * multinomial resampling before every step t >= 2 and all arithmetic in double precision. The
 * log-evidence estimate is the sum over t of the log of the mean weight. Independent runs are
 * shared out among threads; run r has its own generator, seeded from (SEED, r), so that the results
 * do not depend on the number of threads.
 *
 * Build:  gcc -O3 -march=native -pthread filter.c -o build/filter -lm
 * Use:    build/filter P RUNS SEED THREADS INPUT
 *
 * INPUT is a text file: a line `phi sx sy s0`, then one observation per line. The output is one
 * JSON object, {"seconds": ..., "log_evidence": [...]}, the seconds being the wall-clock time of
 * the filtering alone, thread creation included.
 */
#define _GNU_SOURCE
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define MAX_THREADS 64

static void die(const char *message) {
    fprintf(stderr, "filter: %s\n", message);
    exit(1);
}

static double *doubles(double *old, long count) { /* resized from `old`, which may be NULL */
    double *block = realloc(old, count * sizeof *block);
    if (!block) die("out of memory");
    return block;
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + 1e-9 * t.tv_nsec;
}

/* ---- Uniform draws: xoshiro256+ (Blackman and Vigna), seeded by splitmix64. ---- */

typedef struct { uint64_t s[4]; } rng;

static uint64_t splitmix64(uint64_t *state) {
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static rng rng_for_run(uint64_t seed, uint64_t run) {
    uint64_t state = splitmix64(&seed) + run;
    rng g;
    for (int k = 0; k < 4; k++) g.s[k] = splitmix64(&state);
    return g;
}

static inline uint64_t next_bits(rng *g) {
    uint64_t *s = g->s, result = s[0] + s[3], t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = (s[3] << 45) | (s[3] >> 19);
    return result;
}

static inline double uniform(rng *g) { /* in (0, 1) */
    return ((double)(next_bits(g) >> 12) + 0.5) * 0x1p-52;
}

/* ---- Normal and exponential draws: Marsaglia and Tsang's ziggurat with 256 layers. ----
 * Layer i spans [0, x[i]] and lies wholly under the density up to x[i + 1]; layer 0 holds the tail
 * beyond x[1]. The top 53 bits of a draw give the abscissa and bits 3 to 10 the layer, leaving out
 * the low three bits, which are the weak ones of xoshiro256+. */

#define LAYERS 256
#define NORMAL_TAIL 3.6541528853610088
#define EXPONENTIAL_TAIL 7.69711747013104972

static double nx[LAYERS + 1], nf[LAYERS + 1]; /* normal: layer edges and exp(-x^2 / 2) there */
static double ex[LAYERS + 1], ef[LAYERS + 1]; /* exponential: layer edges and exp(-x) there */

static void build_ziggurats(void) {
    double r = NORMAL_TAIL, f = exp(-0.5 * r * r);
    double area = r * f + sqrt(M_PI / 2) * erfc(r / M_SQRT2);
    nx[0] = area / f, nx[1] = r, nx[LAYERS] = 0;
    for (int i = 1; i < LAYERS - 1; i++)
        nx[i + 1] = sqrt(-2 * log(area / nx[i] + exp(-0.5 * nx[i] * nx[i])));
    r = EXPONENTIAL_TAIL, area = (r + 1) * exp(-r);
    ex[0] = r + 1, ex[1] = r, ex[LAYERS] = 0;
    for (int i = 1; i < LAYERS - 1; i++) ex[i + 1] = -log(area / ex[i] + exp(-ex[i]));
    for (int i = 0; i <= LAYERS; i++) nf[i] = exp(-0.5 * nx[i] * nx[i]), ef[i] = exp(-ex[i]);
}

static inline double exponential(rng *g) {
    for (double shift = 0;;) {
        uint64_t bits = next_bits(g);
        int i = (bits >> 3) & (LAYERS - 1);
        double z = (double)(bits >> 11) * 0x1p-53 * ex[i];
        if (z < ex[i + 1]) return shift + z;
        if (i == 0) shift += EXPONENTIAL_TAIL; /* memoryless: the tail is a shifted copy */
        else if (ef[i] + uniform(g) * (ef[i + 1] - ef[i]) < exp(-z)) return shift + z;
    }
}

static inline double normal(rng *g) {
    for (;;) {
        uint64_t bits = next_bits(g);
        int i = (bits >> 3) & (LAYERS - 1);
        double z = (double)((int64_t)bits >> 11) * 0x1p-52 * nx[i];
        if (fabs(z) < nx[i + 1]) return z;
        if (i == 0) {
            double a, b;
            do a = exponential(g) / NORMAL_TAIL, b = exponential(g); while (2 * b < a * a);
            return z < 0 ? -NORMAL_TAIL - a : NORMAL_TAIL + a;
        }
        if (nf[i] + uniform(g) * (nf[i + 1] - nf[i]) < exp(-0.5 * z * z)) return z;
    }
}

/* ---- The filter. ---- */

typedef struct {
    long particles, runs, steps;
    uint64_t seed;
    double phi, sx, sy, s0, *y, *log_evidence;
    atomic_long next_run;
} job;

typedef struct { double *x, *parent, *cumulative, *points; } workspace; /* `particles` of each */

/* Draw parents in proportion to the weights. Partial sums of exponential draws, over their grand
 * total, are sorted uniforms; one linear merge with the cumulative weights inverts them all. */
static void resample(long n, const workspace *w, rng *g) {
    double sum = 0;
    for (long j = 0; j < n; j++) w->points[j] = sum += exponential(g);
    double scale = w->cumulative[n - 1] / (sum + exponential(g));
    w->cumulative[n - 1] = INFINITY; /* rounding cannot carry the merge past the last particle */
    for (long i = 0, j = 0; j < n;) { /* one comparison a step, without a branch to mispredict */
        int advance = w->cumulative[i] < scale * w->points[j];
        w->parent[j] = w->x[i];
        i += advance;
        j += !advance;
    }
}

static double filter(const job *b, const workspace *w, rng g) {
    long n = b->particles;
    double total = 0, precision = 1 / (b->sy * b->sy);
    for (long t = 0; t < b->steps; t++) {
        if (t == 0) {
            for (long i = 0; i < n; i++) w->x[i] = b->s0 * normal(&g);
        } else {
            resample(n, w, &g);
            for (long i = 0; i < n; i++) w->x[i] = b->phi * w->parent[i] + b->sx * normal(&g);
        }
        double nearest = INFINITY, sum = 0; /* weights relative to the largest: no underflow */
        for (long i = 0; i < n; i++) {
            double e = b->y[t] - w->x[i], d = e * e;
            w->points[i] = d;
            nearest = d < nearest ? d : nearest;
        }
        for (long i = 0; i < n; i++)
            w->cumulative[i] = sum += exp(0.5 * precision * (nearest - w->points[i]));
        total += log(sum / n) - 0.5 * precision * nearest;
    }
    return total - b->steps * log(b->sy * sqrt(2 * M_PI));
}

static void *worker(void *argument) {
    job *b = argument;
    long n = b->particles, run;
    double *block = doubles(NULL, 4 * n);
    workspace w = {block, block + n, block + 2 * n, block + 3 * n};
    while ((run = atomic_fetch_add(&b->next_run, 1)) < b->runs)
        b->log_evidence[run] = filter(b, &w, rng_for_run(b->seed, run));
    free(block);
    return NULL;
}

static void read_input(const char *path, job *b) {
    FILE *file = fopen(path, "r");
    if (!file) die("cannot open INPUT");
    if (fscanf(file, "%lf %lf %lf %lf", &b->phi, &b->sx, &b->sy, &b->s0) != 4)
        die("the first line of INPUT must be `phi sx sy s0`");
    b->y = doubles(NULL, 1);
    while (fscanf(file, "%lf", &b->y[b->steps]) == 1) b->y = doubles(b->y, ++b->steps + 1);
    if (!feof(file) || b->steps == 0) die("INPUT must hold one observation per line");
    fclose(file);
}

int main(int argc, char **argv) {
    if (argc != 6) die("usage: filter P RUNS SEED THREADS INPUT");
    job b = {.particles = atol(argv[1]), .runs = atol(argv[2]), .seed = strtoull(argv[3], 0, 10)};
    long threads = atol(argv[4]);
    if (b.particles < 1 || b.runs < 1 || threads < 1 || threads > MAX_THREADS)
        die("P and RUNS must be positive, and THREADS between 1 and 64");
    read_input(argv[5], &b);
    b.log_evidence = doubles(NULL, b.runs);
    build_ziggurats();

    pthread_t team[MAX_THREADS];
    double start = now();
    for (long k = 0; k < threads; k++)
        if (pthread_create(&team[k], NULL, worker, &b)) die("cannot start a thread");
    for (long k = 0; k < threads; k++) pthread_join(team[k], NULL);
    double seconds = now() - start;

    for (long r = 0; r < b.runs; r++)
        if (!isfinite(b.log_evidence[r])) die("an estimate is not finite: check INPUT");
    printf("{\"seconds\": %.9f, \"log_evidence\": [", seconds);
    for (long r = 0; r < b.runs; r++) printf("%s%.17g", r ? ", " : "", b.log_evidence[r]);
    printf("]}\n");
    free(b.y);
    free(b.log_evidence);
    return 0;
}
