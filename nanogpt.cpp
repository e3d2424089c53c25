// nanogpt: trains and samples a GPT, in one file of C++20, with nothing but the standard library.
//
//     make && ./nanogpt train && ./nanogpt sample          make test
//
// 0  How to read this file
//
// From top to bottom: each section uses only what stands above it. It is meant to be read beside the tutorial "Write a
// NanoGPT, part 3: normalization and residual connections". (T1) … (T20) are its equations, stated and derived in
// docs/derivations.md; docs/reading.md maps the tutorial to this file, the derivations, the lab and the tests.
//
//     1  Ground         numbers, errors, randomness, threads      first reading: take parallel_… for a loop,
//     2  Matrices       one kernel behind every product           and matmul for a product
//     3  Layers         each with formula, derivation, forward, backward; tested one by one in tests/layers.cpp
//     4  The model      parameters, the residual block, forward and backward; tests/model.cpp
//     5  AdamW          the optimizer
//     6  Text           tokens and batches
//     7  Sampling       the key-value cache, temperature, top-k, top-p
//     8  Checkpoints    JSON, safetensors: Hugging Face's directory
//     9  Options        nanoGPT's names
//    10  Training       the loop, the log, the plot
//    11  The commands   train, sample, eval
//
//     equation               here                                              test
//     (T1), (T4), (T5)       layernorm_forward, layernorm_backward             tests/layers.cpp, tests/theorems.cpp
//     (T2), (T5)             rmsnorm_forward, rmsnorm_backward                 tests/layers.cpp, tests/theorems.cpp
//     (T3), (T14), (T18)     GPT::half_forward                                 tests/model.cpp
//     (T8), (T9), (T15), (T19)   GPT::half_backward                            tests/model.cpp
//     (T6), (T7), (T10) … (T13), (T16), (T17), (T20)     docs/lab.cpp          tests/theorems.cpp

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cctype>
#include <charconv>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iomanip>
#include <iostream>
#include <iterator>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <numbers>
#include <numeric>
#include <optional>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

// ---------------------------------------------------------------------------------------------------------------------
// 1  Ground: numbers, errors, randomness, threads

#ifndef NANOGPT_REAL
#define NANOGPT_REAL float
#endif
using real = NANOGPT_REAL;   // the tests build this file a second time with double, where finite differences are sharp
using idx = std::ptrdiff_t;  // sizes and positions, signed so that differences are safe
using Token = std::int32_t;

template <class... Parts> std::string text(const Parts&... parts) {
    std::ostringstream out;
    (out << ... << parts);
    return out.str();
}

// What the user can put right: one line that says what is wrong, with the value, and what to do. main prints it and
// exits 1.
struct Error : std::runtime_error {
    template <class... Parts> explicit Error(const Parts&... parts) : std::runtime_error(text(parts...)) {}
};

// A command line that makes no sense; main exits 2.
struct UsageError : Error {
    using Error::Error;
};

// Random numbers are a function of (seed, purpose, step, index), not of a state that moves. So any of them can be drawn
// again: the backward redraws the dropout masks instead of storing them, a resumed run continues as if never stopped,
// and threads draw in any order. The function is the finalizer of splitmix64 (Steele et al., 2014), applied to each key
// in turn.
enum class Purpose : std::uint64_t { init = 1, batch, dropout, sample, test };

class Random {
  public:
    Random(std::uint64_t seed, Purpose purpose, std::uint64_t step = 0)
        : key_(mix(mix(mix(seed) + static_cast<std::uint64_t>(purpose)) + step)) {}

    std::uint64_t bits(idx i) const { return mix(key_ + static_cast<std::uint64_t>(i) * 0x9E3779B97F4A7C15u); }
    // In [0, 1), 53 bits.
    double uniform(idx i) const { return static_cast<double>(bits(i) >> 11) * 0x1p-53; }
    // Standard normal, by Box and Muller: a radius sqrt(-2 ln u) and an angle.
    double normal(idx i) const {
        const double radius = std::sqrt(-2 * std::log(1 - uniform(2 * i)));
        return radius * std::cos(2 * std::numbers::pi * uniform(2 * i + 1));
    }

  private:
    static std::uint64_t mix(std::uint64_t z) {
        z += 0x9E3779B97F4A7C15u;
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
        z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
        return z ^ (z >> 31);
    }
    std::uint64_t key_;
};

// The thread pool. A training step is a hundred short parallel regions, so the threads are started once and, between
// regions, spin a little before they sleep. A region is `count` independent tasks. Each thread owns one contiguous
// share of them (the same share each time, so its data stay in its cache) and, when that is done, helps with the
// others' shares: a core that is slow today delays nobody. Which thread runs a task never changes what the task
// computes.
class Pool {
  public:
    explicit Pool(int threads) : shares_(static_cast<std::size_t>(threads)) {
        try {
            for (int t = 1; t < threads; t++) workers_.emplace_back([this, t] { work(static_cast<std::size_t>(t)); });
        } catch (const std::system_error&) {
            stop();
            throw Error("cannot start ", threads, " threads; lower --threads");
        }
    }
    ~Pool() { stop(); }
    int threads() const { return static_cast<int>(shares_.size()); }

    // Calls task(i) once for each i in [0, count), on any thread, and returns when all are done. The first exception is
    // rethrown.
    template <class Task> void run(idx count, const Task& task) {
        if (count <= 0) return;
        if (count == 1 || shares_.size() == 1) {
            for (idx i = 0; i < count; i++) task(i);
            return;
        }
        context_ = &task;
        call_ = [](const void* context, idx i) { (*static_cast<const Task*>(context))(i); };
        done_.store(0, std::memory_order_relaxed);
        const idx threads = static_cast<idx>(shares_.size());
        for (idx t = 0; t < threads; t++) {
            const auto begin = static_cast<std::uint64_t>(count * t / threads);
            const auto end = static_cast<std::uint64_t>(count * (t + 1) / threads);
            shares_[static_cast<std::size_t>(t)].range.store(begin << 32 | end, std::memory_order_release);
        }
        publish();
        help(0);
        for (int spins = 0; done_.load(std::memory_order_acquire) < count; spins++)
            if (spins > 1000) std::this_thread::yield();
        if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
    }

  private:
    // The next task and the end of a share in one word, so that taking a task is one compare-and-swap. A thread that
    // comes late from an earlier region either finds the share empty or takes a task of the present one: both are
    // right.
    struct alignas(64) Share {
        std::atomic<std::uint64_t> range{0};
    };

    void stop() {
        stop_ = true;
        publish();
        for (auto& worker : workers_) worker.join();
    }

    void publish() {
        region_.fetch_add(1, std::memory_order_release);
        region_.notify_all();
    }

    void help(std::size_t self) {
        for (std::size_t v = 0; v < shares_.size(); v++) {
            auto& range = shares_[(self + v) % shares_.size()].range;
            std::uint64_t seen = range.load(std::memory_order_acquire);
            idx finished = 0;  // added to done_ once a share, as each write takes its cache line from the other cores
            while (seen >> 32 < (seen & 0xFFFFFFFF)) {
                if (!range.compare_exchange_weak(seen, seen + (std::uint64_t{1} << 32), std::memory_order_acq_rel))
                    continue;
                try {
                    call_(context_, static_cast<idx>(seen >> 32));
                } catch (...) {
                    const std::lock_guard lock(failure_mutex_);
                    if (!failure_) failure_ = std::current_exception();
                }
                finished++;
                seen = range.load(std::memory_order_acquire);
            }
            if (finished > 0) done_.fetch_add(finished, std::memory_order_acq_rel);
        }
    }

    void work(std::size_t self) {
        for (std::uint32_t seen = 0; !stop_;) {
            help(self);
            for (int spins = 0; spins < 5000 && region_.load(std::memory_order_acquire) == seen; spins++)
                if (spins > 1000) std::this_thread::yield();
            region_.wait(seen, std::memory_order_acquire);
            seen = region_.load(std::memory_order_acquire);
        }
    }

    std::vector<Share> shares_;
    std::vector<std::thread> workers_;
    std::atomic<std::uint32_t> region_{0};
    std::atomic<idx> done_{0};
    std::atomic<bool> stop_{false};
    const void* context_ = nullptr;
    void (*call_)(const void*, idx) = nullptr;
    std::mutex failure_mutex_;
    std::exception_ptr failure_;
};

inline std::unique_ptr<Pool>& pool() {
    static std::unique_ptr<Pool> the_pool = std::make_unique<Pool>(1);
    return the_pool;
}

// threads = 0 takes all there are.
inline void set_threads(int threads) {
    pool().reset();
    pool() = std::make_unique<Pool>(
        threads > 0 ? threads : std::max(1, static_cast<int>(std::thread::hardware_concurrency())));
}

template <class Task> void parallel_for(idx count, const Task& task) { pool()->run(count, task); }

// task(begin, end) over pieces of [0, n) of a fixed length, whatever the number of threads.
template <class Task> void parallel_ranges(idx n, idx length, const Task& task) {
    parallel_for((n + length - 1) / length, [&](idx i) { task(i * length, std::min(n, (i + 1) * length)); });
}

// task(i) for each i in [0, n), `length` of them at a time.
template <idx length, class Task> void parallel_each(idx n, const Task& task) {
    parallel_ranges(n, length, [=](idx begin, idx end) {
        const Task local = task;  // what it captured can stay in registers
        for (idx i = begin; i < end; i++) local(i);
    });
}
constexpr idx few = 16, many = 8192;  // rows, and single numbers, that make a task worth a thread's while

// Working memory of the calling thread: it grows in the first step and is reused from then on. `which` tells apart the
// arrays that are in use at one time.
template <int which, class T = real> T* scratch(idx size) {
    thread_local std::vector<T> memory;
    if (static_cast<idx>(memory.size()) < size) memory.resize(static_cast<std::size_t>(size));
    return memory.data();
}

// Combines n numbers, a power of 2, by halves: x_k with x_(k+n/2), and so on. Each half is one vector operation in
// registers.
template <idx n, class Op> [[gnu::always_inline]] inline real combine(const real* x, const Op& op) {
    if constexpr (n == 1) return x[0];
    else {
        typedef real Half __attribute__((vector_size(n / 2 * sizeof(real))));
        Half low, high;
        std::memcpy(&low, x, sizeof low);
        std::memcpy(&high, x + n / 2, sizeof high);
        op(low, high);
        real halves[n / 2];
        std::memcpy(halves, &low, sizeof low);
        return combine<n / 2>(halves, op);
    }
}

// start, term(0) … term(n-1) joined by op(a, b), which leaves the result in a, in 16 interleaved parts, these in a
// fixed order. That does not depend on the vector width, so neither do the bits, and the loop vectorizes without
// -ffast-math.
template <class Term, class Op>
[[gnu::always_inline]] inline real reduce(idx n, real start, const Term& term, const Op& op) {
    real lane[16];
    for (real& x : lane) x = start;
    idx i = 0;
    for (; i + 16 <= n; i += 16)
        for (idx k = 0; k < 16; k++) op(lane[k], term(i + k));
    for (; i < n; i++) op(lane[i % 16], term(i));
    return combine<16>(lane, op);
}
template <class Term> [[gnu::always_inline]] inline real sum(idx n, const Term& term) {
    return reduce(n, 0, term, [](auto& a, const auto& b) { a += b; });
}
// NaN counts as nothing.
template <class Term> [[gnu::always_inline]] inline real maximum(idx n, const Term& term) {
    return reduce(n, -std::numeric_limits<real>::infinity(), term, [](auto& a, const auto& b) { a = b > a ? b : a; });
}

// exp(x) for x <= 88, of which a GPT needs x <= 0 only: 2ⁿ e^r with n the integer nearest to x / ln 2, so |r| <=
// ln 2 / 2. e^r is a polynomial of degree 6, 2ⁿ is made from its exponent bits. Relative error below 3e-7 down to
// -87.3, where float all but ends; below, it fades to 0. NaN stays NaN. There is no branch and no call in it: the
// compiler vectorizes the loops it stands in, and it takes a tenth of libm's time. Adding 1.5 · 2²³ to x / ln 2
// rounds that to the integer n and leaves n in the low bits of the sum t.
//
// F is float and I std::uint32_t, or both are vectors of those; F{} + c has c in every lane.
template <class F, class I> [[gnu::always_inline]] inline F exp_of(F x) {
    constexpr float rounder = 0x1.8p23f;
    x = x < -88.0f ? F{} - 88.0f : x;
    const F t = x * 1.44269504f + rounder, n = t - rounder;
    const F r = (x - n * 0.693359375f) - n * -2.12194440e-4f;  // ln 2 in two parts, the first with few bits
    F e = F{} + 1.0f / 720;
    e = e * r + 1.0f / 120;
    e = e * r + 1.0f / 24;
    e = e * r + 1.0f / 6;
    e = e * r + 0.5f;
    e = e * r + 1.0f;
    e = e * r + 1.0f;
    return e * std::bit_cast<F>((std::bit_cast<I>(t) + 127) << 23);
}
[[gnu::always_inline]] inline float exp_float(float x) { return exp_of<float, std::uint32_t>(x); }

// In double it is libm's.
[[gnu::always_inline]] inline real exp_real(real x) {
    if constexpr (std::is_same_v<real, float>) return exp_float(float(x));
    else return std::exp(x);
}

// σ(x) = 1 / (1 + e⁻ˣ) = eˣ / (1 + eˣ), whichever has the negative exponent.
[[gnu::always_inline]] inline real sigmoid(real x) {
    const real e = exp_real(-std::abs(x));
    return (x < 0 ? e : 1) / (1 + e);
}

// ---------------------------------------------------------------------------------------------------------------------
// 2  Matrices: one kernel behind every product
//
//     C = start + bias + A B        c_ij = start_ij + bias_j + Σ_k a_ik b_kj
//
// Nearly all of a GPT's arithmetic is done here. A processor multiplies and adds far faster than it reads memory, so
// each number that is read must be used often. The kernel below keeps a tile of C, R rows by V vectors, in registers;
// for each k it reads V vectors of B and R single numbers of A and does R·V vector multiply-adds. It reads both where
// they lie, if their rows lie near each other; else B is packed beforehand into panels, which are one straight line.
//
//        C                 A               B (a panel: V vectors wide, packed [K][V])
//     +--+----+         +------+         +--+----+
//     |  |tile| R   +=  |row...| R   x   |  | k  |      each c_ij sums over k = 0, 1, 2 … in this order, whatever
//     +--+----+         +------+         +--+----+      the tile or the thread: the bits do not depend on them.
//
// A transposed operand is the same memory with its two strides exchanged. So this one kernel computes the forward
// Y = X W, the input's gradient dX = dY Wᵀ and the weight's gradient dW = Xᵀ dY. (A product with a single row of A,
// as sampling has them, is bound by memory and done by a simpler function, `multiply_row`.)

// One processor register's worth of numbers (a GCC and Clang extension: + and * act on all lanes at once).
#if defined(__AVX512F__)
constexpr idx vector_bytes = 64, tile_rows = 8, tile_vectors = 3;  // 24 of 32 registers hold the tile
#elif defined(__AVX__)
constexpr idx vector_bytes = 32, tile_rows = 6, tile_vectors = 2;  // 12 of 16
#elif defined(__aarch64__)
constexpr idx vector_bytes = 16, tile_rows = 8, tile_vectors = 3;  // 24 of 32
#else
constexpr idx vector_bytes = 16, tile_rows = 4, tile_vectors = 2;  // 8 of 16
#endif
typedef real Vector __attribute__((vector_size(vector_bytes)));
constexpr idx lanes = vector_bytes / static_cast<idx>(sizeof(real));
constexpr idx k_block = 512;                       // a packed panel is at most 96 kB
constexpr idx part_tiles = 96;                     // a part of C is at most so many tiles long, and
constexpr idx row_block = part_tiles * tile_rows;  // so many rows of A, at most 1.5 MB, stay in the cache next to it
constexpr idx near = 512, warm = 1 << 18;          // read where they lie: rows up to 2 kB apart, up to 1 MB of them

inline Vector load(const real* p) {
    Vector v;
    std::memcpy(&v, p, sizeof v);
    return v;
}
inline void store(real* p, Vector v) { std::memcpy(p, &v, sizeof v); }

constexpr idx round_up(idx n, idx multiple) { return (n + multiple - 1) / multiple * multiple; }

// A matrix in memory that it does not own: element (i, j) is data[i * row + j * col].
struct View {
    const real* data;
    idx row, col;

    View from(idx i, idx j) const { return {data + i * row + j * col, row, col}; }
};
inline View rows_of(const real* data, idx row_length) { return {data, row_length, 1}; }
inline View transposed(View v) { return {v.data, v.col, v.row}; }

// B [K,N] as `multiply` reads it: packed panel after panel of panel_width columns, each stored [K][width], the last one
// narrower and filled up with zeros to whole vectors; or, if `row` is not 0, where it lay, with rows so far apart.
struct Packed {
    const real* data;
    idx K, N, row;
};
constexpr idx panel_width = tile_vectors * lanes;
constexpr idx packed_size(idx K, idx N) { return K * round_up(N, lanes); }

// Transposes lanes x lanes numbers: blocks of H x H change places across the diagonal, for H = lanes/2, lanes/4 … 1.
template <idx H = lanes / 2, idx... i> void transpose(Vector* x, std::integer_sequence<idx, i...> each) {
    for (idx r = 0; r < lanes; r++) {
        if (r & H) continue;
        const Vector upper = x[r], lower = x[r + H];
        x[r] = __builtin_shufflevector(upper, lower, (i & H ? lanes + i - H : i)...);
        x[r + H] = __builtin_shufflevector(upper, lower, (i & H ? lanes + i : i + H)...);
    }
    if constexpr (H > 1) transpose<H / 2>(x, each);
}

// Packs B, whose rows or columns are contiguous, into `out`, unless it can be read as it is: along its rows, whole
// vectors long, less than 2 kB apart (2 or 4 kB apart they would compete for few places in the cache), and not so many
// that they have left the cache.
inline Packed pack(real* out, View b, idx K, idx N) {
    if (b.col == 1 && b.row < near && K * b.row <= warm && N % lanes == 0) return {b.data, K, N, b.row};
    const Packed packed{out, K, N, 0};
    for (idx j0 = 0; j0 < N; j0 += panel_width) {
        const idx n = std::min(panel_width, N - j0), width = round_up(n, lanes);
        const real* from = b.from(0, j0).data;
        if (n < width) std::fill_n(out, K * width, real(0));
        if (b.col == 1) {
            for (idx k = 0; k < K; k++) {
                for (idx v = 0; v < n; v += lanes) __builtin_prefetch(from + (k + 16) * b.row + v);
                if (n == width)
                    for (idx v = 0; v < n; v += lanes) store(out + k * width + v, load(from + k * b.row + v));
                else std::copy_n(from + k * b.row, n, out + k * width);
            }
        } else {
            for (idx k = 0; k < K; k += lanes)
                for (idx j = 0; j < n; j += lanes) {
                    if (k + lanes <= K && j + lanes <= n) {
                        Vector x[lanes];
                        for (idx r = 0; r < lanes; r++) x[r] = load(from + (j + r) * b.col + k);
                        transpose(x, std::make_integer_sequence<idx, lanes>{});
                        for (idx r = 0; r < lanes; r++) store(out + (k + r) * width + j, x[r]);
                        continue;
                    }
                    for (idx c = j; c < std::min(n, j + lanes); c++)
                        for (idx r = k; r < std::min(K, k + lanes); r++) out[r * width + c] = from[c * b.col + r];
                }
        }
        out += K * width;
    }
    return packed;
}

// The tile: C [R, columns] = start + bias + A [R,K] · B, the rows of B `b_row` apart; start has C's rows, bias is one
// row; without them they are zero. A tile at the right edge goes through `edge`. The rows of C are asked for one after
// the other while the sums are made: all at once they would keep A and B waiting.
template <idx R, idx V> [[gnu::always_inline]] inline void tile(
    real* c, idx c_row, const real* start, const real* bias, View a, const real* b, idx b_row, idx K, idx columns) {
    real edge[R * V * lanes], edge_bias[V * lanes];
    const bool whole = columns == V * lanes;
    real* out = whole ? c : edge;
    const idx out_row = whole ? c_row : V * lanes;
    if (start && !whole) {
        for (idx r = 0; r < R; r++) std::copy_n(start + r * c_row, columns, edge + r * out_row);
        start = edge;
    }
    if (bias && !whole) bias = std::copy_n(bias, columns, edge_bias) - columns;
    Vector acc[R][V];
#pragma GCC unroll 8
    for (idx r = 0; r < R; r++)
        for (idx v = 0; v < V; v++) {
            acc[r][v] = start ? load(start + r * out_row + v * lanes) : Vector{};
            if (bias) acc[r][v] += load(bias + v * lanes);
        }
    for (idx k = 0, row = 0; k < K; row++) {
        for (idx v = 0; v < V; v++) __builtin_prefetch(out + row * out_row + v * lanes, 1);
        const idx end = row + 1 < R ? std::min(K, k + 16) : K;
#pragma GCC unroll 4  // fewer turns of the loop, so that the processor predicts its end
        for (; k < end; k++, b += b_row) {
            Vector bk[V];
            for (idx v = 0; v < V; v++) bk[v] = load(b + v * lanes);
#pragma GCC unroll 8
            for (idx r = 0; r < R; r++)
                for (idx v = 0; v < V; v++) acc[r][v] += a.data[r * a.row + k * a.col] * bk[v];
        }
    }
#pragma GCC unroll 8
    for (idx r = 0; r < R; r++)
        for (idx v = 0; v < V; v++) store(out + r * out_row + v * lanes, acc[r][v]);
    if (!whole)
        for (idx r = 0; r < R; r++) std::copy_n(edge + r * out_row, columns, c + r * c_row);
}

