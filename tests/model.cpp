// The whole model. Built with real = double it checks every parameter tensor of many configurations against finite
// differences, and what GPT::on_gradient reports; built with float and double it compares with another implementation
// (tests/golden), scores a text, and compares the key-value cache with the full forward. With GRADIENTS_ONLY
// (tests/mutate.sh) only sections 1 to 5 are needed.
#include "check.h"

constexpr bool is_double = sizeof(real) == 8;

Config preset(bool llama) {
    Config c;
    c.vocab_size = 7, c.block_size = 6, c.n_layer = 2, c.n_head = 2, c.n_embd = 8, c.n_hidden = llama ? 11 : 13;
    // Differences by the inputs of a norm are sharp only where these are not small beside this; the golden models have
    // 1e-5.
    c.norm_eps = 0.05;
    if (llama) c.norm = Norm::rms, c.pos = Position::rope, c.mlp = Mlp::swiglu, c.bias = false;
    return c;
}

std::string describe(const Config& c) {
    static constexpr const char *positions[] = {"learned", "sinusoidal", "rope", "none"},
                                *wirings[] = {"pre", "post", "none", "plain"};
    return text(c.norm == Norm::rms ? "rmsnorm " : "layernorm ", positions[int(c.pos)],
        c.mlp == Mlp::swiglu ? " swiglu " : " gelu ", wirings[int(c.wiring)], c.bias ? " bias" : "",
        c.tie ? " tied" : "", c.final_norm ? " final_norm" : "", " L", c.n_layer, " H", c.n_head, " G", c.n_kv_head,
        " C", c.n_embd, " F", c.n_hidden, " V", c.vocab_size, " p", c.dropout);
}

// Weights at which every part of the model matters: unlike the starting values, no bias is 0, no gain 1, and the
// attention is not even.
void set_weights(Parameters& weights, const Config& c) {
    const double size = c.wiring == Wiring::plain ? 1.2 : 1;  // as products of small numbers vanish (T20)
    for (const Tensor& t : weights.tensors) {
        const bool gain = t.rows == 0 && t.start == 1;
        const Numbers values =
            normals(t.size(), t.rows == 0 ? 0.3 : size / std::sqrt(double(std::min(t.rows, t.cols))), gain ? 1 : 0);
        std::copy(values.begin(), values.end(), weights.memory.data() + t.offset);
    }
}

std::unique_ptr<GPT> make_gpt(Config c, idx B, idx T, GPT::Use use = GPT::Use::training) {
    c.complete();
    auto gpt = std::make_unique<GPT>(c, B, T, use);
    gpt->allocate();
    set_weights(gpt->weights, c);
    return gpt;
}

// Every parameter tensor: all of its elements up to `most`, else `most` of them spread evenly from the first to the
// last.
void check_parameters(const Config& config, idx B, idx T, idx most) {
    const auto gpt = make_gpt(config, B, T);
    const Config& c = gpt->config;
    const std::string what = describe(c) + text(" B", B, " T", T);
    const std::vector<Token> tokens = random_tokens(B * T, c.vocab_size, 5),
                             targets = random_tokens(B * T, c.vocab_size, 6);
    const auto loss = [&](double share) {
        gpt->forward(tokens.data(), B, T, 0, 3);  // the same step again: the same dropout masks
        return gpt->loss(targets.data(), share);
    };
    // Gradients are added to what is there; and a second backward, here with half the share, adds half of the first.
    real* const gradients = gpt->gradients.memory.data();
    const idx size = gpt->gradients.memory.size();
    loss(1);
    gpt->backward(tokens.data());
    const Numbers once(gradients, gradients + size);
    loss(0.5);
    gpt->backward(tokens.data());
    for (idx i = 0; i < size; i++)
        check_close(gradients[i], 1.5 * double(once[std::size_t(i)]), 1e-12,
            what + text(": gradient ", i, " of two backwards"), 1e-2);
    for (const Tensor& t : gpt->weights.tensors) {
        const real* g = once.data() + t.offset;
        const double largest = magnitude(g, t.size());
        check(largest > 1e-4, what + ", " + t.name + ": a gradient of this size is compared: " + digits(largest));
        check_gradient(
            what + ", d" + t.name, [&] { return loss(0); }, gpt->weights.memory.data() + t.offset, g, t.size(), most);
    }
}

