// The layers of section 3, the kernel of section 2 and the optimizer of section 5, each by itself: gradients against
// finite differences for every input and every parameter, products and attention against the formulas written out, exp
// against std::exp. Built with real = double, where differences are sharp; `exp_float` is a function of float there
// too.
#include "check.h"

// ---- one layer's gradients ----

// Something that a layer depends on, and the gradient that its backward gives. Gradients that accumulate begin at 3 and
// must grow from there; those that are written begin as NaN, so that an element left out is seen.
struct Variable {
    std::string name;
    Numbers value, gradient{};
    bool accumulates = false;

    real* data() { return value.data(); }
    real* grad() { return gradient.data(); }
};

// forward(y) computes y [size] from the variables' values; backward(dy) sets the variables' gradients; the loss is a
// weighted sum of y.
template <class Forward, class Backward> void check_layer(const std::string& what,
    std::initializer_list<Variable*> variables, idx size, const Forward& forward, const Backward& backward,
    idx most = 1 << 30) {
    const Numbers w = normals(size);
    Numbers y = zeros(size);
    const auto loss = [&] {
        forward(y.data());
        return std::inner_product(y.begin(), y.end(), w.begin(), 0.0);
    };
    for (Variable* v : variables) v->gradient.assign(v->value.size(), v->accumulates ? real(3) : real(std::nan("")));
    // In threads of their own, whose working memory is still empty: each must ask for all that it needs.
    std::thread([&] { forward(y.data()); }).join();
    std::thread([&] { backward(w.data()); }).join();
    for (Variable* v : variables) {
        if (v->accumulates)  // what is one unit in the last place of 3 or less is rounding
            for (real& g : v->gradient) g = std::abs(g - 3) <= 2 * std::numeric_limits<real>::epsilon() ? 0 : g - 3;
        check_gradient(what + ", d" + v->name, loss, v->data(), v->grad(), idx(v->value.size()), most);
    }
}

void test_linear() {
    for (const auto& [N, in, out] :
        {std::array<idx, 3>{1, 1, 1}, {1, 5, 7}, {2, 16, 3}, {3, 7, 49}, {17, 33, 5}, {70, 3, 2}, {2, 5, 130}})
        for (const bool bias : {false, true})
            for (const bool in_place : {false, true}) {
                Variable x{"x", normals(N * in)}, w{"w", normals(in * out), {}, true}, b{"b", normals(out), {}, true},
                    shortcut{"shortcut", normals(N * out)};
                const auto forward = [&, N = N, in = in, out = out](real* y) {
                    linear_forward(y, x.data(), {w.data(), bias ? b.data() : nullptr}, N, in, out, shortcut.data());
                };
                const auto backward = [&, N = N, in = in, out = out](const real* dy) {
                    std::copy_n(dy, N * out, shortcut.grad());
                    const Linear weight{w.data(), bias ? b.data() : nullptr},
                        gradient{w.grad(), bias ? b.grad() : nullptr};
                    if (in_place) x.gradient = x.value;  // dx may take the place of x
                    linear_backward(x.grad(), gradient, dy, in_place ? x.grad() : x.data(), weight, N, in, out);
                };
                check_layer(text("linear ", N, "x", in, "x", out, bias ? " with bias" : ""), {&x, &w, &b, &shortcut},
                    N * out, forward, backward);
            }
}

