// The lab: the tutorial's theorems, measured and drawn.
//
//     make lab                                every experiment, under two minutes on two cores; then open out/lab/index.html
//     build/lab jacobian residual --width=64  some of them, with other sizes; build/lab --help lists experiments and options
//
// The tutorial proves what normalization and residual connections do to a gradient, equation by equation (T1)…(T20). Here each equation
// meets its measurement. Nothing is rebuilt for that: the layers, their backward passes and the model are nanogpt.cpp's own, which is
// included below, so that what holds here holds for the program. An experiment fills Figures: curves with, at each x, what the theorem
// predicts and what was measured. A figure prints as a table, goes to out/lab as CSV and SVG, and stands on one page in two languages.
//
//     A  What is written down     figures, tables, fitted laws
//     B  What is measured         the norms' Jacobians, the theorems' linear network, the real model        (tests/theorems.cpp uses A, B)
//     C  The experiments          jacobian, variance, gradients, residual, training
//     D  The page and the program
//
// Everything is computed in double, so that the figures show the theorems and not rounding; only the training runs are in float, as
// ./nanogpt's are, because a float's range is part of what happens to a network without normalization.

#ifdef NANOGPT_NO_MAIN
#define LAB_NO_MAIN  // a test has included nanogpt.cpp in double, and wants parts A and B
#else
#define NANOGPT_NO_MAIN
#define NANOGPT_REAL double
#include "../nanogpt.cpp"
namespace single {  // the same file a second time, in float
#undef NANOGPT_REAL
#define NANOGPT_REAL float
#include "../nanogpt.cpp"
}  // namespace single
#endif

namespace lab {

// ---------------------------------------------------------------------------------------------------------------------
// A  What is written down
// ---------------------------------------------------------------------------------------------------------------------

constexpr double nothing = std::numeric_limits<double>::quiet_NaN();  // no prediction, or no measurement

struct Words {
    std::string en, zh;
};

struct Point {
    double x, predicted, measured;

    double ratio() const { return measured / predicted; }
};

struct Curve {
    std::string name, theory;  // what the legend calls the measured line and the predicted one
    std::vector<Point> points{};
    std::string remark{};      // a line under the table, as the law that fits
};

struct Figure {
    std::string name, title, x_label, y_label;
    bool log_x, log_y;
    Words see;                 // what to see in it
    std::vector<Curve> curves{};
    bool drawn = true;         // some are tables only

    // Predicted dashed over measured solid, in one colour.
    Plot plot() const {
        Plot plot{title, x_label, y_label, {}, log_x, log_y};
        for (std::size_t i = 0; i < curves.size(); i++) {
            Plot::Series measured{curves[i].name, {}, false, static_cast<int>(i)}, predicted{curves[i].theory, {}, true, static_cast<int>(i)};
            for (const Point& p : curves[i].points) {
                measured.points.emplace_back(p.x, p.measured);
                if (!std::isnan(p.predicted)) predicted.points.emplace_back(p.x, p.predicted);
            }
            plot.series.push_back(std::move(measured));
            if (!predicted.points.empty()) plot.series.push_back(std::move(predicted));
        }
        return plot;
    }

    // Where a dashed line lies on a solid one of its colour, the solid one must be wide and pale for both to be seen.
    std::string svg() const {
        std::string svg = plot().svg();
        const auto style = svg.find("<style>");
        if (svg.find("stroke-dasharray") != std::string::npos && style != std::string::npos)
            svg.insert(style + 7, ".line:not([stroke-dasharray]){stroke-width:6!important;stroke-opacity:.4}");
        return svg;
    }
};

// A quantity over independent draws: its mean, and the standard error of that.
struct Mean {
    double n = 0, sum = 0, squares = 0;

    void add(double v) { n++, sum += v, squares += v * v; }
    double mean() const { return sum / n; }
    double error() const { return std::sqrt(std::max(0.0, squares / n - mean() * mean()) / (n - 1)); }
};

// The straight line through points, by least squares; r2 is the share of the variance that it explains.
struct Line {
    double slope, start, r2;
};

inline Line fit_line(const std::vector<std::pair<double, double>>& points) {
    double n = 0, x = 0, y = 0, xx = 0, xy = 0, yy = 0;
    for (const auto& [a, b] : points) n++, x += a, y += b, xx += a * a, xy += a * b, yy += b * b;
    const double cxx = xx - x * x / n, cxy = xy - x * y / n, cyy = yy - y * y / n;
    return {cxy / cxx, (y - cxy / cxx * x) / n, cyy > 0 ? cxy * cxy / (cxx * cyy) : 1};
}

// A power of x is a straight line when both axes are logarithmic, an exponential when only y is. Which is straighter?
struct Law {
    Line power, exponential;
    double spread;  // largest over smallest

    bool constant() const { return spread < 2.5; }
    bool is_power() const { return power.r2 >= exponential.r2; }
    double at(double x) const {
        const Line& line = is_power() ? power : exponential;
        return std::exp(line.start + line.slope * (is_power() ? std::log(x) : x));
    }
    std::string name(const char* x) const {
        char out[160];
        if (constant()) std::snprintf(out, sizeof out, "constant within a factor of %.2f (exponent %.2f)", spread, power.slope);
        else if (std::max(power.r2, exponential.r2) < 0.9) std::snprintf(out, sizeof out, "neither a power nor an exponential (R² %.2f, %.2f)", power.r2, exponential.r2);
        else if (is_power()) std::snprintf(out, sizeof out, "polynomial, %s^%.2f (R² %.4f; as an exponential %.4f)", x, power.slope, power.r2, exponential.r2);
        else std::snprintf(out, sizeof out, "exponential, %.3f^%s (R² %.4f; as a power %.4f)", std::exp(exponential.slope), x, exponential.r2, power.r2);
        return out;
    }
};

inline Law fit_law(const std::vector<Point>& points) {
    std::vector<std::pair<double, double>> power, exponential;
    double low = std::numeric_limits<double>::infinity(), high = 0;
    for (const Point& p : points)
        if (std::isfinite(p.measured) && p.measured > 0) {
            power.emplace_back(std::log(p.x), std::log(p.measured));
            exponential.emplace_back(p.x, std::log(p.measured));
            low = std::min(low, p.measured), high = std::max(high, p.measured);
        }
    return {fit_line(power), fit_line(exponential), high / low};
}

// 4, 8, 16 … up to `last`, which is the last.
inline std::vector<int> doublings(int last) {
    std::vector<int> list;
    for (int L = 4; L < last; L *= 2) list.push_back(L);
    list.push_back(last);
    return list;
}

// ---------------------------------------------------------------------------------------------------------------------
// B  What is measured
//
// 1. A norm's Jacobian, three ways: (T5) as it is written, finite differences of the forward, and what the backward applies.
// ---------------------------------------------------------------------------------------------------------------------

using Reals = std::vector<real>;

inline double squares(const real* x, idx n) { return double(sum(n, [=](idx i) { return x[i] * x[i]; })); }

// LayerNorm or RMSNorm with γ = 1 and β = 0 over rows of width d.
struct BareNorm {
    Norm kind;
    idx d;
    real eps;
    Reals ones = Reals(static_cast<std::size_t>(d), 1), zeros = Reals(static_cast<std::size_t>(d)), dgamma = zeros, dbeta = zeros;