// Chooses the largest tile that fits what is left of the rows and the columns.
constexpr idx tile_height(idx rows, idx R = tile_rows) { return rows < R ? tile_height(rows, R / 2) : R; }

template <idx R, idx V, class... Arguments>
[[gnu::always_inline]] inline void tile_that_fits(idx rows, idx columns, const Arguments&... arguments) {
    if constexpr (R > 1)
        if (rows < R) return tile_that_fits<R / 2, V>(rows, columns, arguments...);
    if constexpr (V > 1)
        if (columns <= (V - 1) * lanes) return tile_that_fits<R, V - 1>(rows, columns, arguments...);
    tile<R, V>(arguments..., columns);
}

// C [M,N] = start + bias + A [M,K] · B, by the calling thread, from the first K rows and N columns of a packed B.
// in_strips: A stands as pack_strips, below, puts it.
inline void multiply(real* c, idx c_row, View a, Packed b, idx M, idx N, idx K, const real* start = nullptr,
    const real* bias = nullptr, bool in_strips = false) {
    for (idx j = 0; j < N; j += panel_width) {
        const real* panel = b.data + j * (b.row ? 1 : b.K);
        const idx b_row = b.row ? b.row : std::min(panel_width, round_up(b.N - j, lanes));
        for (idx i = 0; i < M; i += tile_height(M - i)) {
            const View rows =
                in_strips ? View{a.data + i / tile_rows * tile_rows * K + i % tile_rows, a.row, a.col} : a.from(i, 0);
            tile_that_fits<tile_rows, tile_vectors>(M - i, std::min(panel_width, N - j), c + i * c_row + j, c_row,
                start ? start + i * c_row + j : nullptr, bias ? bias + j : nullptr, rows, panel, b_row, K);
        }
    }
}

// Columns [begin, end) of a product with a single row, a [K], as sampling has them: each weight is used once, so B is
// read where it lies, along its rows if they are contiguous, else along its columns.
inline void multiply_row(
    real* c, View a, View b, idx begin, idx end, idx K, const real* start = nullptr, const real* bias = nullptr) {
    for (idx j = begin; j < end; j++) c[j] = (start ? start[j] : 0) + (bias ? bias[j] : 0);
    if (b.col != 1) {
        for (idx j = begin; j < end; j++)
            c[j] += sum(K, [a, w = b.from(0, j).data](idx k) { return a.data[k * a.col] * w[k]; });
        return;
    }
    const auto add = [&]<idx n>(idx k, std::integral_constant<idx, n>) {  // n rows of B at a time
        real x[n];
        for (idx u = 0; u < n; u++) x[u] = a.from(0, k + u).data[0];
        const real* w = b.from(k, 0).data;
        idx j = begin;
        for (; j + lanes <= end; j += lanes) {
            Vector y = load(c + j);
            for (idx u = 0; u < n; u++) y += x[u] * load(w + u * b.row + j);
            store(c + j, y);
        }
        for (; j < end; j++)
            for (idx u = 0; u < n; u++) c[j] += x[u] * w[u * b.row + j];
    };
    idx k = 0;
    for (; k + 8 <= K; k += 8) add(k, std::integral_constant<idx, 8>{});
    for (; k < K; k++) add(k, std::integral_constant<idx, 1>{});
}

// Packs the rows of a transposed A [M,K] in strips of tile_rows, each stored [K][tile_rows]; 16 columns of A at a time,
// whose lines in the cache serve several strips.
inline void pack_strips(real* out, View a, idx M, idx K) {
    for (idx k0 = 0; k0 < K; k0 += 16)
        for (idx i = 0; i < M; i += tile_rows)
            for (idx k = k0; k < std::min(K, k0 + 16); k++)
                if (M - i >= tile_rows) std::copy_n(a.from(i, k).data, tile_rows, out + i * K + k * tile_rows);
                else std::copy_n(a.from(i, k).data, M - i, out + i * K + k * tile_rows);
}

// C [M,N] = start + bias + A [M,K] B [K,N], by the calling thread. What the kernel would read across many pages, or for
// the first time since it left the cache, is copied: copying reads ahead.
inline void product(
    real* c, idx c_row, View a, View b, idx M, idx N, idx K, const real* start = nullptr, const real* bias = nullptr) {
    real *panel = scratch<0>(k_block * panel_width), *strips = scratch<1>(row_block * k_block);
    const bool in_strips = a.col > near || (a.col > 1 && K * a.col > warm);
    for (idx i0 = 0; i0 < M; i0 += row_block)
        for (idx k = 0; k < K; k += k_block) {
            const idx rows = std::min(row_block, M - i0), depth = std::min(k_block, K - k);
            if (in_strips) pack_strips(strips, a.from(i0, k), rows, depth);
            const View left = in_strips ? View{strips, 1, tile_rows} : a.from(i0, k);
            for (idx j = 0; j < N; j += panel_width) {
                const Packed right = pack(panel, b.from(k, j), depth, std::min(panel_width, N - j));
                const idx at = i0 * c_row + j;
                const real* from = k > 0 ? c : start;
                multiply(c + at, c_row, left, right, rows, right.N, depth, from ? from + at : nullptr,
                    bias && k == 0 ? bias + j : nullptr, in_strips);
            }
        }
}

// C [M,N] = start + bias + A [M,K] B [K,N], by all threads. c and start have rows c_row apart; start may be c itself
// (it accumulates), another matrix or null; bias [N] may be null. The longer side of C is divided among the threads,
// and each packs for itself what its part needs, so that it stays in that core's caches. A weight's gradient, where K
// counts the batch's rows, is two such products, of the first and the last half of the rows: each core has one half
// of them in its cache already. It is two for any number of threads, so that the bits are the same.
inline void matmul(
    real* c, idx c_row, View a, View b, idx M, idx N, idx K, const real* start = nullptr, const real* bias = nullptr) {
    const idx threads = pool()->threads();
    if (M == 1) {  // a small one is done before a second thread has begun
        const idx slice = N * K < 30000 ? N : round_up((N + threads - 1) / threads, 16);
        return parallel_ranges(
            N, slice, [=](idx begin, idx end) { multiply_row(c, a, b, begin, end, K, start, bias); });
    }
    const bool by_rows = M >= N;
    const idx halves = start == c && K > std::max(M, N) ? 2 : 1, side = by_rows ? M : N;
    const idx unit = by_rows ? tile_rows : lanes, longest = part_tiles * (by_rows ? tile_rows : panel_width);
    const idx shares = threads * ((side * halves + threads * longest - 1) / (threads * longest));
    const idx length = round_up((side * halves + shares - 1) / shares, unit);
    const idx parts = (side + length - 1) / length;
    real* second = scratch<2>(halves > 1 ? M * N : 0);
    parallel_for(halves * parts, [=](idx task) {
        const idx half = task / parts, k = half * K / halves, depth = (half + 1) * K / halves - k;
        const idx begin = task % parts * length, size = std::min(length, side - begin);
        const idx i = by_rows ? begin : 0, j = by_rows ? 0 : begin, m = by_rows ? size : M, n = by_rows ? N : size;
        if (half) product(second + i * N + j, N, a.from(i, k), b.from(k, j), m, n, depth);
        else
            product(c + i * c_row + j, c_row, a.from(i, 0), b.from(0, j), m, n, depth,
                start ? start + i * c_row + j : nullptr, bias ? bias + j : nullptr);
    });
    if (halves > 1)
        parallel_each<few>(M, [=](idx i) {
            for (idx j = 0; j < N; j++) c[i * c_row + j] += second[i * N + j];
        });
}

// ---------------------------------------------------------------------------------------------------------------------
// 3  Layers
//
// Each layer is a pair of functions: foo_forward(outputs, inputs, sizes) and, below it, foo_backward(gradients of the
// inputs and parameters, gradient of the output, what the forward kept, sizes). A gradient dz means dLoss/dz. Gradients
// of parameters are added up (+=), as a parameter is used in many places; gradients of activations are written, unless
// the comment says "adds".
//
// B batch, T time, N = B·T rows, C width (n_embd), H query heads, G key and value heads, D width of a head, V
// vocabulary.

// ---------------------------------------------------------------------------------------------------------------------
// Linear: Y = X W + b        X [N,in], W [in,out], b [out], Y [N,out]
//
// y_nj = Σ_k x_nk w_kj + b_j, so x_nk reaches the loss through each y_nj with factor w_kj, and w_kj through each row n
// with x_nk:
//
//     dX = dY Wᵀ        dW = Xᵀ dY        db = Σ_n dY_n

struct Linear {
    real* weight;  // [in, out]
    real* bias;    // [out] or null
};

// plus [N,out], which may be null, is added: where a residual branch ends, it is the shortcut.
inline void linear_forward(real* y, const real* x, Linear w, idx N, idx in, idx out, const real* plus = nullptr) {
    matmul(y, out, rows_of(x, in), rows_of(w.weight, out), N, out, in, plus, w.bias);
}

// Sums over all rows, as the gradients of biases and gains are: a [C] and b [C], which may be null, get added what
// row(n, a, b) adds for each n. So that the order is fixed, the rows are cut into `pieces` whatever the number of
// threads; each piece adds up its own [a, b], and these are added in order.
template <class Row> void sum_rows(real* a, real* b, idx N, idx C, const Row& row) {
    constexpr idx pieces = 16;
    real* partial = scratch<0>(pieces * 2 * C);
    parallel_for(pieces, [=, &row](idx p) {
        real *pa = partial + p * 2 * C, *pb = pa + C;
        std::fill_n(pa, 2 * C, real(0));
        for (idx n = p * N / pieces; n < (p + 1) * N / pieces; n++) row(n, pa, pb);
    });
    for (idx p = 0; p < pieces; p++) {
        const real *pa = partial + p * 2 * C, *pb = pa + C;
        for (idx i = 0; i < C; i++) a[i] += pa[i];
        for (idx i = 0; b && i < C; i++) b[i] += pb[i];
    }
}

// db [C] += the sum of the rows of dy [N,C].
inline void bias_backward(real* db, const real* dy, idx N, idx C) {
    sum_rows(db, nullptr, N, C, [=](idx n, real* __restrict sums, real*) {
        for (idx c = 0; c < C; c++) sums[c] += dy[n * C + c];
    });
}

// Adds to dw.
inline void linear_backward_weight(Linear dw, const real* dy, const real* x, idx N, idx in, idx out) {
    matmul(dw.weight, out, transposed(rows_of(x, in)), rows_of(dy, out), in, out, N, dw.weight);
    if (dw.bias) bias_backward(dw.bias, dy, N, out);
}

inline void linear_backward_input(real* dx, const real* dy, Linear w, idx N, idx in, idx out) {
    matmul(dx, in, rows_of(dy, out), transposed(rows_of(w.weight, out)), N, in, out);
}

// Both; dx is written last and may take the place of x.
inline void linear_backward(real* dx, Linear dw, const real* dy, const real* x, Linear w, idx N, idx in, idx out) {
    linear_backward_weight(dw, dy, x, N, in, out);
    linear_backward_input(dx, dy, w, N, in, out);
}

// ---------------------------------------------------------------------------------------------------------------------
// LayerNorm (T1)
//
//     y_i = γ_i x̂_i + β_i    x̂_i = (x_i − μ) / σ    μ = mean_j x_j    σ = sqrt(mean_j (x_j − μ)² + ε)
//
// With γ = 1, β = 0 and ε = 0 it is (T4). Backward. u_i = γ_i dy_i is the gradient that reaches x̂_i. Each x_j
// acts three times: in its own numerator, through μ with ∂μ/∂x_j = 1/C, and through σ with ∂σ/∂x_j = (x_j
// − μ) / (C σ) = x̂_j / C. So
//
//     dx_j = u_j / σ − Σ_i u_i / (C σ) − x̂_j Σ_i u_i x̂_i / (C σ)
//          = (u_j − mean_i(u_i) − x̂_j mean_i(u_i x̂_i)) / σ
//
// which is J_LN(x)ᵀ u of (T5), with ε in σ: what points along 1 and (but for ε) along x̂ is taken out, the rest
// is scaled by 1/σ (T6). A large activation gets a small gradient: the damping that (T10) lives on. And dγ_i = Σ_n
// dy_ni x̂_ni, dβ_i = Σ_n dy_ni over the rows.

struct Gain {
    real* gamma;  // [C]
    real* beta;   // [C], null for RMSNorm
};

// y = γ x̂ + β for rows [begin, end) of x [N,C], from each row's mean and 1/σ in moments [N,2].
inline void normalize(real* y, const real* moments, const real* x, Gain gain, idx begin, idx end, idx C) {
    for (idx n = begin; n < end; n++) {
        const real *xn = x + n * C, mean = moments[2 * n], rstd = moments[2 * n + 1];
        real* yn = y + n * C;
        for (idx i = 0; i < C; i++) yn[i] = gain.gamma[i] * ((xn[i] - mean) * rstd);
        if (gain.beta)
            for (idx i = 0; i < C; i++) yn[i] += gain.beta[i];
    }
}

// y, x [N,C]; moments [N,2] keeps each row's mean and 1/σ for the backward. One loop after the other over a few rows:
// the sums of different rows can overlap, the steps within one row cannot.
inline void layernorm_forward(real* y, real* moments, const real* x, Gain gain, idx N, idx C, real eps) {
    parallel_ranges(N, few, [=](idx begin, idx end) {
        for (idx n = begin; n < end; n++) moments[2 * n] = sum(C, [xn = x + n * C](idx i) { return xn[i]; }) / real(C);
        for (idx n = begin; n < end; n++) {
            const real *xn = x + n * C, mean = moments[2 * n];
            const real variance = sum(C, [=](idx i) { return (xn[i] - mean) * (xn[i] - mean); }) / real(C);
            moments[2 * n + 1] = 1 / std::sqrt(variance + eps);
        }
        normalize(y, moments, x, gain, begin, end, C);
    });
}

// Adds to dx [N,C]: the residual path's gradient already stands there, the I of (T9) to which this adds J.
inline void layernorm_backward(
    real* dx, Gain dgain, const real* dy, const real* x, const real* moments, Gain gain, idx N, idx C) {
    sum_rows(dgain.gamma, dgain.beta, N, C, [=](idx n, real* __restrict dgamma, real* __restrict dbeta) {
        const real *xn = x + n * C, *dyn = dy + n * C, *gamma = gain.gamma;
        const real mean = moments[2 * n], rstd = moments[2 * n + 1];
        const auto xhat = [=](idx i) { return (xn[i] - mean) * rstd; };
        const real mean_u = sum(C, [=](idx i) { return gamma[i] * dyn[i]; }) / real(C);
        const real mean_ux = sum(C, [=](idx i) { return gamma[i] * dyn[i] * xhat(i); }) / real(C);
        real* __restrict dxn = dx + n * C;
        for (idx i = 0; i < C; i++) {
            dxn[i] += (gamma[i] * dyn[i] - mean_u - xhat(i) * mean_ux) * rstd;
            dgamma[i] += dyn[i] * xhat(i);
            dbeta[i] += dyn[i];
        }
    });
}

// ---------------------------------------------------------------------------------------------------------------------
// RMSNorm (T2)
//
//     y_i = γ_i x̂_i        x̂_i = x_i / r        r = sqrt(mean_j x_j² + ε)
//
// LayerNorm without the mean: r is the root mean square of x itself, not its standard deviation. x_j acts in its own
// numerator and through r, with ∂r/∂x_j = x_j / (C r) = x̂_j / C; so of LayerNorm's three terms two are left,
// J_RMS(x)ᵀ u of (T5):
//
//     dx_j = (u_j − x̂_j mean_i(u_i x̂_i)) / r        dγ_i = Σ_n dy_ni x̂_ni

// y, x [N,C]; moments [N,2] keeps 0, as the mean is left in, and 1/r.
inline void rmsnorm_forward(real* y, real* moments, const real* x, Gain gain, idx N, idx C, real eps) {
    parallel_ranges(N, few, [=](idx begin, idx end) {
        for (idx n = begin; n < end; n++) {
            const real* xn = x + n * C;
            moments[2 * n] = 0;
            moments[2 * n + 1] = 1 / std::sqrt(sum(C, [=](idx i) { return xn[i] * xn[i]; }) / real(C) + eps);
        }
        normalize(y, moments, x, gain, begin, end, C);
    });
}

// Adds to dx [N,C].
inline void rmsnorm_backward(
    real* dx, Gain dgain, const real* dy, const real* x, const real* moments, Gain gain, idx N, idx C) {
    sum_rows(dgain.gamma, nullptr, N, C, [=](idx n, real* __restrict dgamma, real*) {
        const real *xn = x + n * C, *dyn = dy + n * C, *gamma = gain.gamma;
        const real rrms = moments[2 * n + 1];
        const real mean_ux = sum(C, [=](idx i) { return gamma[i] * dyn[i] * (xn[i] * rrms); }) / real(C);
        real* __restrict dxn = dx + n * C;
        for (idx i = 0; i < C; i++) {
            const real xhat = xn[i] * rrms;
            dxn[i] += (gamma[i] * dyn[i] - xhat * mean_ux) * rrms;
            dgamma[i] += dyn[i] * xhat;
        }
    });
}

// ---------------------------------------------------------------------------------------------------------------------
// Embedding and positions
//
//     x_n = wte[token_n] + wpe[t]        n = b T + t
//
// A row of a table is chosen, so its gradient is the sum over the places where it was chosen. wpe is a learned table,
// or fixed:
//
//     wpe[t, 2i] = sin(t / 10000^(2i/C))        wpe[t, 2i+1] = cos(t / 10000^(2i/C))        (Vaswani et al., 2017)

// x [N,C]; wte [V,C]; wpe [T,C] or null. Times before `from` are left alone.
inline void embedding_forward(
    real* x, const Token* tokens, const real* wte, const real* wpe, idx B, idx T, idx from, idx C) {
    parallel_each<few>(B * T, [=](idx n) {
        if (n % T < from) return;
        const real *token = wte + tokens[n] * C, *position = wpe ? wpe + n % T * C : nullptr;
        for (idx c = 0; c < C; c++) x[n * C + c] = position ? token[c] + position[c] : token[c];
    });
}

// dwpe may be null. Split over columns, so that each sum runs over the rows in order.
inline void embedding_backward(real* dwte, real* dwpe, const real* dx, const Token* tokens, idx B, idx T, idx C) {
    parallel_ranges(C, 32, [=](idx c0, idx c1) {
        const auto add = [=](real* __restrict sum, const real* from) {
            for (idx c = c0; c < c1; c++) sum[c] += from[c];
        };
        for (idx n = 0; n < B * T; n++) {
            add(dwte + tokens[n] * C, dx + n * C);
            if (dwpe) add(dwpe + n % T * C, dx + n * C);
        }
    });
}

inline void sinusoidal_table(real* wpe, idx T, idx C) {
    for (idx t = 0; t < T; t++)
        for (idx c = 0; c < C; c++) {
            const double angle = double(t) / std::pow(10000.0, double(c / 2 * 2) / double(C));
            wpe[t * C + c] = real(c % 2 == 0 ? std::sin(angle) : std::cos(angle));
        }
}

// ---------------------------------------------------------------------------------------------------------------------
// RoPE: positions as rotations (Su et al., 2021)
//
// The two halves of each head are taken as D/2 points (a_i, b_i) of the plane; at time t point i is turned by t θ_i,
// θ_i = base^(−2i/D):
//
//     a' = a cos(tθ) − b sin(tθ)        b' = b cos(tθ) + a sin(tθ)
//
// Turning keeps lengths, and the product of a query turned by tθ with a key turned by sθ depends on t − s only. The
// gradient of a rotation is the rotation back, so the backward is the same function with the sign of sin exchanged. It
// happens inside each head, never across the whole width, and to queries and keys, not to values.

// Sizes of attention, and where its rows lie: qkv [B, T, (H + 2G) D] holds H queries, then G keys, then G values; out
// is [B, T, H D].
struct Heads {
    idx B, T, H, G, D;

    idx row() const { return (H + 2 * G) * D; }
};

// table [T, D/2, 2] of cos and sin.
inline void rope_table(real* table, idx T, idx D, double base) {
    for (idx t = 0; t < T; t++)
        for (idx i = 0; i < D / 2; i++) {
            const double angle = double(t) * std::pow(base, -2.0 * double(i) / double(D));
            table[t * D + 2 * i] = real(std::cos(angle));
            table[t * D + 2 * i + 1] = real(std::sin(angle));
        }
}