// Both norms; dx accumulates, as the residual path's gradient is there already.
void test_norms() {
    for (const bool rms : {false, true})
        for (const bool beta : {false, true})
            for (const auto& [N, C] : {std::array<idx, 2>{1, 1}, {1, 2}, {3, 5}, {2, 16}, {5, 21}, {40, 6}}) {
                if (rms && beta) continue;
                Variable x{"x", normals(N * C, 2, 0.5), {}, true}, gamma{"gamma", normals(C, 1, 1), {}, true},
                    shift{"beta", normals(C), {}, true};
                Numbers moments = zeros(2 * N);
                const Gain gain{gamma.data(), beta ? shift.data() : nullptr};
                const auto forward = [&, N = N, C = C](real* y) {
                    (rms ? rmsnorm_forward : layernorm_forward)(y, moments.data(), x.data(), gain, N, C, real(0.1));
                };
                const auto backward = [&, N = N, C = C](const real* dy) {
                    const Gain gradient{gamma.grad(), beta ? shift.grad() : nullptr};
                    (rms ? rmsnorm_backward : layernorm_backward)(
                        x.grad(), gradient, dy, x.data(), moments.data(), gain, N, C);
                };
                check_layer(
                    text(rms ? "rmsnorm " : "layernorm ", N, "x", C), {&x, &gamma, &shift}, N * C, forward, backward);
            }
    // Mean 0 and mean square 1 (up to eps) with gain 1, also far from 0; one row of three written out.
    const Numbers x{1, 2, 6}, one{1, 1, 1};
    Numbers y = zeros(3), moments = zeros(2), ones = one;
    layernorm_forward(y.data(), moments.data(), x.data(), {ones.data(), nullptr}, 1, 3, 0);
    for (std::size_t i = 0; i < 3; i++)
        check_close(y[i], (double(x[i]) - 3) / std::sqrt(14.0 / 3), 1e-14, "layernorm of 1 2 6");
    rmsnorm_forward(y.data(), moments.data(), x.data(), {ones.data(), nullptr}, 1, 3, 0);
    for (std::size_t i = 0; i < 3; i++)
        check_close(y[i], double(x[i]) / std::sqrt(41.0 / 3), 1e-14, "rmsnorm of 1 2 6");
    layernorm_forward(y.data(), moments.data(), x.data(), {ones.data(), nullptr}, 1, 3, real(0.5));
    for (std::size_t i = 0; i < 3; i++)
        check_close(y[i], (double(x[i]) - 3) / std::sqrt(14.0 / 3 + 0.5), 1e-14, "layernorm of 1 2 6, eps 0.5");
    rmsnorm_forward(y.data(), moments.data(), x.data(), {ones.data(), nullptr}, 1, 3, real(0.5));
    for (std::size_t i = 0; i < 3; i++)
        check_close(y[i], double(x[i]) / std::sqrt(41.0 / 3 + 0.5), 1e-14, "rmsnorm of 1 2 6, eps 0.5");
    const Numbers far{10001, 10002, 10006};
    layernorm_forward(y.data(), moments.data(), far.data(), {ones.data(), nullptr}, 1, 3, 0);
    for (std::size_t i = 0; i < 3; i++)
        check_close(y[i], (double(x[i]) - 3) / std::sqrt(14.0 / 3), 1e-11, "layernorm far from 0");
}

void test_embedding() {
    const idx V = 7;
    for (const auto& [B, T, C] : {std::array<idx, 3>{1, 1, 1}, {2, 5, 6}, {3, 9, 17}})
        for (const bool learned : {false, true}) {
            const std::vector<Token> tokens = random_tokens(B * T, V - 1);  // some repeated, and one never
            Variable wte{"wte", normals(V * C), {}, true}, wpe{"wpe", normals((T + 2) * C), {}, true};
            const auto forward = [&, B = B, T = T, C = C](real* x) {
                embedding_forward(x, tokens.data(), wte.data(), learned ? wpe.data() : nullptr, B, T, 0, C);
            };
            const auto backward = [&, B = B, T = T, C = C](const real* dx) {
                embedding_backward(wte.grad(), learned ? wpe.grad() : nullptr, dx, tokens.data(), B, T, C);
            };
            check_layer(text("embedding ", B, "x", T, "x", C), {&wte, &wpe}, B * T * C, forward, backward);
        }
    Numbers table = zeros(3 * 5);
    sinusoidal_table(table.data(), 3, 5);
    for (idx t = 0; t < 3; t++)
        for (idx c = 0; c < 5; c++) {
            const double angle = double(t) / std::pow(10000, double(c - c % 2) / 5);
            check_close(
                table[std::size_t(t * 5 + c)], c % 2 ? std::cos(angle) : std::sin(angle), 1e-14, "sinusoidal table");
        }
}

void test_rope() {
    for (const auto& s : {Heads{1, 1, 1, 1, 2}, Heads{2, 5, 4, 2, 6}, Heads{1, 33, 3, 1, 4}}) {
        const idx size = s.B * s.T * s.row();
        Variable x{"qkv", normals(size)};
        Numbers table = zeros(s.T * s.D);
        rope_table(table.data(), s.T, s.D, 10000);
        const auto turn = [&](real* y, const real* from, int direction) {
            std::copy_n(from, size, y);
            rope(y, table.data(), direction, s, 0);
        };
        check_layer(
            "rope", {&x}, size, [&](real* y) { turn(y, x.data(), +1); },
            [&](const real* dy) { turn(x.grad(), dy, -1); });
        // There and back; and each point by the formula, in queries and keys, while the values stay.
        Numbers y = zeros(size), back = zeros(size);
        turn(y.data(), x.data(), +1);
        turn(back.data(), y.data(), -1);
        for (idx n = 0; n < s.B * s.T; n++)
            for (idx h = 0; h < s.H + 2 * s.G; h++)
                for (idx i = 0; i < s.D / 2; i++) {
                    const idx at = n * s.row() + h * s.D + i;
                    const double a = x.data()[at], b = x.data()[at + s.D / 2];
                    const double angle =
                        h < s.H + s.G ? double(n % s.T) * std::pow(10000, -2.0 * double(i) / double(s.D)) : 0;
                    check_close(y.data()[at], a * std::cos(angle) - b * std::sin(angle), 1e-13, "rope, first half");
                    check_close(
                        y.data()[at + s.D / 2], b * std::cos(angle) + a * std::sin(angle), 1e-13, "rope, second half");
                    check_close(back.data()[at], a, 1e-14, "rope back");
                }
        // From a later time on, the earlier rows of each sequence stay as they are.
        Numbers later = x.value;
        rope(later.data(), table.data(), +1, s, 2);
        for (idx i = 0; i < size; i++)
            check_equal(later.data()[i], (i / s.row() % s.T < 2 ? x.value : y).data()[i], "rope from time 2 on");
    }
}