    void forward(real* y, real* moments, const real* x, idx N) {
        const auto layer = kind == Norm::layer ? layernorm_forward : rmsnorm_forward;
        layer(y, moments, x, gain(), N, d, eps);
    }
    // Writes dx.
    void backward(real* dx, const real* dy, const real* x, const real* moments, idx N) {
        const auto layer = kind == Norm::layer ? layernorm_backward : rmsnorm_backward;
        std::fill_n(dx, N * d, real(0));
        layer(dx, {dgamma.data(), dbeta.data()}, dy, x, moments, gain(), N, d);
    }
    Gain gain() { return {ones.data(), kind == Norm::layer ? zeros.data() : nullptr}; }
};

// (T5): (I − 11ᵀ/d − x̃x̃ᵀ/d)/σ for LayerNorm, (I − x̂x̂ᵀ/d)/r for RMSNorm; row-major. With ε it stands inside the root of σ or r.
inline Reals jacobian_formula(Norm kind, const Reals& x, real eps) {
    const double d = double(x.size());
    const double mean = kind == Norm::layer ? std::accumulate(x.begin(), x.end(), 0.0) / d : 0;
    double variance = 0;
    for (const real v : x) variance += (double(v) - mean) * (double(v) - mean) / d;
    const double sigma = std::sqrt(variance + double(eps));
    Reals J;
    for (std::size_t i = 0; i < x.size(); i++)
        for (std::size_t j = 0; j < x.size(); j++) {
            const double along = (double(x[i]) - mean) / sigma * ((double(x[j]) - mean) / sigma) / d;
            J.push_back(real(((i == j) - (kind == Norm::layer ? 1 / d : 0) - along) / sigma));
        }
    return J;
}

// ∂y_i/∂x_j by central differences with steps h and 2h, combined so that the error is of the order h⁴.
inline Reals jacobian_by_differences(Norm kind, Reals x, real eps, real h) {
    BareNorm norm{kind, static_cast<idx>(x.size()), eps};
    const std::size_t d = x.size();
    Reals J(d * d), y(d);
    std::array<real, 2> moments{};
    for (std::size_t j = 0; j < d; j++) {
        const real keep = x[j];
        for (const auto& [steps, weight] : {std::pair{-2, 1}, {-1, -8}, {1, 8}, {2, -1}}) {
            x[j] = keep + real(steps) * h;
            norm.forward(y.data(), moments.data(), x.data(), 1);
            for (std::size_t i = 0; i < d; i++) J[i * d + j] += real(weight) * y[i] / (12 * h);
        }
        x[j] = keep;
    }
    return J;
}

// The backward computes Jᵀ dy. With dy the i-th unit vector that is row i: d rows at once, all with the same x.
inline Reals jacobian_by_backward(Norm kind, const Reals& x, real eps) {
    const idx d = static_cast<idx>(x.size());
    BareNorm norm{kind, d, eps};
    Reals rows, y(x.size() * x.size()), moments(2 * x.size()), dy(y.size()), J(y.size());
    for (std::size_t i = 0; i < x.size(); i++) {
        rows.insert(rows.end(), x.begin(), x.end());
        dy[i * x.size() + i] = 1;
    }
    norm.forward(y.data(), moments.data(), rows.data(), d);
    norm.backward(J.data(), dy.data(), rows.data(), moments.data(), d);
    return J;
}

// max |A − B| / max |A|
inline double largest_difference(const Reals& a, const Reals& b) {
    double difference = 0, scale = 0;
    for (std::size_t i = 0; i < a.size(); i++) {
        difference = std::max(difference, std::abs(double(a[i]) - double(b[i])));
        scale = std::max(scale, std::abs(double(a[i])));
    }
    return difference / scale;
}

// ‖A‖₂ by power iteration: apply(v) makes AᵀA v of v, whose largest eigenvalue is ‖A‖₂².
template <class Apply>
double spectral_norm(Reals v, int iterations, const Apply& apply) {
    double norm = 0;
    for (int i = 0; i < iterations; i++) {
        const double length = std::sqrt(squares(v.data(), static_cast<idx>(v.size())));
        for (real& e : v) e = real(double(e) / length);
        apply(v);
        norm = std::sqrt(std::sqrt(squares(v.data(), static_cast<idx>(v.size()))));
    }
    return norm;
}

inline Reals normals(const Random& random, idx n, double scale = 1, double shift = 0) {
    Reals x(static_cast<std::size_t>(n));
    parallel_ranges(n, 4096, [&](idx begin, idx end) {
        for (idx i = begin; i < end; i++) x[static_cast<std::size_t>(i)] = real(shift + scale * random.normal(i));
    });
    return x;
}

// (T6): ‖J(x)‖₂ as the backward applies it; J is symmetric, so AᵀA is the backward twice.
inline double jacobian_norm(Norm kind, const Reals& x, real eps, const Random& random) {
    const idx d = static_cast<idx>(x.size());
    BareNorm norm{kind, d, eps};
    Reals y(x.size());
    std::array<real, 2> moments{};
    norm.forward(y.data(), moments.data(), x.data(), 1);
    return spectral_norm(normals(random, d), 10, [&](Reals& v) {
        norm.backward(y.data(), v.data(), x.data(), moments.data(), 1);
        norm.backward(v.data(), y.data(), x.data(), moments.data(), 1);
    });
}

// The biased variance of each row, mean over the rows: LayerNorm computes it.
inline double mean_variance(const Reals& x, idx N, idx d) {
    BareNorm norm{Norm::layer, d, 0};
    Reals y(x.size()), moments(static_cast<std::size_t>(2 * N));
    norm.forward(y.data(), moments.data(), x.data(), N);
    double total = 0;
    for (std::size_t n = 0; n < static_cast<std::size_t>(N); n++) total += 1 / (double(moments[2 * n + 1]) * double(moments[2 * n + 1]));
    return total / double(N);
}

// ---------------------------------------------------------------------------------------------------------------------
// 2. The theorems' own setting: random linear branches
//
//     f_l(y) = W_l y        W_l [d,d] with independent normal entries of variance v², η² = d v²        x_0, g_out standard normal
//
// wired as nanogpt.cpp wires its blocks: pre (T3), none (T14) or plain (T18), with or without a norm behind the last. The loss is
// ⟨g_out, output⟩, so g_out is its gradient there. All by linear_forward, layernorm_forward, residual_forward and their backwards.
// ---------------------------------------------------------------------------------------------------------------------

struct Case {
    Wiring wiring;
    bool final_norm;
    int depth;
    double eta2;
    Norm norm = Norm::layer;
};

// By level l = 0 … L, over the draws: σ_l², and ‖g_l‖² relative to ‖g_out‖².
struct Levels {
    std::vector<Mean> variance, gradient;
};

// One case with the branches `unit` [depth, d, d] of unit variance.
inline void run_linear(Levels& levels, const Case& c, const Reals& unit, const Reals& start, const Reals& g_out, idx d) {
    const idx N = static_cast<idx>(start.size()) / d, L = c.depth, size = N * d;
    const auto at = [=](idx l) { return static_cast<std::size_t>(l); };
    const real v = real(std::sqrt(c.eta2 / double(d)));
    BareNorm norm{c.norm, d, 0};
    std::vector<Reals> x(at(L + 1), start), moments(at(L + 1), Reals(at(2 * N)));
    Reals weights(unit.begin(), unit.begin() + L * d * d), dW(at(d * d)), normed(start.size()), f(start.size()), g = g_out;
    for (real& w : weights) w *= v;
    const auto branch = [&](idx l) { return Linear{weights.data() + l * d * d, nullptr}; };
    for (idx l = 0; l < L; l++) {
        const real* in = x[at(l)].data();
        if (c.wiring == Wiring::pre) norm.forward(normed.data(), moments[at(l)].data(), in, N);
        linear_forward(f.data(), c.wiring == Wiring::pre ? normed.data() : in, branch(l), N, d, d);
        if (c.wiring == Wiring::plain) x[at(l + 1)] = f;
        else residual_forward(x[at(l + 1)].data(), in, f.data(), size);
    }
    if (c.final_norm) {
        norm.forward(normed.data(), moments[at(L)].data(), x[at(L)].data(), N);
        norm.backward(g.data(), g_out.data(), x[at(L)].data(), moments[at(L)].data(), N);
    }
    levels.variance.resize(at(L + 1)), levels.gradient.resize(at(L + 1));
    for (idx l = L;; l--) {
        levels.variance[at(l)].add(mean_variance(x[at(l)], N, d));
        levels.gradient[at(l)].add(squares(g.data(), size) / squares(g_out.data(), size));
        if (l == 0) break;
        const real* in = x[at(l - 1)].data();
        Reals df(start.size());
        if (c.wiring == Wiring::pre) norm.forward(normed.data(), moments[at(l - 1)].data(), in, N);
        linear_backward(df.data(), {dW.data(), nullptr}, g.data(), c.wiring == Wiring::pre ? normed.data() : in, branch(l - 1), N, d, d);
        if (c.wiring == Wiring::plain) {
            g = df;
            continue;
        }
        if (c.wiring == Wiring::pre) norm.backward(f.data(), df.data(), in, moments[at(l - 1)].data(), N);
        residual_backward(g.data(), c.wiring == Wiring::pre ? f.data() : df.data(), size);
    }
}

// Each draw of weights, inputs and loss serves all cases.
inline std::vector<Levels> linear_networks(const std::vector<Case>& cases, idx d, idx rows, int draws, std::uint64_t seed) {
    int depth = 0;
    for (const Case& c : cases) depth = std::max(depth, c.depth);
    std::vector<Levels> levels(cases.size());
    for (std::uint64_t draw = 0; draw < static_cast<std::uint64_t>(draws); draw++) {
        const auto random = [=](std::uint64_t what) { return Random(seed, Purpose::test, 3 * draw + what); };
        const Reals unit = normals(random(0), depth * d * d), start = normals(random(1), rows * d), g_out = normals(random(2), rows * d);
        for (std::size_t i = 0; i < cases.size(); i++) run_linear(levels[i], cases[i], unit, start, g_out, d);
    }
    return levels;
}

// What the theorems say about E‖g_l‖² / E‖g_out‖² and about σ_l², for σ_0 = 1.
inline double predicted_variance(const Case& c, int l) {  // (T7); (T16)'s factor, which the forward shares; (T20)'s
    return c.wiring == Wiring::pre ? 1 + l * c.eta2 : std::pow(c.wiring == Wiring::none ? 1 + c.eta2 : c.eta2, l);
}
inline double predicted_gradient(const Case& c, int l) {  // (T12), (T17), (T20): the same growth, from the top; the final norm (T13)
    return predicted_variance(c, c.depth) / predicted_variance(c, l) / (c.final_norm ? predicted_variance(c, c.depth) : 1);
}

// (T10) taken literally: ∏_k (1 + ‖W_k‖₂ / σ_k), no matter how the directions lie.
inline double worst_case(int depth, double eta2, idx d, std::uint64_t seed) {
    const Reals unit = normals(Random(seed, Purpose::test, 0), depth * d * d), start = normals(Random(seed, Purpose::test, 1), d);
    double bound = 1;
    Reals y(start.size()), dW(unit.size() / static_cast<std::size_t>(depth));
    for (int k = 0; k < depth; k++) {
        Reals W(unit.begin() + k * d * d, unit.begin() + (k + 1) * d * d);
        const double norm = spectral_norm(start, 60, [&](Reals& v) {
            const Reals in = v;
            linear_forward(y.data(), in.data(), {W.data(), nullptr}, 1, d, d);
            linear_backward(v.data(), {dW.data(), nullptr}, y.data(), in.data(), {W.data(), nullptr}, 1, d, d);
        });
        bound *= 1 + norm * std::sqrt(eta2 / double(d)) / std::sqrt(1 + k * eta2);
    }
    return bound;
}

// ---------------------------------------------------------------------------------------------------------------------
// 3. The real model: class GPT as it trains, its matrices drawn with standard deviation 1/√fan-in
//
// At GPT's usual 0.02 the branches are too weak for the laws to show. The embedding looks a row up, so its fan-in is 1; the head is
// not tied to it, positions are RoPE's: x_0 has variance 1, as the theorems take it.
// ---------------------------------------------------------------------------------------------------------------------

template <class Model>
void draw_by_fan_in(Model& gpt, std::uint64_t seed) {
    for (auto& tensor : gpt.weights.tensors) {
        const auto fan_in = tensor.name == "wte.weight" ? 1 : tensor.name == "lm_head.weight" ? tensor.cols : tensor.rows;
        if (tensor.rows > 0) tensor.start = 1 / std::sqrt(double(fan_in));
    }
    gpt.weights.initialize(seed);
}

// σ_k² and ‖dLoss/dx_k‖ at the borders k = 0 … 2L of the branches, and ‖dLoss/dW‖ of the last MLP's output matrix (X1).
struct Borders {
    std::vector<double> variance, gradient;
    double last_matrix = 0;
};

template <class Model>
std::vector<double> variances(const Model& gpt, idx N) {
    std::vector<double> list;
    for (idx k = 0; k <= 2 * gpt.config.n_layer; k++) {
        const auto* x = gpt.x(k);
        list.push_back(mean_variance(Reals(x, x + N * gpt.config.n_embd), N, gpt.config.n_embd));
    }
    return list;
}

inline Borders read_borders(GPT& gpt, const std::vector<Token>& tokens, const std::vector<Token>& targets) {
    const idx N = static_cast<idx>(tokens.size()), C = gpt.config.C();
    Borders borders;
    borders.gradient.resize(static_cast<std::size_t>(2 * gpt.config.n_layer + 1));
    gpt.on_gradient = [&](idx k, const real* dx) { borders.gradient[static_cast<std::size_t>(k)] = std::sqrt(squares(dx, N * C)); };
    gpt.forward(tokens.data(), 1, N);
    gpt.loss(targets.data(), 1);
    borders.variance = variances(gpt, N);
    gpt.backward(tokens.data());
    borders.last_matrix = std::sqrt(squares(gpt.gradients.blocks.back().out.weight, gpt.config.F() * C));
    return borders;
}

struct Sizes {
    int n_embd = 64, n_head = 4, block_size = 32, seeds = 4;
    std::uint64_t seed = 1;
};
constexpr int vocabulary = 65;

inline Config model_config(const Sizes& s, int depth, Wiring wiring, bool final_norm, Norm norm) {
    Config c;
    c.vocab_size = vocabulary, c.block_size = s.block_size, c.n_embd = s.n_embd, c.n_head = s.n_head, c.n_layer = depth;
    c.wiring = wiring, c.final_norm = final_norm, c.norm = norm, c.pos = Position::rope, c.tie = false;
    c.complete();
    return c;
}

// Random tokens; the geometric mean over the seeds, as the quantities span many powers of ten.
inline Borders model_borders(const Sizes& s, int depth, Wiring wiring, bool final_norm, Norm norm = Norm::layer) {
    GPT gpt(model_config(s, depth, wiring, final_norm, norm), 1, s.block_size, GPT::Use::training);
    gpt.allocate();
    Borders mean;
    mean.variance.resize(static_cast<std::size_t>(2 * depth + 1)), mean.gradient = mean.variance;
    for (std::uint64_t i = 0; i < static_cast<std::uint64_t>(s.seeds); i++) {
        const Random random(s.seed + i, Purpose::test);
        std::vector<Token> tokens, targets;
        for (idx t = 0; t < s.block_size; t++) {
            tokens.push_back(static_cast<Token>(random.bits(2 * t) % vocabulary));
            targets.push_back(static_cast<Token>(random.bits(2 * t + 1) % vocabulary));
        }
        draw_by_fan_in(gpt, s.seed + i);
        std::fill_n(gpt.gradients.memory.data(), gpt.gradients.memory.size(), real(0));
        const Borders one = read_borders(gpt, tokens, targets);
        for (std::size_t k = 0; k < one.variance.size(); k++) {
            mean.variance[k] += std::log(one.variance[k]) / s.seeds;
            mean.gradient[k] += std::log(one.gradient[k]) / s.seeds;
        }
        mean.last_matrix += std::log(one.last_matrix) / s.seeds;
    }
    for (auto* list : {&mean.variance, &mean.gradient})
        for (double& v : *list) v = std::exp(v);
    mean.last_matrix = std::exp(mean.last_matrix);
    return mean;
}

// (T19) with F = 0: the branches' last matrices are 0. Whether each dLoss/dx_k has the very bits of dLoss/dx_2L.
inline bool identity_path(const Sizes& s, int depth, Wiring wiring) {
    GPT gpt(model_config(s, depth, wiring, true, Norm::layer), 1, s.block_size, GPT::Use::training);
    gpt.allocate();
    draw_by_fan_in(gpt, s.seed);
    for (const Block& block : gpt.weights.blocks) {
        std::fill_n(block.projection.weight, gpt.config.C() * gpt.config.C(), real(0));
        std::fill_n(block.out.weight, gpt.config.F() * gpt.config.C(), real(0));
    }
    std::vector<Token> tokens(static_cast<std::size_t>(s.block_size));
    for (std::size_t t = 0; t < tokens.size(); t++) tokens[t] = static_cast<Token>(t % vocabulary);
    Reals top;
    int same = 0;
    gpt.on_gradient = [&](idx, const real* dx) {
        const idx size = s.block_size * gpt.config.C();
        if (top.empty()) top.assign(dx, dx + size);
        same += std::equal(top.begin(), top.end(), dx);
    };
    gpt.forward(tokens.data(), 1, s.block_size);
    gpt.loss(tokens.data(), 1);
    gpt.backward(tokens.data());
    return same == 2 * depth + 1 && squares(top.data(), static_cast<idx>(top.size())) > 0;
}

}  // namespace lab