// Turns the queries and keys of qkv in place, from time `from` on; direction 1 forward, -1 backward.
inline void rope(real* qkv, const real* table, int direction, Heads s, idx from) {
    parallel_each<few>(s.B * s.T, [=](idx n) {
        if (n % s.T < from) return;
        const real* turn = table + n % s.T * s.D;
        for (idx h = 0; h < s.H + s.G; h++) {
            real *a = qkv + n * s.row() + h * s.D, *b = a + s.D / 2;
            for (idx i = 0; i < s.D / 2; i++) {
                const real cos = turn[2 * i], sin = real(direction) * turn[2 * i + 1], ai = a[i], bi = b[i];
                a[i] = ai * cos - bi * sin;
                b[i] = bi * cos + ai * sin;
            }
        }
    });
}

// ---------------------------------------------------------------------------------------------------------------------
// Dropout (Srivastava et al., 2014)
//
//     y_i = m_i x_i        m_i = 0 with probability p, else 1/(1−p)        dx_i = m_i dy_i
//
// The scale keeps the mean, so that nothing changes when it is switched off for validation and sampling. The mask is
// drawn again in the backward: it is a function of the key and of i.

struct Dropout {
    Random random;
    real p;

    real mask(idx i) const { return real(random.uniform(i)) < p ? 0 : 1 / (1 - p); }
};

// y, x [count]; y may be x. Serves as its own backward, with dx for y and dy for x.
inline void dropout(real* y, const real* x, const Dropout& drop, idx count) {
    parallel_each<many>(count, [=](idx i) { y[i] = drop.mask(i) * x[i]; });
}

// ---------------------------------------------------------------------------------------------------------------------
// Causal attention with grouped heads
//
// Each of H query heads looks back over the times j <= i and takes a weighted mean of the values there. G key and value
// heads serve H/G query heads each (Ainslie et al., 2023; G = H is the classic form). For one head, rows q_i, k_j, v_j
// of width D:
//
//     s_ij = q_i · k_j / √D        p_ij = e^(s_ij) / Σ_(j'<=i) e^(s_ij')        o_i = Σ_j m_ij p_ij v_j
//
// (m is dropout's mask.) As in FlashAttention (Dao et al., 2022) no T × T matrix is kept: a block of queries at a time
// meets the keys up to its diagonal. Per query two numbers stay, the largest product t_i = max_j q_i · k_j and 1/z_i,
// from which the backward makes p_ij again:
//
//     p_ij = e^((q_i·k_j − t_i) / √D) / z_i        z_i = Σ_j e^((q_i·k_j − t_i) / √D)
//
// t is subtracted before the scale: of s·scale − t·scale a fused multiply-add would round only one product, and the
// difference of equal numbers would not be 0.
//
// Backward, from do_i. Through the weighted mean: dv_j = Σ_i m_ij p_ij do_i and dp_ij = m_ij do_i · v_j. Through the
// softmax, whose Jacobian is ∂p_ij/∂s_ij' = p_ij (δ_jj' − p_ij'):
//
//     ds_ij = p_ij (dp_ij − Σ_j' p_ij' dp_ij')
//
// The sum equals do_i · o_i, which would be shorter; but that is rounded in another way, and where one p is nearly 1
// the difference of two equal numbers would be left with the error of both. And through the product:
//
//     dq_i = Σ_j ds_ij k_j / √D        dk_j = Σ_i ds_ij q_i / √D
//
// summed for k and v over the query heads that share them.

// A block of scores [keys, queries] has a row for each key and a column for each query. A vector holds one key's scores
// for several queries, whose softmaxes go down side by side: nothing is summed across a vector. More queries in a block
// would make the products faster, but skip less of what lies beyond the diagonal.
constexpr idx query_block = 32;

template <class V> [[gnu::always_inline]] inline V exp_lanes(V x) {
    if constexpr (std::is_same_v<real, float>) {
        typedef std::uint32_t Bits __attribute__((vector_size(vector_bytes)));
        return exp_of<V, Bits>(x);
    } else {
        for (idx i = 0; i < lanes; i++) x[i] = std::exp(x[i]);
        return x;
    }
}

// Queries i0, i0 + 1 … do not see the keys after them.
inline void hide_later(real* s, idx width, idx i0, idx visible) {
    for (idx j = i0 + 1; j < visible; j++)
        for (idx r = 0; r < j - i0; r++) s[j * width + r] = -std::numeric_limits<real>::infinity();
}

// The softmax but for the division: s, which holds q·k, becomes e^(scale (s - t)); top and over_z get t and 1/z.
inline void softmax_forward(real* s, real* top, real* over_z, idx width, idx visible, idx queries, real scale) {
    for (idx r = 0; r < queries; r += lanes) {
        Vector t = load(s + r), z{};
        for (idx j = 1; j < visible; j++) {
            const Vector x = load(s + j * width + r);
            t = x > t ? x : t;
        }
        for (idx j = 0; j < visible; j++) {
            const Vector e = exp_lanes(scale * (load(s + j * width + r) - t));
            store(s + j * width + r, e);
            z += e;
        }
        store(top + r, t);
        store(over_z + r, 1 / z);
    }
}

// s, which holds q·k, becomes p; ds, which holds dp = m do·v, becomes p (dp − Σ p dp) / √D, of which dq and dk
// are made.
inline void softmax_backward(
    real* s, real* ds, const real* top, const real* over_z, idx width, idx visible, idx queries, real scale) {
    for (idx r = 0; r < queries; r += lanes) {
        const Vector t = load(top + r), factor = load(over_z + r);
        Vector mean{};
        for (idx j = 0; j < visible; j++) {
            const idx at = j * width + r;
            const Vector p = exp_lanes(scale * (load(s + at) - t)) * factor;
            store(s + at, p);
            mean += p * load(ds + at);
        }
        for (idx j = 0; j < visible; j++) {
            const idx at = j * width + r;
            store(ds + at, scale * load(s + at) * (load(ds + at) - mean));
        }
    }
}

// Puts dropout's mask on a block; `first` is the place of its first query's first key among all scores [B,H,T,T].
inline void drop_scores(real* s, const Dropout& drop, idx first, idx width, idx i0, idx queries, idx T) {
    for (idx r = 0; r < queries; r++)
        for (idx j = 0; j <= i0 + r; j++) s[j * width + r] *= drop.mask(first + r * T + j);
}

// Keys or values [T,D] of one head, where they lie or, if they are strewn over much memory, copied to `out`.
inline View gathered(real* out, View rows, idx T, idx D) {
    if (T * rows.row <= warm) return rows;
    for (idx t = 0; t < T; t++) std::copy_n(rows.from(t, 0).data, D, out + t * D);
    return rows_of(out, D);
}

// out [B,T,H*D]; softmax [B,H,2,T] keeps each query's t and 1/z; queries from time `from` on, as sampling asks for the
// last one only. drop may be null.
inline void attention_forward(real* out, real* softmax, const real* qkv, Heads s, idx from, const Dropout* drop) {
    const idx row = s.row(), D = s.D, T = s.T, block = std::min(query_block, T - from);
    const idx width = block > 1 ? round_up(block, 16) : 1;
    const real scale = 1 / std::sqrt(real(D));
    parallel_for(s.B * s.G, [=](idx task) {
        const idx b = task / s.G, g = task % s.G;
        const real* queries = qkv + b * T * row;
        const View key_rows = rows_of(queries + (s.H + g) * D, row), values = rows_of(key_rows.data + s.G * D, row);
        real *p = scratch<0>(T * width), *turned = scratch<1>(packed_size(D, block));
        const bool single = block == 1;  // is not worth packing
        const View keys = single ? key_rows : gathered(scratch<2>(T * D), key_rows, T, D);
        const Packed packed_values = single ? Packed{} : pack(scratch<3>(packed_size(T, D)), values, T, D);
        for (idx h = g * (s.H / s.G); h < (g + 1) * (s.H / s.G); h++)
            for (idx i0 = from; i0 < T; i0 += block) {
                const idx rows = std::min(block, T - i0), visible = i0 + rows, head = b * s.H + h;
                const View q = rows_of(queries + i0 * row + h * D, row), weights = transposed(rows_of(p, width));
                real *o = out + ((b * T + i0) * s.H + h) * D, top[query_block], over_z[query_block];
                if (single) {
                    multiply_row(p, q, transposed(keys), 0, visible, D);
                    const real t = top[0] = maximum(visible, [=](idx j) { return p[j]; });
                    over_z[0] = 1 / sum(visible, [=](idx j) { return p[j] = exp_real(scale * (p[j] - t)); });
                } else {
                    multiply(p, width, keys, pack(turned, transposed(q), D, rows), visible, rows, D);
                    hide_later(p, width, i0, visible);
                    softmax_forward(p, top, over_z, width, visible, rows, scale);
                }
                if (drop) drop_scores(p, *drop, (head * T + i0) * T, width, i0, rows, T);
                if (single) multiply_row(o, weights, values, 0, D, visible);
                else multiply(o, s.H * D, weights, packed_values, rows, D, visible);
                for (idx r = 0; r < rows; r++)
                    for (idx d = 0; d < D; d++) o[r * s.H * D + d] *= over_z[r];
                std::copy_n(top, rows, softmax + head * 2 * T + i0);
                std::copy_n(over_z, rows, softmax + (head * 2 + 1) * T + i0);
            }
    });
}

// dqkv [B, T, (H + 2G) D] from dout [B,T,H*D] and softmax [B,H,2,T].
inline void attention_backward(
    real* dqkv, const real* dout, const real* softmax, const real* qkv, Heads s, const Dropout* drop) {
    const idx row = s.row(), D = s.D, T = s.T, block = std::min(query_block, T), width = round_up(block, 16);
    const real scale = 1 / std::sqrt(real(D));
    parallel_for(s.B * s.G, [=](idx task) {
        const idx b = task / s.G, g = task % s.G;
        const real *queries = qkv + b * T * row, *own_keys = queries + (s.H + g) * D;
        real *dqueries = dqkv + b * T * row, *dkeys = dqueries + (s.H + g) * D, *dvalues = dkeys + s.G * D;
        real *p = scratch<0>(T * width), *ds = scratch<1>(T * width), *packed = scratch<2>(packed_size(block, D)),
             *turned = scratch<3>(packed_size(D, block));
        const View keys = gathered(scratch<4>(T * D), rows_of(own_keys, row), T, D);
        const View values = gathered(scratch<5>(T * D), rows_of(own_keys + s.G * D, row), T, D);
        const Packed packed_keys = pack(scratch<6>(packed_size(T, D)), keys, T, D);
        bool first = true;  // the last block of queries sees all keys; it comes first and starts their gradients
        for (idx h = g * (s.H / s.G); h < (g + 1) * (s.H / s.G); h++)
            for (idx i0 = (T - 1) / block * block; i0 >= 0; i0 -= block, first = false) {
                const idx rows = std::min(block, T - i0), visible = i0 + rows, head = b * s.H + h;
                const View q = rows_of(queries + i0 * row + h * D, row);
                const View d_o = rows_of(dout + ((b * T + i0) * s.H + h) * D, s.H * D);
                real top[query_block]{}, over_z[query_block]{};
                std::copy_n(softmax + head * 2 * T + i0, rows, top);
                std::copy_n(softmax + (head * 2 + 1) * T + i0, rows, over_z);
                multiply(p, width, keys, pack(turned, transposed(q), D, rows), visible, rows, D);
                hide_later(p, width, i0, visible);
                multiply(ds, width, values, pack(turned, transposed(d_o), D, rows), visible, rows, D);
                if (drop) drop_scores(ds, *drop, (head * T + i0) * T, width, i0, rows, T);
                softmax_backward(p, ds, top, over_z, width, visible, rows, scale);
                if (drop) drop_scores(p, *drop, (head * T + i0) * T, width, i0, rows, T);
                multiply(
                    dqueries + i0 * row + h * D, row, transposed(rows_of(ds, width)), packed_keys, rows, D, visible);
                multiply(dkeys, row, rows_of(ds, width), pack(packed, q, rows, D), visible, D, rows,
                    first ? nullptr : dkeys);
                multiply(dvalues, row, rows_of(p, width), pack(packed, d_o, rows, D), visible, D, rows,
                    first ? nullptr : dvalues);
            }
    });
}

// ---------------------------------------------------------------------------------------------------------------------
// GELU, tanh form (Hendrycks and Gimpel, 2016)
//
//     y = x (1 + tanh u) / 2 = x σ(z)        u = √(2/π) (x + 0.044715 x³)        z = 2u = x (a + b x²)
//
// as (1 + tanh u) / 2 = σ(2u). With σ' = σ (1 − σ):
//
//     dx = dy (σ + x σ (1 − σ) z')        z' = a + 3 b x²        a = 2 √(2/π)        b = 0.044715 a

constexpr double sqrt_2_over_pi = 0.79788456080286535588;
constexpr real gelu_a = real(2 * sqrt_2_over_pi), gelu_b = real(0.044715 * 2 * sqrt_2_over_pi);
[[gnu::always_inline]] inline real gelu_gate(real x) { return sigmoid(x * (gelu_a + gelu_b * (x * x))); }

// y, x [count].
inline void gelu_forward(real* y, const real* x, idx count) {
    parallel_each<many>(count, [=](idx i) { y[i] = x[i] * gelu_gate(x[i]); });
}

// Both are written over: dx takes the place of x; y, which the next layer's weight gradient needs again, that of dy.
inline void gelu_backward(real* x, real* dy, idx count) {
    parallel_each<many>(count, [=](idx i) {
        const real s = gelu_gate(x[i]), y = x[i] * s, slope = gelu_a + 3 * gelu_b * (x[i] * x[i]);
        x[i] = dy[i] * (s + y * (1 - s) * slope);
        dy[i] = y;
    });
}

// ---------------------------------------------------------------------------------------------------------------------
// SwiGLU (Shazeer, 2020)
//
//     y = silu(g) u        silu(g) = g σ(g)        a row of x [N, 2F] is F gates g, then F values u; y [N,F]
//
//     du = dy silu(g)        dg = dy u (σ + g σ (1 − σ))

inline void swiglu_forward(real* y, const real* x, idx N, idx F) {
    parallel_each<few>(N, [=](idx n) {
        const real *g = x + n * 2 * F, *u = g + F;
        for (idx i = 0; i < F; i++) y[n * F + i] = g[i] * sigmoid(g[i]) * u[i];
    });
}

// dx takes the place of x, y that of dy.
inline void swiglu_backward(real* x, real* dy, idx N, idx F) {
    parallel_each<few>(N, [=](idx n) {
        real *g = x + n * 2 * F, *u = g + F, *d = dy + n * F;
        for (idx i = 0; i < F; i++) {
            const real s = sigmoid(g[i]), silu = g[i] * s, y = silu * u[i];
            g[i] = d[i] * u[i] * (s + silu * (1 - s));
            u[i] = d[i] * silu;
            d[i] = y;
        }
    });
}

// ---------------------------------------------------------------------------------------------------------------------
// Residual addition (T3), (T14): y = x + f. The gradient passes to both unchanged, which is the I of (T9), (T15) and
// (T19). Where nothing comes between a branch's last product and the sum, that product starts from x (`plus` of
// linear_forward), which saves a pass over memory.

inline void residual_forward(real* y, const real* x, const real* f, idx count) {
    parallel_each<many>(count, [=](idx i) { y[i] = x[i] + f[i]; });
}

// Adds to dx, where the residual path's gradient stands, what comes back from the branch.
inline void residual_backward(real* dx, const real* df, idx count) {
    parallel_each<many>(count, [=](idx i) { dx[i] += df[i]; });
}

// ---------------------------------------------------------------------------------------------------------------------
// Cross-entropy
//
//     loss = mean_n −log p_n[target_n]      p_n = softmax(logits_n)      log p_v = logit_v − log Σ_v' e^(logit_v')
//
// The logits are what the model puts out, one number for each token that may come next.
//
//     dlogit_v = (p_v − [v = target]) / N
//
// as ∂(log Σ e^logit)/∂logit_v = p_v. The gradient is written over the logits: no table of probabilities is
// stored.

// losses [N] gets each row's −log p; logits [N,V] become their gradients, times `weight` (1/N for the mean) unless
// that is 0.
inline void cross_entropy(real* losses, real* logits, const Token* targets, real weight, idx N, idx V) {
    parallel_each<4>(N, [=](idx n) {
        real* z = logits + n * V;
        const real top = maximum(V, [=](idx v) { return z[v]; });
        const real total = sum(V, [=](idx v) { return exp_real(z[v] - top); });
        losses[n] = top + std::log(total) - z[targets[n]];
        if (weight == 0) return;
        const real factor = weight / total;
        for (idx v = 0; v < V; v++) z[v] = exp_real(z[v] - top) * factor;
        z[targets[n]] -= weight;
    });
}

// ---------------------------------------------------------------------------------------------------------------------
// 4  The model
//
// tokens -> embedding -> L blocks -> final norm -> logits. A block is two residual branches, attention and then an MLP,
// wired as
//
//     pre    x + f(norm(x))     (T3)     the gradient passes the sum unchanged, f's is damped by 1/σ (T9), (T10)
//     post   norm(x + f(x))              the transformer of 2017
//     none   x + f(x)           (T14)    explodes with depth (T17)
//     plain  f(x)               (T18)    vanishes or explodes with depth (T20)

enum class Norm { layer, rms };
enum class Position { learned, sinusoidal, rope, none };
enum class Mlp { gelu, swiglu };
enum class Wiring { pre, post, none, plain };

struct Config {
    int vocab_size = 0, block_size = 64, n_layer = 4, n_head = 4, n_kv_head = 0, n_embd = 128, n_hidden = 0;
    Norm norm = Norm::layer;
    Position pos = Position::learned;
    Mlp mlp = Mlp::gelu;
    Wiring wiring = Wiring::pre;
    bool bias = true, tie = true, final_norm = true;
    double dropout = 0, norm_eps = 1e-5, rope_theta = 10000;

    idx C() const { return n_embd; }
    idx D() const { return n_embd / n_head; }
    idx F() const { return n_hidden; }                             // the MLP's inner width
    idx fc() const { return mlp == Mlp::swiglu ? 2 * F() : F(); }  // what its first matrix puts out
    idx qkv() const { return (n_head + 2 * idx{n_kv_head}) * D(); }

    // Fills in what follows from the rest and refuses what makes no model.
    void complete() {
        const auto need = [](bool good, const auto&... message) {
            if (!good) throw Error(message...);
        };
        if (n_kv_head == 0) n_kv_head = n_head;
        if (n_hidden == 0) n_hidden = mlp == Mlp::gelu ? 4 * n_embd : static_cast<int>(round_up((8 * C() + 2) / 3, 8));
        need(n_embd % n_head == 0, "n_embd ", n_embd, " is not a multiple of n_head ", n_head,
            "; choose sizes that divide");
        need(n_head % n_kv_head == 0, "n_head ", n_head, " is not a multiple of n_kv_head ", n_kv_head,
            "; choose one that divides it");
        need(pos != Position::rope || D() % 2 == 0, "rope turns pairs, but n_embd / n_head = ", D(),
            " is odd; make it even or choose another --pos");
    }
};

// Memory for many arrays of one object: `want` notes each, `allocate` gets one piece for all and sets the pointers. All
// memory of a training step but the threads' `scratch` is got this way before the first step, and its size is known
// before that.
class Memory {
  public:
    Memory() = default;
    Memory(const Memory&) = delete;  // the pointers would point into the other's memory
    Memory& operator=(const Memory&) = delete;

    // Returns where the array will stand in the piece.
    idx want(real*& pointer, idx size) {
        if (size_ + size > idx{1} << 60) throw std::bad_alloc();
        wanted_.emplace_back(&pointer, size_);
        return std::exchange(size_, size_ + round_up(size, 16));
    }
    void allocate() {
        piece_.assign(static_cast<std::size_t>(size_ + 16), 0);
        const auto past_line = reinterpret_cast<std::uintptr_t>(piece_.data()) % 64 / sizeof(real);
        data_ = piece_.data() + (64 / sizeof(real) - past_line);  // on a cache line
        for (auto [pointer, offset] : wanted_) *pointer = data_ + offset;
    }
    real* data() const { return data_; }
    idx size() const { return size_; }

  private:
    std::vector<std::pair<real**, idx>> wanted_;
    std::vector<real> piece_;
    real* data_ = nullptr;
    idx size_ = 0;
};

// One named matrix or vector of the parameters: where it stands in their memory, and how it starts.
struct Tensor {
    std::string name;  // GPT-2's: wte.weight, h.0.attn.c_attn.weight …
    idx rows, cols;    // a vector has 0 rows
    idx offset;
    double start;  // matrices: standard deviation of the normal they are drawn from; vectors: their value

    idx size() const { return std::max<idx>(rows, 1) * cols; }
};

struct Block {
    Gain norm_1;
    Linear qkv, projection;  // [C, (H + 2G) D], [C, C]
    Gain norm_2;
    Linear fc, out;  // [C, F] or [C, 2F], [F, C]
};

