// make bench: how close nanogpt comes to this machine's peak.
//
//     build/bench                        the rows of docs/benchmarks.md
//     build/bench --n_layer=6 …          any model: each layer, the matrix products, the step, sampling
//
// The measure is the multiply-add. Per token and forward pass a model does
//
//     P + L (T + 1) C        P: the numbers in its matrices (the head included, the tables of embeddings and positions not),
//                            L (T + 1) C: attention's q·k and p·v with the (T + 1) / 2 keys a query sees on average
//
// and a training step three times that for each of its N tokens: the backward has two products for each one of the forward. What the
// backward computes again (attention's scores, activations, norms) and everything that is not a product counts as nothing. A multiply-add is
// 2 FLOP. The peak is measured, on all threads, in bursts between the timed runs: so that a machine whose speed drifts is compared
// with itself.
#define NANOGPT_NO_MAIN
#include "../nanogpt.cpp"

#ifdef __linux__
#include <sys/resource.h>
#endif

inline double median(std::vector<double> v) {
    std::sort(v.begin(), v.end());
    return v[v.size() / 2];
}

volatile real sink;  // results go here, so that no computation is left out

// Multiply-adds a second of one burst: 24 independent chains a thread, nothing but registers.
inline double burst() {
    constexpr idx chains = tile_rows * tile_vectors, rounds = 400000;
    const idx threads = pool()->threads();
    const auto start = Clock::now();
    parallel_for(threads, [](idx) {
        Vector acc[chains];
        for (idx c = 0; c < chains; c++) acc[c] = Vector{} + real(c);
        const Vector a = Vector{} + real(0.999), b = Vector{} + real(0.001);
        for (idx r = 0; r < rounds; r++) {
#pragma GCC unroll 32
            for (idx c = 0; c < chains; c++) acc[c] = acc[c] * a + b;
        }
        Vector total{};
        for (idx c = 0; c < chains; c++) total += acc[c];
        sink = total[0];
    });
    return double(threads * chains * lanes * rounds) / seconds_since(start);
}

struct Timing {
    double seconds, peak;  // medians: of a run, and of the bursts between the runs in multiply-adds a second
};

// Runs f for about `budget` seconds, at least three times, with a burst before each run (short runs are grouped).
template <class F> Timing measure(double budget, const F& f) {
    f();
    const auto once = Clock::now();
    f();
    const double estimate = seconds_since(once);
    const int group = std::max(1, static_cast<int>(0.01 / std::max(1e-9, estimate)));
    std::vector<double> runs, bursts;
    const auto start = Clock::now();
    while (runs.size() < 3 || seconds_since(start) < budget) {
        bursts.push_back(burst());
        const auto begin = Clock::now();
        for (int i = 0; i < group; i++) f();
        runs.push_back(seconds_since(begin) / group);
    }
    return {median(runs), median(bursts)};
}

inline double matrix_numbers(const GPT& gpt) {
    double total =
        gpt.config.tie ? double(gpt.config.vocab_size) * gpt.config.n_embd : 0;  // a tied head multiplies too
    for (const Tensor& t : gpt.weights.tensors)
        if (t.rows > 0 && t.name != "wte.weight" && t.name != "wpe.weight") total += double(t.size());
    return total;
}

// Multiply-adds of a training step of N = B·T tokens.
inline double step_work(const GPT& gpt, idx B, idx T) {
    return 3 * double(B * T) * (matrix_numbers(gpt) + double(gpt.config.n_layer) * double(T + 1) * gpt.config.n_embd);
}

inline double peak_memory() {
#ifdef __linux__
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return double(usage.ru_maxrss) * 1024;
#else
    return std::nan("");
#endif
}

inline void line(const std::string& name, const Timing& t, double work) {
    std::printf("  %-34s %9.3f ms", name.c_str(), t.seconds * 1e3);
    if (work > 0)
        std::printf("  %6.1f GFLOP/s  %5.1f %% of peak", 2 * work / t.seconds / 1e9, 100 * work / t.seconds / t.peak);
    std::printf("\n");
}

inline std::vector<Token> random_tokens(idx count, int vocab, std::uint64_t step) {
    std::vector<Token> tokens(static_cast<std::size_t>(count));
    const Random random(1, Purpose::test, step);
    for (idx i = 0; i < count; i++)
        tokens[static_cast<std::size_t>(i)] = static_cast<Token>(random.bits(i) % static_cast<std::uint64_t>(vocab));
    return tokens;
}