void test_gradients() {
    int turn = 0;
    // The full product of the switches; the sizes, the grouping and dropout take turns with it.
    for (const Norm norm : {Norm::layer, Norm::rms})
        for (const Position pos : {Position::learned, Position::sinusoidal, Position::rope, Position::none})
            for (const Mlp mlp : {Mlp::gelu, Mlp::swiglu})
                for (const Wiring wiring : {Wiring::pre, Wiring::post, Wiring::none, Wiring::plain})
                    for (const int flags : {0, 1, 2, 3, 4, 5, 6, 7}) {
                        Config c = preset(false);
                        c.norm = norm, c.pos = pos, c.mlp = mlp, c.wiring = wiring;
                        c.bias = flags & 1, c.tie = flags & 2, c.final_norm = flags & 4;
                        turn++;
                        c.n_head = turn % 3 == 0 ? 4 : 2;
                        c.n_kv_head = turn % 2 == 0 ? 1 : 2;
                        c.dropout = turn % 5 < 2 ? 0.25 : 0;
                        if (wiring == Wiring::plain) c.n_layer = 1 + turn % 2;
                        check_parameters(c, 2, turn % 7 == 0 ? 1 : 4, 6);
                    }
    // Both presets, every element; with T = 1; with dropout; with grouped heads; in all wirings.
    for (const bool llama : {false, true}) {
        for (const Wiring wiring : {Wiring::pre, Wiring::post, Wiring::none, Wiring::plain}) {
            Config c = preset(llama);
            c.wiring = wiring, c.n_kv_head = 1;
            check_parameters(c, 2, 5, 1 << 20);
        }
        Config c = preset(llama);
        check_parameters(c, 1, 1, 1 << 20);
        c.dropout = 0.4;
        check_parameters(c, 3, 6, 1 << 20);
        c.tie = false;
        check_parameters(c, 3, 6, 40);
        c.n_head = 4, c.n_embd = 24, c.n_kv_head = 2, c.n_hidden = 17, c.vocab_size = 65;
        check_parameters(c, 2, 6, 20);
        c.n_layer = 5, c.dropout = 0;
        check_parameters(c, 2, 6, 10);
        // Past one block of queries.
        c = preset(llama);
        c.n_layer = 1, c.block_size = 50;
        check_parameters(c, 2, 45, 6);
    }
    // Odd widths: of the heads, the model, the MLP and the vocabulary.
    for (const auto& [n_embd, n_head, n_kv_head] :
        {std::array{6, 3, 3}, std::array{6, 3, 1}, std::array{10, 2, 1}, std::array{5, 1, 1}, std::array{7, 7, 1}}) {
        Config c = preset(false);
        c.n_embd = n_embd, c.n_head = n_head, c.n_kv_head = n_kv_head, c.n_hidden = 2 * n_embd + 1;
        check_parameters(c, 2, 3, 1 << 20);
        if (n_embd / n_head % 2) continue;
        c = preset(true);
        c.n_embd = n_embd, c.n_head = n_head, c.n_kv_head = n_kv_head, c.n_hidden = 2 * n_embd + 1;
        check_parameters(c, 2, 3, 1 << 20);
    }
    // A vocabulary of one token: the loss is 0 whatever the weights, and so is every gradient.
    Config c = preset(false);
    c.vocab_size = 1;
    const auto gpt = make_gpt(c, 2, 3);
    const std::vector<Token> tokens(6, 0);
    gpt->forward(tokens.data(), 2, 3);
    check_equal(gpt->loss(tokens.data(), 1), 0.0, "the loss of a vocabulary of one");
    gpt->backward(tokens.data());
    check_equal(gradient_norm(gpt->gradients), 0.0, "its gradient's norm");
}