// All parameters, or their gradients, or one of the optimizer's moments: the same arrays in the same places.
struct Parameters {
    Memory memory;
    std::vector<Tensor> tensors;
    real *wte = nullptr, *head = nullptr;  // [V,C]; the head is null if it is tied to wte
    real* wpe = nullptr;                   // [block_size,C] if positions are learned
    std::vector<Block> blocks;
    Gain final_norm{};

    explicit Parameters(const Config& c) : blocks(static_cast<std::size_t>(c.n_layer)) {
        const auto matrix = [&](const std::string& name, real*& pointer, idx rows, idx cols, double std) {
            tensors.push_back({name, rows, cols, memory.want(pointer, rows * cols), std});
        };
        const auto vector = [&](const std::string& name, real*& pointer, idx size, double value) {
            tensors.push_back({name, 0, size, memory.want(pointer, size), value});
        };
        const auto linear = [&](const std::string& name, Linear& w, idx in, idx out, double std) {
            matrix(name + ".weight", w.weight, in, out, std);
            if (c.bias) vector(name + ".bias", w.bias, out, 0);
        };
        const auto norm = [&](const std::string& name, Gain& gain) {
            vector(name + ".weight", gain.gamma, c.C(), 1);
            if (c.norm == Norm::layer && c.bias) vector(name + ".bias", gain.beta, c.C(), 0);
        };
        const bool norms = c.wiring == Wiring::pre || c.wiring == Wiring::post;
        // 2L branches add up on the residual path: their last matrices start so small that (T7)'s sum stays the same.
        const double std = 0.02, branch_end = std / std::sqrt(2.0 * c.n_layer);
        matrix("wte.weight", wte, c.vocab_size, c.C(), std);
        if (c.pos == Position::learned) matrix("wpe.weight", wpe, c.block_size, c.C(), std);
        for (std::size_t l = 0; l < blocks.size(); l++) {
            const std::string h = text("h.", l, ".");
            if (norms) norm(h + "ln_1", blocks[l].norm_1);
            linear(h + "attn.c_attn", blocks[l].qkv, c.C(), c.qkv(), std);
            linear(h + "attn.c_proj", blocks[l].projection, c.C(), c.C(), branch_end);
            if (norms) norm(h + "ln_2", blocks[l].norm_2);
            linear(h + "mlp.c_fc", blocks[l].fc, c.C(), c.fc(), std);
            linear(h + "mlp.c_proj", blocks[l].out, c.F(), c.C(), branch_end);
        }
        if (c.final_norm) norm("ln_f", final_norm);
        if (!c.tie) matrix("lm_head.weight", head, c.vocab_size, c.C(), std);
    }

    // Draws the starting values; they depend on the seed and on the place of each tensor only.
    void initialize(std::uint64_t seed) {
        for (std::size_t i = 0; i < tensors.size(); i++) {
            const Tensor& t = tensors[i];
            const Random random(seed, Purpose::init, i);
            real* to = memory.data() + t.offset;
            parallel_each<many>(t.size(), [&](idx j) { to[j] = real(t.rows ? t.start * random.normal(j) : t.start); });
        }
    }

    // How many numbers are learned.
    idx count() const {
        idx total = 0;
        for (const Tensor& t : tensors) total += t.size();
        return total;
    }
};

// The network and the memory of its activations, for up to B sequences of up to T tokens.
//
// What a layer's backward needs and is expensive is kept: the residual stream, queries, keys and values, attention's
// output, the MLP's inner values before the activation. What is cheap is made again: normalized inputs, activations,
// probabilities. Without a backward the layers share this memory, all but the queries, keys and values: those are the
// cache that lets sampling compute one position a token.
class GPT {
  public:
    enum class Use { training, scoring, sampling };  // all gradients; logits of all rows; logits of the last row

    const Config config;
    Parameters weights, gradients;
    std::uint64_t dropout_seed = 0;
    std::function<void(idx k, const real* dx)> on_gradient;  // if set, told dLoss/dx(k) [N,C] on the way back

    // Plans the memory; bytes() tells how much, allocate() gets it. Throws std::bad_alloc.
    GPT(const Config& c, idx B, idx T, Use use) : config(c), weights(c), gradients(c), use_(use), longest_(T) {
        if (B > (idx{1} << 31) / T) throw std::bad_alloc();
        const idx N = B * T, L = c.n_layer;
        const auto layers = [&](std::vector<real*>& list, idx count, idx size) {
            list.resize(static_cast<std::size_t>(count));
            for (real*& pointer : list) memory_.want(pointer, size);
        };
        const bool keep = use == Use::training;
        layers(x_, keep ? 2 * L + 1 : 2, N * c.C());
        layers(moments_, keep ? 2 * L + 1 : 1, N * 2);
        if (c.wiring == Wiring::post) layers(sums_, keep ? 2 * L : 1, N * c.C());
        layers(qkv_, L, N * c.qkv());
        layers(attended_, keep ? L : 1, N * c.C());
        layers(softmax_, keep ? L : 1, N * c.n_head * 2);
        layers(fc_, keep ? L : 1, N * c.fc());
        memory_.want(normed_, N * c.C());
        memory_.want(branch_, N * c.C());
        memory_.want(act_, N * std::max(c.F(), c.C()));
        memory_.want(logits_, (use == Use::sampling ? 1 : N) * c.vocab_size);
        memory_.want(losses_, N);
        if (c.pos == Position::sinusoidal) memory_.want(sinusoids_, T * c.C());
        if (c.pos == Position::rope) memory_.want(turns_, T * c.D());
        if (keep) {
            memory_.want(dx_, N * c.C());
            memory_.want(dqkv_, N * c.qkv());
            if (c.wiring == Wiring::post) memory_.want(dsum_, N * c.C());
            if (c.dropout > 0) memory_.want(masked_, N * c.C());
        }
    }

    // Weights and activations, and for training gradients and AdamW's two moments.
    double bytes() const {
        const idx copies = use_ == Use::training ? 4 : 1;
        return double(copies * weights.memory.size() + memory_.size()) * sizeof(real);
    }

    void allocate() {
        weights.memory.allocate();
        if (use_ == Use::training) gradients.memory.allocate();
        memory_.allocate();
        if (sinusoids_) sinusoidal_table(sinusoids_, longest_, config.C());
        if (turns_) rope_table(turns_, longest_, config.D(), config.rope_theta);
    }

    // The residual stream: x(k) [N,C] enters branch k = 0 … 2L-1, x(2L) leaves the last. In training all are kept.
    real* x(idx k) const { return of(x_, k); }
    real* logits() const { return logits_; }  // [N,V], when sampling [1,V]

    // Computes the logits of tokens [B,T]. With B = 1 and from > 0 the rows before `from` are known from the call
    // before: this is the key-value cache. dropout_step: which masks to draw in training; nothing is dropped without
    // it.
    void forward(const Token* tokens, idx B, idx T, idx from = 0, std::optional<std::uint64_t> dropout_step = {}) {
        B_ = B, T_ = T, from_ = from;
        dropout_step_ = config.dropout > 0 ? dropout_step : std::nullopt;
        const Config& c = config;
        const idx C = c.C(), L = c.n_layer;
        embedding_forward(x(0), tokens, weights.wte, sinusoids_ ? sinusoids_ : weights.wpe, B, T, from, C);
        if (dropout_step_) dropout(x(0), x(0), drop(0), B * T * C);
        for (idx k = 0; k < 2 * L; k++) half_forward(k);
        const real* out = x(2 * L);
        if (c.final_norm) {
            norm_forward(normed_, of(moments_, 2 * L), out, weights.final_norm);
            out = normed_;
        }
        matmul(logits_, c.vocab_size, rows_of(out + from_ * C, C), transposed(rows_of(head(weights), C)), rows(),
            c.vocab_size, C);
    }

    // Mean cross-entropy of the logits against targets [B,T], in nats (natural units, 1.44 bits each). If `share` is
    // not 0 the logits become the gradients of share * loss.
    double loss(const Token* targets, double share = 0) {
        const idx N = B_ * T_;
        cross_entropy(losses_, logits_, targets, real(share / double(N)), N, config.vocab_size);
        double total = 0;
        for (idx n = 0; n < N; n++) total += double(losses_[n]);
        return total / double(N);
    }

    // Adds to `gradients`; after forward and loss(targets, share). The activations are used up.
    void backward(const Token* tokens) {
        const Config& c = config;
        const idx C = c.C(), V = c.vocab_size, L = c.n_layer, N = B_ * T_;
        const real* out = c.final_norm ? normed_ : x(2 * L);
        real* dout = c.final_norm ? branch_ : dx_;
        matmul(dout, C, rows_of(logits_, V), rows_of(head(weights), C), N, C, V);
        matmul(head(gradients), C, transposed(rows_of(logits_, V)), rows_of(out, C), V, C, N, head(gradients));
        if (c.final_norm) {  // its 1/σ is what makes the gradient below independent of the depth (T13)
            std::fill_n(dx_, N * C, real(0));
            norm_backward(dx_, gradients.final_norm, branch_, x(2 * L), of(moments_, 2 * L), weights.final_norm);
        }
        if (on_gradient) on_gradient(2 * L, dx_);
        for (idx k = 2 * L - 1; k >= 0; k--) half_backward(k);
        if (dropout_step_) dropout(dx_, dx_, drop(0), N * C);
        embedding_backward(gradients.wte, gradients.wpe, dx_, tokens, B_, T_, C);
    }

  private:
    // Branch k, an attention if k is even, else an MLP: x(k) becomes x(k+1). Only the rows from `from_` on are made.
    //
    //     pre  x + f(norm(x)) (T3)      post  norm(x + f(x))      none  x + f(x) (T14)      plain  f(x) (T18)
    void half_forward(idx k) {
        const Block& w = weights.blocks[static_cast<std::size_t>(k / 2)];
        const Gain gain = k % 2 == 0 ? w.norm_1 : w.norm_2;
        const Wiring wiring = config.wiring;
        const real *in = x(k), *f_in = in;
        if (wiring == Wiring::pre) {
            norm_forward(normed_, of(moments_, k), in, gain);
            f_in = normed_;
        }
        // The branch gives f; or, if no dropout comes between, x + f at once.
        const bool shortcut = wiring != Wiring::plain;
        real *sum = wiring == Wiring::post ? of(sums_, k) : x(k + 1), *f = shortcut && dropout_step_ ? branch_ : sum;
        const real* plus = f == sum && shortcut ? in : nullptr;
        if (k % 2 == 0) attention_forward_branch(f, f_in, plus, w, k / 2);
        else mlp_forward_branch(f, f_in, plus, w, k / 2);
        const idx count = B_ * T_ * config.C();  // with dropout all rows are computed
        if (dropout_step_) dropout(f, f, drop(1 + 2 * k), count);
        if (f != sum) residual_forward(sum, in, f, count);
        if (wiring == Wiring::post) norm_forward(x(k + 1), of(moments_, k), sum, gain);
    }

    // dLoss/dx(k+1), in dx_, becomes dLoss/dx(k): one factor of (T8). With J_f and J the Jacobians of branch and norm,
    //
    //     pre  g + Jᵀ J_fᵀ g (T9)   post  h + J_fᵀ h, h = Jᵀ g   none  g + J_fᵀ g (T15)   plain  J_fᵀ g
    void half_backward(idx k) {
        const auto l = static_cast<std::size_t>(k / 2);
        const Block &w = weights.blocks[l], &dw = gradients.blocks[l];
        const Gain gain = k % 2 == 0 ? w.norm_1 : w.norm_2, dgain = k % 2 == 0 ? dw.norm_1 : dw.norm_2;
        const idx N = B_ * T_, C = config.C();
        const Wiring wiring = config.wiring;
        if (wiring == Wiring::post) {
            std::fill_n(dsum_, N * C, real(0));
            norm_backward(dsum_, dgain, dx_, of(sums_, k), of(moments_, k), gain);
            std::swap(dx_, dsum_);
        }
        const real* df = dx_;
        if (dropout_step_) {
            dropout(masked_, dx_, drop(1 + 2 * k), N * C);
            df = masked_;
        }
        const real* in = x(k);
        if (wiring == Wiring::pre) {
            parallel_ranges(N, few,
                [=, this](idx begin, idx end) { normalize(normed_, of(moments_, k), in, gain, begin, end, C); });
            in = normed_;
        }
        if (k % 2 == 0) attention_backward_branch(branch_, df, in, w, dw, k / 2);
        else mlp_backward_branch(branch_, df, in, w, dw, k / 2);
        if (wiring == Wiring::pre) norm_backward(dx_, dgain, branch_, x(k), of(moments_, k), gain);
        if (wiring == Wiring::post || wiring == Wiring::none) residual_backward(dx_, branch_, N * C);
        if (wiring == Wiring::plain) std::swap(dx_, branch_);
        if (on_gradient) on_gradient(k, dx_);
    }

    // y = f(in), plus the shortcut if `plus` is not null.
    void attention_forward_branch(real* y, const real* in, const real* plus, const Block& w, idx l) {
        const idx C = config.C();
        linear(of(qkv_, l), in, w.qkv, C, config.qkv());
        if (turns_) rope(of(qkv_, l), turns_, +1, heads(), from_);
        // Above the last keys and values only the last row is asked for in sampling.
        if (use_ == Use::sampling && l + 1 == config.n_layer) from_ = B_ * T_ - 1;
        const auto dropped = attention_dropout(l);
        attention_forward(
            of(attended_, l), of(softmax_, l), of(qkv_, l), heads(), from_, dropped ? &*dropped : nullptr);
        linear(y, of(attended_, l), w.projection, C, C, plus);
    }

    void attention_backward_branch(real* din, const real* dy, const real* in, const Block& w, const Block& dw, idx l) {
        const idx C = config.C(), N = B_ * T_;
        linear_backward(act_, dw.projection, dy, of(attended_, l), w.projection, N, C, C);
        const auto dropped = attention_dropout(l);
        attention_backward(dqkv_, act_, of(softmax_, l), of(qkv_, l), heads(), dropped ? &*dropped : nullptr);
        if (turns_) rope(dqkv_, turns_, -1, heads(), 0);
        linear_backward(din, dw.qkv, dqkv_, in, w.qkv, N, C, config.qkv());
    }

    void mlp_forward_branch(real* y, const real* in, const real* plus, const Block& w, idx l) {
        const idx C = config.C(), F = config.F(), fc = config.fc();
        linear(of(fc_, l), in, w.fc, C, fc);
        if (config.mlp == Mlp::swiglu) swiglu_forward(act_ + from_ * F, of(fc_, l) + from_ * fc, rows(), F);
        else gelu_forward(act_ + from_ * F, of(fc_, l) + from_ * fc, rows() * F);
        linear(y, act_, w.out, F, C, plus);
    }

    // The activation's backward puts the gradient of the inner values in their place, and its output, which is not
    // kept, in the place of its gradient.
    void mlp_backward_branch(real* din, const real* dy, const real* in, const Block& w, const Block& dw, idx l) {
        const idx C = config.C(), F = config.F(), fc = config.fc(), N = B_ * T_;
        linear_backward_input(act_, dy, w.out, N, F, C);
        if (config.mlp == Mlp::swiglu) swiglu_backward(of(fc_, l), act_, N, F);
        else gelu_backward(of(fc_, l), act_, N * F);
        linear_backward_weight(dw.out, dy, act_, N, F, C);
        linear_backward(din, dw.fc, of(fc_, l), in, w.fc, N, C, fc);
    }

    // This and norm_forward: the rows from `from_` on.
    void linear(real* y, const real* in, Linear w, idx width, idx out, const real* plus = nullptr) {
        const real* start = plus ? plus + from_ * out : nullptr;
        linear_forward(y + from_ * out, in + from_ * width, w, rows(), width, out, start);
    }

    void norm_forward(real* y, real* moments, const real* in, Gain gain) {
        const auto forward = config.norm == Norm::layer ? layernorm_forward : rmsnorm_forward;
        const idx C = config.C(), skip = from_ * C;
        forward(y + skip, moments, in + skip, gain, rows(), C, real(config.norm_eps));
    }

    void norm_backward(real* dx, Gain dgain, const real* dy, const real* in, const real* moments, Gain gain) {
        const auto backward = config.norm == Norm::layer ? layernorm_backward : rmsnorm_backward;
        backward(dx, dgain, dy, in, moments, gain, B_ * T_, config.C());
    }

    // Array i. Without a backward the list is shorter, and branches or layers take turns.
    static real* of(const std::vector<real*>& list, idx i) { return list[static_cast<std::size_t>(i) % list.size()]; }
    static real* head(const Parameters& p) { return p.head ? p.head : p.wte; }
    idx rows() const { return B_ * T_ - from_; }
    Heads heads() const { return {B_, T_, config.n_head, config.n_kv_head, config.D()}; }

    // Dropout's sites have numbers up to 4L: 0 the embedding, 1 + 2k the output of branch k, 2 + 2k attention's weights
    // if branch k is an attention.
    Dropout drop(idx site) const {
        const auto sites = static_cast<std::uint64_t>(4 * config.n_layer + 1);
        const Random random(dropout_seed, Purpose::dropout, *dropout_step_ * sites + static_cast<std::uint64_t>(site));
        return {random, real(config.dropout)};
    }
    std::optional<Dropout> attention_dropout(idx l) const {
        return dropout_step_ ? std::optional(drop(2 + 4 * l)) : std::nullopt;
    }

    Use use_;
    idx longest_;  // T of the constructor
    Memory memory_;
    std::vector<real*> x_, moments_, sums_, qkv_, attended_, softmax_, fc_;  // by branch or by layer
    real *normed_ = nullptr, *branch_ = nullptr, *act_ = nullptr, *logits_ = nullptr, *losses_ = nullptr;
    real *sinusoids_ = nullptr, *turns_ = nullptr;
    real *dx_ = nullptr, *dqkv_ = nullptr, *dsum_ = nullptr, *masked_ = nullptr;
    idx B_ = 0, T_ = 0, from_ = 0;  // of the last forward; its rows before from_ are known or not asked for
    std::optional<std::uint64_t> dropout_step_;
};

// ---------------------------------------------------------------------------------------------------------------------
// 5  AdamW (Loshchilov and Hutter, 2019)
//
//     m ← β₁ m + (1 − β₁) g        v ← β₂ v + (1 − β₂) g²
//     w ← w − lr λ w − lr m̂ / (√v̂ + ε)      m̂ = m / (1 − β₁ᵗ)      v̂ = v / (1 − β₂ᵗ)
//
// m and v are running means of the gradient and its square; starting from 0 they are too small by the factors 1 −
// βᵗ at step t = 1, 2, … The decay λ w is outside the ratio, so that it is the same for every weight; it applies
// to matrices, not to gains and biases.

struct AdamW {
    double beta1 = 0.9, beta2 = 0.99, eps = 1e-8, weight_decay = 0.1;
    Memory memory;
    real *m = nullptr, *v = nullptr;

    explicit AdamW(const Parameters& like) {
        memory.want(m, like.memory.size());
        memory.want(v, like.memory.size());
        memory.allocate();
    }

    // Step t = 1, 2, …; `scale` is the clipping factor on the gradients, which are set to 0 for the next step while
    // they are at hand. All threads have read all weights, and a core must take a cache line from the others before
    // it writes there, so the weights are asked for ahead.
    void update(Parameters& weights, Parameters& gradients, double lr, double scale, std::int64_t t) {
        constexpr idx ahead = 256;
        const real b1 = real(beta1), b2 = real(beta2), epsilon = real(eps), clip = real(scale);
        const real step = real(lr / (1 - std::pow(beta1, double(t))));            // m̂ and v̂ are made
        const real unbias = real(1 / std::sqrt(1 - std::pow(beta2, double(t))));  // with these two factors
        real *w = weights.memory.data(), *g = gradients.memory.data();
        parallel_ranges(weights.memory.size(), many, [=, this, &weights](idx begin, idx end) {
            for (const Tensor& tensor : weights.tensors) {
                const auto one = [=, mt = m, vt = v, keep = real(1 - (tensor.rows ? lr * weight_decay : 0))](idx i) {
                    const real gi = clip * g[i];
                    mt[i] = b1 * mt[i] + (1 - b1) * gi;
                    vt[i] = b2 * vt[i] + (1 - b2) * gi * gi;
                    w[i] = keep * w[i] - step * mt[i] / (std::sqrt(vt[i]) * unbias + epsilon);
                    g[i] = 0;
                };
                const idx last = std::min(end, tensor.offset + tensor.size());
                for (idx i0 = std::max(begin, tensor.offset); i0 < last; i0 += ahead) {
                    for (idx i = i0 + ahead; i < std::min(last, i0 + 2 * ahead); i += 16) __builtin_prefetch(w + i, 1);
                    for (idx i = i0; i < std::min(last, i0 + ahead); i++) one(i);
                }
            }
        });
    }
};

// ||g||₂ over all parameters: the squares of pieces of a fixed length, added in order and in double.
inline double gradient_norm(const Parameters& gradients) {
    const real* g = gradients.memory.data();
    const idx n = gradients.memory.size(), pieces = (n + many - 1) / many;
    double* squares = scratch<0, double>(pieces);
    parallel_ranges(n, many, [=](idx begin, idx end) {
        squares[begin / many] = double(sum(end - begin, [=](idx i) { return g[begin + i] * g[begin + i]; }));
    });
    return std::sqrt(std::accumulate(squares, squares + pieces, 0.0));
}