// ---- attention ----

// By the formulas in section 3, for query i of head h in sequence b: one number after the other.
Numbers direct_attention(const Numbers& qkv, Heads s, const Dropout* drop) {
    Numbers out = zeros(s.B * s.T * s.H * s.D);
    for (idx b = 0; b < s.B; b++)
        for (idx h = 0; h < s.H; h++)
            for (idx i = 0; i < s.T; i++) {
                const auto row = [&](idx t, idx head) { return qkv.data() + (b * s.T + t) * s.row() + head * s.D; };
                const idx g = h / (s.H / s.G);
                std::vector<double> p;
                double total = 0;
                for (idx j = 0; j <= i; j++) {
                    const double dot = std::inner_product(row(i, h), row(i, h) + s.D, row(j, s.H + g), 0.0);
                    p.push_back(std::exp(dot / std::sqrt(double(s.D))));
                    total += p.back();
                }
                for (idx j = 0; j <= i; j++)
                    for (idx d = 0; d < s.D; d++) {
                        const real m = drop ? drop->mask(((b * s.H + h) * s.T + i) * s.T + j) : 1;
                        real& o = out[std::size_t(((b * s.T + i) * s.H + h) * s.D + d)];
                        o += m * real(p[std::size_t(j)] / total) * row(j, s.H + s.G + g)[d];
                    }
            }
    return out;
}

void test_attention() {
    const Dropout half{Random(5, Purpose::dropout, 3), real(0.4)};
    // B, T, H, G, D: one time; one head; groups; widths that fill no vector, and more than a panel; T beyond the block
    // of 32 queries, and beyond several; keys strewn over so much memory that they are gathered first, and fewer of
    // them than they are wide.
    for (const auto& s : {Heads{1, 1, 1, 1, 1}, Heads{2, 1, 2, 1, 3}, Heads{1, 2, 1, 1, 1}, Heads{2, 7, 4, 1, 2},
             Heads{2, 7, 4, 2, 5}, Heads{1, 6, 4, 4, 8}, Heads{1, 16, 2, 1, 16}, Heads{1, 17, 1, 1, 9},
             Heads{1, 32, 1, 1, 2}, Heads{1, 33, 2, 1, 2}, Heads{1, 70, 1, 1, 2}, Heads{2, 9, 3, 3, 24},
             Heads{1, 18, 1, 1, 27}, Heads{1, 17, 1, 1, 32}, Heads{1, 20, 110, 110, 41}})
        for (const Dropout* drop : {static_cast<const Dropout*>(nullptr), &half}) {
            const std::string what =
                text("attention B", s.B, " T", s.T, " H", s.H, " G", s.G, " D", s.D, drop ? " with dropout" : "");
            const idx size = s.B * s.T * s.H * s.D;
            Variable qkv{"qkv", normals(s.B * s.T * s.row())};
            Numbers out = zeros(size), softmax = zeros(s.B * s.T * s.H * 2);
            const auto forward = [&](real* y) {
                attention_forward(out.data(), softmax.data(), qkv.data(), s, 0, drop);
                std::copy_n(out.data(), size, y);
            };
            const auto backward = [&](const real* dy) {
                attention_backward(qkv.grad(), dy, softmax.data(), qkv.data(), s, drop);
            };
            check_layer(what, {&qkv}, size, forward, backward, qkv.value.size() > 200000 ? 50 : 1 << 30);

            const Numbers direct = direct_attention(qkv.value, s, drop);
            Numbers y = zeros(size);
            forward(y.data());
            for (idx i = 0; i < size; i++) check_close(y.data()[i], direct.data()[i], 1e-13, what + ", forward");
            // What earlier calls left in the working memory does not matter.
            Numbers clean = zeros(idx(qkv.value.size())), dirty = clean;
            attention_backward(clean.data(), direct.data(), softmax.data(), qkv.data(), s, drop);
            for (real* memory : {scratch<0>(10000), scratch<1>(10000), scratch<2>(10000), scratch<3>(10000),
                     scratch<4>(10000), scratch<5>(10000), scratch<6>(10000)})
                std::fill_n(memory, 10000, real(std::nan("")));
            attention_forward(out.data(), softmax.data(), qkv.data(), s, 0, drop);
            check(out == y, what + ", forward with other numbers in the working memory");
            attention_backward(dirty.data(), direct.data(), softmax.data(), qkv.data(), s, drop);
            check(dirty == clean, what + ", backward with other numbers in the working memory");
            // From a later time on the same rows come, and the earlier ones are left alone.
            for (const idx from : {s.T - 1, s.T / 2, s.T - std::min<idx>(s.T, 3)}) {
                if (s.B > 1 || from == 0) continue;
                std::fill(out.begin(), out.end(), real(8));
                attention_forward(out.data(), softmax.data(), qkv.data(), s, from, drop);
                for (idx i = 0; i < size; i++)
                    check_close(out.data()[i], i < from * s.H * s.D ? 8 : double(direct.data()[i]), 1e-13,
                        what + text(", forward from ", from));
            }
        }
    // Scores far out of exp's range, and so large that their rounding is, too: the maximum is subtracted before anything
    // else, so nothing overflows.
    const Heads s{1, 40, 1, 1, 3};  // 1/√3 is rounded
    for (const double magnitude : {1.0, 1e10}) {
        Variable qkv{"qkv", normals(s.T * s.row(), 100)};
        for (real& v : qkv.value) v *= real(magnitude);
        // The last query finds its own key, the last, by far the largest.
        real* last = qkv.data() + (s.T - 1) * s.row();
        for (idx d = 0; d < s.D; d++) last[s.D + d] = 10 * last[d];
        Numbers out = zeros(s.T * s.D), softmax = zeros(s.T * 2), dqkv = zeros(s.T * s.row());
        attention_forward(out.data(), softmax.data(), qkv.data(), s, 0, nullptr);
        attention_backward(dqkv.data(), out.data(), softmax.data(), qkv.data(), s, nullptr);
        const std::string what = text("scores of 1e4 times the square of ", magnitude);
        for (const real v : out) check(std::isfinite(v), "attention is finite, " + what);
        for (const real v : dqkv) check(std::isfinite(v), "attention's gradient is finite, " + what);
        attention_forward(out.data(), softmax.data(), qkv.data(), s, s.T - 1, nullptr);
        for (const real v : out) check(std::isfinite(v), "attention of the last query alone is finite, " + what);
    }
}