// What on_gradient reports is dLoss/dx(k). A second model is made of the blocks behind x(k) alone, its positions' table
// set to x(k) and its token table to 0, so that the differences by that table are those by x(k). Where k is odd, x(k)
// lies between a block's two branches: there the second model's first attention branch ends in a zero matrix, which
// makes it the identity.
void test_on_gradient() {
    for (const Wiring wiring : {Wiring::pre, Wiring::none})
        for (const bool llama : {false, true})
            for (const bool final_norm : {true, false}) {
                Config c = preset(llama);
                c.wiring = wiring, c.final_norm = final_norm, c.pos = Position::learned, c.tie = false, c.n_layer = 3;
                const idx T = 5, L = 3, C = c.C();
                const auto gpt = make_gpt(c, 1, T);
                const std::vector<Token> tokens = random_tokens(T, c.vocab_size, 5),
                                         targets = random_tokens(T, c.vocab_size, 6);
                std::map<idx, Numbers> x, dx;
                gpt->on_gradient = [&](idx k, const real* gradient) {
                    check(dx.emplace(k, Numbers(gradient, gradient + T * C)).second, "each k once");
                };
                gpt->forward(tokens.data(), 1, T);
                for (idx k = 0; k <= 2 * L; k++) x[k].assign(gpt->x(k), gpt->x(k) + T * C);
                const double whole = gpt->loss(targets.data(), 1);
                gpt->backward(tokens.data());
                check_equal(dx.size(), x.size(), "on_gradient is told every k");
                for (idx k = 0; k < 2 * L; k++) {
                    c.n_layer = int(L - k / 2);
                    const auto tail = make_gpt(c, 1, T);
                    for (const Tensor& t :
                        tail->weights.tensors) {  // the same tensor of the whole model: its layers are k / 2 further on
                        std::string name = t.name;
                        if (name.starts_with("h.")) name = text("h.", name[2] - '0' + k / 2, name.substr(3));
                        for (const Tensor& from : gpt->weights.tensors)
                            if (from.name == name)
                                std::copy_n(gpt->weights.memory.data() + from.offset, t.size(),
                                    tail->weights.memory.data() + t.offset);
                    }
                    std::fill_n(tail->weights.wte, c.vocab_size * C, real(0));
                    std::copy(x[k].begin(), x[k].end(), tail->weights.wpe);
                    if (k % 2) {
                        const Linear& projection = tail->weights.blocks[0].projection;
                        std::fill_n(projection.weight, C * C, real(0));
                        if (projection.bias) std::fill_n(projection.bias, C, real(0));
                    }
                    const auto loss = [&] {
                        tail->forward(tokens.data(), 1, T);
                        return tail->loss(targets.data());
                    };
                    check_close(loss(), whole, 1e-14, "the second model continues the first");
                    check_gradient(
                        text("dx(", k, ") of ", describe(gpt->config)), loss, tail->weights.wpe, dx[k].data(), T * C);
                }
                // At the end of the last block, the head alone is left.
                if (final_norm) continue;
                gpt->forward(tokens.data(), 1, T);
                gpt->loss(targets.data(), 1);
                for (idx n = 0; n < T; n++)
                    for (idx i = 0; i < C; i++) {
                        double expected = 0;
                        for (idx v = 0; v < c.vocab_size; v++)
                            expected += double(gpt->logits()[n * c.vocab_size + v] * gpt->weights.head[v * C + i]);
                        check_close(dx[2 * L][std::size_t(n * C + i)], expected, 1e-13, "dx(2L)", 1e-2);
                    }
            }
}

