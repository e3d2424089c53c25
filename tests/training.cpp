// Training and sampling from end to end, in float: the same bits for any number of threads, a batch learned by heart,
// how tokens are drawn, what follows past the window, `score`; and what these rest on, random numbers and the thread
// pool.
#include "check.h"

// ---- random numbers ----

// A statistic within 5 of its standard deviations: wrong once in two million, if the numbers were others.
void check_mean(double sum, double n, double mean, double deviation, const std::string& what) {
    check(std::abs(sum / n - mean) <= 5 * deviation / std::sqrt(n),
        text(what, ": the mean of ", n, " is ", sum / n, ", not ", mean));
}

void test_random() {
    // Pinned: whoever changes them changes every run, and cannot resume an older one.
    check_equal(Random(1, Purpose::test).bits(0), std::uint64_t{826162214880598235u}, "pinned bits");
    check_equal(Random(1337, Purpose::init, 5).bits(7), std::uint64_t{16719978999529695916u}, "pinned bits");
    check_equal(Random(0, Purpose::dropout, 2).bits(-1), std::uint64_t{28026365552178280u}, "pinned bits");
    check_close(Random(2, Purpose::sample).normal(3), -0.54031621260631757, 1e-14, "a pinned normal number");

    const idx n = 1'000'000;
    for (const Random& random : {Random(1, Purpose::test), Random(2, Purpose::test, 9)}) {
        // Uniform: mean 1/2, mean square 1/3, neighbours unrelated, each of 64 intervals as likely; every bit of a word
        // is 1 half the time.
        double sum = 0, squares = 0, products = 0;
        std::array<double, 64> hits{}, ones{};
        bool in_range = true;
        for (idx i = 0; i < n; i++) {
            const double u = random.uniform(i), next = random.uniform(i + 1);
            in_range = in_range && u >= 0 && u < 1;
            sum += u, squares += u * u, products += (u - 0.5) * (next - 0.5);
            hits[std::size_t(u * 64)]++;
            for (std::size_t bit = 0; bit < 64; bit++) ones[bit] += double(random.bits(i) >> bit & 1);
        }
        check(in_range, "uniform is in [0, 1)");
        check_mean(sum, double(n), 0.5, std::sqrt(1.0 / 12), "uniform");
        check_mean(squares, double(n), 1.0 / 3, std::sqrt(1.0 / 5 - 1.0 / 9), "uniform squared");
        check_mean(products, double(n), 0, 1.0 / 12, "uniform times the next");
        for (const double hit : hits) check_mean(hit, double(n), 1.0 / 64, std::sqrt(63.0) / 64, "an interval's share");
        for (const double one : ones) check_mean(one, double(n), 0.5, 0.5, "a bit's share");
        // Normal: moments 0, 1, 0, 3, with the variances E x^2k - (E x^k)^2 = 1, 2, 15, 96; and the share within one
        // deviation.
        double moments[4] = {}, within = 0;
        for (idx i = 0; i < n; i++) {
            double power = 1, x = random.normal(i);
            for (double& moment : moments) moment += power *= x;
            within += std::abs(x) < 1;
        }
        check_mean(moments[0], double(n), 0, 1, "normal");
        check_mean(moments[1], double(n), 1, std::sqrt(2.0), "normal squared");
        check_mean(moments[2], double(n), 0, std::sqrt(15.0), "normal cubed");
        check_mean(moments[3], double(n), 3, std::sqrt(96.0), "normal to the fourth");
        const double share = std::erf(std::sqrt(0.5));
        check_mean(within, double(n), share, std::sqrt(share * (1 - share)), "normal within one deviation");
    }
    // Other seeds, purposes and steps give other streams.
    std::set<std::uint64_t> words;
    for (std::uint64_t seed = 0; seed < 20; seed++)
        for (const Purpose purpose : {Purpose::init, Purpose::batch, Purpose::dropout, Purpose::sample})
            for (std::uint64_t step = 0; step < 20; step++)
                for (idx i = 0; i < 20; i++) words.insert(Random(seed, purpose, step).bits(i));
    check_equal(words.size(), std::size_t{20 * 4 * 20 * 20}, "no two keys give the same word");
}

// ---- threads ----