// ---- layers that treat each number by itself ----

void test_elementwise() {
    for (const idx n : {1, 7, 70, 20000}) {  // the last is shared out among tasks; 30 of its elements are looked at
        const idx most = n > 70 ? 30 : n;
        Variable x{"x", normals(n, 3)};
        check_layer(
            "gelu", {&x}, n, [&](real* y) { gelu_forward(y, x.data(), n); },
            [&](const real* dy) {
                Numbers d(dy, dy + n), y = zeros(n);
                x.gradient = x.value;
                gelu_backward(x.grad(), d.data(), n);
                gelu_forward(y.data(), x.data(), n);
                for (idx i = 0; i < n; i++) check_close(d.data()[i], y.data()[i], 1e-15, "gelu's output, handed back");
            },
            most);

        Variable f{"f", normals(n)}, u{"x", normals(n), {}, true};
        check_layer(
            "residual", {&u, &f}, n, [&](real* y) { residual_forward(y, u.data(), f.data(), n); },
            [&](const real* dy) {
                std::copy_n(dy, n, f.grad());  // unchanged to the branch, and added on the residual path
                residual_backward(u.grad(), dy, n);
            },
            most);

        const Dropout drop{Random(3, Purpose::dropout, 1), real(0.3)};
        Variable d{"x", normals(n)};
        check_layer(
            "dropout", {&d}, n, [&](real* y) { dropout(y, d.data(), drop, n); },
            [&](const real* dy) { dropout(d.grad(), dy, drop, n); }, most);
    }
    for (const auto& [N, F] : {std::array<idx, 2>{1, 1}, {3, 5}, {20, 3}}) {
        Variable x{"x", normals(N * 2 * F, 2)};
        check_layer(
            "swiglu", {&x}, N * F, [&, N = N, F = F](real* y) { swiglu_forward(y, x.data(), N, F); },
            [&, N = N, F = F](const real* dy) {
                Numbers d(dy, dy + N * F), y = zeros(N * F);
                x.gradient = x.value;
                swiglu_backward(x.grad(), d.data(), N, F);
                swiglu_forward(y.data(), x.data(), N, F);
                for (idx i = 0; i < N * F; i++)
                    check_close(d.data()[i], y.data()[i], 1e-15, "swiglu's output, handed back");
            });
    }
    // GELU's tanh form, and SiLU times the value, where they are known.
    const Numbers x{real(-3), real(-0.5), 0, real(0.7), 40};
    Numbers y = zeros(5);
    gelu_forward(y.data(), x.data(), 5);
    for (std::size_t i = 0; i < 5; i++) {
        const double v = x[i],
                     expected = 0.5 * v * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (v + 0.044715 * v * v * v)));
        check_close(y[i], expected, 1e-14, "gelu");
    }
    swiglu_forward(y.data(), x.data(), 2, 1);  // two rows of one gate and one value
    check_close(y[0], -3 / (1 + std::exp(3.0)) * -0.5, 1e-14, "swiglu");
    check_close(y[1], 0, 1e-14, "swiglu");
    // Dropout keeps the mean: of n numbers 1, kept ones are 1/(1-p); the share that is kept is within 5 standard
    // deviations.
    const Dropout drop{Random(9, Purpose::dropout, 2), real(0.2)};
    const idx n = 100000;
    Numbers ones(std::size_t(n), real(1));
    dropout(ones.data(), ones.data(), drop, n);
    idx kept = 0;
    for (const real v : ones) {
        check(v == 0 || v == 1 / (1 - real(0.2)), "dropout gives 0 or 1/(1-p)");
        kept += v != 0;
    }
    check(std::abs(double(kept) - 0.8 * double(n)) < 5 * std::sqrt(0.8 * 0.2 * double(n)),
        text("dropout kept ", kept, " of ", n));
}