#ifndef LAB_NO_MAIN
namespace lab {

// ---------------------------------------------------------------------------------------------------------------------
// C  The experiments
// ---------------------------------------------------------------------------------------------------------------------

struct Options {
    int width = 128, rows = 8, draws = 32, depth = 128;                           // the linear network
    double eta2 = 0.5;
    int n_embd = 64, n_head = 4, block_size = 32, seeds = 4, model_depth = 64;    // the real model
    int train_depth = 24, iters = 250, batch_size = 8, warmup_iters = 20;         // the training runs
    double learning_rate = 1e-3, grad_clip = 1;
    std::string data = "data/fables.txt", out = "out/lab";
    std::uint64_t seed = 1;
    int threads = 0;

    Sizes sizes() const { return {n_embd, n_head, block_size, seeds, seed}; }
};

struct Equation {
    std::string tag, formula;
    Words words;
};

struct Experiment {
    const char* name;
    Words title;
    std::vector<Equation> theory;
    std::vector<Figure> figures{};
};

// One training run, in float.
struct Run {
    std::string name;
    std::vector<double> loss, norm;      // by iteration
    std::vector<double> before, after;   // σ_k² by branch
    int diverged = -1;                   // the iteration at which the loss or the gradient was no number any more

    double last_loss() const {  // mean of the last 20
        const auto n = std::min<std::size_t>(20, loss.size());
        return std::accumulate(loss.end() - static_cast<std::ptrdiff_t>(n), loss.end(), 0.0) / double(n);
    }
};

class Lab {
  public:
    explicit Lab(Options options) : o(std::move(options)) {}

    Experiment jacobian();
    Experiment variance();
    Experiment gradients();
    Experiment residual();
    Experiment training();

  private:
    const Run& train(const std::string& name, Wiring wiring, bool final_norm, Norm norm = Norm::layer);
    void gradients_of_model(Experiment& e);