inline void step_row(const std::string& name, const Options& o, double budget) {
    Config config = o.model;
    config.complete();
    const idx B = o.batch_size, T = config.block_size;
    GPT gpt(config, B, T, GPT::Use::training);
    gpt.allocate();
    gpt.weights.initialize(1);
    AdamW adam(gpt.weights);
    const auto inputs = random_tokens(B * T, config.vocab_size, 0),
               targets = random_tokens(B * T, config.vocab_size, 1);
    std::int64_t t = 0;
    double forward = 0, backward = 0, update = 0;
    const Timing timing = measure(budget, [&] {
        const auto a = Clock::now();
        gpt.forward(inputs.data(), B, T);
        const auto b = Clock::now();
        gpt.loss(targets.data(), 1);
        gpt.backward(inputs.data());
        const auto c = Clock::now();
        adam.update(gpt.weights, gpt.gradients, 1e-3, clip_factor(gradient_norm(gpt.gradients), 1), ++t);
        forward += std::chrono::duration<double>(b - a).count(),
            backward += std::chrono::duration<double>(c - b).count();
        update += seconds_since(c);
    });
    const double work = step_work(gpt, B, T), all = forward + backward + update;
    std::printf(
        "%-34s %9.2f ms  %8.0f tokens/s  %6.1f GFLOP/s  %5.1f %% of %.0f  (forward %.0f %%, backward %.0f %%, AdamW %.0f %%)  %.2f GB\n",
        name.c_str(), timing.seconds * 1e3, double(B * T) / timing.seconds, 2 * work / timing.seconds / 1e9,
        100 * work / timing.seconds / timing.peak, 2 * timing.peak / 1e9, 100 * forward / all, 100 * backward / all,
        100 * update / all, gpt.bytes() / 1e9);
    std::fflush(stdout);
}

inline void sampling_row(const std::string& name, Config config, idx inside, idx past) {
    config.complete();
    GPT gpt(config, 1, config.block_size, GPT::Use::sampling);
    gpt.allocate();
    gpt.weights.initialize(1);
    const auto rate = [&](idx prompt, idx count) {
        std::vector<double> rates;
        for (int repeat = 0; repeat < 5; repeat++) {
            const auto start_tokens = random_tokens(prompt, config.vocab_size, 2);
            idx seen = 0;
            Clock::time_point start;
            generate(gpt, start_tokens, count + 1, Taste{}, Random(1, Purpose::sample), [&](Token) {
                if (seen++ == 0) start = Clock::now();  // the prompt is not counted
                return true;
            });
            rates.push_back(double(count) / seconds_since(start));
        }
        return median(rates);
    };
    std::printf("%-34s %9.0f tokens/s inside the window", name.c_str(), rate(1, inside));
    if (past) std::printf(", %.0f past it", rate(config.block_size + 1, past));
    std::printf("\n");
    std::fflush(stdout);
}

// Each layer of one block, and the head, at the sizes of a model.
inline void layer_rows(const Options& o) {
    Config c = o.model;
    c.complete();
    const idx B = o.batch_size, T = c.block_size, N = B * T, C = c.C(), F = c.F(), Q = c.qkv(), V = c.vocab_size;
    const auto memory = [](idx size) {
        std::vector<real> v(static_cast<std::size_t>(size));
        const Random random(1, Purpose::test, static_cast<std::uint64_t>(size));
        for (idx i = 0; i < size; i++) v[static_cast<std::size_t>(i)] = real(random.uniform(i) - 0.5);
        return v;
    };
    const idx widest = std::max({C, c.fc(), Q});
    auto x = memory(N * widest), y = memory(N * widest), z = memory(N * widest), d = memory(N * widest);
    const double budget = 0.4;
    const auto linear = [&](const std::string& name, idx in, idx out) {
        auto w = memory(in * out), b = memory(out), dw = memory(in * out), db = memory(out);
        const Linear weights{w.data(), b.data()}, gradients{dw.data(), db.data()};
        line(text(name, " ", N, " x ", in, " x ", out),
            measure(budget, [&] { linear_forward(y.data(), x.data(), weights, N, in, out); }), double(N * in * out));
        line("  its backward",
            measure(budget, [&] { linear_backward(z.data(), gradients, d.data(), x.data(), weights, N, in, out); }),
            2 * double(N * in * out));
    };
    auto gamma = memory(C), moments = memory(2 * N), softmax = memory(2 * N * c.n_head);
    const Gain gain{gamma.data(), c.norm == Norm::layer ? gamma.data() : nullptr};
    const auto norm_forward = c.norm == Norm::layer ? layernorm_forward : rmsnorm_forward;
    const auto norm_backward = c.norm == Norm::layer ? layernorm_backward : rmsnorm_backward;
    line("norm", measure(budget, [&] { norm_forward(y.data(), moments.data(), x.data(), gain, N, C, real(1e-5)); }), 0);
    line("  its backward",
        measure(budget, [&] { norm_backward(z.data(), gain, d.data(), x.data(), moments.data(), gain, N, C); }), 0);
    linear("qkv", C, Q);
    const Heads heads{B, T, c.n_head, c.n_kv_head, c.D()};
    if (c.pos == Position::rope) {
        auto table = memory(T * c.D());
        line("rope", measure(budget, [&] { rope(x.data(), table.data(), 1, heads, 0); }), 0);
    }
    const double pairs = double(B * c.n_head) * double(T) * double(T + 1) / 2 * double(c.D());
    x = memory(N * widest);
    line("attention",
        measure(budget, [&] { attention_forward(y.data(), softmax.data(), x.data(), heads, 0, nullptr); }), 2 * pairs);
    line("  its backward",
        measure(budget, [&] { attention_backward(z.data(), d.data(), softmax.data(), x.data(), heads, nullptr); }),
        4 * pairs);
    linear("projection", C, C);
    linear("fc", C, c.fc());
    // An activation's backward writes over its operands, and again and again they would fade to numbers that are slow.
    const auto x_before = x, d_before = d;
    const auto in_place = [&](const auto& f) {
        const Timing both = measure(budget, [&] { x = x_before, d = d_before, f(); });
        const Timing copies = measure(budget, [&] { x = x_before, d = d_before; });
        line("  its backward", {both.seconds - copies.seconds, both.peak}, 0);
        x = x_before, d = d_before;
    };
    if (c.mlp == Mlp::gelu) {
        line("gelu", measure(budget, [&] { gelu_forward(y.data(), x.data(), N * F); }), 0);
        in_place([&] { gelu_backward(x.data(), d.data(), N * F); });
    } else {
        line("swiglu", measure(budget, [&] { swiglu_forward(y.data(), x.data(), N, F); }), 0);
        in_place([&] { swiglu_backward(x.data(), d.data(), N, F); });
    }
    linear("out", F, C);
    line("residual", measure(budget, [&] { residual_forward(y.data(), x.data(), d.data(), N * C); }), 0);
    auto wte = memory(V * C), logits = memory(N * V), losses = memory(N);
    const auto targets = random_tokens(N, c.vocab_size, 3);
    line(text("head ", N, " x ", C, " x ", V),
        measure(budget,
            [&] { matmul(logits.data(), V, rows_of(x.data(), C), transposed(rows_of(wte.data(), C)), N, V, C); }),
        double(N * C * V));
    line("cross-entropy",
        measure(budget, [&] { cross_entropy(losses.data(), logits.data(), targets.data(), real(1) / real(N), N, V); }),
        0);
}