void test_pool() {
    for (const int threads : {1, 2, 3, 5}) {
        Pool pool(threads);
        check_equal(pool.threads(), threads, "threads of a pool");
        // Very many regions, most of them so short that threads come late from one to the next.
        for (int region = 0; region < 3000; region++) {
            const idx count = region % 50 == 0 ? 500 : region % 9;
            std::vector<std::atomic<int>> calls(static_cast<std::size_t>(count));
            pool.run(count, [&](idx i) { calls[std::size_t(i)]++; });
            check(std::all_of(calls.begin(), calls.end(), [](const auto& n) { return n == 1; }),
                text("each index once, with ", threads, " threads"));
        }
        // The first exception comes out; the other tasks have run, and the pool goes on working.
        for (int round = 0; round < 100; round++) {
            std::atomic<int> others = 0;
            check_error([&] { pool.run(20, [&](idx i) { i == 13 ? throw Error("task ", i) : void(others++); }); },
                "task 13", "an exception in a task");
            if (threads > 1) check_equal(others.load(), 19, "tasks beside one that throws");
            std::atomic<idx> total = 0;
            pool.run(100, [&](idx i) { total += i; });
            check_equal(total.load(), idx{4950}, "the pool after an exception");
        }
        // A pool that has gone to sleep wakes up.
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        std::atomic<int> woken = 0;
        pool.run(10, [&](idx) { woken++; });
        check_equal(woken.load(), 10, "a pool that slept");
    }
    set_threads(3);
    check_equal(pool()->threads(), 3, "set_threads");
    std::vector<int> seen(1000);
    std::atomic<int> pieces = 0;
    parallel_ranges(1000, 7, [&](idx begin, idx end) {
        pieces += end - begin == 7 || (begin == 994 && end == 1000);
        for (idx i = begin; i < end; i++) seen[std::size_t(i)]++;
    });
    check_equal(pieces.load(), 143, "pieces of a fixed length, whatever the number of threads");
    check(std::all_of(seen.begin(), seen.end(), [](int n) { return n == 1; }), "parallel_ranges takes each index once");
    set_threads(1);
}

// ---- training ----

Config small(bool llama) {
    Config c;
    c.vocab_size = 65, c.block_size = 40, c.n_layer = 2, c.n_head = 4, c.n_embd = 48;
    if (llama) c.norm = Norm::rms, c.pos = Position::rope, c.mlp = Mlp::swiglu, c.bias = false, c.n_kv_head = 2;
    return c;
}

// What a run leaves: all numbers that it computed.
struct Run {
    std::vector<double> losses, norms;
    Numbers weights;
    std::vector<Token> sampled;
    double scored = 0;

    bool operator==(const Run&) const = default;
};

// A few updates as Trainer makes them, then a score and a sample.
Run train(Config c, int threads, idx B, int accumulate, int updates) {
    set_threads(threads);
    c.complete();
    const idx T = c.block_size;
    const std::vector<Token> tokens = random_tokens(3000, c.vocab_size);
    GPT gpt(c, B, T, GPT::Use::training), sampling(c, 1, T, GPT::Use::sampling);
    gpt.allocate();
    sampling.allocate();
    gpt.weights.initialize(11);
    AdamW adam(gpt.weights);
    Batch batch;
    Run run;
    for (int iter = 0; iter < updates; iter++) {
        for (int micro = 0; micro < accumulate; micro++) {
            const auto key = std::uint64_t(iter * accumulate + micro);
            random_batch(batch, Random(1, Purpose::batch, key), tokens.data(), idx(tokens.size()), B, T);
            gpt.forward(batch.inputs.data(), B, T, 0, key);
            run.losses.push_back(gpt.loss(batch.targets.data(), 1.0 / accumulate));
            gpt.backward(batch.inputs.data());
        }
        run.norms.push_back(gradient_norm(gpt.gradients));
        adam.update(gpt.weights, gpt.gradients, 1e-2, clip_factor(run.norms.back(), 1), iter + 1);
    }
    const real* const weights = gpt.weights.memory.data();
    run.weights.assign(weights, weights + gpt.weights.memory.size());
    run.scored = score(gpt, tokens.data(), 1000, B, [](idx) {});
    std::copy(run.weights.begin(), run.weights.end(), sampling.weights.memory.data());
    generate(sampling, {1, 2, 3}, T + 5, Taste{}, Random(5, Purpose::sample), [&](Token token) {
        run.sampled.push_back(token);
        return true;
    });
    set_threads(1);
    return run;
}