    Options o;
    std::map<std::string, Run> runs_;  // `variance` and `training` share the Pre-LN run
};

// Curves of linear networks by depth, one for each wiring.
inline void by_level(Curve& curve, const Case& c, const Levels& levels, bool gradient) {
    for (int l = 0; l <= c.depth; l++) {
        const Mean& measured = (gradient ? levels.gradient : levels.variance)[static_cast<std::size_t>(l)];
        curve.points.push_back({double(l), gradient ? predicted_gradient(c, l) : predicted_variance(c, l), measured.mean()});
    }
}

// Puts the law that fits the measured points into `predicted`, and its name under the table.
inline void add_law(Curve& curve, const char* x, bool draw = true) {
    const Law law = fit_law(curve.points);
    curve.remark = curve.name + ": " + law.name(x);
    for (Point& p : curve.points) p.predicted = draw ? law.at(p.x) : nothing;
}

// ---------------------------------------------------------------------------------------------------------------------
// jacobian: a norm divides gradients by the size of its input, exactly (T5), (T6)
// ---------------------------------------------------------------------------------------------------------------------

inline Experiment Lab::jacobian() {
    Experiment e{"jacobian", {"The Jacobian of a norm", "归一化的雅可比矩阵"}, {
        {"T1", "y = γ ⊙ (x − μ) / √(σ^2 + ε) + β", {"LayerNorm", "LayerNorm"}},
        {"T2", "y = γ ⊙ x / √(mean(x^2) + ε)", {"RMSNorm: divides by the root mean square, not by the standard deviation", "RMSNorm：除以均方根，而不是标准差"}},
        {"T4", "LN(x) = (x − μ1) / σ", {"Definition 2: at the start γ = 1, β = 0", "定义 2：初始化时 γ = 1，β = 0"}},
        {"T5", "J_{LN}(x) = (I − 11^T/d − x̃ x̃^T/d) / σ,   J_{RMS}(x) = (I − x̂ x̂^T/d) / r", {"Lemma 1, with x̃ = (x − μ1)/σ; for RMSNorm x̂ = x/r, r = rms(x)", "引理 1，其中 x̃ = (x − μ1)/σ；RMSNorm 中 x̂ = x/r，r = rms(x)"}},
        {"T6", "‖J_{LN}(x)‖_2 = 1/σ", {"Corollary 1.1, exact and not only O(1/σ): the bracket is an orthogonal projection of rank d − 2", "推论 1.1：不只是 O(1/σ)，而是严格相等——括号内是秩为 d − 2 的正交投影"}},
    }};
    Figure norm{"jacobian", "Spectral norm of a norm's Jacobian", "σ of the input (RMSNorm: r)", "‖J‖₂", true, true,
        {"The two norms lie on 1/σ over seven powers of ten. ε = 1e-5 stands inside the root, ‖J‖ = 1/√(σ² + ε): once σ² falls below ε, the norm no longer amplifies further.",
         "两种归一化在七个数量级上都落在 1/σ 上。ε = 1e-5 位于根号之内，‖J‖ = 1/√(σ² + ε)：当 σ² 小于 ε 时，放大作用不再继续增强。"}};
    Figure matrix{"jacobian-matrix", "Largest difference of an element from (T5), relative to the largest element", "", "", false, false,
        {"x = 0: finite differences of the forward; x = 1: what the backward applies. The formula, the forward and the backward are one function.",
         "x = 0：对前向做有限差分；x = 1：反向传播实际施加的矩阵。公式、前向与反向完全一致。"}};
    matrix.drawn = false;
    const Random random(o.seed, Purpose::test);
    for (const Norm kind : {Norm::layer, Norm::rms})
        for (const double eps : {0.0, 1e-5}) {
            const std::string name = text(kind == Norm::layer ? "LayerNorm" : "RMSNorm", ", ε = ", eps);
            const Reals x = normals(random, o.n_embd, 2, 0.5), formula = jacobian_formula(kind, x, eps);
            matrix.curves.push_back({name, "", {{0, 0, largest_difference(formula, jacobian_by_differences(kind, x, eps, 1e-3))},
                                                {1, 0, largest_difference(formula, jacobian_by_backward(kind, x, eps))}}});
            Curve curve{name, eps > 0 ? "1/√(σ² + ε)" : "(T6) 1/σ"};
            for (double exponent = -4; exponent <= 3; exponent += 0.5) {
                Reals z = normals(random, o.n_embd);
                const double scale = kind == Norm::layer ? std::sqrt(mean_variance(z, 1, o.n_embd)) : std::sqrt(squares(z.data(), o.n_embd) / o.n_embd);
                const double sigma = std::pow(10, exponent);
                for (real& v : z) v *= sigma / scale;
                curve.points.push_back({sigma, 1 / std::sqrt(sigma * sigma + eps), jacobian_norm(kind, z, eps, Random(o.seed, Purpose::test, 1))});
            }
            norm.curves.push_back(std::move(curve));
        }
    e.figures = {norm, matrix};
    return e;
}

// ---------------------------------------------------------------------------------------------------------------------
// variance: on the residual path it grows like a straight line with a norm before each branch, exponentially without (T7)
// ---------------------------------------------------------------------------------------------------------------------

inline Experiment Lab::variance() {
    Experiment e{"variance", {"The variance on the residual path", "残差通路上的方差"}, {
        {"T3", "x_{l+1} = x_l + f_l(LN(x_l))", {"Definition 1, Pre-LN", "定义 1，Pre-LN"}},
        {"T7", "Var(x_{l+1}) = Var(x_l) + η^2  ⇒  σ_l^2 = σ_0^2 + l η^2", {"Assumption 1: σ_l grows like √l", "假设 1：σ_l 按 √l 增长"}},
        {"T14", "x_{l+1} = x_l + f_l(x_l)", {"without a norm each branch amplifies what came before: σ_l^2 = (1 + η^2)^l σ_0^2", "没有归一化时，每个分支都放大之前的一切：σ_l^2 = (1 + η^2)^l σ_0^2"}},
        {"X2", "σ_l^2 in trained models: faster than (T7)", {"Sun et al. 2025, The Curse of Depth: the deep blocks become nearly the identity", "Sun 等 2025《深度的诅咒》：深层模块近似恒等映射"}},
    }};
    Figure linear{"variance", text("Variance by layer, random linear branches, η² = ", o.eta2), "layer l", "σ²", false, true,
        {"The theorem's own setting. With the norm the variance is a straight line (curved here by the logarithmic axis), without it an exponential.",
         "定理本身的设定。有归一化时方差是一条直线（因对数坐标而弯曲），没有归一化时是指数。"}};
    const int depth = std::min(o.depth, 64);
    const std::vector<Case> cases{{Wiring::none, false, depth, o.eta2}, {Wiring::pre, false, depth, o.eta2}};
    const std::vector<Levels> levels = linear_networks(cases, o.width, o.rows, o.draws, o.seed);
    linear.curves = {{"none", "(1 + η²)^l"}, {"pre", "(T7) σ₀² + l η²"}};
    for (std::size_t i : {0u, 1u}) by_level(linear.curves[i], cases[i], levels[i], false);

    Figure model{"variance-model", "Variance by branch, real GPT at initialization", "branch k (two a block)", "σ²", false, true,
        {"The same in the real model, attention and MLP in turn. Dashed: the straight line and the exponential that fit best.",
         "真实模型中的同一现象，注意力与 MLP 交替。虚线：最佳拟合的直线与指数。"}};
    for (const auto& [name, wiring] : {std::pair{"none", Wiring::none}, {"pre", Wiring::pre}}) {
        const Borders borders = model_borders(o.sizes(), std::min(o.model_depth, 32), wiring, true);
        Curve curve{name, wiring == Wiring::pre ? "fitted line" : "fitted exponential"};
        std::vector<std::pair<double, double>> straight;
        for (std::size_t k = 0; k < borders.variance.size(); k++) {
            curve.points.push_back({double(k), nothing, borders.variance[k]});
            straight.emplace_back(double(k), wiring == Wiring::pre ? borders.variance[k] : std::log(borders.variance[k]));
        }
        const Line line = fit_line(straight);
        for (Point& p : curve.points) p.predicted = wiring == Wiring::pre ? line.start + line.slope * p.x : std::exp(line.start + line.slope * p.x);
        curve.remark = wiring == Wiring::pre ? text("pre: linear, η² = ", line.slope, " a branch (R² ", line.r2, ")")
                                             : text("none: exponential, ", std::exp(line.slope), "^k (R² ", line.r2, ")");
        model.curves.push_back(std::move(curve));
    }

    const Run& run = train("pre, LayerNorm", Wiring::pre, true);
    Figure trained{"variance-trained", text("Variance by branch before and after ", o.iters, " iterations, Pre-LN"), "branch k (two a block)", "σ²", false, false,
        {"(X2): training bends the straight line upwards. Dashed: (T7)'s line through the first and the last point. By (T9) the deep blocks' share of the gradient shrinks with 1/σ.",
         "(X2)：训练使直线向上弯。虚线：过首末两点的 (T7) 直线。由 (T9)，深层模块的梯度份额随 1/σ 减小。"}};
    for (const auto& [name, list] : {std::pair{"after training", &run.after}, {"at initialization", &run.before}}) {
        Curve curve{name, "straight line"};
        for (std::size_t k = 0; k < list->size(); k++)
            curve.points.push_back({double(k), list->front() + (list->back() - list->front()) * double(k) / double(list->size() - 1), (*list)[k]});
        trained.curves.push_back(std::move(curve));
    }
    e.figures = {linear, model, trained};
    return e;
}

// ---------------------------------------------------------------------------------------------------------------------
// gradients: bounded with the norm (T12), (T13), exploding without (T17), vanishing without the residual path (T20)
// ---------------------------------------------------------------------------------------------------------------------

inline Experiment Lab::gradients() {
    Experiment e{"gradients", {"The gradient at the bottom of a deep network", "深层网络底部的梯度"}, {
        {"T8", "g_l^T = g_L^T ∏_{k=L−1..l} ∂x_{k+1}/∂x_k", {"the chain rule, g_l = ∂Loss/∂x_l", "链式法则，g_l = ∂Loss/∂x_l"}},
        {"T9", "∂x_{k+1}/∂x_k = I + J_{f_k} J_{LN}(x_k)", {"one Pre-LN layer", "一个 Pre-LN 层"}},
        {"T10", "‖J_{f_k} J_{LN}(x_k)‖_2 ≤ ‖J_{f_k}‖_2 / σ_k = O(1/√k)", {"alone it gives only ∏(1 + c/√k) ≤ exp(2c√L), which is not yet polynomial", "仅由它只能得到 ∏(1 + c/√k) ≤ exp(2c√L)，还不是多项式"}},
        {"T11", "E‖g_l‖^2 = (1 + η^2/σ_l^2) E‖g_{l+1}‖^2", {"in mean square the cross terms vanish", "在均方意义下交叉项为零"}},
        {"T12", "E‖g_l‖^2 = (σ_L^2/σ_l^2) E‖g_L‖^2", {"the product telescopes: polynomial in L", "连乘逐项相消：关于 L 的多项式"}},
        {"T13", "‖g_l‖ ~ ‖g_{out}‖ / σ_l", {"with the final norm: independent of the depth", "加上末端归一化：与深度无关"}},
        {"T15", "∂x_{l+1}/∂x_l = I + J_{f_l}(x_l),  E‖J_{f_l}‖ = O(1)", {"without norms nothing damps", "没有归一化就没有阻尼"}},
        {"T16", "E‖g_l‖^2 = (1 + d v^2) E‖g_{l+1}‖^2", {"each layer amplifies", "逐层放大"}},
        {"T17", "E‖g_0‖^2 = (1 + d v^2)^L E‖g_L‖^2 = exp(L ln(1 + d v^2)) E‖g_L‖^2", {"exponential in L", "关于 L 的指数"}},
        {"X1", "‖∂Loss/∂W_{last}‖ = O(d √(ln d / L)) for Pre-LN, O(d √(ln d)) for Post-LN", {"Xiong et al. 2020, Theorem 1", "Xiong 等 2020，定理 1"}},
    }};
    struct Kind {
        Wiring wiring;
        bool final_norm;
        const char *name, *theory;
    };
    const std::vector<Kind> kinds{{Wiring::none, false, "none", "(T17) (1 + η²)^L"}, {Wiring::pre, false, "pre", "(T12) σ_L²/σ₀²"},
                                  {Wiring::pre, true, "pre, final norm", "(T13) 1/σ₀²"}, {Wiring::none, true, "none, final norm", "1/σ₀²"},
                                  {Wiring::plain, false, "plain", "(T20) (η²)^L"}};
    std::vector<Case> cases;
    for (const int L : doublings(o.depth))
        for (const Kind& k : kinds) cases.push_back({k.wiring, k.final_norm, L, o.eta2});
    const std::vector<Levels> levels = linear_networks(cases, o.width, o.rows, o.draws, o.seed);

    Figure depth{"gradients", text("Gradient at the bottom by depth, random linear branches, η² = ", o.eta2), "depth L", "E‖g₀‖² / E‖g_out‖²", false, true,
        {"Four wirings, four laws: exponential growth (none), polynomial growth (pre, the line that looks flat here), no growth at all (with a final norm), exponential decay (plain). A final norm alone already cancels the explosion of a linear network, as (T16) and the forward growth are the same factor.",
         "四种接法，四种规律：指数增长（none）、多项式增长（pre，此处看似水平）、完全不增长（带末端归一化）、指数衰减（plain）。仅一个末端归一化就已抵消线性网络的爆炸，因为 (T16) 与前向增长是同一因子。"}};
    for (std::size_t i = 0; i < kinds.size(); i++) {
        Curve curve{kinds[i].name, kinds[i].theory};
        for (std::size_t j = i; j < cases.size(); j += kinds.size())
            curve.points.push_back({double(cases[j].depth), predicted_gradient(cases[j], 0), levels[j].gradient[0].mean()});
        curve.remark = text(curve.name, ": ", fit_law(curve.points).name("L"));
        depth.curves.push_back(std::move(curve));
    }

    Figure layers{"gradients-layers", text("Gradient by layer, L = ", std::min(o.depth, 64), ", random linear branches"), "layer l", "E‖g_l‖² / E‖g_out‖²", false, true,
        {"Both lines fall as 1/σ_l² from bottom to top. The final norm divides by σ_L² once, and so the bottom stands at 1/σ₀² whatever the depth.",
         "两条曲线自底向上都按 1/σ_l² 下降。末端归一化整体除以 σ_L²，于是底部恒为 1/σ₀²，与深度无关。"}};
    for (const std::size_t kind : {1u, 2u})
        for (std::size_t j = kind; j < cases.size(); j += kinds.size())
            if (cases[j].depth == std::min(o.depth, 64)) {
                Curve curve{kinds[kind].name, kind == 1 ? "(T12) σ_L²/σ_l²" : "(T13) 1/σ_l²"};
                by_level(curve, cases[j], levels[j], true);
                layers.curves.push_back(std::move(curve));
            }

    Figure bound{"gradients-bound", "The worst case and what happens, Pre-LN without final norm", "depth L", "‖g₀‖ / ‖g_L‖", true, true,
        {"Where the text is loose. The product of the norms of (T9), the worst case over all directions, grows like exp(2c√L) (c = 2, as ‖W‖₂ ≈ 2η); the gradient itself is the straight line of a power, √(σ_L²/σ₀²): the directions do not conspire.",
         "原文不够严谨之处。(T9) 范数的连乘（所有方向的最坏情况）按 exp(2c√L) 增长（c = 2，因 ‖W‖₂ ≈ 2η）；而梯度本身是幂律的直线 √(σ_L²/σ₀²)：各方向不会合谋。"}};
    Curve worst{"∏(1 + ‖W‖₂/σ)", "exp(2c√L), c = 2"}, typical{"measured", "(T12) √(σ_L²/σ₀²)"};
    for (const Point& p : depth.curves[1].points) {
        worst.points.push_back({p.x, std::exp(4 * std::sqrt(p.x)), worst_case(static_cast<int>(p.x), o.eta2, o.width, o.seed)});
        typical.points.push_back({p.x, std::sqrt(p.predicted), std::sqrt(p.measured)});
    }
    bound.curves = {worst, typical};
    e.figures = {depth, layers, bound};
    gradients_of_model(e);
    return e;
}

inline void Lab::gradients_of_model(Experiment& e) {
    Figure bounded{"gradients-model", "Gradient at the bottom by depth, real GPT at initialization", "blocks L", "‖∂Loss/∂x₀‖", true, true,
        {"With the final norm Pre-LN's gradient does not depend on the depth, for LayerNorm and RMSNorm alike (T13); without it, it grows like a power (T12). Post-LN is steady too at initialization: its trouble begins in training, below. Dashed: the fitted law.",
         "有末端归一化时，Pre-LN 的梯度与深度无关，LayerNorm 与 RMSNorm 皆然 (T13)；没有时按幂律增长 (T12)。Post-LN 在初始化时也稳定：它的问题出在训练中（见下）。虚线：拟合的规律。"}};
    Figure unbounded{"gradients-model-unbounded", "The same without norms in the blocks", "blocks L", "‖∂Loss/∂x₀‖", false, true,
        {"Without norms the gradient explodes with depth (T17); without the residual path it vanishes (T20). A final norm tames the explosion to begin with, but attention saturates to one token as the activations grow, so this is neither law. Pre-LN for comparison.",
         "没有归一化，梯度随深度爆炸 (T17)；没有残差通路，梯度消失 (T20)。末端归一化起初能抑制爆炸，但随着激活值增大，注意力饱和到单个 token，于是两种规律都不成立。附 Pre-LN 作比较。"}};
    Figure last{"gradients-last-matrix", "Gradient of the last MLP's output matrix (X1)", "blocks L", "‖∂Loss/∂W‖", true, true,
        {"The published theorem: for Pre-LN the last layer's weight gradient falls as 1/√L, for Post-LN it does not. It is (T6) and (T7) at work: the final norm divides by σ_L ~ √L. Dashed: the law through the geometric mean.",
         "已发表的定理：Pre-LN 末层权重的梯度按 1/√L 下降，Post-LN 则不然。这正是 (T6) 与 (T7)：末端归一化除以 σ_L ~ √L。虚线：过几何平均的规律。"}};
    Figure inside{"gradients-model-layers", text("Gradient by branch, real GPT of ", std::min(o.model_depth, 32), " blocks"), "branch k (two a block)", "‖∂Loss/∂x_k‖", false, true,
        {"From the top (right) to the bottom (left): Pre-LN rises gently as 1/σ_k, none explodes, plain vanishes.",
         "从顶（右）到底（左）：Pre-LN 按 1/σ_k 平缓上升，none 爆炸，plain 消失。"}};
    struct Kind {
        const char* name;
        Wiring wiring;
        bool final_norm;
        Norm norm;
        Figure& figure;
    };
    for (const Kind& k : {Kind{"pre, no final norm", Wiring::pre, false, Norm::layer, bounded}, {"pre, RMS, no final", Wiring::pre, false, Norm::rms, bounded},
                          {"pre", Wiring::pre, true, Norm::layer, bounded}, {"pre, RMSNorm", Wiring::pre, true, Norm::rms, bounded},
                          {"post", Wiring::post, false, Norm::layer, bounded}, {"post, final norm", Wiring::post, true, Norm::layer, bounded},
                          {"none", Wiring::none, false, Norm::layer, unbounded}, {"none, final norm", Wiring::none, true, Norm::layer, unbounded},
                          {"plain", Wiring::plain, false, Norm::layer, unbounded}, {"plain, final norm", Wiring::plain, true, Norm::layer, unbounded}}) {
        Curve curve{k.name, "fitted law"}, matrix{k.wiring == Wiring::pre ? "pre" : "post", k.wiring == Wiring::pre ? "∝ 1/√L" : "constant"};
        double centre = 0;
        for (const int L : doublings(o.model_depth)) {
            const Borders borders = model_borders(o.sizes(), L, k.wiring, k.final_norm, k.norm);
            curve.points.push_back({double(L), nothing, borders.gradient[0]});
            matrix.points.push_back({double(L), nothing, borders.last_matrix});
            centre += std::log(borders.last_matrix * (k.wiring == Wiring::pre ? std::sqrt(L) : 1));
            if (L == std::min(o.model_depth, 32) && k.norm == Norm::layer && k.final_norm == (k.wiring == Wiring::pre)) {
                Curve levels{k.name, ""};
                for (std::size_t b = 0; b < borders.gradient.size(); b++) levels.points.push_back({double(b), nothing, borders.gradient[b]});
                inside.curves.push_back(std::move(levels));
            }
        }
        add_law(curve, "L", fit_law(curve.points).constant() || std::max(fit_law(curve.points).power.r2, fit_law(curve.points).exponential.r2) >= 0.9);
        if (k.norm == Norm::layer && k.final_norm == (k.wiring == Wiring::pre) && (k.wiring == Wiring::pre || k.wiring == Wiring::post)) {
            for (Point& p : matrix.points)
                p.predicted = std::exp(centre / double(matrix.points.size())) / (k.wiring == Wiring::pre ? std::sqrt(p.x) : 1);
            matrix.remark = text(matrix.name, ": ", fit_law(matrix.points).name("L"));
            last.curves.push_back(std::move(matrix));
        }
        k.figure.curves.push_back(std::move(curve));
    }
    Curve reference = bounded.curves[2];
    reference.remark.clear();
    unbounded.curves.push_back(std::move(reference));
    e.figures.insert(e.figures.end(), {bounded, unbounded, inside, last});
}

// ---------------------------------------------------------------------------------------------------------------------
// residual: the product of Jacobians with and without the identity (T18)–(T20)
// ---------------------------------------------------------------------------------------------------------------------

inline Experiment Lab::residual() {
    Experiment e{"residual", {"Residual connections", "残差连接"}, {
        {"T18", "∂Loss/∂w_l = ∂Loss/∂x_L ∏_{i=l..L−1} (∂x_{i+1}/∂x_i) ∂x_l/∂w_l", {"a plain network", "普通网络"}},
        {"T19", "∏_i (I + ∂F(x_i, w_i)/∂x_i)", {"with residual connections: one path has the Jacobian I, whatever F does", "加入残差：无论 F 如何，总有一条通路的雅可比为 I"}},
        {"T20", "E‖g_l‖^2 = (d v^2)^{L−l} E‖g_L‖^2", {"plain and linear: whether it vanishes is a matter of the initialization", "线性普通网络：是否消失取决于初始化"}},
    }};
    const int L = std::min(o.depth, 32);
    Figure plain{"residual", text("Gradient by layer, plain linear network, L = ", L), "layer l", "E‖g_l‖² / E‖g_L‖²", false, true,
        {"“The Jacobian's norm is usually below 1” depends on the initialization: d v² below 1 vanishes, above 1 explodes, and only at 1 the mean stays. With the residual path the very same weak branches (d v² = 0.01) cost almost nothing, and alone they would leave 1e-64.",
         "“模长通常小于 1”取决于初始化：d v² 小于 1 消失，大于 1 爆炸，仅等于 1 时均值不变。有了残差通路，同样弱的分支（d v² = 0.01）几乎没有影响；没有它只剩 1e-64。"}};
    std::vector<Case> cases;
    for (const double dv2 : {2.0, 1.0, 0.5}) {
        cases.push_back({Wiring::plain, false, L, dv2});
        plain.curves.push_back({text("plain, d v² = ", dv2), "(T20) (d v²)^(L−l)"});
    }
    cases.push_back({Wiring::none, false, L, 0.01});
    plain.curves.push_back({"residual, d v² = 0.01", "(T16) 1.01^(L−l)"});
    const std::vector<Levels> levels = linear_networks(cases, o.width, o.rows, o.draws, o.seed);
    for (std::size_t i = 0; i < cases.size(); i++) by_level(plain.curves[i], cases[i], levels[i], true);

    Figure identity{"residual-identity", "F = 0 in the real GPT: is g_k = g_2L, bit for bit? (1: at every branch)", "blocks L", "", false, false,
        {"The branches' last matrices are set to 0: the gradient arrives at the bottom exactly as it left the top.", "将各分支的末端矩阵置 0：梯度原封不动地从顶部到达底部。"}};
    identity.drawn = false;
    for (const auto& [name, wiring] : {std::pair{"pre", Wiring::pre}, {"none", Wiring::none}}) {
        Curve curve{name, ""};
        for (const int depth : {4, 16}) curve.points.push_back({double(depth), 1, double(identity_path(o.sizes(), depth, wiring))});
        identity.curves.push_back(std::move(curve));
    }
    e.figures = {plain, identity};
    return e;
}

// ---------------------------------------------------------------------------------------------------------------------
// training: what becomes of the wirings
//
// Real runs in float: AdamW, warm-up and cosine, gradient clipping. A run ends where its loss or gradient is not a number any more.
// ---------------------------------------------------------------------------------------------------------------------

inline const Run& Lab::train(const std::string& name, Wiring wiring, bool final_norm, Norm norm) {
    if (const auto known = runs_.find(name); known != runs_.end()) return known->second;
    const std::string content = read_file(o.data);
    const Tokenizer tokenizer = Tokenizer::of_text(content, o.data);
    const std::vector<Token> tokens = tokenizer.encode(content, o.data);
    const idx B = o.batch_size, T = o.block_size, count = training_part(static_cast<idx>(tokens.size()));
    if (count <= T) throw Error(o.data, " has ", tokens.size(), " tokens; take a longer text or a smaller --block_size");
    single::Config c;
    c.vocab_size = tokenizer.size(), c.block_size = o.block_size, c.n_embd = o.n_embd, c.n_head = o.n_head, c.n_layer = o.train_depth;
    c.wiring = static_cast<single::Wiring>(wiring), c.norm = static_cast<single::Norm>(norm), c.final_norm = final_norm;
    c.pos = single::Position::rope, c.tie = false;
    c.complete();
    single::GPT gpt(c, B, T, single::GPT::Use::training);
    gpt.allocate();
    draw_by_fan_in(gpt, o.seed);
    single::AdamW adam(gpt.weights);
    single::Batch batch;
    Run run{name, {}, {}, {}, {}};
    const auto draw = [&](std::uint64_t key) { single::random_batch(batch, single::Random(o.seed, single::Purpose::batch, key), tokens.data(), count, B, T); };
    const auto look = [&] {
        draw(0);
        gpt.forward(batch.inputs.data(), B, T);
        return variances(gpt, B * T);
    };
    run.before = look();
    for (int i = 0; i < o.iters; i++) {
        draw(static_cast<std::uint64_t>(i));
        gpt.forward(batch.inputs.data(), B, T);
        run.loss.push_back(gpt.loss(batch.targets.data(), 1));
        gpt.backward(batch.inputs.data());
        run.norm.push_back(single::gradient_norm(gpt.gradients));
        if (!std::isfinite(run.loss.back()) || !std::isfinite(run.norm.back())) {
            run.diverged = i;
            break;
        }
        const double rate = single::scheduled_rate(i, o.learning_rate, o.learning_rate / 10, o.warmup_iters, o.iters);
        adam.update(gpt.weights, gpt.gradients, rate, single::clip_factor(run.norm.back(), o.grad_clip), i + 1);
    }
    run.after = look();
    return runs_.emplace(name, std::move(run)).first->second;
}

inline Experiment Lab::training() {
    Experiment e{"training", {"Training", "训练"}, {
        {"T9", "pre: I + J_f J_{LN}(x);   post: J_{LN}(x + f(x)) (I + J_f);   none: I + J_f;   plain: J_f", {"the four wirings' Jacobians", "四种接法的雅可比矩阵"}},
    }};
    const std::string setting = text(o.train_depth, " blocks, ", o.n_embd, " wide");
    Figure loss{"training", text("Training loss, ", setting), "iteration", "loss (nats per token)", false, false,
        {"Pre-LN learns, with either norm. Post-LN and the plain network stay at the frequencies of the characters: their gradient cannot tell the blocks apart. Without norms float's range ends first. Each run is named with its last loss, or with the iteration at which its loss or gradient was no longer a number.",
         "Pre-LN 无论用哪种归一化都能学习。Post-LN 与普通网络停在字符频率的水平。没有归一化时，float 的数值范围先被耗尽。图例给出每次训练的末段损失，或损失、梯度不再是数的迭代步。"}};
    Figure norm{"training-gradients", text("Gradient norm of all weights, ", setting), "iteration", "‖∂Loss/∂w‖ before clipping", false, true,
        {"The runs that end do so in the gradient: it overflows float.", "中断的训练都断在梯度上：它溢出了 float。"}};
    for (const auto& [name, wiring, final_norm, kind] : {std::tuple{"pre, LayerNorm", Wiring::pre, true, Norm::layer}, {"pre, RMSNorm", Wiring::pre, true, Norm::rms},
                                                         {"post", Wiring::post, false, Norm::layer}, {"plain", Wiring::plain, false, Norm::layer},
                                                         {"none, final norm", Wiring::none, true, Norm::layer}, {"none", Wiring::none, false, Norm::layer}}) {
        const Run& run = train(name, wiring, final_norm, kind);
        char end[64];
        if (run.diverged >= 0) std::snprintf(end, sizeof end, "diverges at %d", run.diverged);
        else std::snprintf(end, sizeof end, "%.2f", run.last_loss());
        Curve losses{text(name, ": ", end), ""}, norms{losses.name, ""};
        for (std::size_t i = 0; i < run.loss.size(); i += 10) {  // means of ten iterations; the losses that a guess would beat are off the scale
            const std::size_t n = std::min<std::size_t>(10, run.loss.size() - i);
            const auto mean = [&](const std::vector<double>& v) { return std::accumulate(v.begin() + static_cast<std::ptrdiff_t>(i), v.begin() + static_cast<std::ptrdiff_t>(i + n), 0.0) / double(n); };
            const double x = double(i) + double(n - 1) / 2;
            losses.points.push_back({x, nothing, mean(run.loss)});
            norms.points.push_back({x, nothing, mean(run.norm)});
        }
        losses.remark = run.diverged < 0 ? text(name, ": ", run.loss.front(), " at first, ", end, " over the last 20 iterations")
                                         : text(name, ": DIVERGED at iteration ", run.diverged, ": loss ", run.loss.back(), ", gradient norm ", run.norm.back());
        loss.curves.push_back(std::move(losses));
        norm.curves.push_back(std::move(norms));
    }
    e.figures = {loss, norm};
    return e;
}

// ---------------------------------------------------------------------------------------------------------------------
// D  The page and the program
// ---------------------------------------------------------------------------------------------------------------------

// HTML mathematics from a light notation: x_l, x_{l+1}, v^2, e^{2x}; single Latin letters are italic.
inline std::string mathematics(std::string_view s) {
    std::string out;
    const auto letter = [&](std::size_t i) { return i < s.size() && std::isalpha(static_cast<unsigned char>(s[i])); };
    for (std::size_t i = 0; i < s.size(); i++) {
        if ((s[i] == '_' || s[i] == '^') && i + 1 < s.size()) {
            const char* tag = s[i] == '_' ? "sub" : "sup";
            const auto end = s[i + 1] == '{' ? s.find('}', i) : i + 2;
            const auto begin = s[i + 1] == '{' ? i + 2 : i + 1;
            out += text('<', tag, '>', mathematics(s.substr(begin, end - begin)), "</", tag, '>');
            i = s[i + 1] == '{' ? end : end - 1;
        } else if (letter(i) && !letter(i + 1) && (i == 0 || !letter(i - 1))) {
            out += text("<i>", s[i], "</i>");
        } else {
            out += s[i] == '<' ? "&lt;" : s[i] == '&' ? "&amp;" : std::string(1, s[i]);
        }
    }
    return out;
}

inline std::string both(const Words& words, const char* tag) {
    return text('<', tag, " class=\"en\">", words.en, "</", tag, "><", tag, " class=\"zh\" lang=\"zh\">", words.zh, "</", tag, ">\n");
}

inline std::string number(double v) {
    char out[32];
    std::snprintf(out, sizeof out, "%.4g", v);
    return std::isnan(v) ? "" : out;
}

// What a table shows: all of a short curve, of a long one the first, the last, and doublings between.
inline std::vector<std::array<std::string, 5>> table(const Figure& figure) {
    std::vector<std::array<std::string, 5>> rows{{"curve", figure.x_label.empty() ? "x" : figure.x_label, "predicted", "measured", "ratio"}};
    for (const Curve& curve : figure.curves)
        for (std::size_t i = 0; i < curve.points.size(); i++) {
            const Point& p = curve.points[i];
            const bool shown = curve.points.size() <= 15 || i == 0 || i + 1 == curve.points.size() || (i >= 4 && std::has_single_bit(i));
            if (shown) rows.push_back({curve.name, number(p.x), number(p.predicted), number(p.measured), p.predicted == 0 ? "" : number(p.ratio())});
        }
    return rows;
}

inline void print(const Figure& figure) {
    std::printf("\n%s: %s\n\n", figure.name.c_str(), figure.title.c_str());
    const auto rows = table(figure);
    std::array<std::size_t, 5> width{};
    const auto length = [](const std::string& s) {  // in characters
        return static_cast<std::size_t>(std::count_if(s.begin(), s.end(), [](char c) { return (c & 0xC0) != 0x80; }));
    };
    for (const auto& row : rows)
        for (std::size_t i = 0; i < 5; i++) width[i] = std::max(width[i], length(row[i]));
    for (std::size_t r = 0; r < rows.size(); r++) {
        for (std::size_t i = 0; i < 5; i++) {
            const std::string space(width[i] - length(rows[r][i]), ' ');
            std::printf("| %s ", (i == 0 ? rows[r][i] + space : space + rows[r][i]).c_str());
        }
        std::puts("|");
        for (std::size_t i = 0; r == 0 && i < 5; i++) std::printf("|%s%s", std::string(width[i] + (i == 0 ? 2 : 1), '-').c_str(), i == 0 ? "" : ":");
        if (r == 0) std::puts("|");
    }
    std::puts("");
    for (const Curve& curve : figure.curves)
        if (!curve.remark.empty()) std::printf("- %s\n", curve.remark.c_str());
    std::fflush(stdout);
}

inline void write_files(const Options& o, const Experiment& e) {
    replace_file(o.out + "/" + e.name + ".csv", [&](std::ostream& out) {
        out << "figure,curve,x,predicted,measured,ratio\n";
        for (const Figure& figure : e.figures)
            for (const Curve& curve : figure.curves)
                for (const Point& p : curve.points) {
                    out << figure.name << ",\"" << curve.name << '"';
                    for (const double v : {p.x, p.predicted, p.measured, p.ratio()}) out << ',' << (std::isnan(v) ? "" : shortest(v));
                    out << '\n';
                }
    });
    for (const Figure& figure : e.figures)
        if (figure.drawn) replace_file(o.out + "/" + figure.name + ".svg", [&](std::ostream& out) { out << figure.svg(); });
}

constexpr const char* page_head = R"(<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1"><title>The lab</title><style>
:root{color-scheme:light dark;--ink:#222;--soft:#666;--paper:#fff;--panel:#f6f7f9;--edge:#ddd}
@media(prefers-color-scheme:dark){:root{--ink:#ddd;--soft:#999;--paper:#15171a;--panel:#1e2126;--edge:#3a3f47}}
body{font:16px/1.55 "Helvetica Neue",Arial,"PingFang SC","Microsoft YaHei","Noto Sans CJK SC",sans-serif;color:var(--ink);background:var(--paper);max-width:860px;margin:0 auto;padding:1.5em}
h1{margin:.2em 0}h2{margin:2.2em 0 .4em;border-top:1px solid var(--edge);padding-top:1em}.soft,figcaption{color:var(--soft)}
.equations{width:100%;border-collapse:collapse;background:var(--panel);border-radius:8px}.equations td{padding:.35em .8em;vertical-align:baseline}
.equations td:first-child{color:var(--soft);white-space:nowrap}.equations td:nth-child(2){font-family:"STIX Two Text",Cambria,"Times New Roman",serif;font-size:1.08em}
.equations td:last-child{color:var(--soft);font-size:.9em;width:38%}sub,sup{line-height:0;font-size:.72em}
figure{margin:1.6em 0}figure svg{width:100%;height:auto}details{margin:.5em 0;font-size:.85em}details table{border-collapse:collapse;font-variant-numeric:tabular-nums}
details td,details th{padding:.1em .8em;text-align:right;border-bottom:1px solid var(--edge);font-weight:normal}details td:first-child,details th:first-child{text-align:left}th{color:var(--soft)}
.laws{font-size:.9em;margin:.4em 0}.switch{position:absolute;opacity:0}label{cursor:pointer;border:1px solid var(--edge);padding:.15em .7em;border-radius:1em}
#en:checked~label[for=en],#zh:checked~label[for=zh]{background:var(--ink);color:var(--paper)}#en:checked~main .zh,#zh:checked~main .en{display:none}
.switch:focus-visible+label{outline:2px solid #0072b2}
</style></head><body>
<input class="switch" type="radio" name="language" id="en" checked><label for="en">English</label>
<input class="switch" type="radio" name="language" id="zh"><label for="zh" lang="zh">中文</label>
<script>if (location.hash === "#zh" || (!location.hash && navigator.language.startsWith("zh"))) document.getElementById("zh").checked = true;</script>
<main>
)";

inline std::string page(const std::vector<Experiment>& experiments, const std::string& command) {
    std::string out = page_head;
    out += both({"The lab", "实验室"}, "h1");
    out += both({"The tutorial proves what normalization and residual connections do to a gradient. Here each theorem meets its measurement, made with the layers and the model of nanogpt.cpp. Dashed: predicted. Solid and pale: measured.",
                 "教程证明了归一化与残差连接对梯度的作用。这里用 nanogpt.cpp 自己的层和模型逐一测量这些定理。虚线：预测；浅色实线：测量。"}, "p");
    for (const Experiment& e : experiments) {
        out += text("<section id=\"", e.name, "\">\n") + both(e.title, "h2") + "<table class=\"equations\">\n";
        for (const Equation& q : e.theory)
            out += text("<tr><td>(", q.tag, ")</td><td>", mathematics(q.formula), "</td><td>", both({mathematics(q.words.en), q.words.zh}, "span"), "</td></tr>\n");
        out += "</table>\n";
        for (const Figure& figure : e.figures) {
            out += text("<figure id=\"", figure.name, "\">\n", figure.drawn ? figure.svg() : "<b>" + figure.title + "</b>", "<figcaption>\n");
            out += both(figure.see, "div") + "</figcaption>\n<ul class=\"laws\">\n";
            for (const Curve& curve : figure.curves)
                if (!curve.remark.empty()) out += "<li>" + curve.remark + "</li>\n";
            out += text("</ul><details", figure.drawn ? "" : " open", "><summary>", both({"Table", "数据表"}, "span"), "</summary><table>\n");
            bool head = true;
            for (const auto& row : table(figure)) {
                out += "<tr>";
                for (const std::string& cell : row) out += text(head ? "<th>" : "<td>", cell, head ? "</th>" : "</td>");
                out += "</tr>\n";
                head = false;
            }
            out += "</table></details></figure>\n";
        }
        out += "</section>\n";
    }
    return out + "<p class=\"soft\"><code>" + command + "</code></p></main></body></html>\n";
}

struct Setting {
    const char* name;
    std::variant<int*, double*, std::uint64_t*, std::string*> value;
    double least;
    const char* help;
};

inline std::vector<Setting> settings(Options& o) {
    return {{"width", &o.width, 3, "linear network: d"},
            {"rows", &o.rows, 1, "linear network: tokens a draw"},
            {"draws", &o.draws, 2, "linear network: draws of the weights"},
            {"depth", &o.depth, 8, "linear network: the largest L"},
            {"eta2", &o.eta2, 1e-6, "linear network: η² = d v²"},
            {"n_embd", &o.n_embd, 3, "model: width"},
            {"n_head", &o.n_head, 1, "model: heads"},
            {"block_size", &o.block_size, 1, "model: tokens"},
            {"seeds", &o.seeds, 1, "model: draws of the weights"},
            {"model_depth", &o.model_depth, 8, "model: the largest number of blocks"},
            {"train_depth", &o.train_depth, 1, "training: blocks"},
            {"iters", &o.iters, 1, "training: updates"},
            {"batch_size", &o.batch_size, 1, "training: sequences"},
            {"warmup_iters", &o.warmup_iters, 0, "training: updates on the way up"},
            {"learning_rate", &o.learning_rate, 0, "training: its highest"},
            {"grad_clip", &o.grad_clip, 0, "training: largest norm of the gradient; 0: any"},
            {"data", &o.data, 0, "training: the text"},
            {"out", &o.out, 0, "where the page, plots and tables go"},
            {"seed", &o.seed, 0, "of all random choices"},
            {"threads", &o.threads, 0, "0: all processors"}};
}

inline void set(Options& o, const std::string& word) {
    const auto equals = word.find('=');
    const std::string name = word.substr(2, equals == std::string::npos ? equals : equals - 2), value = equals == std::string::npos ? "" : word.substr(equals + 1);
    std::string known;
    for (const Setting& s : settings(o)) {
        known += text(known.empty() ? "--" : ", --", s.name);
        if (name != s.name) continue;
        std::visit([&](auto* v) {
            using T = std::decay_t<decltype(*v)>;
            if constexpr (std::is_same_v<T, std::string>) {
                if (value.empty()) throw UsageError("--", name, " needs a value: --", name, "=…");
                *v = value;
            } else {
                T parsed{};
                const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), parsed);
                if (error != std::errc() || end != value.data() + value.size() || !(double(parsed) >= s.least && double(parsed) <= 1e9))
                    throw UsageError("--", name, " is '", value, "'; it takes a ", std::is_floating_point_v<T> ? "number" : "whole number", ", at least ", s.least);
                *v = parsed;
            }
        }, s.value);
        return;
    }
    throw UsageError("there is no option ", word, "; it takes ", known);
}

using Experiments = std::vector<std::pair<std::string, Experiment (Lab::*)()>>;

inline void run(const std::vector<std::string>& words) {
    const Experiments all{{"jacobian", &Lab::jacobian}, {"variance", &Lab::variance}, {"gradients", &Lab::gradients}, {"residual", &Lab::residual}, {"training", &Lab::training}};
    Options o;
    std::set<std::string> wanted;
    std::string command = "build/lab", names;
    for (const auto& [name, experiment] : all) names += (names.empty() ? "" : ", ") + name;
    for (const std::string& word : words) {
        if (word == "--help" || word == "-h") {
            std::cout << "build/lab [NAME…] [--option=value…]\n\nmeasures the tutorial's theorems: " << names << "; without a name all\n\nOptions, with their defaults:\n";
            for (const Setting& s : settings(o))
                std::cout << "  " << std::left << std::setw(28) << std::visit([&](auto* v) { return text("--", s.name, '=', *v); }, s.value) << s.help << '\n';
            return;
        }
        if (word.starts_with("--")) set(o, word);
        else if (std::none_of(all.begin(), all.end(), [&](const auto& e) { return e.first == word; })) throw UsageError("there is no experiment '", word, "'; it takes ", names);
        else wanted.insert(word);
        if (!word.starts_with("--threads") && !word.starts_with("--out")) command += " " + word;
    }
    model_config(o.sizes(), 1, Wiring::pre, true, Norm::layer);  // refuses sizes that do not fit
    set_threads(o.threads);
    single::set_threads(o.threads);
    std::error_code error;
    std::filesystem::create_directories(o.out, error);
    if (error) throw Error("cannot make the directory ", o.out, " (", error.message(), "); choose another --out");
    Lab lab(o);
    std::vector<Experiment> done;
    for (const auto& [name, experiment] : all) {
        if (!wanted.empty() && !wanted.count(name)) continue;
        const auto start = std::chrono::steady_clock::now();
        done.push_back((lab.*experiment)());
        for (const Figure& figure : done.back().figures) print(figure);
        write_files(o, done.back());
        std::printf("\n[%s took %.1f s]\n", name.c_str(), std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    }
    replace_file(o.out + "/index.html", [&](std::ostream& out) { out << page(done, command); });
    std::printf("\nthe page is %s/index.html\n", o.out.c_str());
}

}  // namespace lab

int main(int argc, char** argv) {
    try {
        lab::run({argv + 1, argv + argc});
        return 0;
    } catch (const UsageError& error) {
        std::cerr << "nanogpt lab: " << error.what() << '\n';
        return 2;
    } catch (const std::bad_alloc&) {
        std::cerr << "nanogpt lab: not enough memory; choose smaller sizes\n";
    } catch (const std::exception& error) {
        std::cerr << "nanogpt lab: " << error.what() << '\n';
    }
    return 1;
}
#endif