void test_cross_entropy() {
    for (const auto& [N, V] : {std::array<idx, 2>{1, 1}, {3, 1}, {5, 2}, {3, 17}, {9, 65}}) {
        const std::vector<Token> targets = random_tokens(N, V);
        Variable z{"logits", normals(N * V, 2)};
        Numbers losses = zeros(N), copy;
        // The layer's output is the row's loss; the gradient comes for the mean, or for any other weight of the rows.
        for (const double weight : {1.0 / double(N), 0.3}) {
            const auto loss = [&, N = N, V = V] {
                copy = z.value;
                cross_entropy(losses.data(), copy.data(), targets.data(), 0, N, V);
                check(copy == z.value, "without a weight the logits stay");
                return weight * std::accumulate(losses.begin(), losses.end(), 0.0);
            };
            z.gradient = z.value;
            cross_entropy(losses.data(), z.grad(), targets.data(), real(weight), N, V);
            for (idx n = 0; n < N; n++) {
                double total = 0;
                for (idx v = 0; v < V; v++)
                    total += std::exp(double(z.data()[n * V + v] - z.data()[n * V + targets[std::size_t(n)]]));
                check_close(losses.data()[n], std::log(total), 1e-13, "cross-entropy by its formula");
            }
            check_gradient(text("cross-entropy ", N, "x", V), loss, z.data(), z.grad(), N * V);
        }
    }
    // Logits of any size: the maximum is subtracted.
    Numbers z{1000, 0, -1000}, loss = zeros(1);
    const Token target = 1;
    cross_entropy(loss.data(), z.data(), &target, 1, 1, 3);
    check_equal(loss[0], real(1000), "cross-entropy of large logits");
    check(z == Numbers{1, -1, 0}, "its gradient");
}

// ---- the kernel ----

// The plain triple loop.
Numbers product(const Numbers& a, const Numbers& b, idx M, idx N, idx K) {
    Numbers c = zeros(M * N);
    for (idx i = 0; i < M; i++)
        for (idx k = 0; k < K; k++)
            for (idx j = 0; j < N; j++)
                c[std::size_t(i * N + j)] += a[std::size_t(i * K + k)] * b[std::size_t(k * N + j)];
    return c;
}

Numbers turned(const Numbers& a, idx rows, idx cols) {
    Numbers t = zeros(rows * cols);
    for (idx i = 0; i < rows; i++)
        for (idx j = 0; j < cols; j++) t[std::size_t(j * rows + i)] = a[std::size_t(i * cols + j)];
    return t;
}

// Small whole numbers, whose products and sums are exact: the result must be equal, not near.
Numbers whole_numbers(idx n) {
    Numbers numbers = normals(n, 3);
    for (real& v : numbers) v = std::round(v);
    return numbers;
}

enum class Start { none, another, itself };