// For any number of threads, every number of a run is the same.
void test_same_bits() {
    const auto same = [](const char* what, const Config& c, idx B, int accumulate) {
        const Run one = train(c, 1, B, accumulate, 4);
        check(std::isfinite(one.losses.back()) && one.losses.back() != one.losses.front(),
            text(what, ": the run does something"));
        for (const int threads : {2, 3, 2})
            check(train(c, threads, B, accumulate, 4) == one, text(what, ": the same bits with ", threads, " threads"));
    };
    Config c = small(false);
    same("gpt2", c, 5, 1);
    c.dropout = 0.2;
    same("gpt2 with dropout and accumulation", c, 4, 3);
    c = small(true);
    same("llama", c, 5, 1);
    c.dropout = 0.1, c.tie = false;
    same("llama with dropout, not tied", c, 3, 2);
    c.wiring = Wiring::post, c.pos = Position::sinusoidal;
    same("post", c, 3, 1);
    c.wiring = Wiring::none, c.n_head = c.n_kv_head = 1, c.n_layer = 1;
    same("none", c, 7, 1);
    c = small(false);
    c.vocab_size = 1100, c.n_embd = 128, c.n_head = 8, c.n_layer = 1;  // so wide that a single row is shared out too
    same("wide", c, 2, 1);
}

// A sequence that begins with a token of its own can be told apart from the others, so a model can learn such a batch
// by heart.
void test_overfit() {
    for (const bool llama : {false, true})
        for (const double dropout : {0.0, 0.1}) {
            Config c = small(llama);
            c.vocab_size = 20, c.block_size = 16, c.n_embd = 32, c.dropout = dropout;
            c.complete();
            const idx B = 4, T = 16;
            std::vector<Token> tokens = random_tokens(B * (T + 1), c.vocab_size);
            Batch batch;
            batch.resize(B, T);
            for (idx b = 0; b < B; b++) {
                tokens[std::size_t(b * (T + 1))] = Token(b);
                batch.set(b, T, tokens.data() + b * (T + 1));
            }
            GPT gpt(c, B, T, GPT::Use::training);
            gpt.allocate();
            gpt.weights.initialize(1);
            AdamW adam(gpt.weights);
            gpt.forward(batch.inputs.data(), B, T);
            check_close(
                gpt.loss(batch.targets.data()), std::log(20.0), 0.05, "before training all tokens are about as likely");
            for (int iter = 0; iter < 300; iter++) {
                gpt.forward(batch.inputs.data(), B, T, 0, std::uint64_t(iter));
                gpt.loss(batch.targets.data(), 1);
                gpt.backward(batch.inputs.data());
                adam.update(gpt.weights, gpt.gradients, 3e-3, clip_factor(gradient_norm(gpt.gradients), 1), iter + 1);
            }
            gpt.forward(batch.inputs.data(), B, T);
            const double loss = gpt.loss(batch.targets.data());
            check(loss < 0.01,
                text(
                    llama ? "llama" : "gpt2", ", dropout ", dropout, ": the loss on a batch known by heart is ", loss));
        }
}

// Starting values: each tensor's mean and deviation within 5 standard errors; vectors at their value.
void test_initialize() {
    for (const bool llama : {false, true}) {
        Config c = small(llama);
        c.complete();
        Parameters weights(c);
        weights.memory.allocate();
        weights.initialize(4);
        for (const Tensor& t : weights.tensors) {
            const real* w = weights.memory.data() + t.offset;
            double sum = 0, squares = 0;
            for (idx i = 0; i < t.size(); i++) sum += double(w[i]), squares += double(w[i]) * double(w[i]);
            if (t.rows == 0) {
                check(std::all_of(w, w + t.size(), [](real v) { return v == 0; }) ||
                        std::all_of(w, w + t.size(), [](real v) { return v == 1; }),
                    t.name + " is 0 or 1");
                check_equal(double(w[0]), t.name.ends_with(".bias") ? 0.0 : 1.0, t.name + ": biases are 0 and gains 1");
                continue;
            }
            const double std = t.name.ends_with("c_proj.weight") ? 0.02 / std::sqrt(4.0)
                                                                 : 0.02;  // where a branch ends: 2 blocks, 4 branches
            check_mean(sum, double(t.size()), 0, std, t.name);
            check_mean(squares, double(t.size()), std * std, std::sqrt(2.0) * std * std, t.name + " squared");
        }
    }
}