// The factor that brings a gradient of this norm down to `limit`; 1 if it is within it, or if the limit is 0.
inline double clip_factor(double norm, double limit) { return limit > 0 && norm > limit ? limit / (norm + 1e-6) : 1; }

// nanoGPT's schedule: a linear warm-up, then half a cosine from learning_rate down to min_lr at lr_decay_iters.
inline double scheduled_rate(
    std::int64_t iter, double learning_rate, double min_lr, std::int64_t warmup_iters, std::int64_t lr_decay_iters) {
    if (iter < warmup_iters) return learning_rate * double(iter + 1) / double(warmup_iters + 1);
    if (iter >= lr_decay_iters) return min_lr;
    const double ratio = double(iter - warmup_iters) / double(lr_decay_iters - warmup_iters);
    return min_lr + 0.5 * (1 + std::cos(std::numbers::pi * ratio)) * (learning_rate - min_lr);
}

// ---------------------------------------------------------------------------------------------------------------------
// 6  Text
//
// A token is a Unicode code point; the vocabulary is the text's code points in order. The first 9/10 of a text trains,
// the rest validates.

inline std::string read_file(const std::string& path) {
    std::error_code error;
    if (std::filesystem::is_directory(path, error)) throw Error(path, " is a directory, not a file");
    std::ifstream in(path, std::ios::binary);
    std::ostringstream content;
    content << in.rdbuf();
    in.peek();
    if (!in.eof()) throw Error("cannot read ", path, "; check the name and the permissions");
    return std::move(content).str();
}

inline std::string utf8(char32_t c) {
    const auto byte = [](char32_t bits) { return static_cast<char>(static_cast<unsigned char>(bits)); };
    const auto rest = [&](int shift) { return byte(0x80 | (c >> shift & 0x3F)); };
    if (c < 0x80) return {byte(c)};
    if (c < 0x800) return {byte(0xC0 | c >> 6), rest(0)};
    if (c < 0x10000) return {byte(0xE0 | c >> 12), rest(6), rest(0)};
    return {byte(0xF0 | c >> 18), rest(12), rest(6), rest(0)};
}

// The code point at byte i, which moves behind it. Throws on anything that is not UTF-8 (RFC 3629: no overlong forms,
// no surrogates, nothing above U+10FFFF), with the offset.
inline char32_t next_code_point(std::string_view s, std::size_t& i, std::string_view source) {
    const auto at = [&](std::size_t k) { return static_cast<unsigned char>(s[k]); };
    const unsigned char first = at(i);
    const bool lead = first >= 0xC2 && first <= 0xF4;
    const std::size_t length = first < 0x80 ? 1 : !lead ? 0 : 2u + (first >= 0xE0) + (first >= 0xF0);
    char32_t c = length < 2 ? first : first & (0x7Fu >> length);
    bool good = length > 0 && i + length <= s.size();
    for (std::size_t k = 1; good && k < length; k++) {
        good = (at(i + k) & 0xC0) == 0x80;
        c = c << 6 | (at(i + k) & 0x3Fu);
    }
    const bool overlong = (length == 3 && c < 0x800) || (length == 4 && c < 0x10000);
    if (!good || overlong || (c >= 0xD800 && c < 0xE000) || c > 0x10FFFF)
        throw Error(source, " is not UTF-8 at byte ", i, " (value ", int{first},
            "); convert it, for example with iconv -t UTF-8");
    i += length;
    return c;
}

// `use` of each code point of a text; a leading byte-order mark is none of them.
template <class Use> void each_code_point(std::string_view s, std::string_view source, const Use& use) {
    std::size_t i = s.starts_with("\xEF\xBB\xBF") ? 3 : 0;
    while (i < s.size()) use(next_code_point(s, i, source));
}

class Tokenizer {
  public:
    Tokenizer() = default;
    // characters[id] is the code point of token id.
    explicit Tokenizer(std::vector<char32_t> characters) : characters_(std::move(characters)), ids_(0x110000, -1) {
        for (std::size_t i = 0; i < characters_.size(); i++) ids_[characters_[i]] = static_cast<Token>(i);
    }
    static Tokenizer of_text(std::string_view s, std::string_view source) {
        std::vector<bool> seen(0x110000);
        each_code_point(s, source, [&](char32_t c) { seen[c] = true; });
        std::vector<char32_t> characters;
        for (char32_t c = 0; c < 0x110000; c++)
            if (seen[c]) characters.push_back(c);
        return Tokenizer(std::move(characters));
    }

    const std::vector<char32_t>& characters() const { return characters_; }
    int size() const { return static_cast<int>(characters_.size()); }
    bool knows(char32_t c) const { return ids_[c] >= 0; }
    std::string decode(Token id) const { return utf8(characters_[static_cast<std::size_t>(id)]); }

    std::vector<Token> encode(std::string_view s, std::string_view source) const {
        std::vector<Token> tokens;
        each_code_point(s, source, [&](char32_t c) {
            if (ids_[c] < 0) {
                char code[12];
                std::snprintf(code, sizeof code, "U+%04X", static_cast<unsigned>(c));
                throw Error("the model has never seen '", c < 32 ? "" : utf8(c), "' (", code, "), character ",
                    tokens.size() + 1, " of ", source, "; leave it out, or train on a text that has it");
            }
            tokens.push_back(ids_[c]);
        });
        return tokens;
    }

  private:
    std::vector<char32_t> characters_;
    std::vector<Token> ids_;
};

// How many of a text's tokens train.
constexpr idx training_part(idx tokens) { return tokens / 10 * 9 + tokens % 10 * 9 / 10; }

// A batch of B windows of T tokens, and as targets each token's successor.
struct Batch {
    std::vector<Token> inputs, targets;

    void resize(idx B, idx T) {
        inputs.resize(static_cast<std::size_t>(B * T));
        targets.resize(inputs.size());
    }
    // Makes row b the window that starts at `from`.
    void set(idx b, idx T, const Token* from) {
        std::copy_n(from, T, inputs.data() + b * T);
        std::copy_n(from + 1, T, targets.data() + b * T);
    }
};

// Windows at random positions of tokens [count > T], a function of the key.
inline void random_batch(Batch& batch, const Random& random, const Token* tokens, idx count, idx B, idx T) {
    batch.resize(B, T);
    for (idx b = 0; b < B; b++)
        batch.set(b, T, tokens + static_cast<idx>(random.bits(b) % static_cast<std::uint64_t>(count - T)));
}

// Batch i of `batches`, at evenly spaced positions that are the same each time.
inline void even_batch(Batch& batch, idx i, idx batches, const Token* tokens, idx count, idx B, idx T) {
    batch.resize(B, T);
    for (idx b = 0; b < B; b++)
        batch.set(b, T, tokens + (count - T - 1) * (i * B + b) / std::max<idx>(1, batches * B - 1));
}

// Mean loss over tokens [count >= 2]: every one but the first is scored once, in consecutive windows of block_size of
// which the last may be short. report(n): n tokens are done.
template <class Report> inline double score(GPT& gpt, const Token* tokens, idx count, idx max_B, const Report& report) {
    const idx T = gpt.config.block_size, whole = (count - 1) / T;
    Batch batch;
    double total = 0;
    const auto add = [&](idx first, idx B, idx length) {
        batch.resize(B, length);
        for (idx b = 0; b < B; b++) batch.set(b, length, tokens + first + b * length);
        gpt.forward(batch.inputs.data(), B, length);
        total += gpt.loss(batch.targets.data()) * double(B * length);
        report(first + B * length);
    };
    for (idx w = 0; w < whole; w += max_B) add(w * T, std::min(max_B, whole - w), T);
    if (count - 1 > whole * T) add(whole * T, 1, count - 1 - whole * T);
    return total / double(count - 1);
}

// ---------------------------------------------------------------------------------------------------------------------
// 7  Sampling
//
//     p_v = softmax(logits / temperature)_v, cut to the top_k most probable tokens, then to the fewest that reach top_p

struct Taste {
    double temperature = 0.8;  // 0: always the most probable token
    int top_k = 0;             // 0: all
    double top_p = 1;
};

// One token for logits [V] and u in [0, 1). Equal logits are ordered by token, so that the choice is the same
// everywhere.
inline Token draw(const real* logits, idx V, const Taste& taste, double u) {
    for (idx v = 0; v < V; v++)
        if (!std::isfinite(logits[v]))
            throw Error("the logit of token ", v, " is ", logits[v], "; the model's weights are damaged or too large");
    std::vector<Token> order(static_cast<std::size_t>(V));
    std::iota(order.begin(), order.end(), 0);
    const auto before = [=](Token a, Token b) { return logits[a] != logits[b] ? logits[a] > logits[b] : a < b; };
    const idx kept = taste.temperature == 0 ? 1 : taste.top_k > 0 ? std::min<idx>(taste.top_k, V) : V;
    const bool sorted = kept < V || taste.top_p < 1;
    if (sorted) std::partial_sort(order.begin(), order.begin() + kept, order.end(), before);
    if (kept == 1) return order[0];
    const double top = double(*std::max_element(logits, logits + V));
    std::vector<double> p;
    for (idx i = 0; i < kept; i++)
        p.push_back(std::exp((double(logits[order[static_cast<std::size_t>(i)]]) - top) / taste.temperature));
    const double enough = taste.top_p * std::accumulate(p.begin(), p.end(), 0.0);
    double total = 0;  // of the first n, which are kept
    std::size_t n = 0, i = 0;
    while (n < p.size() && (n == 0 || total < enough)) total += p[n++];
    for (double left = u * total; i + 1 < n && (left -= p[i]) >= 0;) i++;
    return order[i];
}

