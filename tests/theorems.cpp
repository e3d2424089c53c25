// The tutorial's theorems (T5)–(T20), measured with the lab's own functions: what docs/lab.cpp draws, this checks.
//
// Quantities that are exact are checked to rounding. Expectations are checked within four standard errors, which come
// from the very draws; where the theorem holds for wide networks only, a term of the order 1/d is added, and named.
// Each such check is sharp only if the tolerance is small, so that is checked too.
#include "check.h"

#include "../docs/lab.h"

using namespace lab;

static void jacobians() {
    const Random random(7, Purpose::test), start(8, Purpose::test);
    for (const Norm kind : {Norm::layer, Norm::rms})
        for (const double eps : {0.0, 1e-5})
            for (const idx d : {3, 16, 61}) {
                const std::string what =
                    text("(T5), ", kind == Norm::layer ? "LayerNorm" : "RMSNorm", ", d = ", d, ", eps = ", eps);
                const Reals x = normals(random, d, 2, 0.5), formula = jacobian_formula(kind, x, eps);
                check_close(relative_difference(formula, jacobian_by_differences(kind, x, eps, 1e-3)), 0, 1e-9,
                    what + ", differences");
                check_close(
                    relative_difference(formula, jacobian_by_backward(kind, x, eps)), 0, 1e-12, what + ", backward");
            }
    for (const double sigma : {1e-2, 1e-1, 1.0, 1e1, 1e2, 1e3}) {
        Reals x = normals(random, 64);
        const double scale = sigma / std::sqrt(mean_variance(x, 1, 64)),
                     rms = sigma / std::sqrt(squares(x.data(), static_cast<idx>(x.size())) / 64);
        Reals z = x;
        for (std::size_t i = 0; i < x.size(); i++) x[i] *= scale, z[i] *= rms;
        for (const double eps : {0.0, 1e-5}) {
            const double expected = sigma / std::sqrt(sigma * sigma + eps);
            check_close(jacobian_norm(Norm::layer, x, eps, start) * sigma, expected, 1e-6,
                text("(T6), LayerNorm, sigma = ", sigma, ", eps = ", eps));
            check_close(jacobian_norm(Norm::rms, z, eps, start) * sigma, expected, 1e-6,
                text("(T6), RMSNorm, r = ", sigma, ", eps = ", eps));
        }
    }
}

// Within four standard errors, and `finite_width` relative to the prediction.
static void check_mean(const Mean& measured, double predicted, double finite_width, const std::string& what) {
    const double tolerance = 4 * measured.error() + finite_width * predicted;
    check(std::abs(measured.mean() - predicted) <= tolerance,
        text(what, ": measured ", measured.mean(), ", predicted ", predicted, ", tolerance ", tolerance));
    check(tolerance < 0.35 * predicted,
        text(what, ": a tolerance of ", tolerance, " for ", predicted, " is not sharp; take more draws"));
}

static void linear_theorems() {
    const idx d = 160;
    const double eta2 = 0.5;
    const std::vector<Case> cases{{Wiring::pre, false, 24, eta2}, {Wiring::pre, true, 24, eta2},
        {Wiring::pre, true, 8, eta2, Norm::rms}, {Wiring::none, false, 16, eta2}, {Wiring::plain, false, 12, 0.5},
        {Wiring::plain, false, 12, 1.0}, {Wiring::plain, false, 12, 1.5}};
    const std::vector<Levels> levels = linear_networks(cases, d, 16, 24, 11);
    for (std::size_t i = 0; i < cases.size(); i++) {
        const Case& c = cases[i];
        const bool pre = c.wiring == Wiring::pre, none = c.wiring == Wiring::none;
        for (int l = 0; l <= c.depth; l++) {
            const auto at = static_cast<std::size_t>(l);
            const Levels& m = levels[i];
            const std::string where = text(", case ", i, ", layer ", l, " of ", c.depth);
            // Var is the biased variance of d numbers, 1 - 1/d of what it is around the true mean.
            check_mean(m.variance[at], predicted_variance(c, l) * (1 - 1.0 / double(d)), 0,
                (pre           ? "(T7)"
                        : none ? "(T16), forward"
                               : "(T20), forward") +
                    where);
            // A norm's gradient needs a wide network: J loses 2 of d directions (T6), and 1/σ² fluctuates by 2/d, at
            // each doubling of σ².
            const double width =
                pre ? 4.0 / double(d) * (1 + std::log(predicted_variance(c, c.depth) / predicted_variance(c, l))) : 0;
            check_mean(m.gradient[at], predicted_gradient(c, l), width,
                (pre           ? c.final_norm ? "(T13)" : "(T12)"
                        : none ? "(T17)"
                               : "(T20)") +
                    where);
            if (l == c.depth || c.wiring == Wiring::plain) continue;
            const Mean &below = m.gradient[at], &above = m.gradient[at + 1];
            const double step = pre ? 1 + eta2 / predicted_variance(c, l) : 1 + eta2,
                         measured = below.mean() / above.mean();
            check_close(measured, step, 0.05, (pre ? "(T11), one layer" : "(T16), one layer") + where, 1e-9);
        }
    }
    // (T10): whatever the directions, the product of the norms bounds the growth; and it is far from it.
    const double growth = std::sqrt(levels[0].gradient[0].mean()), bound = worst_case(24, eta2, d, 11);
    check(
        growth * 100 < bound && bound < std::exp(4 * std::sqrt(24)), text("(T10): growth ", growth, ", bound ", bound));
    check(fit_law({{4, 0, 3}, {8, 0, 5}, {16, 0, 9}, {32, 0, 17}}).is_power(), "(T12)'s numbers are a polynomial");
    check(!fit_law({{4, 0, 5.06}, {8, 0, 25.6}, {16, 0, 657}, {32, 0, 4.3e5}}).is_power(),
        "(T17)'s numbers are an exponential");
    check(fit_law({{4, 0, 0.21}, {8, 0, 0.25}, {64, 0, 0.18}}).constant(), "(T13)'s numbers are constant");
}