// ---- sampling ----

void test_draw() {
    // Probabilities 0.2, 0.4, 0.1, 0.3 as logits, all moved by the same amount.
    const std::vector<double> p{0.2, 0.4, 0.1, 0.3};
    Numbers logits;
    for (const double q : p) logits.push_back(real(std::log(q) + 7));
    // draw is a function of u: over an even grid of u each token's share is its probability, to one point of the grid.
    const auto shares = [&](const Taste& taste, const std::vector<double>& expected, const std::string& what) {
        const int n = 20000;
        std::vector<double> hits(4), random_hits(4);
        const Random random(3, Purpose::test);
        for (int i = 0; i < n; i++) {
            hits[std::size_t(draw(logits.data(), 4, taste, (i + 0.5) / n))]++;
            random_hits[std::size_t(draw(logits.data(), 4, taste, random.uniform(i)))]++;
        }
        for (std::size_t v = 0; v < 4; v++) {
            check(std::abs(hits[v] - expected[v] * n) <= 1.01,
                text(what, ": token ", v, " has the share ", hits[v] / n, ", not ", expected[v]));
            check_mean(random_hits[v], n, expected[v], std::sqrt(expected[v] * (1 - expected[v])), what);
        }
    };
    shares({1, 0, 1}, p, "as it is");
    const double root = std::sqrt(0.2) + std::sqrt(0.4) + std::sqrt(0.1) + std::sqrt(0.3);
    shares({2, 0, 1}, {std::sqrt(0.2) / root, std::sqrt(0.4) / root, std::sqrt(0.1) / root, std::sqrt(0.3) / root},
        "temperature 2");
    shares({0.5, 0, 1}, {0.04 / 0.3, 0.16 / 0.3, 0.01 / 0.3, 0.09 / 0.3}, "temperature 1/2");
    shares({0, 0, 1}, {0, 1, 0, 0}, "temperature 0");
    shares({0, 3, 0.9}, {0, 1, 0, 0}, "temperature 0 with the others");
    shares({1e-30, 0, 1}, {0, 1, 0, 0}, "temperature near 0");
    shares({1, 1, 1}, {0, 1, 0, 0}, "top_k 1");
    shares({1, 2, 1}, {0, 4.0 / 7, 0, 3.0 / 7}, "top_k 2");
    shares({1, 3, 1}, {2.0 / 9, 4.0 / 9, 0, 3.0 / 9}, "top_k 3");
    shares({1, 4, 1}, p, "top_k 4");
    shares({1, 100, 1}, p, "top_k 100");
    shares({1, 0, 0.01}, {0, 1, 0, 0}, "top_p 0.01");
    shares({1, 0, 0.39}, {0, 1, 0, 0}, "top_p 0.39");
    shares({1, 0, 0.41}, {0, 4.0 / 7, 0, 3.0 / 7}, "top_p 0.41: the fewest that reach it");
    shares({1, 0, 0.69}, {0, 4.0 / 7, 0, 3.0 / 7}, "top_p 0.69");
    shares({1, 0, 0.71}, {2.0 / 9, 4.0 / 9, 0, 3.0 / 9}, "top_p 0.71");
    shares({1, 0, 0.91}, p, "top_p 0.91");
    shares({1, 2, 0.5}, {0, 1, 0, 0}, "top_p 0.5 of the 2 that top_k leaves, which have 4/7");
    shares({1, 2, 0.6}, {0, 4.0 / 7, 0, 3.0 / 7}, "top_p 0.6 of them");
    // Of equal logits the smaller token comes first; and the ends of [0, 1).
    const Numbers equal{1, 3, 3, 3, 1};
    check_equal(draw(equal.data(), 5, {0, 0, 1}, 0.99), 1, "the most probable of equals");
    for (const double u : {0.0, 0.49})
        check_equal(draw(equal.data(), 5, {1, 2, 1}, u), 1, "top_k 2 among three equals");
    for (const double u : {0.51, 1 - 0x1p-53})
        check_equal(draw(equal.data(), 5, {1, 2, 1}, u), 2, "top_k 2 among three equals");
    check_equal(draw(logits.data(), 4, {1, 0, 1}, 0), 0, "u = 0");
    check_equal(draw(logits.data(), 4, {1, 0, 1}, 1 - 0x1p-53), 3, "the largest u");
    check_equal(draw(logits.data(), 1, {1, 0, 0.5}, 0.7), 0, "a vocabulary of one");
}