// Continues `tokens` by `count` tokens and hands each to emit(token), which may end it by returning false. Within the
// window a token costs one position, as the keys and values of the earlier ones are still there; past it the last
// block_size tokens are the context, as in nanoGPT, and since every position has moved they are computed again.
template <class Emit> void generate(
    GPT& gpt, std::vector<Token> tokens, idx count, const Taste& taste, const Random& random, const Emit& emit) {
    const idx T = gpt.config.block_size;
    for (idx i = 0; i < count; i++) {
        const idx length = std::min(T, static_cast<idx>(tokens.size()));
        const bool cached = i > 0 && static_cast<idx>(tokens.size()) <= T;
        gpt.forward(tokens.data() + static_cast<idx>(tokens.size()) - length, 1, length, cached ? length - 1 : 0);
        tokens.push_back(draw(gpt.logits(), gpt.config.vocab_size, taste, random.uniform(i)));
        if (!emit(tokens.back())) return;
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// 8  Checkpoints
//
// A model is a directory as Hugging Face's tools write and read it: config.json, model.safetensors, tokenizer.json.
// What comes from elsewhere is believed in nothing: each length, offset, shape and name is checked before it is used.

static_assert(std::endian::native == std::endian::little, "safetensors is little-endian");

// Writes a file beside its place and renames it over that only when all of it was written: a kill, a crash of the
// program or a full disk leaves what was there before.
template <class Write> void replace_file(const std::string& path, const Write& write) {
    const std::string beside = path + ".tmp";
    std::ofstream out(beside, std::ios::binary | std::ios::trunc);
    if (out) write(out);
    out.close();
    std::error_code failed;
    if (out) std::filesystem::rename(beside, path, failed);
    if (out && !failed) return;
    std::filesystem::remove(beside, failed);
    throw Error("cannot write ", path, "; is the disk full, or the directory read-only or gone?");
}

// ---- JSON (RFC 8259), strictly: no duplicate names, nothing after the end, at most 64 deep ----

struct Json {
    using Array = std::vector<Json>;
    using Object = std::map<std::string, Json>;
    std::variant<std::nullptr_t, bool, double, std::string, Array, Object> value;

    template <class T> const T* as() const { return std::get_if<T>(&value); }
    // As a whole number in [least, 2⁵³].
    std::optional<std::int64_t> whole(std::int64_t least = 0) const {
        const double* d = as<double>();
        if (!d || *d != std::floor(*d) || *d < double(least) || *d > 0x1p53) return {};
        return static_cast<std::int64_t>(*d);
    }
};

class JsonParser {
  public:
    // source: what to call it in errors.
    JsonParser(std::string_view s, std::string source) : s_(s), source_(std::move(source)) {}

    Json parse() {
        Json json = value(0);
        if (i_ < s_.size()) fail("something follows the end");
        return json;
    }

  private:
    [[noreturn]] void fail(const char* what) const {
        throw Error(source_, " is not valid JSON at byte ", i_, ": ", what);
    }
    char peek() const { return i_ < s_.size() ? s_[i_] : '\0'; }
    bool take(std::string_view word) {
        const bool here = s_.substr(i_, word.size()) == word;
        if (here) i_ += word.size();
        return here;
    }
    void space() { i_ = std::min(s_.size(), s_.find_first_not_of(" \t\r\n", i_)); }

    // A value, with the white space around it.
    Json value(int depth) {
        if (depth > 64) fail("nested too deeply");
        space();
        Json json;
        if (take("{")) {
            Json::Object members;
            list('}', [&] {
                space();
                std::string name = string();
                if (members.contains(name)) fail("a name stands twice");
                space();
                if (!take(":")) fail("':' is missing");
                members.emplace(std::move(name), value(depth + 1));
            });
            json.value = std::move(members);
        } else if (take("[")) {
            Json::Array items;
            list(']', [&] { items.push_back(value(depth + 1)); });
            json.value = std::move(items);
        } else if (peek() == '"') {
            json.value = string();
        } else if (peek() == '-' || is_digit()) {
            json.value = number();
        } else if (take("true") || take("false")) {
            json.value = s_[i_ - 2] == 'u';
        } else if (!take("null")) {
            fail("a value is missing");
        }
        space();
        return json;
    }

    // Items up to the closing bracket, with commas between them.
    template <class Item> void list(char close, const Item& item) {
        space();
        if (take({&close, 1})) return;
        do item();
        while (take(","));
        if (!take({&close, 1})) fail("',' or a closing bracket is missing");
    }

    bool is_digit() const { return peek() >= '0' && peek() <= '9'; }
    double number() {
        const std::size_t begin = i_;
        const auto digits = [&] {
            if (!is_digit()) fail("a digit is missing");
            while (is_digit()) i_++;
        };
        take("-");
        if (!take("0")) digits();
        if (take(".")) digits();
        if (take("e") || take("E")) {
            if (!take("+")) take("-");
            digits();
        }
        const double d = std::strtod(std::string(s_.substr(begin, i_ - begin)).c_str(), nullptr);
        if (!std::isfinite(d)) fail("a number is too large");
        return d;
    }

    char32_t hex4() {
        std::uint32_t c = 0;
        const auto [end, error] = std::from_chars(s_.data() + i_, s_.data() + std::min(s_.size(), i_ + 4), c, 16);
        if (error != std::errc() || end != s_.data() + i_ + 4) fail("\\u takes four hexadecimal digits");
        i_ += 4;
        return c;
    }

    std::string string() {
        std::string out;
        if (!take("\"")) fail("a string is missing");
        while (!take("\"")) {
            if (i_ >= s_.size()) fail("a string does not end");
            if (static_cast<unsigned char>(peek()) < 0x20) fail("a control character stands in a string");
            if (!take("\\")) {
                out += utf8(next_code_point(s_, i_, source_));
            } else if (take("u")) {
                char32_t u = hex4();
                const bool first = u >= 0xD800 && u < 0xDC00;  // of a surrogate pair
                if (first && take("\\u")) {
                    const char32_t second = hex4();
                    if (second < 0xDC00 || second > 0xDFFF) fail("a surrogate stands alone");
                    u = 0x10000 + ((u - 0xD800) << 10) + (second - 0xDC00);
                } else if (first || (u >= 0xDC00 && u < 0xE000)) {
                    fail("a surrogate stands alone");
                }
                out += utf8(u);
            } else {
                constexpr std::string_view letters = "\"\\/bfnrt", meanings = "\"\\/\b\f\n\r\t";
                const std::size_t which = letters.find(peek());
                if (which == letters.npos) fail("an unknown escape");
                out += meanings[which];
                i_++;
            }
        }
        return out;
    }

    std::string_view s_;
    std::string source_;
    std::size_t i_ = 0;
};

inline std::string json_quote(std::string_view s) {
    std::string out = "\"";
    for (const char c : s) {
        char code[8];
        std::snprintf(code, sizeof code, "\\u%04x", static_cast<unsigned>(static_cast<unsigned char>(c)));
        if (c == '\n') out += "\\n";
        else if (c == '"' || c == '\\') out += {'\\', c};
        else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) out += code;
        else out += c;
    }
    return out + '"';
}

// The shortest decimal that reads back as the same double.
inline std::string shortest(double d) {
    char buffer[32];
    return {buffer, std::to_chars(buffer, buffer + sizeof buffer, d).ptr};
}

// The members of an object that describes something; errors name the file and the field.
class Fields {
  public:
    Fields(const Json& json, std::string source) : members_(json.as<Json::Object>()), source_(std::move(source)) {
        if (!members_) throw Error(source_, ": a JSON object was expected");
    }
    // The member; none if it is absent or null.
    const Json* find(const std::string& name) const {
        const auto member = members_->find(name);
        return member == members_->end() || member->second.value.index() == 0 ? nullptr : &member->second;
    }
    template <class T> const T& get(const char* name) const {
        const Json* member = find(name);
        if (!member) refuse(name, "is missing");
        if (!member->as<T>()) refuse(name, "has the wrong type");
        return *member->as<T>();
    }
    template <class T> T get_or(const char* name, T otherwise) const { return find(name) ? get<T>(name) : otherwise; }
    std::int64_t whole(const char* name, std::int64_t least) const {
        get<double>(name);
        const auto n = find(name)->whole(least);
        if (!n || *n > 1 << 24)
            refuse(name, text("is not a whole number from ", least, " to ", 1 << 24));  // products fit
        return *n;
    }
    [[noreturn]] void refuse(const char* name, const std::string& why) const {
        throw Error(source_, ": \"", name, "\" ", why);
    }

  private:
    const Json::Object* members_;
    std::string source_;
};

// ---- safetensors: the header's length in 8 bytes, a JSON header with each tensor's type, shape, place; numbers ----

// A tensor under its name in a file: element (i, j) of [rows, cols] is data[i * row + j * col].
struct NamedView {
    std::string name;
    std::vector<idx> shape;
    real* data;
    idx row, col;

    idx rows() const { return shape.size() > 1 ? shape[0] : 1; }
    idx cols() const { return shape.back(); }
};

using Metadata = std::map<std::string, std::string>;

class Safetensors {
  public:
    struct Entry {
        std::string type;
        std::vector<idx> shape;
        std::uint64_t begin, end;
    };
    std::map<std::string, Entry> entries;
    Metadata metadata;

    explicit Safetensors(const std::string& path) : path_(path), in_(path, std::ios::binary) {
        std::error_code error;
        const std::uint64_t size = std::filesystem::file_size(path, error);
        std::uint64_t length = 0;
        if (!in_ || error) throw Error("cannot read ", path, "; check the name and the permissions");
        if (size < 8 || !in_.read(reinterpret_cast<char*>(&length), 8))
            throw Error(path, " has ", size, " bytes: too short for safetensors");
        if (length > size - 8)
            throw Error(path, ": its header would take ", length, " of ", size - 8, " bytes; it is damaged or cut off");
        std::string header(length, '\0');
        if (!in_.read(header.data(), static_cast<std::streamsize>(length))) throw Error("cannot read ", path);
        data_ = 8 + length;
        read_header(JsonParser(header, path + " (header)").parse(), size - data_);
    }

    // Reads a tensor into place, converting it; the view has its shape.
    void read(const std::string& name, const NamedView& to) {
        const Entry& entry = entries.at(name);
        std::string raw(entry.end - entry.begin, '\0');
        in_.seekg(static_cast<std::streamoff>(data_ + entry.begin));
        if (!in_.read(raw.data(), static_cast<std::streamsize>(raw.size())))
            throw Error("cannot read ", path_, ", tensor ", name);
        const char* p = raw.data();
        for (idx i = 0; i < to.rows(); i++)
            for (idx j = 0; j < to.cols(); j++, p += type_size(entry.type)) {
                const real value = real(number(p, entry.type));
                if (!std::isfinite(value)) throw Error(path_, ": tensor ", name, " is not finite at [", i, ",", j, "]");
                to.data[i * to.row + j * to.col] = value;
            }
    }

    // Bytes a number takes; 0 for a type that is not read.
    static std::size_t type_size(std::string_view type) {
        return type == "F64" ? 8 : type == "F32" ? 4 : type == "F16" || type == "BF16" ? 2 : 0;
    }

  private:
    void read_header(const Json& json, std::uint64_t available) {
        const auto* header = json.as<Json::Object>();
        if (!header) throw Error(path_, ": the header is not a JSON object");
        std::vector<std::pair<std::uint64_t, std::uint64_t>> places;
        for (const auto& [name, member] : *header) {
            const std::string where = path_ + ": " + name;
            const Fields fields(member, where);
            if (name == "__metadata__") {
                for (const auto& [key, value] : *member.as<Json::Object>())
                    metadata[key] = fields.get<std::string>(key.c_str());
                continue;
            }
            Entry entry{fields.get<std::string>("dtype"), {}, 0, 0};
            std::uint64_t numbers = 1;
            for (const Json& item : fields.get<Json::Array>("shape")) {
                const auto n = item.whole();
                if (!n) fields.refuse("shape", "is not made of whole numbers");
                if (*n > 0 && numbers > available / static_cast<std::uint64_t>(*n))
                    fields.refuse("shape", "is larger than the file");
                numbers *= static_cast<std::uint64_t>(*n);
                entry.shape.push_back(static_cast<idx>(*n));
            }
            const auto& offsets = fields.get<Json::Array>("data_offsets");
            if (offsets.size() != 2 || !offsets[0].whole() || !offsets[1].whole())
                fields.refuse("data_offsets", "is not two whole numbers");
            entry.begin = static_cast<std::uint64_t>(*offsets[0].whole()),
            entry.end = static_cast<std::uint64_t>(*offsets[1].whole());
            if (entry.begin > entry.end) fields.refuse("data_offsets", "begins after its end");
            if (entry.end > available)
                fields.refuse(
                    "data_offsets", text("ends after the file's ", available, " bytes; it is damaged or cut off"));
            const std::uint64_t width = type_size(entry.type);
            if (width > 0 && entry.end - entry.begin != numbers * width)
                fields.refuse("data_offsets", "does not fit its shape and type");
            places.emplace_back(entry.begin, entry.end);
            entries.emplace(name, std::move(entry));
        }
        std::sort(places.begin(), places.end());
        for (std::size_t i = 1; i < places.size(); i++)
            if (places[i].first < places[i - 1].second)
                throw Error(path_, ": two tensors overlap at byte ", places[i].first);
    }

    static double number(const char* p, std::string_view type) {
        const auto as = [p](auto value) { return std::memcpy(&value, p, sizeof value), value; };
        if (type == "F64") return as(0.0);
        if (type == "F32") return double(as(0.0f));
        const std::uint32_t bits = as(std::uint16_t{});
        if (type == "BF16") return double(std::bit_cast<float>(bits << 16));  // a float without its lower half
        const int exponent = static_cast<int>(bits >> 10 & 31);  // F16: 1 sign, 5 exponent, 10 fraction bits
        const double fraction = double(bits & 1023) / 1024, sign = bits >> 15 ? -1 : 1;
        if (exponent == 31) return std::nan("");  // infinity or NaN: refused alike
        return sign * (exponent == 0 ? std::ldexp(fraction, -14) : std::ldexp(1 + fraction, exponent - 15));
    }

    std::string path_;
    std::ifstream in_;
    std::uint64_t data_ = 0;
};

inline void write_safetensors(
    const std::string& path, const Metadata& metadata, const std::vector<NamedView>& tensors) {
    std::string header, pairs;
    for (const auto& [key, value] : metadata)
        pairs += text(pairs.empty() ? "" : ",", json_quote(key), ":", json_quote(value));
    header = "{\"__metadata__\":{" + pairs + "}";
    idx offset = 0;
    for (const NamedView& t : tensors) {
        const idx end = offset + t.rows() * t.cols() * static_cast<idx>(sizeof(real));
        const std::string rows = t.shape.size() > 1 ? text(t.rows(), ",") : "";
        header += text(",", json_quote(t.name), ":{\"dtype\":\"F", 8 * sizeof(real), "\",\"shape\":[", rows, t.cols(),
            "],\"data_offsets\":[", offset, ",", end, "]}");
        offset = end;
    }
    header += '}';
    header.resize(static_cast<std::size_t>(round_up(static_cast<idx>(header.size()), 8)), ' ');
    replace_file(path, [&](std::ostream& out) {
        const auto write = [&](const void* p, std::size_t bytes) {
            out.write(static_cast<const char*>(p), static_cast<std::streamsize>(bytes));
        };
        const std::uint64_t length = header.size();
        write(&length, 8);
        write(header.data(), header.size());
        for (const NamedView& t : tensors) {
            std::vector<real> row(static_cast<std::size_t>(t.cols()));
            for (idx i = 0; i < t.rows() && out; i++) {
                for (idx j = 0; j < t.cols(); j++) row[static_cast<std::size_t>(j)] = t.data[i * t.row + j * t.col];
                write(row.data(), row.size() * sizeof(real));
            }
        }
    });
}

// ---- config.json ----

template <class Enum> constexpr std::array<const char*, 0> words{};  // the names of an enumeration's values, in order
template <> constexpr std::array words<Norm>{"layernorm", "rmsnorm"};
template <> constexpr std::array words<Position>{"learned", "sinusoidal", "rope", "none"};
template <> constexpr std::array words<Mlp>{"gelu", "swiglu"};
template <> constexpr std::array words<Wiring>{"pre", "post", "none", "plain"};

template <class Enum> const char* word_for(Enum e) { return words<Enum>[static_cast<std::size_t>(e)]; }
template <class Enum> std::optional<Enum> from_word(std::string_view word) {
    for (std::size_t i = 0; i < words<Enum>.size(); i++)
        if (word == words<Enum>[i]) return static_cast<Enum>(i);
    return {};
}

template <class T> std::string value_text(const T& v) {
    if constexpr (std::is_enum_v<T>) return word_for(v);
    else if constexpr (std::is_same_v<T, double>) return shortest(v);
    else return text(std::boolalpha, v);
}

// Which of Hugging Face's architectures a model is: "gpt2", "llama", or "nanogpt" for neither.
inline std::string model_type(const Config& c) {
    const bool pre = c.wiring == Wiring::pre && c.final_norm;
    const bool gpt2 =
        c.norm == Norm::layer && c.pos == Position::learned && c.mlp == Mlp::gelu && c.bias && c.n_kv_head == c.n_head;
    const bool llama = c.norm == Norm::rms && c.pos == Position::rope && c.mlp == Mlp::swiglu;
    return pre && gpt2 ? "gpt2" : pre && llama ? "llama" : "nanogpt";
}

// Shows field(name, value, default) each field that config.json has for a type of model. Without a default it must be
// there.
template <class C, class Field> void config_fields(C& c, const std::string& type, const Field& field) {
    constexpr auto needed = std::nullopt;
    field("vocab_size", c.vocab_size, needed);
    if (type == "gpt2") {
        field("n_positions", c.block_size, needed), field("n_embd", c.n_embd, needed);
        field("n_layer", c.n_layer, needed), field("n_head", c.n_head, needed);
        field("n_inner", c.n_hidden, 0), field("layer_norm_epsilon", c.norm_eps, 1e-5);
        field("tie_word_embeddings", c.tie, true);
    } else if (type == "llama") {
        field("max_position_embeddings", c.block_size, needed), field("hidden_size", c.n_embd, needed);
        field("num_hidden_layers", c.n_layer, needed), field("num_attention_heads", c.n_head, needed);
        field("num_key_value_heads", c.n_kv_head, 0), field("intermediate_size", c.n_hidden, needed);
        field("rms_norm_eps", c.norm_eps, 1e-6), field("rope_theta", c.rope_theta, 10000.0);
        field("attention_bias", c.bias, false), field("tie_word_embeddings", c.tie, false);
    } else {
        field("block_size", c.block_size, needed), field("n_layer", c.n_layer, needed);
        field("n_head", c.n_head, needed), field("n_kv_head", c.n_kv_head, needed);
        field("n_embd", c.n_embd, needed), field("n_hidden", c.n_hidden, needed);
        field("norm", c.norm, needed), field("pos", c.pos, needed);
        field("mlp", c.mlp, needed), field("wiring", c.wiring, needed);
        field("bias", c.bias, needed), field("final_norm", c.final_norm, needed);
        field("norm_eps", c.norm_eps, needed), field("rope_theta", c.rope_theta, needed);
        field("tie_word_embeddings", c.tie, needed);
    }
}

inline std::string config_json(const Config& c) {
    const std::string type = model_type(c);
    std::string out = "{\n  \"model_type\": " + json_quote(type);
    const auto field = [&](const char* name, const auto& value, auto) {
        const std::string shown = value_text(value);
        out += text(",\n  \"", name, "\": ", std::is_enum_v<std::decay_t<decltype(value)>> ? json_quote(shown) : shown);
    };
    config_fields(c, type, field);
    if (type == "gpt2")
        out +=
            ",\n  \"architectures\": [\"GPT2LMHeadModel\"],\n  \"activation_function\": \"gelu_new\","
            "\n  \"resid_pdrop\": 0.0,\n  \"embd_pdrop\": 0.0,\n  \"attn_pdrop\": 0.0";
    if (type == "llama") {
        field("mlp_bias", c.bias, 0);
        out += ",\n  \"architectures\": [\"LlamaForCausalLM\"],\n  \"hidden_act\": \"silu\"";
    }
    return out + ",\n  \"torch_dtype\": \"float32\"\n}\n";
}

inline Config config_from_json(const std::string& content, const std::string& source) {
    const Json json = JsonParser(content, source).parse();
    const Fields f(json, source);
    const auto type = f.get<std::string>("model_type");
    if (type != "gpt2" && type != "llama" && type != "nanogpt")
        f.refuse("model_type", "is '" + type + "'; nanogpt reads gpt2, llama and nanogpt");
    Config c;
    if (type == "llama") c.norm = Norm::rms, c.pos = Position::rope, c.mlp = Mlp::swiglu;
    config_fields(c, type, [&](const char* name, auto& value, auto otherwise) {
        using T = std::decay_t<decltype(value)>;
        if constexpr (!std::is_same_v<decltype(otherwise), std::nullopt_t>)
            if (!f.find(name)) return void(value = otherwise);
        if constexpr (std::is_same_v<T, int>) {
            value = static_cast<int>(f.whole(name, 1));
        } else if constexpr (std::is_enum_v<T>) {
            const auto found = from_word<T>(f.get<std::string>(name));
            if (!found) f.refuse(name, "has an unknown value");
            value = *found;
        } else {
            value = f.get<T>(name);
        }
    });
    // Fields that change what the model computes, and the only value that is computed here.
    const auto only = [&](const char* name, const auto& value) {
        if (f.get_or(name, value) != value)
            f.refuse(name, text(std::boolalpha, "asks for what nanogpt does not do; it knows only ", value));
    };
    const auto absent = [&](const char* name) {
        if (f.find(name)) f.refuse(name, "asks for what nanogpt does not do");
    };
    absent("quantization_config");
    if (type == "gpt2") {
        if (f.get_or<std::string>("activation_function", "") != "gelu_pytorch_tanh")
            only("activation_function", std::string("gelu_new"));
        only("scale_attn_weights", true), only("scale_attn_by_inverse_layer_idx", false),
            only("add_cross_attention", false);
    }
    if (type == "llama") {
        only("hidden_act", std::string("silu")), only("mlp_bias", c.bias),
            only("head_dim", double(c.n_embd / c.n_head));
        absent("rope_scaling"), absent("sliding_window"), only("partial_rotary_factor", 1.0);
        if (const Json* rope = f.find("rope_parameters")) {
            const Fields r(*rope, source + ", rope_parameters");
            if (r.get_or("rope_type", r.get_or<std::string>("type", "default")) != "default")
                r.refuse("rope_type", "asks for what nanogpt does not do");
            c.rope_theta = r.get_or("rope_theta", c.rope_theta);
        }
    }
    if (!(c.norm_eps > 0 && c.norm_eps < 1 && c.rope_theta > 1))
        throw Error(source, ": the norm's epsilon must be in (0, 1), rope_theta above 1");
    try {
        c.complete();
    } catch (const Error& error) {
        throw Error(source, ": ", error.what());
    }
    return c;
}

// The tensors under Hugging Face's names. GPT-2's matrices are ours, [in, out], with queries, keys and values in one;
// Llama's are turned, [out, in], and each of those is its own.
inline std::vector<NamedView> named_views(const Config& c, const Parameters& p) {
    std::vector<NamedView> views;
    if (model_type(c) != "llama") {
        for (const Tensor& t : p.tensors)
            views.push_back({(t.name == "lm_head.weight" ? "" : "transformer.") + t.name,
                t.rows ? std::vector{t.rows, t.cols} : std::vector{t.cols}, p.memory.data() + t.offset, t.cols, 1});
        return views;
    }
    const idx C = c.C(), Q = c.qkv(), F = c.F(), kv = c.n_kv_head * c.D(), V = c.vocab_size;
    const auto gain = [&](const std::string& name, Gain g) { views.push_back({name + ".weight", {C}, g.gamma, 0, 1}); };
    // Columns [first, first + width) of a matrix [in, out].
    const auto part = [&](const std::string& name, Linear w, idx in, idx out, idx first, idx width) {
        views.push_back({name + ".weight", {width, in}, w.weight + first, 1, out});
        if (w.bias) views.push_back({name + ".bias", {width}, w.bias + first, 0, 1});
    };
    views.push_back({"model.embed_tokens.weight", {V, C}, p.wte, C, 1});
    for (std::size_t l = 0; l < p.blocks.size(); l++) {
        const std::string h = text("model.layers.", l, ".");
        const Block& b = p.blocks[l];
        gain(h + "input_layernorm", b.norm_1);
        part(h + "self_attn.q_proj", b.qkv, C, Q, 0, C);
        part(h + "self_attn.k_proj", b.qkv, C, Q, C, kv);
        part(h + "self_attn.v_proj", b.qkv, C, Q, C + kv, kv);
        part(h + "self_attn.o_proj", b.projection, C, C, 0, C);
        gain(h + "post_attention_layernorm", b.norm_2);
        part(h + "mlp.gate_proj", b.fc, C, 2 * F, 0, F);
        part(h + "mlp.up_proj", b.fc, C, 2 * F, F, F);
        part(h + "mlp.down_proj", b.out, F, C, 0, C);
    }
    gain("model.norm", p.final_norm);
    if (p.head) views.push_back({"lm_head.weight", {V, C}, p.head, C, 1});
    return views;
}

// ---- tokenizer.json: byte-pair encoding without merges, which Hugging Face's tokenizers then split by character ----

inline std::string tokenizer_json(const Tokenizer& tokenizer) {
    std::string vocab;
    for (int id = 0; id < tokenizer.size(); id++)
        vocab += text(id ? ",\n" : "\n", "   ", json_quote(tokenizer.decode(id)), ": ", id);
    return R"({
 "version": "1.0", "truncation": null, "padding": null, "added_tokens": [],
 "normalizer": null, "pre_tokenizer": null, "post_processor": null, "decoder": {"type": "Fuse"},
 "model": {
  "type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null, "end_of_word_suffix": null,
  "fuse_unk": false, "byte_fallback": false, "ignore_merges": false,
  "vocab": {)" +
        vocab + "\n  },\n  \"merges\": []\n }\n}\n";
}

// Nothing if the vocabulary is another kind than one token a character.
inline std::optional<Tokenizer> tokenizer_from_json(
    const std::string& content, const std::string& source, int vocab_size) {
    const Json json = JsonParser(content, source).parse();
    const Json* model = Fields(json, source).find("model");
    if (!model) throw Error(source, ": \"model\" is missing");
    const Fields fields(*model, source + ", model");
    if (fields.get_or<std::string>("type", "BPE") != "BPE" || !fields.get<Json::Array>("merges").empty()) return {};
    const auto& vocab = fields.get<Json::Object>("vocab");
    std::vector<char32_t> characters(vocab.size());
    std::vector<bool> taken(vocab.size());
    for (const auto& [word, id] : vocab) {
        std::size_t end = 0;
        if (word.empty()) throw Error(source, ": the vocabulary has an empty entry");
        const char32_t c = next_code_point(word, end, source);
        if (end != word.size()) return {};
        const auto i = static_cast<std::size_t>(id.whole().value_or(-1));
        if (i >= taken.size() || taken[i])
            throw Error(source, ": the id of ", json_quote(word), " is not a whole number below ", taken.size(),
                ", or not its own");
        taken[i] = true;
        characters[i] = c;
    }
    if (static_cast<int>(vocab.size()) != vocab_size)
        throw Error(source, ": it has ", vocab.size(), " characters, but config.json's vocab_size is ", vocab_size);
    return Tokenizer(std::move(characters));
}

// ---- a model's directory ----

// Open for reading. What describes our weights stands in their own file too, so that a crash between two renames cannot
// pair one run's weights with another's description: where they differ, the weights' own counts.
class ModelDirectory {
  public:
    Config config;
    std::optional<Tokenizer> tokenizer;  // none: not one token a character

    explicit ModelDirectory(const std::string& dir) : dir_(dir) {
        namespace fs = std::filesystem;
        const std::string weights = dir + "/model.safetensors", index = weights + ".index.json";
        std::set<std::string> names;
        if (!fs::exists(dir + "/config.json"))
            throw Error("there is no model in ", dir, " (no config.json); train one, or name another directory");
        if (fs::exists(index) && !fs::exists(weights)) {  // in several files
            const Json json = JsonParser(read_file(index), index).parse();
            for (const auto& [tensor, file] : Fields(json, index).get<Json::Object>("weight_map")) {
                const auto* name = file.as<std::string>();
                if (!name || fs::path(*name).filename() != *name)
                    throw Error(index, ": the file of ", tensor, " is not a plain name");
                names.insert(*name);
            }
            if (names.empty()) throw Error(index, ": its weight_map is empty");
        } else {
            names.insert("model.safetensors");
        }
        double numbers = 0;
        for (const std::string& name : names) {
            Safetensors& file = *files_.emplace_back(std::make_unique<Safetensors>(dir + "/" + name));
            for (const auto& [tensor, entry] : file.entries) {
                if (!where_.emplace(tensor, &file).second)
                    throw Error(dir, ": tensor ", tensor, " stands in two files");
                numbers += double(entry.end - entry.begin) /
                    double(std::max<std::size_t>(1, Safetensors::type_size(entry.type)));
            }
        }
        const auto [content, source] = description("config.json");
        config = config_from_json(content, source);
        if (static_cast<std::size_t>(config.n_layer) > where_.size() || double(Parameters(config).count()) > numbers)
            throw Error(source, " describes a larger model than the weights; they do not belong together");
        const bool ours = !metadata("config.json").empty(), own_tokenizer = !metadata("tokenizer.json").empty();
        if (own_tokenizer || (!ours && fs::exists(dir + "/tokenizer.json"))) {
            const auto [vocabulary, from] = description("tokenizer.json");
            tokenizer = tokenizer_from_json(vocabulary, from, config.vocab_size);
        }
    }

    // Metadata of the weights' file; empty if it has none of that name.
    std::string metadata(const std::string& name) const {
        const auto found = files_[0]->metadata.find(name);
        return found == files_[0]->metadata.end() ? "" : found->second;
    }

    // Reads the weights; the files must hold all of them, in their shapes, and nothing that is not known.
    void load(const Parameters& parameters) {
        auto left = where_;
        for (const NamedView& view : named_views(config, parameters)) {
            std::string name = view.name;
            if (!left.contains(name) && name.starts_with("transformer."))
                name = name.substr(12);  // as GPT2Model saves it
            if (!left.contains(name)) throw Error(dir_, ": tensor ", view.name, " is missing");
            const auto& entry = left[name]->entries.at(name);
            if (entry.shape != view.shape)
                throw Error(dir_, ": tensor ", name, " has another shape than config.json describes");
            if (!Safetensors::type_size(entry.type))
                throw Error(dir_, ": tensor ", name, " has type ", entry.type, "; F64, F32, F16 and BF16 are read");
            left[name]->read(name, view);
            left.erase(name);
        }
        for (const auto& [name, file] : left) {
            const bool buffer = name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias") ||
                name.ends_with(".rotary_emb.inv_freq");
            if (!buffer && !(config.tie && name == "lm_head.weight"))
                throw Error(dir_, ": tensor ", name, " is not part of the model that config.json describes");
        }
    }

  private:
    // The content and the name of a file that describes the weights, or of its copy in their metadata.
    std::pair<std::string, std::string> description(const std::string& name) const {
        const std::string path = dir_ + "/" + name, own = metadata(name);
        const bool there = std::filesystem::exists(path);
        const std::string content = there ? read_file(path) : "";
        if (own.empty() || own == content) return {content, path};
        if (there) JsonParser(content, path).parse();  // damaged is not the same as another run's
        std::cerr << "nanogpt: note: " << path << " is not the one the weights were saved with; taking theirs\n";
        return {own, dir_ + "/model.safetensors (" + name + ")"};
    }

    std::string dir_;
    std::vector<std::unique_ptr<Safetensors>> files_;
    std::map<std::string, Safetensors*> where_;
};

// Writes a directory that nanogpt and Hugging Face's tools read; `notes` go into the weights' metadata.
inline void save_model(const std::string& dir, const Config& config, const Parameters& weights,
    const std::optional<Tokenizer>& tokenizer, Metadata notes = {}) {
    const auto write = [&](const std::string& name, const std::string& content) {
        replace_file(dir + "/" + name, [&](std::ostream& out) { out << content; });
    };
    notes["format"] = "pt";
    write("config.json", notes["config.json"] = config_json(config));
    if (tokenizer) {
        write("tokenizer.json", notes["tokenizer.json"] = tokenizer_json(*tokenizer));
        write("tokenizer_config.json",
            text(R"({"tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": false,)"
                 R"( "model_max_length": )",
                config.block_size, "}\n"));
    }
    write_safetensors(dir + "/model.safetensors", notes, named_views(config, weights));
}

// ---------------------------------------------------------------------------------------------------------------------
// 9  Options: nanoGPT's names

enum class Arch { gpt2, llama };
enum class Split { all, train, val };
template <> constexpr std::array words<Arch>{"gpt2", "llama"};
template <> constexpr std::array words<Split>{"all", "train", "val"};

struct Options {
    std::string data = "data/fables.txt", out_dir = "out", init_from = "scratch", config, start = "\n";
    Arch arch = Arch::gpt2;
    Config model;
    int batch_size = 12, gradient_accumulation_steps = 1, max_iters = 2000, warmup_iters = 100, lr_decay_iters = 0;
    int eval_interval = 250, eval_iters = 20, log_interval = 10, threads = 0, num_samples = 1, max_new_tokens = 500;
    double learning_rate = 1e-3, min_lr = 1e-4, weight_decay = 0.1, beta1 = 0.9, beta2 = 0.99, grad_clip = 1;
    std::uint64_t seed = 1337;
    Taste taste;
    Split split = Split::all;
    bool tokens = false;
};

struct Option {
    const char* name;
    std::variant<int*, double*, std::uint64_t*, bool*, std::string*, Arch*, Norm*, Position*, Mlp*, Wiring*, Split*>
        value;
    const char* commands;  // which take it: t train, s sample, e eval
    const char* help;
    double least = 0, most = 1 << 30;  // of a number

    bool of(char command) const { return std::string_view(commands).find(command) != std::string_view::npos; }
};

inline std::vector<Option> option_table(Options& o) {
    Config& m = o.model;
    constexpr double below_1 = 0.999999, large = 1 << 20;
    return {
        {"data", &o.data, "te", "the text, UTF-8"},
        {"out_dir", &o.out_dir, "tse", "where the model, the log and the plot are"},
        {"init_from", &o.init_from, "tse", "scratch; resume (go on with the run in out_dir); or a model's directory"},
        {"config", &o.config, "tse", "a file of lines `option = value`; the command line wins"},
        {"arch", &o.arch, "t", "gpt2 (layernorm, learned, gelu, bias) or llama (rmsnorm, rope, swiglu, no bias)"},
        {"wiring", &m.wiring, "t", "pre: x + f(norm(x)); post: norm(x + f(x)); none: x + f(x); plain: f(x)"},
        {"norm", &m.norm, "t", "layernorm or rmsnorm"},
        {"pos", &m.pos, "t", "positions: learned, sinusoidal, rope or none"},
        {"mlp", &m.mlp, "t", "gelu or swiglu"},
        {"bias", &m.bias, "t", "biases in the linear layers and in LayerNorm"},
        {"tie", &m.tie, "t", "the head is the token embedding"},
        {"n_layer", &m.n_layer, "t", "blocks", 1, 1 << 16},
        {"n_head", &m.n_head, "t", "query heads", 1, large},
        {"n_kv_head", &m.n_kv_head, "t", "key and value heads; 0: as many as query heads", 0, large},
        {"n_embd", &m.n_embd, "t", "width", 1, large},
        {"n_hidden", &m.n_hidden, "t", "inner width of the MLP; 0: 4 n_embd, or 8/3 n_embd for swiglu", 0, large},
        {"block_size", &m.block_size, "t", "context, in tokens", 1, large},
        {"dropout", &m.dropout, "t", "probability", 0, below_1},
        {"batch_size", &o.batch_size, "te", "sequences a batch", 1},
        {"gradient_accumulation_steps", &o.gradient_accumulation_steps, "t", "batches an update", 1},
        {"learning_rate", &o.learning_rate, "t", "its highest"},
        {"min_lr", &o.min_lr, "t", "its lowest"},
        {"warmup_iters", &o.warmup_iters, "t", "updates on the way up"},
        {"lr_decay_iters", &o.lr_decay_iters, "t", "where the lowest is reached; 0: at max_iters"},
        {"max_iters", &o.max_iters, "t", "updates in all"},
        {"weight_decay", &o.weight_decay, "t", "of matrices"},
        {"beta1", &o.beta1, "t", "AdamW's memory of the gradient", 0, below_1},
        {"beta2", &o.beta2, "t", "AdamW's memory of its square", 0, below_1},
        {"grad_clip", &o.grad_clip, "t", "largest norm of the gradient; 0: any"},
        {"eval_interval", &o.eval_interval, "t", "updates between validations", 1},
        {"eval_iters", &o.eval_iters, "t", "batches a validation", 1},
        {"log_interval", &o.log_interval, "t", "updates between lines of the log", 1},
        {"start", &o.start, "s", "the text to continue; FILE:path reads a file, - standard input"},
        {"num_samples", &o.num_samples, "s", "texts", 1},
        {"max_new_tokens", &o.max_new_tokens, "s", "tokens each"},
        {"temperature", &o.taste.temperature, "s",
            "below 1 more predictable, above 1 less; 0: always the most probable"},
        {"top_k", &o.taste.top_k, "s", "choose among this many; 0: all"},
        {"top_p", &o.taste.top_p, "s", "choose among the most probable that together have this probability", 1e-9, 1},
        {"split", &o.split, "e", "all, train (the first 90 %) or val (the last 10 %)"},
        {"tokens", &o.tokens, "tse", "text is given and printed as token ids"},
        {"seed", &o.seed, "ts", "of all random choices"},
        {"threads", &o.threads, "tse", "0: all processors", 0, 1024},
    };
}

inline std::string value_text(const Option& option) {
    return std::visit([](const auto* v) { return value_text(*v); }, option.value);
}

// Levenshtein's distance, to guess what a mistyped option meant.
inline std::size_t edit_distance(std::string_view a, std::string_view b) {
    std::vector<std::size_t> row(b.size() + 1);
    std::iota(row.begin(), row.end(), 0);
    for (std::size_t i = 0; i < a.size(); i++) {
        std::size_t diagonal = std::exchange(row[0], i + 1);
        for (std::size_t j = 0; j < b.size(); j++)
            diagonal = std::exchange(row[j + 1], std::min({row[j] + 1, row[j + 1] + 1, diagonal + (a[i] != b[j])}));
    }
    return row.back();
}

inline const Option& find_option(const std::vector<Option>& table, const std::string& name) {
    const auto distance = [&](const Option& option) { return edit_distance(name, option.name); };
    const auto nearest = std::min_element(
        table.begin(), table.end(), [&](const Option& a, const Option& b) { return distance(a) < distance(b); });
    if (distance(*nearest) > 0)
        throw UsageError("there is no option --", name, "; did you mean --", nearest->name, "?");
    return *nearest;
}

inline void set_option(Options& o, const std::string& name, const std::string& value) {
    const auto table = option_table(o);
    const Option& option = find_option(table, name);
    const auto refuse = [&](const auto&... takes) {
        throw UsageError("--", name, " is '", value, "'; it takes ", takes...);
    };
    std::visit(
        [&](auto* v) {
            using T = std::decay_t<decltype(*v)>;
            if constexpr (std::is_same_v<T, std::string>) {
                each_code_point(value, "--" + name, [](char32_t) {});
                *v = value;
            } else if constexpr (std::is_same_v<T, bool>) {
                *v = value == "true" || value == "True" || value == "1";
                if (!*v && value != "false" && value != "False" && value != "0") refuse("true or false");
            } else if constexpr (std::is_enum_v<T>) {
                std::string takes;
                for (const char* word : words<T>) takes += (takes.empty() ? "" : ", ") + std::string(word);
                const auto found = from_word<T>(value);
                if (!found) refuse(takes);
                *v = *found;
            } else {
                bool good;
                if constexpr (std::is_same_v<T, double>) {
                    char* end = nullptr;
                    *v = std::strtod(value.c_str(), &end);
                    good = !value.empty() && !std::isspace(static_cast<unsigned char>(value[0])) && *end == '\0';
                } else {
                    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), *v);
                    good = error == std::errc() && end == value.data() + value.size();
                }
                const bool seed = std::is_same_v<T, std::uint64_t>;  // any 64 bits
                if (!good || (!seed && !(double(*v) >= option.least && double(*v) <= option.most)))
                    refuse(std::is_same_v<T, double> ? "a number" : "a whole number", " from ", option.least, " to ",
                        seed ? double(std::numeric_limits<T>::max()) : option.most);
            }
        },
        option.value);
    if (name != "arch") return;
    const bool llama = o.arch == Arch::llama;
    o.model.norm = llama ? Norm::rms : Norm::layer;
    o.model.pos = llama ? Position::rope : Position::learned;
    o.model.mlp = llama ? Mlp::swiglu : Mlp::gelu;
    o.model.bias = !llama;
    o.model.tie = true;
}