void check_matmul(const Numbers& a, const Numbers& at, const Numbers& b, const Numbers& bt, const Numbers& expected,
    idx M, idx N, idx K, bool a_turned, bool b_turned, Start start, bool with_bias) {
    const idx row = N + 3;  // C lies in a wider matrix, whose other columns must stay
    Numbers c(std::size_t(M * row), real(5)), another = whole_numbers(M * row), bias = whole_numbers(N);
    const View A = a_turned ? transposed(rows_of(at.data(), M)) : rows_of(a.data(), K);
    const View B = b_turned ? transposed(rows_of(bt.data(), K)) : rows_of(b.data(), N);
    const real* from = start == Start::none ? nullptr : start == Start::another ? another.data() : c.data();
    matmul(c.data(), row, A, B, M, N, K, from, with_bias ? bias.data() : nullptr);
    bool good = true;
    for (idx i = 0; i < M; i++)
        for (idx j = 0; j < row; j++) {
            const auto at_c = std::size_t(i * row + j);
            const real first = start == Start::none ? 0 : start == Start::another ? another[at_c] : 5;
            good = good &&
                c[at_c] ==
                    (j < N ? first + (with_bias ? bias[std::size_t(j)] : 0) + expected[std::size_t(i * N + j)] : 5);
        }
    check(good,
        text("matmul M", M, " N", N, " K", K, a_turned ? " A turned" : "", b_turned ? " B turned" : "", " start ",
            int(start), with_bias ? " and a bias" : ""));
}

void test_matmul() {
    const std::vector<idx> sizes{1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 33, 47, 48, 49, 65, 100, 257, 300};
    int turn = 0;
    const auto check_shape = [&](idx M, idx N, idx K) {
        const Numbers a = whole_numbers(M * K), b = whole_numbers(K * N), at = turned(a, M, K), bt = turned(b, K, N);
        const Numbers expected = product(a, b, M, N, K);
        for (const bool a_turned : {false, true})
            for (const bool b_turned : {false, true}) {  // the starts, with and without a bias, take turns
                check_matmul(a, at, b, bt, expected, M, N, K, a_turned, b_turned, Start(turn % 3), turn / 3 % 2);
                turn++;
            }
        turn++;
    };
    for (const idx M : sizes)
        for (const idx N : sizes)
            for (const idx K : sizes)
                if (M * N * K <= 300 * 300 * 100 || (M >= 257 && N >= 257)) check_shape(M, N, K);
    // Beyond every block of rows, columns and depth; rows too far apart or too many to be read where they lie; and a
    // single row that is large enough to be shared out among the threads.
    for (const auto& [M, N, K] : {std::array<idx, 3>{1100, 33, 9}, {2057, 17, 20}, {17, 385, 40}, {9, 1600, 5},
             {3, 5, 513}, {5, 50, 1100}, {70, 800, 400}, {515, 17, 529}, {101, 16, 2700}, {1, 700, 300}})
        check_shape(M, N, K);
}

// Any number of threads gives the same bits: the same products of random numbers with 1, 2 and 3.
void test_matmul_threads() {
    std::vector<Numbers> results[3];
    const Numbers a = normals(2100 * 300), b = normals(300 * 700);
    Numbers w = normals(33 * 70);
    for (int threads = 1; threads <= 3; threads++) {
        set_threads(threads);
        for (const auto& [M, N, K] :
            {std::array<idx, 3>{1, 700, 300}, {1, 699, 299}, {2, 65, 128}, {63, 65, 17}, {64, 49, 257}, {65, 128, 300},
                {128, 16, 64}, {129, 384, 33}, {300, 300, 300}, {768, 65, 128}, {1025, 48, 9}, {2057, 7, 30}})
            for (const bool b_turned : {false, true}) {
                Numbers c = normals(M * N, 0, 1);
                matmul(c.data(), N, rows_of(a.data(), K),
                    b_turned ? transposed(rows_of(b.data(), K)) : rows_of(b.data(), N), M, N, K, c.data());
                results[threads - 1].push_back(c);
            }
        // A weight's gradient sums over the rows, a bias's too.
        Numbers dw = zeros(33 * 70), db = zeros(70), dx = zeros(900 * 33);
        linear_backward(dx.data(), {dw.data(), db.data()}, a.data(), b.data(), {w.data(), nullptr}, 900, 33, 70);
        for (const Numbers& r : {dw, db, dx}) results[threads - 1].push_back(r);
    }
    set_threads(1);
    check(results[0] == results[1], "products with 1 and 2 threads");
    check(results[0] == results[2], "products with 1 and 3 threads");
}

