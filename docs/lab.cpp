// The lab: the tutorial's theorems, measured and drawn.
//
//     make lab                                every experiment, in two minutes; then open out/lab/index.html
//     build/lab jacobian residual --width=64  some of them, with other sizes; --help lists experiments and options
//
// The tutorial proves what normalization and residual connections do to a gradient, equation by equation (T1)…(T20).
// Here each equation meets its measurement. Nothing is rebuilt for that: the layers, their backward passes and the
// model are nanogpt.cpp's own, which is included below, so that what holds here holds for the program. An experiment
// fills Figures: curves with, at each x, what the theorem predicts and what was measured. A figure prints as a table,
// goes to out/lab as CSV and SVG, and stands on one page in two languages.
//
//     lab.h  A  What is written down     figures, tables, fitted laws                              (tests/theorems.cpp
//            B  What is measured         the norms' Jacobians, the linear network, the real model   uses these as well)
//     here   C  The experiments          jacobian, variance, gradients, residual, training
//            D  The page and the program
//
// Everything is computed in double, so that the figures show the theorems and not rounding; only the training runs
// are in float, as ./nanogpt's are, because a float's range is part of what happens to a network without
// normalization.

#define NANOGPT_NO_MAIN
#define NANOGPT_REAL double
#include "../nanogpt.cpp"
namespace single {  // the same file a second time, in float
#undef NANOGPT_REAL
#define NANOGPT_REAL float
#include "../nanogpt.cpp"
}  // namespace single
#include "lab.h"

namespace lab {

// ---------------------------------------------------------------------------------------------------------------------
// C  The experiments
// ---------------------------------------------------------------------------------------------------------------------

struct Options {
    int width = 128, rows = 8, draws = 32, depth = 128;  // the linear network
    double eta2 = 0.5;
    int n_embd = 64, n_head = 4, block_size = 32, seeds = 4, model_depth = 64;  // the real model
    int train_depth = 24, iters = 250, batch_size = 8, warmup_iters = 20;       // the training runs
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
    std::vector<double> loss, norm;     // by iteration
    std::vector<double> before, after;  // σ_k² by branch
    int diverged = -1;                  // the iteration from which the loss stayed ten times a guess's, or overflowed

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
    std::vector<Token> text_tokens() const {
        const std::string content = read_file(o.data);
        return Tokenizer::of_text(content, o.data).encode(content, o.data);
    }
    const Run& train(const std::string& name, Wiring wiring, bool final_norm, Norm norm = Norm::layer);
    void gradients_of_model(Experiment& e);