// Which mask is drawn where: at site 0 for the embedding, 1 + 2k for the output of branch k, 2 + 4l for layer l's
// attention weights, each step its own. A run can only be resumed, and other seeds tried, if this stays. Branch by
// branch from the layers themselves, in the wiring that adds nothing to them.
void test_dropout_sites() {
    Config c = preset(false);
    c.wiring = Wiring::plain, c.dropout = 0.3, c.final_norm = false;
    const idx B = 2, T = 5, N = B * T, C = c.C(), L = c.n_layer;
    const auto gpt = make_gpt(c, B, T);
    const Config& full = gpt->config;
    const std::vector<Token> tokens = random_tokens(N, c.vocab_size);
    for (const std::uint64_t seed : {0u, 5u})
        for (const std::uint64_t step : {0u, 1u, 7u}) {
            gpt->dropout_seed = seed;
            gpt->forward(tokens.data(), B, T, 0, step);
            const auto drop = [&](idx site) {
                return Dropout{
                    Random(seed, Purpose::dropout, step * std::uint64_t(4 * L + 1) + std::uint64_t(site)), real(0.3)};
            };
            const auto same = [&](const Numbers& expected, idx k) {
                for (idx i = 0; i < N * C; i++)
                    check_close(gpt->x(k)[i], expected.data()[i], 1e-14, text("x(", k, ") with dropout"));
            };
            Numbers x = zeros(N * C);
            embedding_forward(x.data(), tokens.data(), gpt->weights.wte, gpt->weights.wpe, B, T, 0, C);
            dropout(x.data(), x.data(), drop(0), N * C);
            same(x, 0);
            for (idx l = 0; l < L; l++) {
                const Block& w = gpt->weights.blocks[std::size_t(l)];
                const Heads heads{B, T, full.n_head, full.n_kv_head, full.D()};
                Numbers qkv = zeros(N * full.qkv()), attended = zeros(N * C), softmax = zeros(N * full.n_head * 2);
                linear_forward(qkv.data(), x.data(), w.qkv, N, C, full.qkv());
                const Dropout weights = drop(2 + 4 * l);
                attention_forward(attended.data(), softmax.data(), qkv.data(), heads, 0, &weights);
                linear_forward(x.data(), attended.data(), w.projection, N, C, C);
                dropout(x.data(), x.data(), drop(1 + 4 * l), N * C);
                same(x, 2 * l + 1);
                Numbers inner = zeros(N * full.F());
                linear_forward(inner.data(), x.data(), w.fc, N, C, full.F());
                gelu_forward(inner.data(), Numbers(inner).data(), N * full.F());
                linear_forward(x.data(), inner.data(), w.out, N, full.F(), C);
                dropout(x.data(), x.data(), drop(3 + 4 * l), N * C);
                same(x, 2 * l + 2);
            }
        }
}

#ifndef GRADIENTS_ONLY

// ---- the results of another implementation ----

std::vector<Token> read_int32(const std::string& path, const Safetensors& file, const std::string& name) {
    const std::string bytes = read_file(path);
    std::uint64_t header = 0;
    std::memcpy(&header, bytes.data(), 8);
    const auto& entry = file.entries.at(name);
    check_equal(entry.type, std::string("I32"), name);
    std::vector<Token> numbers((entry.end - entry.begin) / 4);
    std::memcpy(numbers.data(), bytes.data() + 8 + header + entry.begin, entry.end - entry.begin);
    return numbers;
}

// All numbers of one tensor, to `tolerance` of the largest of them.
void check_tensor(Safetensors& file, const std::string& name, const std::vector<idx>& shape, const real* actual,
    idx row, idx col, double tolerance) {
    const auto& entry = file.entries.at(name);
    idx size = 1;
    for (const idx n : entry.shape) size *= n;
    const idx cols = shape.back(), rows = size / cols;
    Numbers expected = zeros(size);
    file.read(name, {name, {rows, cols}, expected.data(), cols, 1});
    const double largest = magnitude(expected.data(), size);
    for (idx i = 0; i < rows; i++)
        for (idx j = 0; j < cols; j++)
            check_close(actual[i * row + j * col], expected[std::size_t(i * cols + j)], tolerance,
                text(name, "[", i, ",", j, "]"), largest);
}