// `multiply` from the first K rows and N columns of a larger packed matrix, as attention uses it.
void test_multiply() {
    for (const idx M : {1, 5, 8, 13, 32})
        for (const idx N : {1, 8, 15, 16, 24, 33, 70, 72})
            for (const idx K : {1, 3, 16, 40})
                for (const idx more_columns : {0, 1, 30})
                    for (const idx more_rows : {0, 5}) {
                        const Numbers a = whole_numbers(M * K),
                                      large = whole_numbers((K + more_rows) * (N + more_columns));
                        Numbers b = zeros(K * N), memory = zeros(packed_size(K + more_rows, N + more_columns)),
                                c = zeros(M * N);
                        for (idx k = 0; k < K; k++)
                            std::copy_n(large.data() + k * (N + more_columns), N, b.data() + k * N);
                        const Packed packed = pack(
                            memory.data(), rows_of(large.data(), N + more_columns), K + more_rows, N + more_columns);
                        multiply(c.data(), N, rows_of(a.data(), K), packed, M, N, K);
                        check(c == product(a, b, M, N, K),
                            text("multiply M", M, " N", N, " K", K, " of ", more_rows, " and ", more_columns, " more"));
                    }
}

// ---- numbers ----

void test_exp() {
    // Over all numbers up to 88 in steps of 2^12 units in the last place, and every number near the ends and where the
    // range reduction steps. Below the normal range 0, or a number as small, will do.
    double worst = 0;
    float worst_at = 0, wrong_at = 0;
    const auto look = [&](float x) {
        const double expected = std::exp(double(x)), y = double(exp_float(x));
        if (x > 88) return;
        if (expected < double(std::numeric_limits<float>::min())) {
            if (!(y >= 0 && y <= double(std::numeric_limits<float>::min()))) wrong_at = x;
        } else if (const double error = std::abs(y - expected) / expected; !(error <= worst)) {
            worst = error, worst_at = x;
        }
    };
    for (const float sign : {-1.0f, 1.0f})
        for (std::uint32_t bits = 0; bits < std::bit_cast<std::uint32_t>(sign > 0 ? 88.0f : 100.0f); bits += 1 << 12)
            look(sign * std::bit_cast<float>(bits));
    for (const float end : {88.0f, -87.3365f, -87.68311f, -86.99f, 0.34657f, -0.34657f})
        for (std::int32_t away = -3000; away <= 3000; away++)
            look(std::bit_cast<float>(std::bit_cast<std::int32_t>(end) + away));
    std::printf("exp_float: largest relative error %.2g\n", worst);
    check(worst <= 3e-7,
        text("exp_float(", digits(double(worst_at)), ") is ", exp_float(worst_at), ", relative error ", worst));
    check(wrong_at == 0,
        text("exp_float(", digits(double(wrong_at)), ") is ", exp_float(wrong_at), ", out of float's range"));
    check_equal(exp_float(0), 1.0f, "exp(0)");
    check_equal(exp_float(-0.0f), 1.0f, "exp(-0)");
    check_equal(exp_float(-std::numeric_limits<float>::infinity()), 0.0f, "exp(-infinity)");
    check_equal(exp_float(-std::numeric_limits<float>::max()), 0.0f, "exp(-largest)");
    check_equal(exp_float(std::numeric_limits<float>::denorm_min()), 1.0f, "exp(smallest)");
    // NaN stays NaN, by itself and where the loop is vectorized.
    volatile float nan = std::nanf("");
    check(std::isnan(exp_float(nan)), "exp(NaN) is NaN");
    std::vector<float> nans(64, float{nan});
    for (float& v : nans) v = exp_float(v);
    check(std::all_of(nans.begin(), nans.end(), [](float v) { return std::isnan(v); }),
        "exp(NaN) in a vectorized loop is NaN");
    check_equal(sigmoid(0), real(0.5), "sigmoid(0)");
    check_equal(sigmoid(2000), real(1), "sigmoid(2000)");
    check_equal(sigmoid(-2000), real(0), "sigmoid(-2000)");
    for (const double x : {-30.0, -3.0, -0.1, 0.2, 5.0})
        check_close(sigmoid(real(x)), 1 / (1 + std::exp(-x)), 1e-15, "sigmoid", 0);
}

void test_sums() {
    for (const idx n : {0, 1, 15, 16, 17, 32, 100, 1000}) {
        const Numbers x = whole_numbers(n);
        check_equal(sum(n, [&](idx i) { return x[std::size_t(i)]; }), std::accumulate(x.begin(), x.end(), real(0)),
            text("sum of ", n));
        if (n)
            check_equal(maximum(n, [&](idx i) { return x[std::size_t(i)]; }), *std::max_element(x.begin(), x.end()),
                text("maximum of ", n));
    }
}

// ---- the optimizer ----