// Values by name. The alphabet puts `arch`, which sets options that others then change, before them.
using OptionList = std::map<std::string, std::string>;

inline void set_options(Options& o, const OptionList& list) {
    for (const auto& [name, value] : list) set_option(o, name, value);
}

inline OptionList read_config_file(const std::string& path) {
    OptionList list;
    std::istringstream in(read_file(path));
    const auto trimmed = [](const std::string& s) {
        const auto begin = s.find_first_not_of(" \t\r"), end = s.find_last_not_of(" \t\r");
        return begin == s.npos ? "" : s.substr(begin, end - begin + 1);
    };
    int number = 1;
    for (std::string line; std::getline(in, line); number++) {
        line = trimmed(line.substr(0, line.find('#')));
        const auto equals = line.find('=');
        if (line.empty()) continue;
        if (equals == line.npos) throw UsageError(path, " line ", number, " is '", line, "'; write `option = value`");
        std::string name = trimmed(line.substr(0, equals));
        std::replace(name.begin(), name.end(), '-', '_');
        if (name == "config" || !list.emplace(name, trimmed(line.substr(equals + 1))).second)
            throw UsageError(path, " line ", number, ": --", name, " is given twice; give it once");
    }
    return list;
}

// --name=value, --name value, and for a flag --name alone; '-' in a name is '_'.
inline OptionList parse_arguments(const std::vector<std::string>& arguments) {
    OptionList list;
    Options probe;
    const auto table = option_table(probe);
    for (std::size_t i = 0; i < arguments.size(); i++) {
        const std::string& word = arguments[i];
        if (!word.starts_with("--"))
            throw UsageError("'", word, "' is not an option; options are written --name=value");
        const auto equals = word.find('=');
        std::string name = word.substr(2, equals == word.npos ? equals : equals - 2), value;
        std::replace(name.begin(), name.end(), '-', '_');
        const bool flag = std::holds_alternative<bool*>(find_option(table, name).value);
        const bool more = i + 1 < arguments.size() && !arguments[i + 1].starts_with("--");
        if (equals != word.npos) value = word.substr(equals + 1);
        else if (more) value = arguments[++i];
        else if (flag) value = "true";
        else throw UsageError("--", name, " needs a value: --", name, "=…");
        const auto [first, added] = list.emplace(name, value);
        if (!added) throw UsageError("--", name, " is given twice, ", first->second, " and ", value, "; give it once");
    }
    return list;
}

// What the command line and the --config file give; the command line wins. command: t, s or e.
inline OptionList given_options(const std::vector<std::string>& arguments, char command) {
    Options probe;
    const auto table = option_table(probe);
    OptionList list;
    const OptionList line = parse_arguments(arguments);
    if (line.contains("config")) list = read_config_file(line.at("config"));
    std::erase_if(list, [&](const auto& pair) { return !find_option(table, pair.first).of(command); });
    for (const auto& [name, value] : line) {
        if (!find_option(table, name).of(command))
            throw UsageError("--", name, " is not an option of this command; see --help");
        list[name] = value;
    }
    return list;
}

// ---------------------------------------------------------------------------------------------------------------------
// 10  Training

// A line plot as SVG: titled axes, linear or logarithmic, the legend beside the lines, colours that colour-blind
// readers can tell apart (Okabe and Ito's), readable on white and on dark. A value that cannot be shown breaks its
// line.
struct Plot {
    struct Series {
        std::string name;
        std::vector<std::pair<double, double>> points;
        bool dashed = false;
        int color = -1;  // -1: by its place in the list
    };
    std::string title, x_label, y_label;
    std::vector<Series> series{};
    bool log_x = false, log_y = false;

    std::string svg() const {
        constexpr double left = 84, right = 570, top = 44, bottom = 362, middle = (left + right) / 2;
        static constexpr std::array colors{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#888888"};
        const Axis x(*this, &std::pair<double, double>::first, log_x),
            y(*this, &std::pair<double, double>::second, log_y);
        const auto px = [&](double v) { return left + (right - left) * x.place(v); };
        const auto py = [&](double v) { return bottom - (bottom - top) * y.place(v); };
        std::ostringstream out;
        const auto label = [&](double at_x, double at_y, const char* anchor, const auto& what,
                               const std::string& more = "") {
            out << "<text x=\"" << at_x << "\" y=\"" << at_y << "\" text-anchor=\"" << anchor << '"' << more << '>'
                << what << "</text>\n";
        };
        const auto line = [&](const std::string& style, double x1, double y1, double x2, double y2) {
            out << "<line " << style << " x1=\"" << x1 << "\" y1=\"" << y1 << "\" x2=\"" << x2 << "\" y2=\"" << y2
                << "\"/>\n";
        };
        out << R"(<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 760 420" font-family="sans-serif" font-size="13">
<style>text{fill:#333}.grid{stroke:#8884}.line{fill:none;stroke-width:2;stroke-linejoin:round}
@media(prefers-color-scheme:dark){text{fill:#ddd}}</style>
)";
        label(middle, 26, "middle", escape(title), " font-size=\"16\"");
        label(middle, 404, "middle", escape(x_label));
        label(-(top + bottom) / 2, 20, "middle", escape(y_label), " transform=\"rotate(-90)\"");
        for (const double v : x.ticks)
            line("class=\"grid\"", px(v), top, px(v), bottom), label(px(v), bottom + 18, "middle", v);
        for (const double v : y.ticks)
            line("class=\"grid\"", left, py(v), right, py(v)), label(left - 8, py(v) + 4, "end", v);
        double legend = top + 10;
        for (std::size_t i = 0; i < series.size(); i++, legend += 22) {
            const Series& s = series[i];
            const char* color = colors[(s.color < 0 ? i : static_cast<std::size_t>(s.color)) % colors.size()];
            const std::string style =
                text("class=\"line\" stroke=\"", color, '"', s.dashed ? " stroke-dasharray=\"7 5\"" : "");
            out << "<path " << style << " d=\"";
            for (const char* move = "M"; const auto& [a, b] : s.points) {
                const bool shown = x.shows(a) && y.shows(b);
                if (shown) out << move << px(a) << ' ' << py(b);
                move = shown ? "L" : "M";
            }
            out << "\"/>\n";
            line(style, right + 16, legend, right + 44, legend);
            label(right + 50, legend + 4, "start", escape(s.name));
        }
        return out.str() + "</svg>\n";
    }

  private:
    struct Axis {
        double low = std::numeric_limits<double>::infinity(), high = -low;
        bool log;
        std::vector<double> ticks;

        Axis(const Plot& plot, double std::pair<double, double>::*coordinate, bool logarithmic) : log(logarithmic) {
            for (const Series& s : plot.series)
                for (const auto& point : s.points)
                    if (const double v = point.*coordinate; shows(v))
                        low = std::min(low, scale(v)), high = std::max(high, scale(v));
            if (!(low <= high)) low = 0, high = 1;
            if (high - low < 1e-9 * std::max(1.0, std::abs(high))) low -= 0.5, high += 0.5;
            if (log && high - low < 1.5) {  // few decades: round numbers between them
                for (double decade = std::floor(low); decade <= high; decade++)
                    for (const double digit : {1.0, 1.5, 2.0, 3.0, 5.0, 7.0})
                        if (const double v = decade + std::log10(digit); v >= low && v <= high)
                            ticks.push_back(std::pow(10, v));
                return;
            }
            const double raw = (high - low) / 6, power = std::pow(10, std::floor(std::log10(raw))), digit = raw / power;
            const int round = digit < 1.5 ? 1 : digit < 3.5 ? 2 : digit < 7.5 ? 5 : 10;
            const double step = log ? std::max(1.0, std::ceil(raw)) : power * round;
            low = std::floor(low / step + 1e-9) * step, high = std::ceil(high / step - 1e-9) * step;
            for (double v = low; v < high + step / 2; v += step)
                ticks.push_back(log ? std::pow(10, v) : std::abs(v) < step / 2 ? 0 : v);
        }
        bool shows(double v) const { return std::isfinite(v) && (!log || v > 0); }
        double scale(double v) const { return log ? std::log10(v) : v; }
        double place(double v) const { return (scale(v) - low) / (high - low); }
    };
    static std::string escape(const std::string& s) {
        std::string out;
        for (const char c : s) out += c == '<' ? "&lt;" : c == '&' ? "&amp;" : std::string(1, c);
        return out;
    }
};

// What log.csv says after `iter` updates; not a number, an empty field, is what was not measured.
struct LogRow {
    std::int64_t iter = 0;
    double train_loss = std::nan(""), val_loss = std::nan(""), lr = std::nan(""), grad_norm = std::nan(""),
           ms = std::nan(""), tokens_per_s = std::nan("");

    static constexpr const char* header = "iter,train_loss,val_loss,lr,grad_norm,ms,tokens_per_s\n";
    std::string csv() const {
        std::string line = text(iter);
        for (const double d : {train_loss, val_loss, lr, grad_norm, ms, tokens_per_s})
            line += std::isnan(d) ? "," : "," + shortest(d);
        return line + '\n';
    }
};

// The rows of a log up to iteration `last`; a line that a kill cut off has no end and does not count.
inline std::vector<LogRow> read_log(const std::string& path, std::int64_t last) {
    std::vector<LogRow> rows;
    std::istringstream in(read_file(path));
    std::string line, field;
    for (std::getline(in, line); std::getline(in, line) && !in.eof();) {
        LogRow row;
        std::istringstream fields(line);
        if (std::getline(fields, field, ',')) row.iter = std::strtoll(field.c_str(), nullptr, 10);
        for (double* d : {&row.train_loss, &row.val_loss, &row.lr, &row.grad_norm, &row.ms, &row.tokens_per_s})
            if (std::getline(fields, field, ',') && !field.empty()) *d = std::strtod(field.c_str(), nullptr);
        if (row.iter <= last) rows.push_back(row);
    }
    return rows;
}

// The tokens of a text, or with --tokens (or a vocabulary that is not one token a character) of a list of ids.
inline std::vector<Token> read_tokens(const std::string& content, const std::string& source,
    const std::optional<Tokenizer>& tokenizer, bool ids, int vocab_size) {
    if (!ids && tokenizer) return tokenizer->encode(content, source);
    std::vector<Token> tokens;
    std::istringstream in(content);
    for (std::string word; in >> word;) {
        Token id = -1;
        const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), id);
        if (error != std::errc() || end != word.data() + word.size() || id < 0 || id >= vocab_size)
            throw Error("token ", tokens.size() + 1, " of ", source, " is '", word.substr(0, 40),
                "'; this model takes token ids, whole numbers below ", vocab_size);
        tokens.push_back(id);
    }
    return tokens;
}

inline volatile std::sig_atomic_t interrupted = 0;  // a signal handler can set nothing else

// Whether a device is a terminal, as far as the standard library can tell.
inline bool is_terminal(const char* device) {
    std::error_code error;
    return std::filesystem::is_character_file(device, error) &&
        std::filesystem::canonical(device, error) != "/dev/null";
}

using Clock = std::chrono::steady_clock;
inline double seconds_since(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
}

// As 1:02:03.
inline std::string hours(double seconds) {
    const auto s = static_cast<long long>(seconds + 0.5);
    char out[40];
    std::snprintf(out, sizeof out, "%lld:%02lld:%02lld", s / 3600, s / 60 % 60, s % 60);
    return out;
}

class Trainer {
  public:
    // Reads the text and what to start from, says what will be done, and gets the memory for it.
    explicit Trainer(const OptionList& given) {
        set_options(o_, given);
        std::optional<ModelDirectory> directory;
        std::optional<Safetensors> state;
        if (o_.init_from == "resume") {
            read_state(state.emplace(o_.out_dir + "/state.safetensors"), given);
        } else if (o_.init_from == "scratch") {
            o_.model.final_norm = o_.model.wiring == Wiring::pre;
        } else {
            directory.emplace(o_.init_from);
            o_.model = directory->config;
            tokenizer_ = directory->tokenizer;
            keep_model(given, {});
        }
        if (o_.min_lr > o_.learning_rate)
            throw Error("min_lr ", o_.min_lr, " is above learning_rate ", o_.learning_rate, "; lower --min_lr, too");
        set_threads(o_.threads);
        read_text();
        o_.model.complete();
        gpt_ = std::make_unique<GPT>(o_.model, o_.batch_size, T(), GPT::Use::training);
        gpt_->dropout_seed = o_.seed;
        std::cout << "text    " << o_.data << ": " << count_ << " tokens, " << o_.model.vocab_size
                  << " different ones\n"
                  << "model   " << model_type(o_.model) << ", " << gpt_->weights.count() << " parameters\n"
                  << "memory  " << std::setprecision(3) << gpt_->bytes() / 1e9 << " GB; " << pool()->threads()
                  << " threads\n";
        if (model_type(o_.model) == "nanogpt")
            std::cout << "note    neither GPT-2's nor Llama's architecture: only nanogpt reads this model\n";
        std::cout << std::flush;
        gpt_->allocate();
        adam_ = std::make_unique<AdamW>(gpt_->weights);
        adam_->beta1 = o_.beta1, adam_->beta2 = o_.beta2, adam_->weight_decay = o_.weight_decay;
        if (state)
            for (const NamedView& view : state_views()) state->read(view.name, view);
        else if (directory) directory->load(gpt_->weights);
        else gpt_->weights.initialize(o_.seed);
    }