void test_golden(const std::string& model) {
    const double tolerance = is_double ? 1e-9 : 1e-5;
    const std::string dir = "tests/golden/" + model;
    ModelDirectory directory(dir);
    Safetensors expected(dir + "/expected.safetensors");
    const std::vector<Token> tokens = read_int32(dir + "/expected.safetensors", expected, "tokens");
    const auto& shape = expected.entries.at("tokens").shape;
    const idx steps = shape[0], B = shape[1], T = shape[2] - 1, V = directory.config.vocab_size;
    GPT gpt(directory.config, B, T, GPT::Use::training);
    gpt.allocate();
    directory.load(gpt.weights);
    Batch batch;
    const auto forward = [&](idx step) {
        batch.resize(B, T);
        for (idx b = 0; b < B; b++) batch.set(b, T, tokens.data() + (step * B + b) * (T + 1));
        gpt.forward(batch.inputs.data(), B, T);
    };
    forward(0);
    check_tensor(expected, "logits", {B * T, V}, gpt.logits(), V, 1, tolerance);
    const real loss = real(gpt.loss(batch.targets.data(), 1));
    check_tensor(expected, "loss", {1}, &loss, 1, 1, tolerance);
    gpt.backward(batch.inputs.data());
    std::size_t gradients = 0;
    for (const NamedView& view : named_views(gpt.config, gpt.gradients)) {
        const std::string name = "grad." + view.name;
        check(expected.entries.at(name).shape == view.shape, name + " has the expected shape");
        check_tensor(expected, name, view.shape, view.data, view.row, view.col, tolerance);
        gradients++;
    }
    check_equal(
        gradients + 3, expected.entries.size(), model + ": tokens, logits, loss and every gradient are compared");

    const Json json = JsonParser(read_file(dir + "/trajectory.json"), "trajectory.json").parse();
    const Fields fields(json, "trajectory.json");
    const Json settings = {fields.get<Json::Object>("optimizer")};
    const Fields f(settings, "optimizer");
    const auto number = [&](const char* list, idx s) {
        return *fields.get<Json::Array>(list).at(std::size_t(s)).as<double>();
    };
    // AdamW's first step divides each gradient by its own size. Where a gradient is small only because its terms cancel
    // (one element of h.0.mlp.c_proj.weight: 2e-8, where the others are 1e-2), float's rounding decides how far that
    // weight goes, anything up to lr either way, and what follows then differs by some 1e-5. So the ten steps are taken
    // twice: with the expected gradients, as read above, in the first step; and from our own throughout, which in float
    // can only be asked to stay within 1e-4.
    for (const bool own : {true, false}) {
        directory.load(gpt.weights);
        std::fill_n(gpt.gradients.memory.data(), gpt.gradients.memory.size(), real(0));
        AdamW adam(gpt.weights);
        adam.beta1 = f.get<double>("beta1"), adam.beta2 = f.get<double>("beta2"), adam.eps = f.get<double>("eps");
        adam.weight_decay = f.get<double>("weight_decay");
        const double close = own && !is_double ? 1e-4 : tolerance;
        for (idx s = 0; s < steps; s++) {
            forward(s);
            check_close(
                gpt.loss(batch.targets.data(), 1), number("losses", s), close, text(model, ", loss of step ", s));
            gpt.backward(batch.inputs.data());
            const double norm = gradient_norm(gpt.gradients);
            check_close(norm, number("grad_norms", s), close, text(model, ", gradient norm of step ", s));
            if (s == 0 && !own)
                for (const NamedView& view : named_views(gpt.config, gpt.gradients))
                    expected.read("grad." + view.name, view);
            adam.update(
                gpt.weights, gpt.gradients, f.get<double>("lr"), clip_factor(norm, f.get<double>("grad_clip")), s + 1);
        }
        forward(0);
        check_close(gpt.loss(batch.targets.data()), fields.get<double>("loss_on_tokens0_after_10_steps"), close,
            model + ", loss after ten steps");
    }

    // A text's mean loss, over windows of which the last is short; whatever the number of windows taken at once.
    directory.load(gpt.weights);
    const Json scored = JsonParser(read_file(dir + "/text_loss.json"), "text_loss.json").parse();
    const Fields score_fields(scored, "text_loss.json");
    const std::vector<Token> all = directory.tokenizer->encode(read_file(dir + "/text.txt"), "text.txt");
    check_equal(idx(all.size()), idx(score_fields.get<double>("tokens_scored")) + 1, model + ", tokens of the text");
    for (const idx max_B : {1, 3, 50}) {
        GPT scoring(directory.config, max_B, directory.config.block_size, GPT::Use::scoring);
        scoring.allocate();
        directory.load(scoring.weights);
        check_close(score(scoring, all.data(), idx(all.size()), max_B, [](idx) {}),
            score_fields.get<double>("mean_loss_nats_per_token"), tolerance,
            text(model, ", score of a text, ", max_B, " windows at once"));
    }
}