// What generate emits, in the window and past it, is what a fresh model gives for the last block_size tokens at each
// step: nanoGPT's crop.
void test_generate() {
    for (const bool llama : {false, true})
        for (const Position pos : {Position::learned, Position::sinusoidal, Position::rope, Position::none})
            for (const idx start : {1, 5, 9, 30}) {
                Config c = small(llama);
                c.pos = pos, c.block_size = 9, c.vocab_size = 17;
                c.complete();
                const idx T = c.block_size, V = c.vocab_size, count = 15;
                GPT gpt(c, 1, T, GPT::Use::sampling);
                gpt.allocate();
                gpt.weights.initialize(2);
                for (idx i = 0; i < gpt.weights.memory.size(); i++)
                    gpt.weights.memory.data()[i] *= 8;  // so that the choice is not even
                const Taste taste{0.9, 10, 0.95};
                const Random random(8, Purpose::sample, 1);
                std::vector<Token> tokens = random_tokens(start, V);
                idx emitted = 0;
                generate(gpt, tokens, count, taste, random, [&](Token token) {
                    GPT fresh(c, 1, T, GPT::Use::scoring);
                    fresh.allocate();
                    std::copy_n(gpt.weights.memory.data(), gpt.weights.memory.size(), fresh.weights.memory.data());
                    const idx length = std::min(T, idx(tokens.size()));
                    fresh.forward(tokens.data() + idx(tokens.size()) - length, 1, length);
                    const real* logits = fresh.logits() + (length - 1) * V;
                    for (idx v = 0; v < V; v++)
                        check_close(double(gpt.logits()[v]), double(logits[v]), 1e-5, "generate's logits",
                            magnitude(logits, V));
                    check_equal(token, draw(logits, V, taste, random.uniform(emitted)),
                        text("token ", emitted, " after ", start));
                    tokens.push_back(token);
                    return ++emitted < (start == 5 ? 3 : count);
                });
                check_equal(emitted, start == 5 ? idx{3} : count, "tokens until emit says stop");
            }
    // The memory is that of the tokens asked for, whatever block_size a file tells.
    for (const Position pos : {Position::sinusoidal, Position::rope}) {
        Config c = small(false);
        c.pos = pos, c.block_size = 1 << 24, c.vocab_size = 17;
        c.complete();
        check(GPT(c, 1, 8, GPT::Use::sampling).bytes() < 1e6, "positions that nobody asked for take memory");
    }
}

// score is the mean over every token but the first of -log p given the tokens before it in its window.
void test_score() {
    Config c = small(true);
    c.block_size = 8;
    c.complete();
    const idx T = 8, V = c.vocab_size;
    const std::vector<Token> tokens = random_tokens(100, V);
    GPT direct(c, 1, T, GPT::Use::scoring);
    direct.allocate();
    direct.weights.initialize(6);
    for (const idx count : {2, 5, 8, 9, 10, 17, 18, 41, 60, 100}) {
        double total = 0;
        for (idx t = 1; t < count; t++) {
            const idx window = (t - 1) / T * T, length = t - window;
            direct.forward(tokens.data() + window, 1, length);
            const real* z = direct.logits() + (length - 1) * V;
            double sum_of_exp = 0;
            for (idx v = 0; v < V; v++) sum_of_exp += std::exp(double(z[v]));
            total += std::log(sum_of_exp) - double(z[tokens[std::size_t(t)]]);
        }
        for (const idx max_B : {1, 2, 3, 20}) {
            GPT gpt(c, max_B, T, GPT::Use::scoring);
            gpt.allocate();
            gpt.weights.initialize(6);
            check_close(score(gpt, tokens.data(), count, max_B, [](idx) {}), total / double(count - 1), 1e-6,
                text("score of ", count, " tokens, ", max_B, " windows at once"));
        }
    }
}

int main() {
    test_random();
    test_pool();
    test_same_bits();
    test_overfit();
    test_initialize();
    test_draw();
    test_generate();
    test_score();
    return result();
}