    Options o;
    std::map<std::string, Run> runs_;  // `variance` and `training` share the Pre-LN run
};

// Curves of linear networks by depth, one for each wiring.
inline void by_level(Curve& curve, const Case& c, const Levels& levels, bool gradient) {
    for (int l = 0; l <= c.depth; l++) {
        const Mean& measured = (gradient ? levels.gradient : levels.variance)[static_cast<std::size_t>(l)];
        curve.points.push_back(
            {double(l), gradient ? predicted_gradient(c, l) : predicted_variance(c, l), measured.mean()});
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// jacobian: a norm divides gradients by the size of its input, exactly (T5), (T6)
// ---------------------------------------------------------------------------------------------------------------------

inline Experiment Lab::jacobian() {
    Experiment e{"jacobian", {"The Jacobian of a norm", "归一化的雅可比矩阵"},
        {
            {"(T1)", "y = γ ⊙ (x − μ) / √(σ^2 + ε) + β", {"LayerNorm", "LayerNorm"}},
            {"(T2)", "y = γ ⊙ x / √(mean(x^2) + ε)",
                {"RMSNorm: divides by the root mean square, not by the standard deviation",
                    "RMSNorm：除以均方根，而不是标准差"}},
            {"(T4)", "LN(x) = (x − μ1) / σ",
                {"Definition 2: at the start γ = 1, β = 0", "定义 2：初始化时 γ = 1，β = 0"}},
            {"(T5)", "J_{LN}(x) = (I − 11^T/d − x̃ x̃^T/d) / σ,   J_{RMS}(x) = (I − x̂ x̂^T/d) / r",
                {"Lemma 1, with x̃ = (x − μ1)/σ; for RMSNorm x̂ = x/r, r = rms(x)",
                    "引理 1，其中 x̃ = (x − μ1)/σ；RMSNorm 中 x̂ = x/r，r = rms(x)"}},
            {"(T6)", "‖J_{LN}(x)‖_2 = 1/σ",
                {"Corollary 1.1, exact and not only O(1/σ): the bracket is an orthogonal projection of rank d − 2",
                    "推论 1.1：不只是 O(1/σ)，而是严格相等——括号内是秩为 d − 2 的正交投影"}},
        }};
    Figure norm{"jacobian", "Spectral norm of a norm's Jacobian", "σ of the input (RMSNorm: r)", "‖J‖₂", true, true,
        {"The two norms lie on 1/σ over seven powers of ten. ε = 1e-5 stands inside the root, ‖J‖ = 1/√(σ² + ε): once "
         "σ² falls below ε, the norm no longer amplifies further.",
            "两种归一化在七个数量级上都落在 1/σ 上。ε = 1e-5 位于根号之内，‖J‖ = 1/√(σ² + ε)：当 σ² 小于 ε "
            "时，放大作用不再继续增强。"}};
    Figure matrix{"jacobian-matrix", "Largest difference of an element from (T5), relative to the largest", "width d",
        "", false, false,
        {"The formula against finite differences of the forward (their own error is 1e-12), and against what the "
         "backward applies: rounding.",
            "公式与前向的有限差分（其自身误差为 1e-12）以及与反向传播实际施加的矩阵之差：仅为舍入误差。"}};
    matrix.drawn = false;
    const Random random(o.seed, Purpose::test);
    for (const Norm kind : {Norm::layer, Norm::rms})
        for (const double eps : {0.0, 1e-5}) {
            const std::string name = text(kind == Norm::layer ? "LayerNorm" : "RMSNorm", ", ε = ", eps);
            const Reals x = normals(random, o.n_embd, 2, 0.5), formula = jacobian_formula(kind, x, eps);
            const double d = o.n_embd;
            matrix.curves.push_back({name + ", differences", "",
                {{d, 0, relative_difference(formula, jacobian_by_differences(kind, x, eps, 1e-3))}}});
            matrix.curves.push_back(
                {name + ", backward", "", {{d, 0, relative_difference(formula, jacobian_by_backward(kind, x, eps))}}});
            Curve curve{name, eps > 0 ? "1/√(σ² + ε)" : "(T6) 1/σ"};
            for (double exponent = -4; exponent <= 3; exponent++) {
                Reals z = normals(random, o.n_embd);
                const double scale = kind == Norm::layer ? std::sqrt(mean_variance(z, 1, o.n_embd))
                                                         : std::sqrt(squares(z.data(), o.n_embd) / o.n_embd);
                const double sigma = std::pow(10, exponent);
                for (real& v : z) v *= sigma / scale;
                curve.points.push_back({sigma, 1 / std::sqrt(sigma * sigma + eps),
                    jacobian_norm(kind, z, eps, Random(o.seed, Purpose::test, 1))});
            }
            norm.curves.push_back(std::move(curve));
        }
    e.figures = {norm, matrix};
    return e;
}

// ---------------------------------------------------------------------------------------------------------------------
// variance: on the residual path it grows like a straight line with a norm before each branch, exponentially without
// (T7)
// ---------------------------------------------------------------------------------------------------------------------

inline Experiment Lab::variance() {
    Experiment e{"variance", {"The variance on the residual path", "残差通路上的方差"},
        {
            {"(T3)", "x_{l+1} = x_l + f_l(LN(x_l))", {"Definition 1, Pre-LN", "定义 1，Pre-LN"}},
            {"(T7)", "Var(x_{l+1}) = Var(x_l) + η^2  ⇒  σ_l^2 = σ_0^2 + l η^2",
                {"Assumption 1: σ_l grows like √l", "假设 1：σ_l 按 √l 增长"}},
            {"(T14)", "x_{l+1} = x_l + f_l(x_l)",
                {"without a norm each branch amplifies what came before: σ_l^2 = (1 + η^2)^l σ_0^2",
                    "没有归一化时，每个分支都放大之前的一切：σ_l^2 = (1 + η^2)^l σ_0^2"}},
            {"(X2)", "σ_l^2 ≫ σ_0^2 + l η^2 after training",
                {"Sun et al. 2025, The Curse of Depth: grows faster than (T7), so that deep blocks become nearly the "
                 "identity",
                    "Sun 等 2025《深度的诅咒》：增长快于 (T7)，深层模块近似恒等映射"}},
        }};
    Figure linear{"variance", text("Variance by layer, random linear branches, η² = ", o.eta2), "layer l", "σ²", false,
        true,
        {"The theorem's own setting. With the norm the variance is a straight line (curved here by the logarithmic "
         "axis), without it an exponential.",
            "定理本身的设定。有归一化时方差是一条直线（因对数坐标而弯曲），没有归一化时是指数。"}};
    const int depth = std::min(o.depth, 64);
    const std::vector<Case> cases{{Wiring::none, false, depth, o.eta2}, {Wiring::pre, false, depth, o.eta2}};
    const std::vector<Levels> levels = linear_networks(cases, o.width, o.rows, o.draws, o.seed);
    linear.curves = {{"none", "(1 + η²)^l"}, {"pre", "(T7) σ₀² + l η²"}};
    for (std::size_t i : {0u, 1u}) by_level(linear.curves[i], cases[i], levels[i], false);

    Figure model{"variance-model", "Variance by branch, real GPT at initialization", "branch k (two a block)", "σ²",
        false, true,
        {"The same in the real model, attention and MLP in turn. Dashed: (T7)'s straight line from the first to the "
         "last point, and the exponential that fits best.",
            "真实模型中的同一现象，注意力与 MLP 交替。虚线：连接首末两点的 (T7) 直线，以及最佳拟合的指数。"}};
    const int blocks = std::min(o.model_depth, 32);
    const std::vector<double> none = model_borders(o.sizes(), blocks, Wiring::none, true).variance;
    const std::vector<double> pre = model_borders(o.sizes(), blocks, Wiring::pre, true).variance;
    const Line line = fit_exponential(none);
    const double eta2 = (pre.back() - pre[0]) / (2 * blocks);
    model.curves = {{"none", "fitted exponential"}, {"pre", "(T7) σ₀² + k η²"}};
    for (std::size_t k = 0; k < pre.size(); k++) {
        model.curves[0].points.push_back({double(k), std::exp(line.start + line.slope * double(k)), none[k]});
        model.curves[1].points.push_back({double(k), pre[0] + eta2 * double(k), pre[k]});
    }
    model.curves[0].remark = text("none: exponential, ", number(std::exp(line.slope)), "^k (R² ", number(line.r2), ")");
    model.curves[1].remark = text("pre: linear, η² = ", number(eta2), " a branch");

    const Run& run = train("pre, LayerNorm", Wiring::pre, true);
    Figure trained{"variance-trained", text("Variance by branch before and after ", o.iters, " iterations, Pre-LN"),
        "branch k (two a block)", "σ²", false, false,
        {"(X2): training bends the straight line upwards. Dashed: (T7)'s line through the first and the last point. By "
         "(T9) the deep blocks' share of the gradient shrinks with 1/σ.",
            "(X2)：训练使直线向上弯。虚线：过首末两点的 (T7) 直线。由 (T9)，深层模块的梯度份额随 1/σ 减小。"}};
    for (const auto& [name, list] : {std::pair{"after training", &run.after}, {"at initialization", &run.before}}) {
        Curve curve{name, "straight line"};
        for (std::size_t k = 0; k < list->size(); k++)
            curve.points.push_back({double(k),
                list->front() + (list->back() - list->front()) * double(k) / double(list->size() - 1), (*list)[k]});
        trained.curves.push_back(std::move(curve));
    }
    e.figures = {linear, model, trained};
    return e;
}

// ---------------------------------------------------------------------------------------------------------------------
// gradients: bounded with the norm (T12), (T13), exploding without (T17), vanishing without the residual path (T20)
// ---------------------------------------------------------------------------------------------------------------------

inline Experiment Lab::gradients() {
    Experiment e{"gradients", {"The gradient at the bottom of a deep network", "深层网络底部的梯度"},
        {
            {"(T8)", "g_l^T = g_L^T ∏_{k=L−1..l} ∂x_{k+1}/∂x_k",
                {"the chain rule, g_l = ∂Loss/∂x_l", "链式法则，g_l = ∂Loss/∂x_l"}},
            {"(T9)", "∂x_{k+1}/∂x_k = I + J_{f_k} J_{LN}(x_k)", {"one Pre-LN layer", "一个 Pre-LN 层"}},
            {"(T10)", "‖J_{f_k} J_{LN}(x_k)‖_2 ≤ ‖J_{f_k}‖_2 / σ_k = O(1/√k)",
                {"alone it gives only ∏(1 + c/√k) ≤ exp(2c√L), which is not yet polynomial",
                    "仅由它只能得到 ∏(1 + c/√k) ≤ exp(2c√L)，还不是多项式"}},
            {"(T11)", "E‖g_l‖^2 = (1 + η^2/σ_l^2) E‖g_{l+1}‖^2",
                {"in mean square the cross terms vanish", "在均方意义下交叉项为零"}},
            {"(T12)", "E‖g_l‖^2 = (σ_L^2/σ_l^2) E‖g_L‖^2",
                {"the product telescopes: polynomial in L", "连乘逐项相消：关于 L 的多项式"}},
            {"(T13)", "‖g_l‖ ~ ‖g_{out}‖ / σ_l",
                {"with the final norm: independent of the depth", "加上末端归一化：与深度无关"}},
            {"(T15)", "∂x_{l+1}/∂x_l = I + J_{f_l}(x_l),  E‖J_{f_l}‖ = O(1)",
                {"without norms nothing damps", "没有归一化就没有阻尼"}},
            {"(T16)", "E‖g_l‖^2 = (1 + d v^2) E‖g_{l+1}‖^2", {"each layer amplifies", "逐层放大"}},
            {"(T17)", "E‖g_0‖^2 = (1 + d v^2)^L E‖g_L‖^2 = exp(L ln(1 + d v^2)) E‖g_L‖^2",
                {"exponential in L", "关于 L 的指数"}},
            {"(X1)", "‖∂Loss/∂W_{last}‖ = O(d √(ln d / L)) for Pre-LN, O(d √(ln d)) for Post-LN",
                {"Xiong et al. 2020, Theorem 1", "Xiong 等 2020，定理 1"}},
        }};
    struct Kind {
        Wiring wiring;
        bool final_norm;
        const char *name, *theory;
    };
    const std::vector<Kind> kinds{{Wiring::none, false, "none", "(T17) (1 + η²)^L"},
        {Wiring::pre, false, "pre", "(T12) σ_L²/σ₀²"}, {Wiring::pre, true, "pre, final norm", "(T13) 1/σ₀²"},
        {Wiring::none, true, "none, final norm", "1/σ₀²"}, {Wiring::plain, false, "plain", "(T20) (η²)^L"}};
    std::vector<Case> cases;
    for (const int L : doublings(o.depth))
        for (const Kind& k : kinds) cases.push_back({k.wiring, k.final_norm, L, o.eta2});
    const std::vector<Levels> levels = linear_networks(cases, o.width, o.rows, o.draws, o.seed);

    Figure depth{"gradients", text("Gradient at the bottom by depth, random linear branches, η² = ", o.eta2), "depth L",
        "E‖g₀‖² / E‖g_out‖²", false, true,
        {"Four wirings, four laws: exponential growth (none), polynomial growth (pre, the line that looks flat here), "
         "no growth at all (with a final norm), exponential decay (plain). A final norm alone already cancels the "
         "explosion of a linear network, as (T16) and the forward growth are the same factor; what is left above 1 is "
         "the finite width (d = 128: the random lengths σ_L² of single tokens spread with depth).",
            "四种接法，四种规律：指数增长（none）、多项式增长（pre，此处看似水平）、完全不增长（带末端归一化）、指数衰"
            "减（plain）。仅一个末端归一化就已抵消线性网络的爆炸，因为 (T16) 与前向增长是同一因子；高出 1 "
            "的部分来自有限宽度（各 token 的 σ_L² 随深度而分散）。"}};
    for (std::size_t i = 0; i < kinds.size(); i++) {
        Curve curve{kinds[i].name, kinds[i].theory};
        for (std::size_t j = i; j < cases.size(); j += kinds.size())
            curve.points.push_back(
                {double(cases[j].depth), predicted_gradient(cases[j], 0), levels[j].gradient[0].mean()});
        curve.remark = text(curve.name, ": ", fit_law(curve.points).name("L"));
        depth.curves.push_back(std::move(curve));
    }

    Figure layers{"gradients-layers",
        text("Gradient by layer, L = ", std::min(o.depth, 64), ", random linear branches"), "layer l",
        "E‖g_l‖² / E‖g_out‖²", false, true,
        {"Both lines fall as 1/σ_l² from bottom to top. The final norm divides by σ_L² once, and so the bottom stands "
         "at 1/σ₀² whatever the depth.",
            "两条曲线自底向上都按 1/σ_l² 下降。末端归一化整体除以 σ_L²，于是底部恒为 1/σ₀²，与深度无关。"}};
    for (const std::size_t kind : {1u, 2u})
        for (std::size_t j = kind; j < cases.size(); j += kinds.size())
            if (cases[j].depth == std::min(o.depth, 64)) {
                Curve curve{kinds[kind].name, kind == 1 ? "(T12) σ_L²/σ_l²" : "(T13) 1/σ_l²"};
                by_level(curve, cases[j], levels[j], true);
                layers.curves.push_back(std::move(curve));
            }

    Figure bound{"gradients-bound", "The worst case and what happens, Pre-LN without final norm", "depth L",
        "‖g₀‖ / ‖g_L‖", false, true,
        {"Where the text is loose. The bound ∏(1 + ‖W‖₂/σ) of (T9), the worst case over all directions, stays below "
         "exp(2c√L) (c = 2, as ‖W‖₂ ≈ 2η) by about L^(c²/2), and still outgrows every power of L; the gradient itself "
         "grows only as √(σ_L²/σ₀²), a power of L: the directions do not conspire.",
            "原文不够严谨之处。(T9) 的界 ∏(1 + ‖W‖₂/σ)（所有方向的最坏情况）约比 exp(2c√L) 小 L^(c²/2) 倍"
            "（c = 2，因 ‖W‖₂ ≈ 2η），但仍快于 L 的任何幂；而梯度本身只按 √(σ_L²/σ₀²)（L 的幂）增长：各方向不会合谋。"}};
    Curve worst{"∏(1 + ‖W‖₂/σ)", "exp(2c√L), c = 2"}, typical{"measured", "(T12) √(σ_L²/σ₀²)"};
    for (const Point& p : depth.curves[1].points) {
        worst.points.push_back(
            {p.x, std::exp(4 * std::sqrt(p.x)), worst_case(static_cast<int>(p.x), o.eta2, o.width, o.seed)});
        typical.points.push_back({p.x, std::sqrt(p.predicted), std::sqrt(p.measured)});
    }
    bound.curves = {worst, typical};
    e.figures = {depth, layers, bound};
    gradients_of_model(e);
    return e;
}

inline void Lab::gradients_of_model(Experiment& e) {
    Figure bounded{"gradients-model", "Gradient at the bottom by depth, real GPT at initialization", "blocks L",
        "‖∂Loss/∂x₀‖", true, true,
        {"With the final norm Pre-LN's gradient does not depend on the depth, for LayerNorm and RMSNorm alike (T13); "
         "without it, it grows like a power, as in (T12), but with a larger exponent than 1/2: attention and GELU "
         "amplify the gradient more than a linear branch does (α > 1 in the derivations). Post-LN is steady too at "
         "initialization: its trouble begins in training, below. Dashed: the fitted law.",
            "有末端归一化时，Pre-LN 的梯度与深度无关，LayerNorm 与 RMSNorm 皆然 (T13)；没有时像 (T12) 那样按幂律增长，"
            "但指数大于 1/2：注意力和 GELU 对梯度的放大强于线性分支（推导里的 α > 1）。Post-LN 在初始化时也稳定：它的问题出在训练中（见下）。虚线：拟合的规律。"}};
    Figure unbounded{"gradients-model-unbounded", "The same without norms in the blocks", "blocks L", "‖∂Loss/∂x₀‖",
        false, true,
        {"Without norms the gradient explodes with depth (T17); without the residual path it vanishes (T20). A final "
         "norm tames the explosion to begin with, but attention saturates to one token as the activations grow, so "
         "this is neither law. Pre-LN for comparison. Dashed, and predicted in the table: the fitted law.",
            "没有归一化，梯度随深度爆炸 (T17)；没有残差通路，梯度消失 "
            "(T20)。末端归一化起初能抑制爆炸，但随着激活值增大，注意力饱和到单个 token，于是两种规律都不成立。附 "
            "Pre-LN 作比较。虚线与表中的 predicted：拟合的规律。"}};
    Figure last{"gradients-last-matrix", "Gradient of the last MLP's output matrix (X1)", "blocks L", "‖∂Loss/∂W‖",
        true, true,
        {"The published theorem: for Pre-LN the last layer's weight gradient falls as 1/√L, for Post-LN it does not. "
         "It is (T6) and (T7) at work: the final norm divides by σ_L ~ √L. Dashed: the law through the geometric mean.",
            "已发表的定理：Pre-LN 末层权重的梯度按 1/√L 下降，Post-LN 则不然。这正是 (T6) 与 (T7)：末端归一化除以 σ_L "
            "~ √L。虚线：过几何平均的规律。"}};
    Figure inside{"gradients-model-layers",
        text("Gradient by branch, real GPT of ", std::min(o.model_depth, 32), " blocks"), "branch k (two a block)",
        "‖∂Loss/∂x_k‖", false, true,
        {"From the top (right) to the bottom (left): Pre-LN rises gently as 1/σ_k (dashed: ‖g_2L‖ σ_2L/σ_k with the σ "
         "measured), none explodes, plain vanishes (dashed: the fitted law).",
            "从顶（右）到底（左）：Pre-LN 按 1/σ_k 平缓上升（虚线：‖g_2L‖ σ_2L/σ_k，σ 取测量值），none 爆炸，plain "
            "消失（虚线：拟合的规律）。"}};
    struct Kind {
        const char* name;
        Wiring wiring;
        bool final_norm;
        Norm norm;
        Figure& figure;
    };
    const std::vector<int> depths = doublings(o.model_depth);
    for (const Kind& k :
        {Kind{"pre", Wiring::pre, true, Norm::layer, bounded}, {"pre, RMSNorm", Wiring::pre, true, Norm::rms, bounded},
            {"pre, no final norm", Wiring::pre, false, Norm::layer, bounded},
            {"pre, RMS, no final", Wiring::pre, false, Norm::rms, bounded},
            {"post", Wiring::post, false, Norm::layer, bounded},
            {"post, final norm", Wiring::post, true, Norm::layer, bounded},
            {"none", Wiring::none, false, Norm::layer, unbounded},
            {"none, final norm", Wiring::none, true, Norm::layer, unbounded},
            {"plain", Wiring::plain, false, Norm::layer, unbounded},
            {"plain, final norm", Wiring::plain, true, Norm::layer, unbounded}}) {
        Curve curve{k.name, ""};
        for (const int L : depths)
            curve.points.push_back(
                {double(L), nothing, model_borders(o.sizes(), L, k.wiring, k.final_norm, k.norm).gradient[0]});
        add_law(curve, "L");
        k.figure.curves.push_back(std::move(curve));
    }
    unbounded.curves.push_back(bounded.curves[0]);
    unbounded.curves.back().remark.clear();

    for (const auto& [name, wiring] :
        {std::pair{"none", Wiring::none}, {"plain", Wiring::plain}, {"pre", Wiring::pre}, {"post", Wiring::post}}) {
        const Borders borders = model_borders(o.sizes(), std::min(o.model_depth, 32), wiring, wiring == Wiring::pre);
        Curve curve{name, wiring == Wiring::pre ? "(T13) ∝ 1/σ" : "fitted exponential"};
        const Line line = fit_exponential(borders.gradient);
        for (std::size_t k = 0; k < borders.gradient.size(); k++) {
            double predicted = nothing;
            if (wiring == Wiring::pre)
                predicted = borders.gradient.back() * std::sqrt(borders.variance.back() / borders.variance[k]);
            else if (wiring != Wiring::post) predicted = std::exp(line.start + line.slope * double(k));
            curve.points.push_back({double(k), predicted, borders.gradient[k]});
        }
        if (wiring == Wiring::none || wiring == Wiring::plain)
            curve.remark = text(name, ": exponential, ", number(std::exp(-line.slope)),
                " a branch on the way down (R² ", number(line.r2), ")");
        inside.curves.push_back(std::move(curve));
    }

    for (const bool pre : {true, false}) {
        Curve curve{pre ? "pre" : "post", pre ? "∝ 1/√L" : "constant"};
        const auto law = [=](double L) { return pre ? 1 / std::sqrt(L) : 1; };
        double level = 0;
        for (const int L : depths) {
            const double measured = model_borders(o.sizes(), L, pre ? Wiring::pre : Wiring::post, pre).last_matrix;
            curve.points.push_back({double(L), nothing, measured});
            level += std::log(measured / law(L)) / double(depths.size());
        }
        for (Point& p : curve.points) p.predicted = std::exp(level) * law(p.x);
        curve.remark = text(curve.name, ": ", fit_law(curve.points).name("L"));
        last.curves.push_back(std::move(curve));
    }
    e.figures.insert(e.figures.end(), {bounded, unbounded, inside, last});
}

// ---------------------------------------------------------------------------------------------------------------------
// residual: the product of Jacobians with and without the identity (T18)–(T20)
// ---------------------------------------------------------------------------------------------------------------------

inline Experiment Lab::residual() {
    Experiment e{"residual", {"Residual connections", "残差连接"},
        {
            {"(T18)", "∂Loss/∂w_l = ∂Loss/∂x_L ∏_{i=l..L−1} (∂x_{i+1}/∂x_i) ∂x_l/∂w_l",
                {"a plain network", "普通网络"}},
            {"(T19)", "∏_i (I + ∂F(x_i, w_i)/∂x_i)",
                {"with residual connections: one path has the Jacobian I, whatever F does",
                    "加入残差：无论 F 如何，总有一条通路的雅可比为 I"}},
            {"(T20)", "E‖g_l‖^2 = (d v^2)^{L−l} E‖g_L‖^2",
                {"plain and linear: whether it vanishes is a matter of the initialization",
                    "线性普通网络：是否消失取决于初始化"}},
        }};
    const int L = std::min(o.depth, 32);
    Figure plain{"residual", text("Gradient by layer, plain linear network, L = ", L), "layer l", "E‖g_l‖² / E‖g_L‖²",
        false, true,
        {"“The Jacobian's norm is usually below 1” depends on the initialization: d v² below 1 vanishes, above 1 "
         "explodes, and only at 1 the mean stays. With the residual path the very same weak branches (d v² = 0.01) "
         "cost almost nothing, and alone they would leave 1e-64.",
            "“模长通常小于 1”取决于初始化：d v² 小于 1 消失，大于 1 爆炸，仅等于 1 "
            "时均值不变。有了残差通路，同样弱的分支（d v² = 0.01）几乎没有影响；没有它只剩 1e-64。"}};
    std::vector<Case> cases;
    for (const double dv2 : {2.0, 1.0, 0.5}) {
        cases.push_back({Wiring::plain, false, L, dv2});
        plain.curves.push_back({text("plain, d v² = ", dv2), "(T20) (d v²)^(L−l)"});
    }
    cases.push_back({Wiring::none, false, L, 0.01});
    plain.curves.push_back({"residual, d v² = 0.01", "(T16) 1.01^(L−l)"});
    const std::vector<Levels> levels = linear_networks(cases, o.width, o.rows, o.draws, o.seed);
    for (std::size_t i = 0; i < cases.size(); i++) by_level(plain.curves[i], cases[i], levels[i], true);

    Figure identity{"residual-identity", "F = 0 in the real GPT: is g_k = g_2L, bit for bit? (1: at every branch)",
        "blocks L", "", false, false,
        {"The branches' last matrices are set to 0: the gradient arrives at the bottom exactly as it left the top.",
            "将各分支的末端矩阵置 0：梯度原封不动地从顶部到达底部。"}};
    identity.drawn = false;
    for (const auto& [name, wiring] : {std::pair{"pre", Wiring::pre}, {"none", Wiring::none}}) {
        Curve curve{name, ""};
        for (const int depth : {4, 16})
            curve.points.push_back({double(depth), 1, double(identity_path(o.sizes(), depth, wiring))});
        identity.curves.push_back(std::move(curve));
    }
    e.figures = {plain, identity};
    return e;
}

// ---------------------------------------------------------------------------------------------------------------------
// training: what becomes of the wirings
//
// Real runs in float: AdamW, warm-up and cosine, gradient clipping. A run diverges where its loss leaves
// for more than ten times that of a guess, or where it or the gradient overflows; then it ends.
// ---------------------------------------------------------------------------------------------------------------------

inline const Run& Lab::train(const std::string& name, Wiring wiring, bool final_norm, Norm norm) {
    if (const auto known = runs_.find(name); known != runs_.end()) return known->second;
    const std::vector<Token> tokens = text_tokens();
    const idx B = o.batch_size, T = o.block_size, count = training_part(static_cast<idx>(tokens.size()));
    if (count <= T)
        throw Error(o.data, " has ", tokens.size(), " tokens; take a longer text or a smaller --block_size");
    single::Config c;
    c.vocab_size = *std::max_element(tokens.begin(), tokens.end()) + 1, c.block_size = o.block_size,
    c.n_embd = o.n_embd, c.n_head = o.n_head, c.n_layer = o.train_depth;
    c.wiring = static_cast<single::Wiring>(wiring), c.norm = static_cast<single::Norm>(norm), c.final_norm = final_norm;
    c.pos = single::Position::rope, c.tie = false;
    c.complete();
    single::GPT gpt(c, B, T, single::GPT::Use::training);
    gpt.allocate();
    draw_by_fan_in(gpt, o.seed);
    single::AdamW adam(gpt.weights);
    single::Batch batch;
    Run run{name, {}, {}, {}, {}};
    const auto draw = [&](std::uint64_t key) {
        single::random_batch(batch, single::Random(o.seed, single::Purpose::batch, key), tokens.data(), count, B, T);
    };
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
        const bool finite = std::isfinite(run.loss.back()) && std::isfinite(run.norm.back());
        if (run.diverged < 0 && !(finite && run.loss.back() < 10 * std::log(c.vocab_size))) run.diverged = i;
        if (!finite) break;
        const double rate = single::scheduled_rate(i, o.learning_rate, o.learning_rate / 10, o.warmup_iters, o.iters);
        adam.update(gpt.weights, gpt.gradients, rate, single::clip_factor(run.norm.back(), o.grad_clip), i + 1);
    }
    if (std::isfinite(run.norm.back()) && run.last_loss() < 10 * std::log(c.vocab_size))
        run.diverged = -1;  // it came back
    run.after = look();
    return runs_.emplace(name, std::move(run)).first->second;
}

inline Experiment Lab::training() {
    Experiment e{"training", {"Training", "训练"},
        {
            {"(T9)", "pre: I + J_f J_{LN}(x);   post: J_{LN}(x + f(x)) (I + J_f);   none: I + J_f;   plain: J_f",
                {"the four wirings' Jacobians", "四种接法的雅可比矩阵"}},
        }};
    const std::string setting = text(o.train_depth, " blocks, ", o.n_embd, " wide");
    Figure loss{"training", text("Training loss, ", setting), "iteration", "loss (nats per token)", false, false,
        {"Pre-LN learns, with either norm. Post-LN (at this rate and warm-up) and the plain network learn the "
         "frequencies of the characters and no more. Without norms the loss is far "
         "beyond a guess's from the first iteration on; a final norm alone does not "
         "save such a network. Each run is named with its last loss, or with the iteration at which it diverged (✗).",
            "Pre-LN 无论用哪种归一化都能学习。Post-LN（在此学习率与预热下）和普通网络只学到字符频率。"
            "没有归一化时，损失从第一步起就远差于随机猜测；仅加末端归一化救不了这样的网络。"
            "图例给出每次训练的末段损失，或发散的迭代步 (✗)。"}};
    Figure norm{"training-gradients", text("Gradient norm of all weights, ", setting), "iteration",
        "‖∂Loss/∂w‖ before clipping", false, true, {"Before clipping to --grad_clip.", "按 --grad_clip 截断之前。"}};
    for (const auto& [name, wiring, final_norm, kind] :
        {std::tuple{"pre, LayerNorm", Wiring::pre, true, Norm::layer}, {"pre, RMSNorm", Wiring::pre, true, Norm::rms},
            {"post", Wiring::post, false, Norm::layer}, {"plain", Wiring::plain, false, Norm::layer},
            {"none, final", Wiring::none, true, Norm::layer}, {"none", Wiring::none, false, Norm::layer}}) {
        const Run& run = train(name, wiring, final_norm, kind);
        char end[64];
        if (run.diverged >= 0) std::snprintf(end, sizeof end, "✗ at %d", run.diverged);
        else std::snprintf(end, sizeof end, "%.2f", run.last_loss());
        Curve losses{text(name, ": ", end), ""}, norms{losses.name, ""};
        // Means of ten iterations; losses of 10 and more are off the scale.
        for (std::size_t i = 0; i < run.loss.size(); i += 10) {
            const std::size_t n = std::min<std::size_t>(10, run.loss.size() - i);
            const auto from = static_cast<std::ptrdiff_t>(i), to = static_cast<std::ptrdiff_t>(i + n);
            const auto mean = [=](const std::vector<double>& v) {
                return std::accumulate(v.begin() + from, v.begin() + to, 0.0) / double(n);
            };
            const double x = double(i) + double(n - 1) / 2;
            if (mean(run.loss) < 10) losses.points.push_back({x, nothing, mean(run.loss)});
            norms.points.push_back({x, nothing, mean(run.norm)});
        }
        losses.remark = text(name, ": ", number(run.loss.front()), " at first, ",
            number(*std::max_element(run.loss.begin(), run.loss.end())), " at most, ", number(run.last_loss()),
            " at last");
        if (run.diverged >= 0) {
            const auto at = static_cast<std::size_t>(run.diverged);
            losses.remark += text("; DIVERGED at iteration ", at, ": loss ", number(run.loss[at]), ", gradient norm ",
                number(run.norm[at]));
        }
        loss.curves.push_back(std::move(losses));
        norm.curves.push_back(std::move(norms));
    }
    const std::vector<Token> tokens = text_tokens();
    std::vector<double> counts(static_cast<std::size_t>(*std::max_element(tokens.begin(), tokens.end()) + 1));
    for (const Token token : tokens) counts[static_cast<std::size_t>(token)]++;
    double entropy = 0;
    for (const double n : counts)
        if (n > 0) entropy -= n / double(tokens.size()) * std::log(n / double(tokens.size()));
    loss.curves.push_back({"frequencies alone", "", {{0, nothing, entropy}, {double(o.iters), nothing, entropy}}});
    e.figures = {loss, norm};
    return e;
}

// ---------------------------------------------------------------------------------------------------------------------
// D  The page and the program
// ---------------------------------------------------------------------------------------------------------------------

// HTML mathematics from a light notation: x_l, x_{l+1}, v^2, e^{2x}; in formulas single Latin letters are italic.
inline std::string mathematics(std::string_view s, bool italic) {
    std::string out;
    const auto letter = [&](std::size_t i) { return i < s.size() && std::isalpha(static_cast<unsigned char>(s[i])); };
    for (std::size_t i = 0; i < s.size(); i++) {
        if ((s[i] == '_' || s[i] == '^') && i + 1 < s.size()) {
            const char* tag = s[i] == '_' ? "sub" : "sup";
            const auto end = s[i + 1] == '{' ? s.find('}', i) : i + 2;
            const auto begin = s[i + 1] == '{' ? i + 2 : i + 1;
            out += text('<', tag, '>', mathematics(s.substr(begin, end - begin), italic), "</", tag, '>');
            i = s[i + 1] == '{' ? end : end - 1;
        } else if (italic && letter(i) && !letter(i + 1) && (i == 0 || !letter(i - 1))) {
            const bool marked =
                i + 2 < s.size() && (s[i + 1] == '\xCC' || s[i + 1] == '\xCD');  // a hat or a tilde on it
            out += text("<i>", s.substr(i, marked ? 3 : 1), "</i>");
            i += marked ? 2 : 0;
        } else {
            out += s[i] == '<' ? "&lt;" : s[i] == '&' ? "&amp;" : std::string(1, s[i]);
        }
    }
    return out;
}

inline std::string both(const Words& words, const char* tag) {
    return text('<', tag, " class=\"en\">", words.en, "</", tag, "><", tag, " class=\"zh\" lang=\"zh\">", words.zh,
        "</", tag, ">\n");
}

inline void write_files(const Options& o, const Experiment& e) {
    replace_file(o.out + "/" + e.name + ".csv", [&](std::ostream& out) {
        out << "figure,curve,x,predicted,measured,ratio\n";
        for (const Figure& figure : e.figures)
            for (const Curve& curve : figure.curves)
                for (const Point& p : curve.points) {
                    out << figure.name << ",\"" << curve.name << '"';
                    for (const double v : {p.x, p.predicted, p.measured, p.ratio()})
                        out << ',' << (std::isnan(v) ? "" : shortest(v));
                    out << '\n';
                }
    });
    for (const Figure& figure : e.figures)
        if (figure.drawn)
            replace_file(o.out + "/" + figure.name + ".svg", [&](std::ostream& out) { out << figure.svg(); });
}

constexpr const char* page_head = R"(<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">
<title>The lab</title><style>
:root{color-scheme:light dark;--ink:#222;--soft:#666;--paper:#fff;--panel:#f6f7f9;--edge:#ddd}
@media(prefers-color-scheme:dark){:root{--ink:#ddd;--soft:#999;--paper:#15171a;--panel:#1e2126;--edge:#3a3f47}}
body{font:16px/1.55 "Helvetica Neue",Arial,"PingFang SC","Microsoft YaHei","Noto Sans CJK SC",sans-serif;
color:var(--ink);background:var(--paper);max-width:860px;margin:0 auto;padding:1.5em}
h1{margin:.2em 0}
h2{margin:2.2em 0 .4em;border-top:1px solid var(--edge);padding-top:1em}
.soft,figcaption{color:var(--soft)}
.equations{width:100%;border-collapse:collapse;background:var(--panel);border-radius:8px}
.equations td{padding:.35em .8em;vertical-align:baseline}
.equations td:first-child{color:var(--soft);white-space:nowrap}
.equations td:nth-child(2){font-family:"STIX Two Text",Cambria,"Times New Roman",serif;font-size:1.08em}
.equations td:last-child{color:var(--soft);font-size:.9em;width:38%}
sub,sup{line-height:0;font-size:.72em}
figure{margin:1.6em 0}figure svg{width:100%;height:auto}
details{margin:.5em 0;font-size:.85em}
details table{border-collapse:collapse;font-variant-numeric:tabular-nums}
details td,details th{padding:.1em .8em;text-align:right;border-bottom:1px solid var(--edge);
font-weight:normal}
details td:first-child,details th:first-child{text-align:left}
th{color:var(--soft)}
.laws{font-size:.9em;margin:.4em 0}.switch{position:absolute;opacity:0}
label{cursor:pointer;border:1px solid var(--edge);padding:.15em .7em;border-radius:1em}
#en:checked~label[for=en],#zh:checked~label[for=zh]{background:var(--ink);color:var(--paper)}
#en:checked~main .zh,#zh:checked~main .en{display:none}
.switch:focus-visible+label{outline:2px solid #0072b2}
</style></head><body>
<input class="switch" type="radio" name="language" id="en" checked><label for="en">English</label>
<input class="switch" type="radio" name="language" id="zh"><label for="zh" lang="zh">中文</label>
<script>
const chinese = location.hash ? location.hash === "#zh" : navigator.language.startsWith("zh");
if (chinese) document.getElementById("zh").checked = true;
</script>
<main>
)";

// What the measurements are made on.
inline Words subjects(const Options& o) {
    return {
        text("The linear network is ", o.width, " wide, with ", o.rows, " rows and ", o.draws,
            " draws. The real GPT is ", o.n_embd, " wide, with ", o.n_head, " heads, ", o.block_size,
            " random tokens, RoPE and its own head; of ", o.seeds,
            " seeds the geometric mean is shown. Its matrices have standard deviation 1/√fan-in; at nanogpt's 0.02 the "
            "laws would not show. The training runs have ",
            o.train_depth, " blocks, batches of ", o.batch_size, " and ", o.iters, " iterations."),
        text("线性网络宽 ", o.width, "，", o.rows, " 行，抽样 ", o.draws, " 次。真实的 GPT 宽 ", o.n_embd, "，",
            o.n_head, " 个头，", o.block_size, " 个随机 token，RoPE，输出头独立；取 ", o.seeds,
            " 个种子的几何平均。矩阵的标准差是 1/√fan-in，而不是 nanogpt 的 0.02，在那里看不出这些规律。训练各 ",
            o.train_depth, " 个块，批大小 ", o.batch_size, "，", o.iters, " 次迭代。")};
}

inline std::string page(const std::vector<Experiment>& experiments, const Options& o, const std::string& command) {
    std::string out = page_head;
    out += both({"The lab", "实验室"}, "h1");
    out += both({"The tutorial proves what normalization and residual connections do to a gradient. Here each theorem "
                 "meets its measurement, made with the layers and the model of nanogpt.cpp. Dashed: predicted. Solid "
                 "and pale: measured.",
                    "教程证明了归一化与残差连接对梯度的作用。这里用 nanogpt.cpp "
                    "自己的层和模型逐一测量这些定理。虚线：预测；浅色实线：测量。"},
        "p");
    out += both(subjects(o), "p");
    for (const Experiment& e : experiments) {
        out += text("<section id=\"", e.name, "\">\n") + both(e.title, "h2") + "<table class=\"equations\">\n";
        for (const Equation& q : e.theory)
            out += text("<tr><td>", q.tag, "</td><td>", mathematics(q.formula, true), "</td><td>",
                both({mathematics(q.words.en, false), mathematics(q.words.zh, false)}, "span"), "</td></tr>\n");
        out += "</table>\n";
        for (const Figure& figure : e.figures) {
            out += text("<figure id=\"", figure.name, "\">\n",
                figure.drawn ? figure.svg() : "<b>" + figure.title + "</b>", "<figcaption>\n");
            out += both(figure.see, "div") + "</figcaption>\n<ul class=\"laws\">\n";
            for (const Curve& curve : figure.curves)
                if (!curve.remark.empty()) out += "<li>" + curve.remark + "</li>\n";
            out += text("</ul><details", figure.drawn ? "" : " open", "><summary>", both({"Table", "数据表"}, "span"),
                "</summary><table>\n");
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

// The same in Markdown, in English, for docs/lab.md.
inline std::string document(const std::vector<Experiment>& experiments, const Options& o, const std::string& command) {
    std::ostringstream out;
    out << "# The lab\n\nThe tutorial proves what normalization and residual connections do to a gradient. Here each "
           "theorem meets its\n"
           "measurement, made with the layers and the model of nanogpt.cpp. Dashed: predicted. Solid and pale: "
           "measured.\n\n"
        << subjects(o).en
        << " The derivations are in [derivations.md](derivations.md).\n\n"
           "This page is what the lab itself writes to `out/lab/lab.md`, with its plots, by\n\n    "
        << command
        << "\n\n(`make lab` builds it and does the same), and the same numbers come out on any number of threads. "
           "`out/lab/index.html` has it in Chinese as well.\n";
    for (const Experiment& e : experiments) {
        out << "\n## " << e.title.en << "\n\n|  |  |  |\n| :-- | :-- | :-- |\n";
        for (const Equation& q : e.theory)
            out << "| " << q.tag << " | " << mathematics(q.formula, true) << " | " << mathematics(q.words.en, false)
                << " |\n";
        for (const Figure& figure : e.figures) {
            if (figure.drawn) out << "\n![" << figure.title << "](lab/" << figure.name << ".svg)\n\n";
            else out << "\n**" << figure.title << "**\n\n";
            out << figure.see.en << "\n\n<details><summary>Table</summary>\n\n";
            write_table(out, figure);
            out << "\n</details>\n";
        }
    }
    return out.str();
}

struct Setting {
    const char* name;
    std::variant<int*, double*, std::uint64_t*, std::string*> value;
    double least;
    const char* help;

    std::string takes() const {
        if (value.index() == 3) return "a name without spaces";
        return text(value.index() == 1 ? "a number" : "a whole number", ", at least ", least);
    }
};

inline std::vector<Setting> settings(Options& o) {
    return {{"width", &o.width, 3, "linear network: d"}, {"rows", &o.rows, 1, "linear network: tokens a draw"},
        {"draws", &o.draws, 2, "linear network: draws of the weights"},
        {"depth", &o.depth, 8, "linear network: the largest L"}, {"eta2", &o.eta2, 1e-6, "linear network: η² = d v²"},
        {"n_embd", &o.n_embd, 3, "model: width"}, {"n_head", &o.n_head, 1, "model: heads"},
        {"block_size", &o.block_size, 1, "model: tokens"}, {"seeds", &o.seeds, 1, "model: draws of the weights"},
        {"model_depth", &o.model_depth, 8, "model: the largest number of blocks"},
        {"train_depth", &o.train_depth, 1, "training: blocks"}, {"iters", &o.iters, 1, "training: updates"},
        {"batch_size", &o.batch_size, 1, "training: sequences"},
        {"warmup_iters", &o.warmup_iters, 0, "training: updates on the way up"},
        {"learning_rate", &o.learning_rate, 0, "training: its highest"},
        {"grad_clip", &o.grad_clip, 0, "training: largest norm of the gradient; 0: any"},
        {"data", &o.data, 0, "training: the text"}, {"out", &o.out, 0, "where the page, plots and tables go"},
        {"seed", &o.seed, 0, "of all random choices"}, {"threads", &o.threads, 0, "0: all processors"}};
}

inline void set(Options& o, const std::string& word) {
    const auto equals = word.find('=');
    const std::string name = word.substr(2, equals == std::string::npos ? equals : equals - 2),
                      value = equals == std::string::npos ? "" : word.substr(equals + 1);
    std::string known;
    for (const Setting& s : settings(o)) {
        known += text(known.empty() ? "--" : ", --", s.name);
        if (name != s.name) continue;
        std::visit(
            [&](auto* v) {
                std::istringstream in(value);
                bool good = (in >> *v) && in.peek() == EOF && value[0] != '-';
                if constexpr (std::is_arithmetic_v<std::decay_t<decltype(*v)>>) good = good && double(*v) >= s.least;
                if (!good) throw UsageError("--", name, " is '", value, "'; it takes ", s.takes());
            },
            s.value);
        return;
    }
    throw UsageError("there is no option ", word, "; it takes ", known);
}

using Experiments = std::vector<std::pair<std::string, Experiment (Lab::*)()>>;

inline void run(const std::vector<std::string>& words) {
    const Experiments all{{"jacobian", &Lab::jacobian}, {"variance", &Lab::variance}, {"gradients", &Lab::gradients},
        {"residual", &Lab::residual}, {"training", &Lab::training}};
    Options o;
    std::set<std::string> wanted;
    std::string command = "build/lab", names;
    for (const auto& [name, experiment] : all) names += (names.empty() ? "" : ", ") + name;
    for (const std::string& word : words) {
        if (word == "--help" || word == "-h") {
            std::cout << "build/lab [NAME…] [--option=value…]\n\nmeasures the tutorial's theorems: " << names
                      << "; without a name all\n\nOptions, with their defaults:\n";
            for (const Setting& s : settings(o))
                std::cout << "  " << std::left << std::setw(28)
                          << std::visit([&](auto* v) { return text("--", s.name, '=', *v); }, s.value) << s.help
                          << '\n';
            return;
        }
        if (word.starts_with("--")) set(o, word);
        else if (std::none_of(all.begin(), all.end(), [&](const auto& e) { return e.first == word; }))
            throw UsageError("there is no experiment '", word, "'; it takes ", names);
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
        for (const Figure& figure : done.back().figures) {
            std::cout << '\n' << figure.name << ": " << figure.title << "\n\n";
            write_table(std::cout, figure);
            std::cout.flush();
        }
        write_files(o, done.back());
        std::printf("\n[%s took %.1f s]\n", name.c_str(),
            std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    }
    replace_file(o.out + "/index.html", [&](std::ostream& out) { out << page(done, o, command); });
    replace_file(o.out + "/lab.md", [&](std::ostream& out) { out << document(done, o, command); });
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