    void run() {
        if (resumed_ && iter_ >= o_.max_iters) {
            std::cout << "already at iteration " << iter_ << "; raise --max_iters to go on\n";
            return;
        }
        if (resumed_) open_log(read_log(o_.out_dir + "/log.csv", iter_));
        for (const int number : {SIGINT, SIGTERM})  // a second one stops at once
            std::signal(number, [](int n) { interrupted = 1, std::signal(n, SIG_DFL); });
#ifdef SIGPIPE
        std::signal(SIGPIPE, SIG_IGN);  // who reads the progress may end first, as `| tee` does at Ctrl-C
#endif
        const auto start = Clock::now();
        const std::int64_t first = iter_;
        LogRow row{iter_};
        for (;; step(row)) {
            const bool last = iter_ == o_.max_iters, logged = !rows_.empty() && rows_.back().iter == iter_;
            const bool evaluate = !logged && (last || iter_ % o_.eval_interval == 0);
            row.val_loss = evaluate ? validate() : std::nan("");
            if (evaluate && !log_.is_open()) begin_directory();
            const bool report = !logged && (evaluate || iter_ % o_.log_interval == 0);
            if (report) log(row);
            if (evaluate) save(row.val_loss);
            if (iter_ > first && (terminal_ || report)) {
                show(row, seconds_since(start) / double(iter_ - first) * double(o_.max_iters - iter_));
            }
            if (last) break;
            if (interrupted) {
                if (!evaluate) save_state();
                std::cout << (terminal_ ? "\n" : "") << "stopped at iteration " << iter_
                          << "; go on with: ./nanogpt train --init_from=resume --out_dir=" << o_.out_dir << '\n';
                return;
            }
        }
        std::cout << (terminal_ ? "\n" : "") << "best validation loss " << std::setprecision(5) << best_loss_
                  << " at iteration " << best_iter_ << "; the model is in " << o_.out_dir << ", its curve in "
                  << o_.out_dir << "/loss.svg\n"
                  << "sample from it: ./nanogpt sample --out_dir=" << o_.out_dir << '\n';
    }

  private:
    void read_text() {
        const std::string content = read_file(o_.data);
        if (o_.init_from == "scratch") {
            if (o_.tokens)
                throw UsageError(
                    "--tokens goes with --init_from=DIR: a new model's vocabulary is its text's characters");
            tokenizer_ = Tokenizer::of_text(content, o_.data);
            o_.model.vocab_size = tokenizer_->size();
        }
        tokens_ = read_tokens(content, o_.data, tokenizer_, o_.tokens, o_.model.vocab_size);
        count_ = static_cast<idx>(tokens_.size());
        train_ = training_part(count_);
        if (train_ <= T() || count_ - train_ <= T())
            throw Error(o_.data, " has ", count_, " tokens; with block_size ", T(), " it takes about ", 10 * (T() + 1),
                "; take a longer text or a smaller --block_size");
        std::uint64_t hash = 0xCBF29CE484222325u;  // FNV-1a
        for (const Token token : tokens_) hash = (hash ^ static_cast<std::uint64_t>(token)) * 0x100000001B3u;
        const std::string fingerprint = text(count_, ' ', hash);
        if (resumed_ && fingerprint != text_)
            throw Error(o_.data, " is not the text of the run in ", o_.out_dir,
                "; give that, or start a new run with --init_from=", o_.out_dir);
        text_ = fingerprint;
    }

    // What is given must not ask for another model than the one there is. saved: the architecture it was made with, if
    // known.
    void keep_model(const OptionList& given, std::optional<Arch> saved) {
        for (const auto& [name, value] : given) {
            if (name == "arch" && value == (saved ? word_for(*saved) : model_type(o_.model))) continue;
            Options changed = o_;
            set_option(changed, name, value);
            changed.model.complete();
            if (config_json(changed.model) != config_json(o_.model))
                throw Error("--", name, "=", value,
                    " would change the model; leave it out, or begin a new one with --init_from=scratch");
            o_ = changed;
        }
    }

    // A run's options, and where it stood.
    void read_state(const Safetensors& file, const OptionList& given) {
        const std::string path = o_.out_dir + "/state.safetensors";
        const Error none(path, " is not a run's state; start a new run");
        const auto saved = [&](const std::string& name) {
            const auto found = file.metadata.find(name);
            if (found == file.metadata.end()) throw none;
            return found->second;
        };
        const auto whole = [&](const std::string& name) {
            const std::string value = saved(name);
            std::int64_t n = -1;
            std::from_chars(value.data(), value.data() + value.size(), n);
            return n < 0 ? throw none : n;
        };
        OptionList options;
        for (const auto& [name, value] : file.metadata)
            if (name.starts_with("--")) options.emplace(name.substr(2), value);
        if (options.empty()) throw none;
        set_options(o_, options);
        const double dropout = o_.model.dropout;
        o_.model = config_from_json(saved("config.json"), path + " (config.json)");
        o_.model.dropout = dropout;
        const std::string vocabulary = saved("tokenizer.json");
        if (!vocabulary.empty())
            tokenizer_ = tokenizer_from_json(vocabulary, path + " (tokenizer.json)", o_.model.vocab_size);
        keep_model(given, o_.arch);
        iter_ = whole("iter"), best_iter_ = whole("best_iter");
        best_loss_ = std::strtod(saved("best_loss").c_str(), nullptr);
        text_ = saved("text");
        resumed_ = true;
        const std::vector<idx> shape{o_.model.n_layer > 1 << 16 ? 0 : Parameters(o_.model).memory.size()};
        for (const char* name : {"weights", "adamw.m", "adamw.v"}) {
            const auto entry = file.entries.find(name);
            if (entry == file.entries.end() || entry->second.shape != shape ||
                !Safetensors::type_size(entry->second.type))
                throw Error(path, ": tensor ", name, " does not fit the model");
        }
        // If the weights in the directory are not the state's best, a crash came between the two files; then the next
        // ones are.
        const ModelDirectory best(o_.out_dir);
        if (best.metadata("iter") != text(best_iter_) || best.metadata("val_loss") != shortest(best_loss_))
            best_loss_ = std::numeric_limits<double>::infinity();
    }

    std::vector<NamedView> state_views() const {
        const idx n = gpt_->weights.memory.size();
        return {{"weights", {n}, gpt_->weights.memory.data(), 0, 1}, {"adamw.m", {n}, adam_->m, 0, 1},
            {"adamw.v", {n}, adam_->v, 0, 1}};
    }

    double validate() {
        double total = 0;
        for (int i = 0; i < o_.eval_iters; i++) {
            even_batch(batch_, i, o_.eval_iters, tokens_.data() + train_, count_ - train_, o_.batch_size, T());
            gpt_->forward(batch_.inputs.data(), o_.batch_size, T());
            total += gpt_->loss(batch_.targets.data());
        }
        must_be_finite("validation loss", total);
        return total / o_.eval_iters;
    }

    // One update; row gets what it measured.
    void step(LogRow& row) {
        const auto start = Clock::now();
        const int accumulate = o_.gradient_accumulation_steps;
        row.train_loss = 0;
        for (int micro = 0; micro < accumulate; micro++) {
            const auto key = static_cast<std::uint64_t>(iter_ * accumulate + micro);
            random_batch(batch_, Random(o_.seed, Purpose::batch, key), tokens_.data(), train_, o_.batch_size, T());
            gpt_->forward(batch_.inputs.data(), o_.batch_size, T(), 0, key);
            row.train_loss += gpt_->loss(batch_.targets.data(), 1.0 / accumulate) / accumulate;
            gpt_->backward(batch_.inputs.data());
        }
        row.grad_norm = gradient_norm(gpt_->gradients);
        must_be_finite("loss", row.train_loss);
        must_be_finite("gradient's norm", row.grad_norm);
        row.lr = scheduled_rate(iter_, o_.learning_rate, o_.min_lr, o_.warmup_iters,
            o_.lr_decay_iters > 0 ? o_.lr_decay_iters : o_.max_iters);
        adam_->update(gpt_->weights, gpt_->gradients, row.lr, clip_factor(row.grad_norm, o_.grad_clip), iter_ + 1);
        row.iter = ++iter_;
        row.ms = seconds_since(start) * 1000;
        row.tokens_per_s = double(o_.batch_size * T() * accumulate) / row.ms * 1000;
    }

    void must_be_finite(const char* what, double value) const {
        if (!std::isfinite(value))
            throw Error("the ", what, " became ", value, " at iteration ", iter_, "; lower --learning_rate (",
                o_.learning_rate, ") or raise --warmup_iters (", o_.warmup_iters, ")",
                log_.is_open() ? "; the last good checkpoint is in " + o_.out_dir : "");
    }

    // The best weights if these are, the plot, and last the state to resume from: a kill in between only repeats work.
    void save(double val_loss) {
        must_be_finite("weights' norm", gradient_norm(gpt_->weights));
        if (val_loss < best_loss_) {
            best_loss_ = val_loss;
            best_iter_ = iter_;
            save_model(o_.out_dir, gpt_->config, gpt_->weights, tokenizer_,
                {{"iter", text(iter_)}, {"val_loss", shortest(val_loss)}});
        }
        Plot plot{"Loss", "iteration", "loss (nats per token)", {{"training batch", {}}, {"validation", {}}}};
        for (const LogRow& row : rows_) {
            plot.series[0].points.emplace_back(double(row.iter), row.train_loss);
            if (!std::isnan(row.val_loss)) plot.series[1].points.emplace_back(double(row.iter), row.val_loss);
        }
        replace_file(o_.out_dir + "/loss.svg", [&](std::ostream& out) { out << plot.svg(); });
        save_state();
    }

    // All in one file, so that it is always of one moment.
    void save_state() {
        must_be_finite("weights' norm", gradient_norm(gpt_->weights));
        Metadata state{{"iter", text(iter_)}, {"best_iter", text(best_iter_)}, {"best_loss", shortest(best_loss_)},
            {"text", text_}, {"config.json", config_json(gpt_->config)},
            {"tokenizer.json", tokenizer_ ? tokenizer_json(*tokenizer_) : ""}};
        const std::set<std::string> not_saved{"config", "init_from", "out_dir", "threads"};
        for (const Option& option : option_table(o_))
            if (option.of('t') && !not_saved.contains(option.name)) state[text("--", option.name)] = value_text(option);
        write_safetensors(o_.out_dir + "/state.safetensors", state, state_views());
    }

    // A new run does not destroy an old one's checkpoint: its files get second names in out_dir/previous, or if that is
    // taken, in previous2, previous3 … One that a run which failed at once has put there already is not kept again.
    void begin_directory() {
        namespace fs = std::filesystem;
        const fs::path out = o_.out_dir, model = out / "model.safetensors";
        std::error_code error, other;
        fs::create_directories(out, error);
        if (!error && fs::exists(model.string() + ".index.json"))
            throw Error("there is a model in several files in ", o_.out_dir, "; choose another --out_dir");
        if (!error && fs::exists(model)) {
            fs::path previous = out / "previous";
            const auto kept = [&] {
                return !fs::exists(out / "state.safetensors") &&
                    fs::equivalent(model, previous / model.filename(), other);
            };
            for (int n = 2; fs::exists(previous) && !kept(); n++) previous = out / text("previous", n);
            fs::create_directory(previous, error);
            for (const char* name : {"config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors",
                     "state.safetensors", "log.csv", "loss.svg"}) {
                if (error || !fs::exists(out / name) || fs::exists(previous / name)) continue;
                fs::create_hard_link(fs::canonical(out / name), previous / name, error);
                if (error) fs::copy_file(out / name, previous / name, error);
            }
            if (!error) fs::remove(out / "state.safetensors", error);  // it must not be resumed with the new run's log
            if (!error)
                std::cout << "the model that was in " << o_.out_dir << " is kept in " << previous.string() << '\n';
        }
        if (error) throw Error("cannot write to ", o_.out_dir, " (", error.message(), "); choose another --out_dir");
        open_log({});
    }

    void open_log(std::vector<LogRow> rows) {
        rows_ = std::move(rows);
        replace_file(o_.out_dir + "/log.csv", [&](std::ostream& out) {
            out << LogRow::header;
            for (const LogRow& row : rows_) out << row.csv();
        });
        log_.open(o_.out_dir + "/log.csv", std::ios::app);
    }

    void log(const LogRow& row) {
        rows_.push_back(row);
        log_ << row.csv() << std::flush;
        if (!log_) throw Error("cannot write ", o_.out_dir, "/log.csv; is the disk full, or the directory gone?");
    }

    // The line of progress; on a terminal it is drawn over the last one.
    void show(const LogRow& row, double seconds_left) const {
        double val_loss = 0;
        for (const LogRow& r : rows_)
            if (!std::isnan(r.val_loss)) val_loss = r.val_loss;
        char line[160];
        std::snprintf(line, sizeof line, "iter %lld/%d  loss %.4f  val %.4f  %.0f tokens/s  %s left",
            static_cast<long long>(row.iter), o_.max_iters, row.train_loss, val_loss, row.tokens_per_s,
            hours(seconds_left).c_str());
        std::cout << (terminal_ ? "\r" : "") << line << (terminal_ ? "\x1b[K" : "\n") << std::flush;
    }

    idx T() const { return o_.model.block_size; }

    Options o_;
    std::optional<Tokenizer> tokenizer_;
    std::vector<Token> tokens_;
    idx count_ = 0, train_ = 0;  // tokens in all, and the first ones that train
    std::string text_;           // the text's length and hash
    std::unique_ptr<GPT> gpt_;
    std::unique_ptr<AdamW> adam_;
    Batch batch_;
    std::int64_t iter_ = 0, best_iter_ = 0;
    double best_loss_ = std::numeric_limits<double>::infinity();
    bool resumed_ = false, terminal_ = is_terminal("/dev/stdout");
    std::vector<LogRow> rows_;
    std::ofstream log_;
};

// ---------------------------------------------------------------------------------------------------------------------
// 11  The commands

// The model to sample from or to score with: --init_from if it names a directory, else out_dir.
inline ModelDirectory open_model(const Options& o) {
    return ModelDirectory(o.init_from == "scratch" || o.init_from == "resume" ? o.out_dir : o.init_from);
}

// For B sequences of up to T tokens.
inline std::unique_ptr<GPT> load_model(ModelDirectory& directory, idx B, idx T, GPT::Use use) {
    auto gpt = std::make_unique<GPT>(directory.config, B, std::min<idx>(T, directory.config.block_size), use);
    gpt->allocate();
    directory.load(gpt->weights);
    if (!directory.tokenizer)
        std::cerr << "nanogpt: note: this vocabulary is not one token a character; text is token ids\n";
    return gpt;
}

inline void sample(const Options& o) {
    ModelDirectory directory = open_model(o);
    const auto& tokenizer = directory.tokenizer;
    const bool ids = o.tokens || !tokenizer;
    std::string start = o.start, source = "--start";
    if (start == "-") {
        start.assign(std::istreambuf_iterator<char>(std::cin), {});
        source = "standard input";
    } else if (start.starts_with("FILE:")) {
        source = start.substr(5);
        start = read_file(source);
    } else if (start == Options().start && (ids || !tokenizer->knows(U'\n'))) {
        start = ids ? "0" : tokenizer->decode(0);  // the default, a line break, is not there
    }
    const std::vector<Token> tokens = read_tokens(start, source, tokenizer, ids, directory.config.vocab_size);
    if (tokens.empty()) throw Error(source, " is empty; give at least one token to continue");
    const idx length = static_cast<idx>(tokens.size()) + o.max_new_tokens;
    const auto gpt = load_model(directory, 1, length, GPT::Use::sampling);
    const auto print = [&](Token token) {
        std::cout << (ids ? text(token, ' ') : tokenizer->decode(token)) << std::flush;
        if (!std::cout) throw Error("cannot write to standard output");
        return true;
    };
    for (int i = 0; i < o.num_samples; i++) {
        for (const Token token : tokens) print(token);
        generate(*gpt, tokens, o.max_new_tokens, o.taste,
            Random(o.seed, Purpose::sample, static_cast<std::uint64_t>(i)), print);
        std::cout << (i + 1 < o.num_samples ? "\n---------------\n" : "\n");
    }
}

inline void evaluate(const Options& o) {
    ModelDirectory directory = open_model(o);
    const std::vector<Token> all =
        read_tokens(read_file(o.data), o.data, directory.tokenizer, o.tokens, directory.config.vocab_size);
    const idx n = static_cast<idx>(all.size()), cut = training_part(n);
    const idx begin = o.split == Split::val ? cut : 0, end = o.split == Split::train ? cut : n;
    if (end - begin < 2)
        throw Error(
            o.data, " has ", end - begin, " tokens to score with --split=", word_for(o.split), "; it takes at least 2");
    const idx B = std::min<idx>(o.batch_size, (end - begin - 2) / directory.config.block_size + 1);
    const auto gpt = load_model(directory, B, end - begin, GPT::Use::scoring);
    const auto start = Clock::now();
    const double loss =
        score(*gpt, all.data() + begin, end - begin, B, [&, terminal = is_terminal("/dev/stderr")](idx done) {
            const double seconds = seconds_since(start), left = double(end - begin - 1 - done);
            if (terminal) std::cerr << "\r\x1b[K" << (left > 0 ? hours(seconds * left / double(done)) + " left" : "");
        });
    if (!std::isfinite(loss)) throw Error("the loss is ", loss, "; the model's weights are damaged or too large");
    std::printf("loss %.6f nats/token (%.6f bits, perplexity %.5g, %td tokens)\n", loss, loss / std::numbers::ln2,
        std::exp(loss), end - begin - 1);
}

inline void print_help(char command) {
    std::cout << R"(nanogpt trains and samples a GPT.

  ./nanogpt train  [--option=value …]   learns a text: a model in out_dir, with log.csv and loss.svg
  ./nanogpt sample [--option=value …]   writes text with the model in out_dir
  ./nanogpt eval   [--option=value …]   scores a text with it

Options, with their defaults (also `--option value`, and - for _):
)";
    Options defaults;
    for (const Option& option : option_table(defaults)) {
        if (command && !option.of(command)) continue;
        const std::string value = value_text(option);
        std::cout << "  " << std::left << std::setw(36) << text("--", option.name, "=", value == "\n" ? "\\n" : value)
                  << option.help << '\n';
    }
}

inline void run_command(const std::vector<std::string>& arguments) {
    const std::string command = arguments.empty() ? "" : arguments[0];
    const bool known = command == "train" || command == "sample" || command == "eval";
    for (const std::string& word : arguments)
        if (word == "--help" || word == "-h" || command == "help") return print_help(known ? command[0] : '\0');
    if (!known) throw UsageError("the command is '", command, "'; it is train, sample or eval (see --help)");
    const OptionList given = given_options({arguments.begin() + 1, arguments.end()}, command[0]);
    if (command == "train") return Trainer(given).run();
    Options o;
    set_options(o, given);
    set_threads(o.threads);
    command == "sample" ? sample(o) : evaluate(o);
}

#ifndef NANOGPT_NO_MAIN
int main(int argc, char** argv) {
    // If standard input or output is closed, a file would get its number, and what is printed would go into that file.
    for (int number = 0; number < 3; number++) static_cast<void>(std::fopen("/dev/null", "r"));
#ifdef SIGXFSZ
    std::signal(SIGXFSZ, SIG_IGN);  // a file that grows past its limit is an error of the write, and reported as such
#endif
    const auto fail = [](std::string message, int status) {
        const auto control = [](char c) { return std::iscntrl(static_cast<unsigned char>(c)) != 0; };
        std::replace_if(message.begin(), message.end(), control, ' ');
        std::cerr << "nanogpt: " << message << '\n';
        return status;
    };
    try {
        run_command({argv + 1, argv + argc});
        if (!std::cout.flush()) throw Error("cannot write to standard output");
        return 0;
    } catch (const UsageError& error) {
        return fail(error.what(), 2);
    } catch (const std::bad_alloc&) {
        return fail("not enough memory; lower --batch_size, --block_size, --n_embd or --n_layer", 1);
    } catch (const std::filesystem::filesystem_error& error) {
        return fail(text("cannot use ", error.path1().string(), " (", error.code().message(), "); name another"), 1);
    } catch (const std::exception& error) {
        return fail(error.what(), 1);
    }
}
#endif