// ---- the cache of keys and values ----

// Token by token, or in pieces of several, the logits are those of the full forward at each position.
void test_cache() {
    for (const bool llama : {false, true})
        for (const Position pos : {Position::learned, Position::sinusoidal, Position::rope, Position::none})
            for (const Wiring wiring : {Wiring::pre, Wiring::post, Wiring::none, Wiring::plain}) {
                Config c = preset(llama);
                c.pos = pos, c.wiring = wiring, c.n_head = 4, c.n_kv_head = llama ? 2 : 4, c.block_size = 70,
                c.vocab_size = 65, c.dropout = 0.5;
                const idx T = 70, V = c.vocab_size;
                const auto full = make_gpt(c, 1, T, GPT::Use::training), scoring = make_gpt(c, 2, T, GPT::Use::scoring),
                           sampling = make_gpt(c, 1, T, GPT::Use::sampling);
                for (const auto& other : {&scoring, &sampling})
                    std::copy_n(
                        full->weights.memory.data(), full->weights.memory.size(), (*other)->weights.memory.data());
                const std::vector<Token> tokens = random_tokens(2 * T, V);
                full->forward(tokens.data(), 1, T);  // without a step nothing is dropped
                scoring->forward(tokens.data(), 2, T);
                const double scale = magnitude(full->logits(), T * V);
                const auto same = [&](const real* logits, idx t, const char* what) {
                    for (idx v = 0; v < V; v++)
                        check_close(logits[v], full->logits()[t * V + v], is_double ? 1e-12 : 1e-5,
                            text(what, ", logit ", v, " at ", t, " of ", describe(c)), scale);
                };
                for (idx t = 0; t < T; t++) same(scoring->logits() + t * V, t, "scoring");
                for (idx t = 0; t < T; t++) {
                    sampling->forward(tokens.data(), 1, t + 1, t);
                    same(sampling->logits(), t, "one token at a time");
                }
                for (idx from = 0, length = 1; from < T; from += length, length = std::min(length + 7, T - from)) {
                    sampling->forward(tokens.data(), 1, from + length, from);
                    same(sampling->logits(), from + length - 1, "several tokens at a time");
                }
            }
}

// In float, where it is made of exp_float: relative to its own size, down to where that ends.
void test_sigmoid() {
    double worst = 0;
    for (idx i = -87000; i <= 1000000; i++) {
        const real x = real(double(i) / 1000);
        const double expected = 1 / (1 + std::exp(-double(x)));
        worst = std::max(worst, std::abs(double(sigmoid(x)) - expected) / expected);
    }
    check(worst <= (is_double ? 1e-15 : 4e-7), text("sigmoid's largest relative error is ", worst));
    for (const double far : {200.0, 1e4, 1e38}) {
        check_equal(sigmoid(real(far)), real(1), "sigmoid of a large number");
        check_equal(sigmoid(real(-far)) < real(1e-45), true, "sigmoid of a small number");
    }
    check(std::isnan(sigmoid(real(std::nan("")))), "sigmoid(NaN) is NaN");
}

#endif

int main() {
    if (is_double) {
        test_gradients();
        test_on_gradient();
        test_dropout_sites();
        std::printf("gradients: largest relative difference %.2g\n", largest_difference);
    }
#ifndef GRADIENTS_ONLY
    test_sigmoid();
    test_golden("gpt2");
    test_golden("llama");
    test_cache();
#endif
    return result();
}