void test_adamw() {
    Config c;
    // A matrix of two tasks, of which the second ends with a block of one number.
    c.vocab_size = (many + 3 * 256 + 1) / 3, c.n_layer = 1, c.n_head = 1, c.n_embd = 3, c.block_size = 4;
    c.complete();
    Parameters weights(c), gradients(c);
    weights.memory.allocate();
    gradients.memory.allocate();
    weights.initialize(3);
    AdamW adam(weights);
    adam.beta1 = 0.8, adam.beta2 = 0.95, adam.eps = 1e-3, adam.weight_decay = 0.3;
    const std::size_t size = std::size_t(weights.memory.size());
    std::vector<double> w(weights.memory.data(), weights.memory.data() + size), m(size), v(size);
    for (int t = 1; t <= 4; t++) {
        const Numbers g = normals(idx(size));
        const double lr = 0.1 / t, scale = t % 2 ? 1 : 0.25;
        double square = 0;
        for (const Tensor& tensor : weights.tensors)
            for (idx j = tensor.offset; j < tensor.offset + tensor.size(); j++) {
                const std::size_t i = std::size_t(j);
                gradients.memory.data()[j] = g[i];
                square += double(g[i]) * double(g[i]);
                const double gi = scale * double(g[i]);
                m[i] = 0.8 * m[i] + 0.2 * gi;
                v[i] = 0.95 * v[i] + 0.05 * gi * gi;
                const double m_hat = m[i] / (1 - std::pow(0.8, t)), v_hat = v[i] / (1 - std::pow(0.95, t));
                w[i] = w[i] - lr * (tensor.rows ? 0.3 : 0) * w[i] - lr * m_hat / (std::sqrt(v_hat) + 1e-3);
            }
        check_close(gradient_norm(gradients), std::sqrt(square), 1e-13, "the gradient's norm");
        adam.update(weights, gradients, lr, scale, t);
        for (std::size_t i = 0; i < size; i++) {
            check_close(weights.memory.data()[i], w[i], 1e-13, text("AdamW's weight ", i, " at step ", t));
            check_close(adam.m[i], m[i], 1e-13, text("AdamW's m ", i, " at step ", t));
            check_close(adam.v[i], v[i], 1e-13, text("AdamW's v ", i, " at step ", t));
            check_equal(gradients.memory.data()[i], real(0), "the gradient after the update");
        }
    }
    // Matrices decay, vectors do not.
    int matrices = 0;
    for (const Tensor& tensor : weights.tensors) matrices += tensor.rows > 0;
    check_equal(matrices, 6, "tensors that decay: wte, wpe and four of the block");

    check_equal(clip_factor(0.5, 1), 1.0, "a norm within the limit");
    check_equal(clip_factor(1, 1), 1.0, "a norm at the limit");
    for (const double limit : {0.5, 2.0})
        check_close(clip_factor(4, limit), limit / (4 + 1e-6), 1e-15, "a norm beyond it");
    check_equal(clip_factor(4, 0), 1.0, "no limit");
    // 10 updates of warm-up to 2, then half a cosine to 0.1 at 110.
    const auto rate = [](std::int64_t iter) { return scheduled_rate(iter, 2, 0.1, 10, 110); };
    check_close(rate(0), 2.0 / 11, 1e-15, "the first rate");
    check_close(rate(9), 20.0 / 11, 1e-15, "the last of the warm-up");
    check_close(rate(10), 2, 1e-15, "the highest rate");
    check_close(rate(35), 0.1 + 0.95 * (1 + std::sqrt(0.5)), 1e-15, "a quarter down");
    check_close(rate(60), 1.05, 1e-15, "half-way down");
    check_close(rate(110), 0.1, 1e-15, "the lowest rate");
    check_close(rate(100000), 0.1, 1e-15, "the lowest rate stays");
    check_close(scheduled_rate(0, 2, 0.1, 0, 100), 2, 1e-15, "no warm-up");
    check_close(scheduled_rate(0, 2, 0.1, 0, 0), 0.1, 1e-15, "no schedule");
}

// Its sum goes over pieces of 8192: a last piece that is whole, after a larger sum has used the working memory.
void test_gradient_norm() {
    for (const idx pieces : {4, 3, 2, 1}) {
        Config c;
        c.n_layer = 1, c.n_head = 1, c.n_embd = 16, c.vocab_size = 1;
        c.complete();
        c.vocab_size += int((pieces * 8192 - Parameters(c).memory.size()) / 16);
        Parameters gradients(c);
        gradients.memory.allocate();
        const idx n = gradients.memory.size();
        check_equal(n, pieces * 8192, "numbers in whole pieces");
        std::fill_n(gradients.memory.data(), n, real(0.5));
        check_close(gradient_norm(gradients), std::sqrt(0.25 * double(n)), 1e-14, text("the norm of ", n, " halves"));
    }
}

int main() {
    test_sums();
    test_exp();
    test_matmul();
    test_multiply();
    test_matmul_threads();
    test_linear();
    test_norms();
    test_embedding();
    test_rope();
    test_attention();
    test_elementwise();
    test_cross_entropy();
    test_adamw();
    test_gradient_norm();
    std::printf("gradients: largest relative difference %.2g\n", largest_difference);
    return result();
}