inline double bandwidth() {
    std::vector<real> a(std::size_t{1} << 26, 1);
    std::vector<double> rates;
    for (int repeat = 0; repeat < 5; repeat++) {
        const auto start = Clock::now();
        parallel_ranges(static_cast<idx>(a.size()), 1 << 20,
            [&](idx i0, idx i1) { sink = sum(i1 - i0, [p = a.data() + i0](idx i) { return p[i]; }); });
        rates.push_back(double(a.size() * sizeof(real)) / seconds_since(start));
    }
    return median(rates);
}

inline Options model_options(const OptionList& list, int vocab) {
    Options o;
    set_options(o, list);
    o.model.vocab_size = vocab;
    return o;
}

int main(int argc, char** argv) {
    try {
        OptionList given = parse_arguments({argv + 1, argv + argc});
        Options o = model_options(given, 65);
        set_threads(o.threads);
        std::vector<double> bursts;
        for (int i = 0; i < 20; i++) bursts.push_back(burst());
        std::printf("%d threads, vectors of %td numbers; peak %.0f GFLOP/s, memory reads %.1f GB/s\n",
            pool()->threads(), lanes, 2 * median(bursts) / 1e9, bandwidth() / 1e9);
        if (!given.empty()) {
            layer_rows(o);
            step_row("training step", o, 3);
            sampling_row("sampling", o.model, o.model.block_size - 2, 100);
            return 0;
        }
        for (const char* arch : {"gpt2", "llama"}) {
            const auto with = [&](OptionList list, int vocab) {
                list["arch"] = arch;
                return model_options(list, vocab);
            };
            const Options small = with({}, 65);
            const Options medium = with(
                {{"n_layer", "6"}, {"n_head", "6"}, {"n_embd", "384"}, {"batch_size", "64"}, {"block_size", "256"}},
                65);
            const Options large = with(
                {{"n_layer", "12"}, {"n_head", "12"}, {"n_embd", "768"}, {"batch_size", "4"}, {"block_size", "64"}},
                50257);
            step_row(text(arch, " 4 x 128, 12 x 64"), small, 3);
            step_row(text(arch, " 6 x 384, 64 x 256"), medium, 10);
            step_row(text(arch, " 124M, 4 x 64"), large, 8);
            sampling_row(text(arch, " 4 x 128"), small.model, 60, 200);
            Config wide = large.model;
            wide.block_size = 1024;
            sampling_row(text(arch, " 124M"), wide, 60, 0);
        }
        std::printf("tokens/s by block_size, 4 x 128, batch x block = 8192; and times the multiply-adds of a token:\n");
        for (const int T : {64, 256, 1024, 4096})
            step_row(text("  block_size ", T),
                model_options({{"block_size", text(T)}, {"batch_size", text(8192 / T)}}, 65), 3);
        std::printf("peak memory of this process %.2f GB\n", peak_memory() / 1e9);
        return 0;
    } catch (const std::exception& error) {
        std::cerr << "bench: " << error.what() << '\n';
        return 1;
    }
}