static void real_model() {
    Sizes sizes;
    sizes.seeds = 2;
    const auto spread = [](const std::vector<double>& v) {
        return *std::max_element(v.begin(), v.end()) / *std::min_element(v.begin(), v.end());
    };
    std::vector<double> bottom, matrix, post_matrix;
    for (const int L : {8, 16, 32, 64}) {
        const Borders pre = model_borders(sizes, L, Wiring::pre, true);
        bottom.push_back(pre.gradient[0]);
        matrix.push_back(pre.last_matrix * std::sqrt(L));
        post_matrix.push_back(model_borders(sizes, L, Wiring::post, false).last_matrix);
    }
    check(spread(bottom) < 2,
        text("(T13), real model: the gradient at the bottom varies by ", spread(bottom), " from 8 to 64 blocks"));
    check(spread(matrix) < 1.5, text("(X1), pre: the last matrix's gradient times sqrt(L) varies by ", spread(matrix)));
    check(spread(post_matrix) < 1.5, text("(X1), post: the last matrix's gradient varies by ", spread(post_matrix)));
    double none = model_borders(sizes, 8, Wiring::none, false).gradient[0],
           plain = model_borders(sizes, 8, Wiring::plain, false).gradient[0];
    for (const int L : {16, 32, 64}) {  // at least by a constant factor for each of the L/2 blocks that came on top
        const Borders grown = model_borders(sizes, L, Wiring::none, false),
                      fallen = model_borders(sizes, L, Wiring::plain, false);
        check(std::isfinite(grown.gradient[0]) && grown.gradient[0] > none * std::pow(1.3, L / 2),
            text("(T17), real model, ", L, " blocks: ", none, " became ", grown.gradient[0]));
        check(fallen.gradient[0] > 0 && fallen.gradient[0] < plain * std::pow(0.7, L / 2),
            text("(T20), real model, ", L, " blocks: ", plain, " became ", fallen.gradient[0]));
        none = grown.gradient[0], plain = fallen.gradient[0];
    }
    for (const Wiring wiring : {Wiring::pre, Wiring::none})
        check(identity_path(sizes, 6, wiring), "(T19): with F = 0 the gradient reaches the bottom bit for bit");
}

// The lab's numbers are the same bits on any number of threads.
static void threads() {
    std::vector<double> seen[2];
    for (const int count : {1, 2}) {
        set_threads(count);
        const std::vector<Levels> levels = linear_networks({{Wiring::pre, true, 6, 0.5}}, 48, 5, 3, 2);
        const Borders borders = model_borders({32, 4, 16, 1, 3}, 3, Wiring::pre, true);
        for (const Mean& m : levels[0].gradient) seen[count - 1].push_back(m.mean());
        seen[count - 1].insert(seen[count - 1].end(), borders.gradient.begin(), borders.gradient.end());
    }
    check(seen[0] == seen[1], "the same bits on one thread and on two");
}

int main() {
    threads();
    set_threads(0);
    jacobians();
    linear_theorems();
    real_model();
    return result();
}
