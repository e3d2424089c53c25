// What the lab measures and how it is written down: lab.cpp draws it, tests/theorems.cpp checks it.
// To be included after nanogpt.cpp with real = double.
#pragma once

namespace lab {

// ---------------------------------------------------------------------------------------------------------------------
// A  What is written down
// ---------------------------------------------------------------------------------------------------------------------

constexpr double nothing = std::numeric_limits<double>::quiet_NaN();  // no prediction, or no measurement

inline std::string number(double v) {
    char out[32];
    std::snprintf(out, sizeof out, "%.4g", v);
    return std::isnan(v) ? "" : out;
}

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
    std::string remark{};  // a line under the table, as the law that fits
};

struct Figure {
    std::string name, title, x_label, y_label;
    bool log_x, log_y;
    Words see;  // what to see in it
    std::vector<Curve> curves{};
    bool drawn = true;  // some are tables only

    // Predicted dashed over measured solid, in one colour.
    Plot plot() const {
        Plot plot{title, x_label, y_label, {}, log_x, log_y};
        for (std::size_t i = 0; i < curves.size(); i++) {
            Plot::Series measured{curves[i].name, {}, false, static_cast<int>(i)},
                predicted{curves[i].theory, {}, true, static_cast<int>(i)};
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
        const std::string line = "class=\"line\"";
        if (svg.find("stroke-dasharray") == std::string::npos) return svg;
        for (std::size_t i = 0; (i = svg.find(line, i)) != std::string::npos; i += line.size())
            if (svg.substr(i, svg.find('>', i) - i).find("stroke-dasharray") == std::string::npos)
                svg.insert(i + line.size(), " style=\"stroke-width:6;stroke-opacity:.45\"");
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
    double spread, middle;  // largest over smallest; geometric mean

    bool constant() const { return spread < 2.5; }
    bool is_power() const { return power.r2 >= exponential.r2; }
    bool holds() const { return constant() || std::max(power.r2, exponential.r2) >= 0.9; }
    double at(double x) const {
        if (constant()) return middle;
        const Line& line = is_power() ? power : exponential;
        return std::exp(line.start + line.slope * (is_power() ? std::log(x) : x));
    }
    std::string formula(const char* x) const {
        char out[64];
        if (constant()) return "constant";
        if (is_power()) std::snprintf(out, sizeof out, "fit ∝ %s^%.2f", x, power.slope);
        else std::snprintf(out, sizeof out, "fit ∝ %.3f^%s", std::exp(exponential.slope), x);
        return out;
    }
    std::string name(const char* x) const {
        char out[160];
        if (constant())
            std::snprintf(out, sizeof out, "constant within a factor of %.2f (exponent %.2f)", spread, power.slope);
        else if (!holds())
            std::snprintf(
                out, sizeof out, "neither a power nor an exponential (R² %.2f, %.2f)", power.r2, exponential.r2);
        else if (is_power())
            std::snprintf(out, sizeof out, "polynomial, %s^%.2f (R² %.4f; as an exponential %.4f)", x, power.slope,
                power.r2, exponential.r2);
        else
            std::snprintf(out, sizeof out, "exponential, %.3f^%s (R² %.4f; as a power %.4f)",
                std::exp(exponential.slope), x, exponential.r2, power.r2);
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
    double middle = 0;
    for (const auto& [x, y] : exponential) middle += y / double(exponential.size());
    return {fit_line(power), fit_line(exponential), high / low, std::exp(middle)};
}

// 4, 8, 16 … up to `last`, which is the last.
inline std::vector<int> doublings(int last) {
    std::vector<int> list;
    for (int L = 4; L < last; L *= 2) list.push_back(L);
    list.push_back(last);
    return list;
}

// log of a quantity by branch k = 0, 1, 2 … as a straight line.
inline Line fit_exponential(const std::vector<double>& values) {
    std::vector<std::pair<double, double>> logs;
    for (const double v : values) logs.emplace_back(double(logs.size()), std::log(v));
    return fit_line(logs);
}

// Puts the law that fits the measured points into `predicted`, and its name under the table.
inline void add_law(Curve& curve, const char* x) {
    const Law law = fit_law(curve.points);
    curve.remark = curve.name + ": " + law.name(x);
    curve.theory = law.formula(x);
    for (Point& p : curve.points) {
        p.predicted = law.holds() ? law.at(p.x) : nothing;
        if (!std::isfinite(p.measured)) curve.remark += text("; overflows at ", x, " = ", p.x);
    }
}

// What a table shows: all of a short curve, of a long one the first, the last, and doublings between.
inline std::vector<std::array<std::string, 5>> table(const Figure& figure) {
    std::vector<std::array<std::string, 5>> rows{
        {"curve", figure.x_label.empty() ? "x" : figure.x_label, "predicted", "measured", "ratio"}};
    for (const Curve& curve : figure.curves)
        for (std::size_t i = 0; i < curve.points.size(); i++) {
            const Point& p = curve.points[i];
            const bool shown = curve.points.size() <= 10 || i == 0 || i + 1 == curve.points.size() ||
                (i >= 4 && std::has_single_bit(i));
            if (shown)
                rows.push_back({curve.name, number(p.x), number(p.predicted), number(p.measured),
                    p.predicted == 0 ? "" : number(p.ratio())});
        }
    return rows;
}

// A figure's table in Markdown, which also reads well on a terminal, and under it the fitted laws.
inline void write_table(std::ostream& out, const Figure& figure) {
    const auto rows = table(figure);
    std::array<std::size_t, 5> width{};
    const auto length = [](const std::string& s) {  // in characters
        return static_cast<std::size_t>(std::count_if(s.begin(), s.end(), [](char c) { return (c & 0xC0) != 0x80; }));
    };
    for (const auto& row : rows)
        for (std::size_t i = 0; i < 5; i++) width[i] = std::max(width[i], length(row[i]));
    for (const auto& row : rows) {
        for (std::size_t i = 0; i < 5; i++) {
            const std::string space(width[i] - length(row[i]), ' ');
            out << "| " << (i == 0 ? row[i] + space : space + row[i]) << ' ';
        }
        out << "|\n";
        if (&row != &rows[0]) continue;
        for (std::size_t i = 0; i < 5; i++)
            out << (i == 0 ? "| :" : "| ") << std::string(width[i] - 1, '-') << (i == 0 ? " " : ": ");
        out << "|\n";
    }
    out << '\n';
    for (const Curve& curve : figure.curves)
        if (!curve.remark.empty()) out << "- " << curve.remark << '\n';
}

// ---------------------------------------------------------------------------------------------------------------------
// B  What is measured
//
// 1. A norm's Jacobian, three ways: (T5) as it is written, finite differences of the forward, and what the backward
// applies.
// ---------------------------------------------------------------------------------------------------------------------

using Reals = std::vector<real>;

inline double squares(const real* x, idx n) {
    return double(sum(n, [=](idx i) { return x[i] * x[i]; }));
}

// LayerNorm or RMSNorm with γ = 1 and β = 0 over rows of width d.
struct BareNorm {
    Norm kind;
    idx d;
    real eps;
    Reals ones = Reals(static_cast<std::size_t>(d), 1), zeros = Reals(static_cast<std::size_t>(d)), dgamma = zeros,
          dbeta = zeros;

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

// (T5): (I − 11ᵀ/d − x̃x̃ᵀ/d)/σ for LayerNorm, (I − x̂x̂ᵀ/d)/r for RMSNorm; row-major. With ε it stands inside the
// root of σ or r.
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
inline double relative_difference(const Reals& a, const Reals& b) {
    double difference = 0, scale = 0;
    for (std::size_t i = 0; i < a.size(); i++) {
        difference = std::max(difference, std::abs(double(a[i]) - double(b[i])));
        scale = std::max(scale, std::abs(double(a[i])));
    }
    return difference / scale;
}

// ‖A‖₂ by power iteration: apply(v) makes AᵀA v of v, whose largest eigenvalue is ‖A‖₂².
template <class Apply> double spectral_norm(Reals v, int iterations, const Apply& apply) {
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
    for (std::size_t n = 0; n < static_cast<std::size_t>(N); n++)
        total += 1 / (double(moments[2 * n + 1]) * double(moments[2 * n + 1]));
    return total / double(N);
}

// ---------------------------------------------------------------------------------------------------------------------
// 2. The theorems' own setting: random linear branches
//
//     f_l(y) = W_l y        W_l [d,d] with independent normal entries of variance v²        η² = d v²
//     x_0, g_out standard normal
//
// wired as nanogpt.cpp wires its blocks: pre (T3), none (T14) or plain (T18), with or without a norm behind the last.
// The loss is ⟨g_out, output⟩, so g_out is its gradient there. All by linear_forward, layernorm_forward,
// residual_forward and their backwards.
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
inline void run_linear(
    Levels& levels, const Case& c, const Reals& unit, const Reals& start, const Reals& g_out, idx d) {
    const idx N = static_cast<idx>(start.size()) / d, L = c.depth, size = N * d;
    const auto at = [=](idx l) { return static_cast<std::size_t>(l); };
    const real v = real(std::sqrt(c.eta2 / double(d)));
    BareNorm norm{c.norm, d, 0};
    std::vector<Reals> x(at(L + 1), start), moments(at(L + 1), Reals(at(2 * N)));
    Reals weights(unit.begin(), unit.begin() + L * d * d), dW(at(d * d)), normed(start.size()), f(start.size()),
        g = g_out;
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
        linear_backward(df.data(), {dW.data(), nullptr}, g.data(), c.wiring == Wiring::pre ? normed.data() : in,
            branch(l - 1), N, d, d);
        if (c.wiring == Wiring::plain) {
            g = df;
            continue;
        }
        if (c.wiring == Wiring::pre) norm.backward(f.data(), df.data(), in, moments[at(l - 1)].data(), N);
        residual_backward(g.data(), c.wiring == Wiring::pre ? f.data() : df.data(), size);
    }
}

// Each draw of weights, inputs and loss serves all cases.
inline std::vector<Levels> linear_networks(
    const std::vector<Case>& cases, idx d, idx rows, int draws, std::uint64_t seed) {
    int depth = 0;
    for (const Case& c : cases) depth = std::max(depth, c.depth);
    std::vector<Levels> levels(cases.size());
    for (std::uint64_t draw = 0; draw < static_cast<std::uint64_t>(draws); draw++) {
        const auto random = [=](std::uint64_t what) { return Random(seed, Purpose::test, 3 * draw + what); };
        const Reals unit = normals(random(0), depth * d * d), start = normals(random(1), rows * d),
                    g_out = normals(random(2), rows * d);
        for (std::size_t i = 0; i < cases.size(); i++) run_linear(levels[i], cases[i], unit, start, g_out, d);
    }
    return levels;
}

// What the theorems say about E‖g_l‖² / E‖g_out‖² and about σ_l², for σ_0 = 1.
inline double predicted_variance(const Case& c, int l) {  // (T7); (T16)'s factor, which the forward shares; (T20)'s
    return c.wiring == Wiring::pre ? 1 + l * c.eta2 : std::pow(c.wiring == Wiring::none ? 1 + c.eta2 : c.eta2, l);
}
inline double predicted_gradient(
    const Case& c, int l) {  // (T12), (T17), (T20): the same growth, from the top; the final norm (T13)
    return predicted_variance(c, c.depth) / predicted_variance(c, l) /
        (c.final_norm ? predicted_variance(c, c.depth) : 1);
}

// (T10) taken literally: ∏_k (1 + ‖W_k‖₂ / σ_k), no matter how the directions lie.
inline double worst_case(int depth, double eta2, idx d, std::uint64_t seed) {
    const Reals unit = normals(Random(seed, Purpose::test, 0), depth * d * d),
                start = normals(Random(seed, Purpose::test, 1), d);
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
// At GPT's usual 0.02 the branches are too weak for the laws to show. The embedding looks a row up, so its fan-in is
// 1; the head is not tied to it, positions are RoPE's: x_0 has variance 1, as the theorems take it.
// ---------------------------------------------------------------------------------------------------------------------

template <class Model> void draw_by_fan_in(Model& gpt, std::uint64_t seed) {
    for (auto& tensor : gpt.weights.tensors) {
        const auto fan_in = tensor.name == "wte.weight" ? 1
            : tensor.name == "lm_head.weight"           ? tensor.cols
                                                        : tensor.rows;
        if (tensor.rows > 0) tensor.start = 1 / std::sqrt(double(fan_in));
    }
    gpt.weights.initialize(seed);
}

// σ_k² and ‖dLoss/dx_k‖ at the borders k = 0 … 2L of the branches, and ‖dLoss/dW‖ of the last MLP's output matrix (X1).
struct Borders {
    std::vector<double> variance, gradient;
    double last_matrix = 0;
};

template <class Model> std::vector<double> variances(const Model& gpt, idx N) {
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
    gpt.on_gradient = [&](idx k, const real* dx) {
        borders.gradient[static_cast<std::size_t>(k)] = std::sqrt(squares(dx, N * C));
    };
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
