// Checkpoints: Hugging Face's layout read and written, and everything that can be wrong with a file that came from
// elsewhere.
#include <new>

#include "check.h"

// The largest piece of memory that was asked for since it was last set to 0: a broken file must not be believed in its
// sizes.
// (A Tokenizer has a table of all code points, 4.5 MB; nothing else here comes near that.)
// (Not inlined: g++ would warn of malloc and delete side by side.)
static std::atomic<std::size_t> largest{0};
__attribute__((noinline)) void* operator new(std::size_t n) {
    for (std::size_t seen = largest; n > seen && !largest.compare_exchange_weak(seen, n);) {}
    if (void* p = std::malloc(n ? n : 1)) return p;
    throw std::bad_alloc();
}
__attribute__((noinline)) void operator delete(void* p) noexcept { std::free(p); }
__attribute__((noinline)) void operator delete(void* p, std::size_t) noexcept { std::free(p); }

namespace {

namespace fs = std::filesystem;

const fs::path work = fs::temp_directory_path() /
    text("nanogpt-checkpoint-", std::chrono::steady_clock::now().time_since_epoch().count());

std::string file(const fs::path& path) { return read_file(path.string()); }
void write(const fs::path& path, const std::string& content) { std::ofstream(path, std::ios::binary) << content; }

std::string new_dir() {
    static int n = 0;
    const fs::path dir = work / text("d", n++);
    fs::create_directories(dir);
    return dir.string();
}

std::string golden(const std::string& type) { return "tests/golden/" + type; }

std::string copy_of_golden(const std::string& type) {
    const std::string dir = new_dir();
    for (const char* name : {"config.json", "model.safetensors", "tokenizer.json"})
        fs::copy_file(golden(type) + '/' + name, dir + '/' + name);
    return dir;
}

// Searches must find: a table whose replacement does nothing would test nothing.
std::string replaced(std::string s, const std::string& from, const std::string& to) {
    const auto at = s.find(from);
    if (at == std::string::npos) report(false, "nothing to replace: " + from);
    else s.replace(at, from.size(), to);
    return s;
}

// ---- files made by hand ----

struct Raw {
    std::string name, type;
    std::vector<idx> shape;
    std::string data;
};

template <class T> std::string bytes_of(const T& t) { return {reinterpret_cast<const char*>(&t), sizeof t}; }

std::string safetensors(const std::string& header, const std::string& data) {
    return bytes_of(std::uint64_t{header.size()}) + header + data;
}

std::string safetensors(const std::vector<Raw>& tensors) {
    std::string header = "{", data;
    for (const Raw& t : tensors) {
        std::string shape;
        for (const idx n : t.shape) shape += text(shape.empty() ? "" : ",", n);
        header += text(header.size() > 1 ? "," : "", json_quote(t.name), ":{\"dtype\":\"", t.type, "\",\"shape\":[",
            shape, "],\"data_offsets\":[", data.size(), ',', data.size() + t.data.size(), "]}");
        data += t.data;
    }
    return safetensors(header + '}', data);
}

struct Model {
    Config config;
    std::unique_ptr<Parameters> weights;
    std::optional<Tokenizer> tokenizer;
};

Model load(const std::string& dir) {
    ModelDirectory directory(dir);
    Model model{directory.config, std::make_unique<Parameters>(directory.config), directory.tokenizer};
    model.weights->memory.allocate();
    directory.load(*model.weights);
    return model;
}

bool same_weights(const Model& a, const Model& b) {
    return a.weights->memory.size() == b.weights->memory.size() &&
        std::equal(
            a.weights->memory.data(), a.weights->memory.data() + a.weights->memory.size(), b.weights->memory.data());
}

// The tensors of a model under Hugging Face's names, in another type.
std::vector<Raw> raw_tensors(const Model& model, const std::string& type) {
    std::vector<Raw> out;
    for (const NamedView& view : named_views(model.config, *model.weights)) {
        Raw raw{view.name, type, view.shape, {}};
        for (idx i = 0; i < view.rows(); i++)
            for (idx j = 0; j < view.cols(); j++) {
                const float x = float(view.data[i * view.row + j * view.col]);
                if (type == "F64") raw.data += bytes_of(double(x));
                if (type == "F32") raw.data += bytes_of(x);
                if (type == "BF16")
                    raw.data += bytes_of(static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(x) >> 16));
                if (type ==
                    "F16") {  // what is nearest among the finite, by bisection over the patterns, whose values are in order
                    int low = 0, high = 0x7BFF;
                    const auto value = [](int bits) {
                        const int exponent = bits >> 10;
                        return std::ldexp(
                            exponent ? 1024 + (bits & 1023) : bits & 1023, (exponent ? exponent : 1) - 25);
                    };
                    while (low < high)
                        (value((low + high) / 2) < std::abs(double(x)) ? low = (low + high) / 2 + 1
                                                                       : high = (low + high) / 2);
                    raw.data += bytes_of(static_cast<std::uint16_t>(low | (x < 0 ? 0x8000 : 0)));
                }
            }
        out.push_back(raw);
    }
    return out;
}

double text_loss(const std::string& dir, const std::string& text_file) {
    ModelDirectory directory(dir);
    GPT gpt(directory.config, 4, directory.config.block_size, GPT::Use::scoring);
    gpt.allocate();
    directory.load(gpt.weights);
    const auto tokens = directory.tokenizer->encode(file(text_file), text_file);
    return score(gpt, tokens.data(), static_cast<idx>(tokens.size()), 4, [](idx) {});
}

double golden_loss(const std::string& type) {
    const Json json = JsonParser(file(golden(type) + "/text_loss.json"), "text_loss.json").parse();
    return Fields(json, "text_loss.json").get<double>("mean_loss_nats_per_token");
}

std::string without_spaces(std::string s) {
    std::erase_if(s, [](char c) { return c == ' ' || c == '\n'; });
    return s;
}

void golden_directories() {
    for (const std::string type : {"gpt2", "llama"}) {
        const double expected = golden_loss(type), loss = text_loss(golden(type), golden(type) + "/text.txt");
        report(
            std::abs(loss - expected) < 5e-7, text(type, ": loss ", shortest(loss), ", expected ", shortest(expected)));
        const Model model = load(golden(type));
        check_equal(model_type(model.config), type, "model_type");
        check_equal(model.tokenizer->size(), 29, "vocabulary");
        const std::string dir = new_dir();
        save_model(dir, model.config, *model.weights, model.tokenizer);
        report(same_weights(model, load(dir)), type + ": saved and loaded again, the weights differ");
        report(std::abs(text_loss(dir, golden(type) + "/text.txt") - expected) < 5e-7,
            type + ": saved and loaded again, the loss differs");
        report(without_spaces(file(dir + "/tokenizer.json")) == without_spaces(file(golden(type) + "/tokenizer.json")),
            type + ": tokenizer.json differs from the golden one");
        const Safetensors ours(dir + "/model.safetensors"), theirs(golden(type) + "/model.safetensors");
        for (const auto& [name, entry] : theirs.entries)
            report(ours.entries.contains(name) && ours.entries.at(name).shape == entry.shape &&
                    ours.entries.at(name).type == entry.type,
                text(type, ": saved without ", name, " or in another shape or type"));
        check_equal(ours.entries.size(), theirs.entries.size(), type + ": number of tensors");
    }
}

// ---- saving and loading ----

void same_bytes() {
    struct Case {
        std::string what, type;
        std::function<void(Config&)> change;
    };
    const auto llama = [](Config& c) {
        c.norm = Norm::rms, c.pos = Position::rope, c.mlp = Mlp::swiglu, c.bias = false;
    };
    const std::vector<Case> cases = {
        {"gpt2", "gpt2", [](Config&) {}},
        {"gpt2 untied", "gpt2", [](Config& c) { c.tie = false; }},
        {"gpt2 n_hidden", "gpt2", [](Config& c) { c.n_hidden = 20; }},
        {"gpt2 dropout", "gpt2", [](Config& c) { c.dropout = 0.1; }},
        {"llama", "llama", llama},
        {"llama untied", "llama", [&](Config& c) { llama(c), c.tie = false; }},
        {"llama bias", "llama", [&](Config& c) { llama(c), c.bias = true; }},
        {"llama grouped", "llama",
            [&](Config& c) { llama(c), c.n_kv_head = 1, c.rope_theta = 500000, c.norm_eps = 1e-6; }},
        {"no bias", "nanogpt", [](Config& c) { c.bias = false; }},
        {"grouped gpt2", "nanogpt", [](Config& c) { c.n_kv_head = 2; }},
        {"sinusoidal", "nanogpt", [](Config& c) { c.pos = Position::sinusoidal, c.tie = false; }},
        {"no positions, rmsnorm", "nanogpt", [](Config& c) { c.pos = Position::none, c.norm = Norm::rms; }},
        {"post", "nanogpt", [](Config& c) { c.wiring = Wiring::post, c.final_norm = false; }},
        {"no residual", "nanogpt", [](Config& c) { c.wiring = Wiring::plain, c.final_norm = false; }},
        {"no norm", "nanogpt", [](Config& c) { c.wiring = Wiring::none, c.final_norm = true, c.dropout = 0.25; }},
        {"swiglu", "nanogpt", [](Config& c) { c.mlp = Mlp::swiglu; }},
    };
    const Tokenizer tokenizer = Tokenizer::of_text("\n \"\\abcdé中😀\x7F\x01", "x");
    for (const Case& c : cases) {
        Config config;
        config.vocab_size = tokenizer.size(), config.block_size = 7, config.n_layer = 2, config.n_head = 4,
        config.n_embd = 16;
        c.change(config);
        config.complete();
        check_equal(model_type(config), c.type, c.what);
        Model model{config, std::make_unique<Parameters>(config), tokenizer};
        model.weights->memory.allocate();
        model.weights->initialize(5);
        const std::string first = new_dir(), second = new_dir();
        save_model(first, config, *model.weights, tokenizer, {{"iter", "3"}, {"val_loss", "1.5"}});
        const Model read = load(first);
        report(same_weights(model, read), c.what + ": the weights change");
        report(read.tokenizer->characters() == tokenizer.characters(), c.what + ": the tokenizer changes");
        report(config_json(read.config) == config_json(config), c.what + ": config.json changes");
        check_equal(ModelDirectory(first).metadata("iter"), "3", c.what + ": metadata");
        save_model(second, read.config, *read.weights, read.tokenizer, {{"iter", "3"}, {"val_loss", "1.5"}});
        for (const char* name : {"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"})
            report(file(first + '/' + name) == file(second + '/' + name),
                text(c.what, ": saved again, ", name, " differs"));
        check_equal(std::distance(fs::directory_iterator(first), fs::directory_iterator()), 4,
            c.what + ": files in the directory");
        fs::remove_all(first), fs::remove_all(second);
    }
}

void replacing() {
    const std::string dir = new_dir(), path = dir + "/f";
    replace_file(path, [](std::ostream& out) { out << "old"; });
    check_error([&] { replace_file(path, [](std::ostream& out) { out << "new", out.setstate(std::ios::badbit); }); },
        "cannot write " + path, "a failing write");
    check_equal(file(path), "old", "a failing write leaves the file");
    check_equal(std::distance(fs::directory_iterator(dir), fs::directory_iterator()), 1,
        "a failing write leaves nothing beside it");
    check_error([&] { replace_file(dir + "/none/f", [](std::ostream&) {}); }, "cannot write " + dir + "/none/f",
        "no directory");
    fs::create_directories(dir + "/g/h");
    check_error(
        [&] { replace_file(dir + "/g", [](std::ostream&) {}); }, "cannot write", "a directory in the file's place");
    check(fs::exists(dir + "/g/h") && !fs::exists(dir + "/g.tmp"), "it stays, and nothing beside it");
}

// ---- what Hugging Face's tools write ----

void names_and_types() {
    const Model gpt2 = load(golden("gpt2")), llama = load(golden("llama"));
    const auto check_loads = [](const std::string& dir, const Model& as, const std::string& what) {
        try {
            report(same_weights(load(dir), as), what + ": other weights");
        } catch (const std::exception& error) {
            report(false, what + ": " + error.what());
        }
    };
    {  // as GPT2Model saves it, with the buffers of older versions
        const std::string dir = copy_of_golden("gpt2");
        auto tensors = raw_tensors(gpt2, "F32");
        for (Raw& t : tensors)
            if (t.name.starts_with("transformer.")) t.name = t.name.substr(12);
        write(dir + "/model.safetensors", safetensors(tensors));
        check_loads(dir, gpt2, "names without transformer.");
        for (const char* l : {"0", "1"}) {
            tensors.push_back({text("h.", l, ".attn.bias"), "F32", {1, 1, 2, 2}, std::string(16, '\0')});
            tensors.push_back({text("h.", l, ".attn.masked_bias"), "F32", {}, std::string(4, '\0')});
        }
        write(dir + "/model.safetensors", safetensors(tensors));
        check_loads(dir, gpt2, "attn.bias buffers");
        tensors.back().type = "BOOL", tensors.back().data = "\1";
        write(dir + "/model.safetensors", safetensors(tensors));
        check_loads(dir, gpt2, "a buffer of another type");
        tensors.push_back({"h.0.attn.c_attn.extra", "F32", {1}, std::string(4, '\0')});
        write(dir + "/model.safetensors", safetensors(tensors));
        check_error(
            [&] { load(dir); }, "tensor h.0.attn.c_attn.extra is not part of the model", "a tensor that is not known");
    }
    for (const Model* model : {&gpt2, &llama}) {  // a head beside the embedding that it is tied to
        const std::string type = model_type(model->config), dir = copy_of_golden(type);
        auto tensors = raw_tensors(*model, "F32");
        tensors.push_back({"lm_head.weight", "F32", {29, 32}, tensors[0].data});
        if (type == "llama")
            tensors.push_back({"model.layers.0.self_attn.rotary_emb.inv_freq", "F32", {4}, std::string(16, '\0')});
        write(dir + "/model.safetensors", safetensors(tensors));
        check_loads(dir, *model, "lm_head though tied");
        write(dir + "/config.json",
            replaced(file(dir + "/config.json"), "\"tie_word_embeddings\": true", "\"tie_word_embeddings\": false"));
        check(!load(dir).config.tie, "lm_head of its own");
        tensors.erase(tensors.begin() + static_cast<std::ptrdiff_t>(raw_tensors(*model, "F32").size()));
        write(dir + "/model.safetensors", safetensors(tensors));
        check_error([&] { load(dir); }, type == "gpt2" ? "larger model" : "l", "a missing head");
    }
    for (const Model* model : {&gpt2, &llama})
        for (const char* type : {"F64", "F32", "BF16", "F16"}) {
            const std::string dir = copy_of_golden(model_type(model->config));
            write(dir + "/model.safetensors", safetensors(raw_tensors(*model, type)));
            const Model read = load(dir);
            const bool exact = type[1] == '6' || type[1] == '3';
            if (std::string(type) == "F64" || std::string(type) == "F32")
                check(same_weights(read, *model), text("weights in ", type));
            double worst = 0;
            for (idx i = 0; i < read.weights->memory.size(); i++) {
                const double a = double(read.weights->memory.data()[i]), b = double(model->weights->memory.data()[i]);
                worst = std::max(worst, std::abs(a - b) / std::max(std::abs(b), 1e-4));
            }
            report(worst <= (std::string(type) == "BF16"         ? 0x1p-7
                                    : std::string(type) == "F16" ? 0x1p-10
                                                                 : 0) &&
                    (exact || worst > 0 || type[0] == 'F'),
                text("weights in ", type, " differ by ", worst));
        }
    {  // every finite F16 and BF16, against the definition
        std::string halves, brains;
        std::vector<double> half, brain;
        for (int bits = 0; bits < 0x10000; bits++) {
            const auto pattern = static_cast<std::uint16_t>(bits);
            const int exponent = bits >> 10 & 31, fraction = bits & 1023;
            if (exponent != 31) {
                halves += bytes_of(pattern);
                half.push_back((bits >> 15 ? -1 : 1) * (exponent ? 1024 + fraction : fraction) *
                    std::exp2((exponent ? exponent : 1) - 25));
            }
            const int wide = bits >> 7 & 255, low = bits & 127;
            if (wide != 255) {
                brains += bytes_of(pattern);
                brain.push_back((bits >> 15 ? -1 : 1) * (wide ? 128 + low : low) * std::exp2((wide ? wide : 1) - 134));
            }
        }
        const idx n = static_cast<idx>(half.size()), m = static_cast<idx>(brain.size());
        const std::string path = new_dir() + "/all.safetensors";
        write(path, safetensors({{"half", "F16", {n}, halves}, {"brain", "BF16", {m}, brains}}));
        Safetensors all(path);
        std::vector<real> a(half.size()), b(brain.size());
        all.read("half", {"half", {n}, a.data(), 0, 1});
        all.read("brain", {"brain", {m}, b.data(), 0, 1});
        check(std::equal(a.begin(), a.end(), half.begin(), [](real x, double y) { return double(x) == y; }), "all F16");
        check(
            std::equal(b.begin(), b.end(), brain.begin(), [](real x, double y) { return double(x) == y; }), "all BF16");
    }
    const float infinity = std::numeric_limits<float>::infinity();
    const std::pair<std::string, std::string> wild[] = {{"F32", bytes_of(infinity)}, {"F32", bytes_of(std::nanf(""))},
        {"F64", bytes_of(-double(infinity))}, {"F64", bytes_of(1e300)}, {"F16", bytes_of(std::uint16_t{0x7C00})},
        {"F16", bytes_of(std::uint16_t{0x7E00})}, {"BF16", bytes_of(std::uint16_t{0xFF80})},
        {"BF16", bytes_of(std::uint16_t{0x7FC0})}};
    for (const auto& [type, value] : wild) {
        const std::string path = new_dir() + "/wild.safetensors";
        write(path, safetensors({{"t", type, {1, 2}, std::string(value.size(), '\0') + value}}));
        real numbers[2];
        check_error(
            [&] {
                Safetensors(path).read("t", {"t", {1, 2}, numbers, 2, 1});
            },
            "tensor t is not finite at [0,1]", type + " that is not finite");
    }
    for (const std::string type : {"gpt2", "llama"}) {  // in several files
        const Model& model = type == "gpt2" ? gpt2 : llama;
        const std::string dir = copy_of_golden(type);
        const auto tensors = raw_tensors(model, "F32");
        const auto half = tensors.begin() + static_cast<std::ptrdiff_t>(tensors.size() / 2);
        fs::remove(dir + "/model.safetensors");
        write(dir + "/model-00001-of-00002.safetensors", safetensors(std::vector<Raw>(tensors.begin(), half)));
        write(dir + "/model-00002-of-00002.safetensors", safetensors(std::vector<Raw>(half, tensors.end())));
        std::string map;
        for (auto t = tensors.begin(); t != tensors.end(); ++t)
            map += text(map.empty() ? "" : ",", json_quote(t->name), ":\"model-0000", t < half ? 1 : 2,
                "-of-00002.safetensors\"");
        const std::string index = dir + "/model.safetensors.index.json",
                          good = "{\"metadata\":{\"total_size\":1},\"weight_map\":{" + map + "}}";
        write(index, good);
        check_loads(dir, model, "sharded " + type);
        const auto broken = [&](const std::string& content, const std::string& message) {
            write(index, content);
            check_error([&] { load(dir); }, message, "sharded " + type + ": " + content.substr(0, 40));
        };
        broken("{}", "\"weight_map\" is missing");
        broken("[]", "a JSON object was expected");
        broken("{\"weight_map\":[]}", "\"weight_map\" has the wrong type");
        broken("{\"weight_map\":{\"x\":3}}", "the file of x is not a plain name");
        broken("{\"weight_map\":{\"x\":\"../other.safetensors\"}}", "the file of x is not a plain name");
        broken("{\"weight_map\":{\"x\":\"/etc/passwd\"}}", "the file of x is not a plain name");
        broken("{\"weight_map\":{\"x\":\"..\"}}", "cannot read " + dir);
        broken("{\"weight_map\":{\"x\":\"\"}}", "cannot read " + dir);
        broken("{\"weight_map\":{\"x\":\"none.safetensors\"}}", "cannot read " + dir + "/none.safetensors");
        broken("{\"weight_map\":{}}", "index.json");
        broken(good + "x", "is not valid JSON");
        broken("{\"weight_map\":{\"x\":\"model-00001-of-00002.safetensors\"}}", "larger model");
        write(dir + "/model-00002-of-00002.safetensors", safetensors(tensors));
        broken(good, "stands in two files");
    }
}

// A crash between the renames of two files leaves one model's description beside the weights of another.
void mixed_descriptions() {
    const auto make = [](const std::string& letters, int n_layer, std::uint64_t seed) {
        const Tokenizer tokenizer = Tokenizer::of_text(letters, "x");
        Config config;
        config.vocab_size = tokenizer.size(), config.block_size = 5, config.n_layer = n_layer, config.n_head = 2,
        config.n_embd = 8;
        config.complete();
        Model model{config, std::make_unique<Parameters>(config), tokenizer};
        model.weights->memory.allocate();
        model.weights->initialize(seed);
        const std::string dir = new_dir();
        save_model(dir, config, *model.weights, tokenizer);
        return std::pair{std::move(model), dir};
    };
    const auto [a, a_dir] = make("abc", 1, 1);
    // Another depth, a larger, a smaller and an equally large vocabulary.
    for (const auto& [letters, n_layer] :
        {std::pair{"abc", 2}, std::pair{"abcde", 1}, std::pair{"ab", 1}, std::pair{"xyz", 3}}) {
        const auto [b, b_dir] = make(letters, n_layer, 2);
        for (const std::vector<const char*>& files :
            {std::vector{"config.json"}, std::vector{"config.json", "tokenizer.json"}, std::vector{"tokenizer.json"}}) {
            const std::string dir = new_dir();
            fs::copy(a_dir, dir);
            std::string what = text(letters, ", ", n_layer, " layers:");
            for (const char* name : files) {
                fs::copy_file(b_dir + '/' + name, dir + '/' + name, fs::copy_options::overwrite_existing);
                what += text(' ', name);
            }
            try {
                std::ostringstream notes;
                auto* before = std::cerr.rdbuf(notes.rdbuf());
                std::optional<Model> read;
                try {
                    read = load(dir);
                } catch (...) {
                    std::cerr.rdbuf(before);
                    throw;
                }
                std::cerr.rdbuf(before);
                report(same_weights(*read, a), what + ": other weights");
                report(config_json(read->config) == config_json(a.config), what + ": another configuration");
                report(read->tokenizer->characters() == a.tokenizer->characters(), what + ": another vocabulary");
                const bool differs = file(dir + "/config.json") != file(a_dir + "/config.json") ||
                    file(dir + "/tokenizer.json") != file(a_dir + "/tokenizer.json");
                report((notes.str().find("is not the one the weights were saved with") != std::string::npos) == differs,
                    what + ": the note is '" + notes.str() + "'");
            } catch (const std::exception& error) {
                report(false, what + ": " + error.what());
            }
        }
    }
    // A model of token ids saved where one of characters was.
    const std::string dir = new_dir();
    fs::copy(a_dir, dir);
    Config config = a.config;
    save_model(dir, config, *a.weights, {});
    check(!load(dir).tokenizer, "the vocabulary of a model that stood there before is not taken for one of token ids");
}

void vocabularies() {
    const std::string good = tokenizer_json(Tokenizer::of_text("abc", "x"));
    const auto read = [&](const std::string& from, const std::string& to) {
        return tokenizer_from_json(replaced(good, from, to), "t.json", 3);
    };
    check(tokenizer_from_json(good, "t.json", 3)->characters() == std::vector<char32_t>{'a', 'b', 'c'},
        "our own tokenizer");
    check(read("\"a\": 0", "\"\\u4e2d\": 0")->characters()[0] == U'中', "an escaped character");
    const auto ids = [](const std::string& content, const std::string& what) {
        try {
            report(!tokenizer_from_json(content, "t.json", 3), what + ": taken for one token a character");
        } catch (const Error& error) {
            report(false, text(what, ": ", error.what()));
        }
    };
    ids(replaced(good, "\"a\": 0", "\"ab\": 0"), "an entry of two characters");
    ids(replaced(good, "\"merges\": []", "\"merges\": [\"a b\"]"), "merges");
    ids(replaced(good, "\"BPE\"", "\"WordPiece\""), "WordPiece");
    ids(R"({"model":{"type":"Unigram","unk_id":0,"vocab":[["<unk>",0.0],["a",-1.5],["b",-2.5]]}})", "Unigram");
    const auto bad = [&](const std::string& from, const std::string& to, const std::string& message) {
        check_error([&] { read(from, to); }, message, to);
    };
    bad("\"a\": 0", "\"\": 0", "t.json: the vocabulary has an empty entry");
    bad("\"a\": 0", "\"a\": 3", "t.json: the id of \"a\" is not a whole number below 3");
    bad("\"a\": 0", "\"a\": -1", "the id of \"a\" is not a whole number below 3");
    bad("\"a\": 0", "\"a\": 0.5", "the id of \"a\" is not a whole number below 3");
    bad("\"a\": 0", "\"a\": \"0\"", "the id of \"a\" is not a whole number below 3");
    bad("\"a\": 0", "\"a\": 1e300", "the id of \"a\" is not a whole number below 3");
    bad("\"a\": 0", "\"a\": 1", "the id of \"b\" is not a whole number below 3, or not its own");
    bad("\"a\": 0", "\"b\": 0", "a name stands twice");
    bad("\"a\": 0,", "", "the id of \"c\" is not a whole number below 2");
    bad("\"c\": 2", "\"c\": 2, \"d\": 3", "it has 4 characters, but config.json's vocab_size is 3");
    bad("\"a\": 0", "\"\xFF\": 0", "is not UTF-8 at byte");
    bad("\"model\"", "\"modell\"", "\"model\" is missing");
    bad("\"vocab\"", "\"vocabulary\"", "t.json, model: \"vocab\" is missing");
    bad("\"merges\": []", "\"merges\": 0", "\"merges\" has the wrong type");
    bad(",\n  \"merges\": []", "", "\"merges\" is missing");
    bad("\"type\": \"BPE\"", "\"type\": 5", "\"type\" has the wrong type");
    check_error([&] { tokenizer_from_json(good.substr(0, good.size() / 2), "t.json", 3); },
        "t.json is not valid JSON at byte", "half a tokenizer");
    check_error(
        [&] { tokenizer_from_json("", "t.json", 3); }, "t.json is not valid JSON at byte 0", "an empty tokenizer");
    check_error([&] { tokenizer_from_json("[]", "t.json", 3); }, "t.json: a JSON object was expected",
        "a tokenizer that is an array");
}

// ---- broken descriptions ----

void broken_configs() {
    const auto gpt2 = file(golden("gpt2") + "/config.json"), llama = file(golden("llama") + "/config.json");
    const auto bad = [](const std::string& base, const std::string& from, const std::string& to,
                         const std::string& message) {
        largest = 0;
        check_error([&] { config_from_json(replaced(base, from, to), "c.json"); }, message, to);
        report(largest < 1 << 16, text(to, ": took ", largest.load(), " bytes"));
    };
    const auto good = [](const std::string& base, const std::string& from, const std::string& to) {
        try {
            config_from_json(replaced(base, from, to), "c.json");
            report(true, to);
        } catch (const Error& error) {
            report(false, text(to, ": ", error.what()));
        }
    };
    const std::string end = "\"torch_dtype\": \"float32\"";
    for (const auto& base : {gpt2, llama}) {
        bad(base, "\"vocab_size\": 29", "\"vocab_size\": 0", "c.json: \"vocab_size\" is not a whole number from 1");
        bad(base, "\"vocab_size\": 29", "\"vocab_size\": -29", "\"vocab_size\" is not a whole number from 1");
        bad(base, "\"vocab_size\": 29", "\"vocab_size\": 29.5", "\"vocab_size\" is not a whole number from 1");
        bad(base, "\"vocab_size\": 29", "\"vocab_size\": 1e18", "\"vocab_size\" is not a whole number from 1");
        bad(base, "\"vocab_size\": 29", "\"vocab_size\": 1000000000", "\"vocab_size\" is not a whole number from 1");
        bad(base, "\"vocab_size\": 29", "\"vocab_size\": \"29\"", "\"vocab_size\" has the wrong type");
        bad(base, "\"vocab_size\": 29", "\"vocab_size\": null", "\"vocab_size\" is missing");
        bad(base, "\"vocab_size\"", "\"vocabulary\"", "\"vocab_size\" is missing");
        bad(base, "\"model_type\"", "\"type\"", "\"model_type\" is missing");
        bad(base, end, end + ", \"quantization_config\": {\"bits\": 4}",
            "\"quantization_config\" asks for what nanogpt does not do");
        bad(base, "{", "", "c.json is not valid JSON");
        bad(base, end, end + ",", "c.json is not valid JSON");
        bad(base, end, end + ", \"vocab_size\": 29", "a name stands twice");
        bad(base, "\"tie_word_embeddings\": true", "\"tie_word_embeddings\": 1",
            "\"tie_word_embeddings\" has the wrong type");
        good(base, end, "\"torch_dtype\": \"bfloat16\", \"use_cache\": true, \"bos_token_id\": 1");
    }
    bad(gpt2, "\"model_type\": \"gpt2\"", "\"model_type\": \"bert\"",
        "\"model_type\" is 'bert'; nanogpt reads gpt2, llama and nanogpt");
    bad(gpt2, "\"n_embd\": 32", "\"n_embd\": 30", "c.json: n_embd 30 is not a multiple of n_head 4");
    bad(gpt2, "\"n_layer\": 2", "\"n_layer\": 100000000", "\"n_layer\" is not a whole number from 1");
    bad(gpt2, "\"n_embd\": 32", "\"n_embd\": 536870912", "\"n_embd\" is not a whole number from 1");
    bad(gpt2, "\"n_positions\": 16", "\"n_positions\": 999999999", "\"n_positions\" is not a whole number from 1");
    bad(gpt2, "\"n_inner\": null", "\"n_inner\": 0", "\"n_inner\" is not a whole number from 1");
    bad(gpt2, "\"gelu_new\"", "\"relu\"",
        "\"activation_function\" asks for what nanogpt does not do; it knows only gelu_new");
    bad(gpt2, "\"gelu_new\"", "\"gelu\"", "\"activation_function\" asks for");
    good(gpt2, "\"gelu_new\"", "\"gelu_pytorch_tanh\"");
    bad(gpt2, "1e-05", "0", "epsilon must be in (0, 1)");
    bad(gpt2, "1e-05", "1", "epsilon must be in (0, 1)");
    bad(gpt2, end, end + ", \"scale_attn_weights\": false", "\"scale_attn_weights\" asks for");
    bad(gpt2, end, end + ", \"scale_attn_by_inverse_layer_idx\": true", "\"scale_attn_by_inverse_layer_idx\" asks for");
    bad(gpt2, end, end + ", \"add_cross_attention\": true", "\"add_cross_attention\" asks for");
    bad(llama, "\"num_key_value_heads\": 2", "\"num_key_value_heads\": 3", "n_head 4 is not a multiple of n_kv_head 3");
    bad(llama, "\"hidden_size\": 32", "\"hidden_size\": 20", "is odd");
    bad(llama, "\"intermediate_size\": 88", "\"intermediate_size\": null", "\"intermediate_size\" is missing");
    bad(llama, "\"hidden_act\": \"silu\"", "\"hidden_act\": \"gelu\"",
        "\"hidden_act\" asks for what nanogpt does not do; it knows only silu");
    bad(llama, "\"rope_theta\": 10000.0", "\"rope_theta\": 0", "rope_theta above 1");
    bad(llama, end, end + ", \"rope_scaling\": {\"factor\": 8.0}",
        "\"rope_scaling\" asks for what nanogpt does not do");
    bad(llama, end, end + ", \"rope_parameters\": {\"rope_type\": \"yarn\"}",
        "rope_parameters: \"rope_type\" asks for");
    bad(llama, end, end + ", \"rope_parameters\": {\"type\": \"linear\"}", "rope_parameters: \"rope_type\" asks for");
    bad(llama, end, end + ", \"partial_rotary_factor\": 0.5",
        "\"partial_rotary_factor\" asks for what nanogpt does not do; it knows only 1");
    bad(llama, end, end + ", \"rope_parameters\": 5", "rope_parameters: a JSON object was expected");
    bad(llama, end, end + ", \"sliding_window\": 4096", "\"sliding_window\" asks for what nanogpt does not do");
    bad(llama, end, end + ", \"head_dim\": 16", "\"head_dim\" asks for");
    bad(llama, "\"attention_bias\": false", "\"attention_bias\": true", "\"mlp_bias\" asks for");
    good(
        llama, end, end + ", \"rope_scaling\": null, \"sliding_window\": null, \"head_dim\": 8, \"pretraining_tp\": 1");
    good(llama, end, end + ", \"rope_parameters\": {\"rope_type\": \"default\", \"rope_theta\": 500000.0}");
    check_equal(config_from_json(replaced(llama, end, end + ", \"rope_parameters\": {\"rope_theta\": 500000.0}"), "c")
                    .rope_theta,
        500000.0, "rope_parameters");
    check_equal(config_from_json(replaced(llama, "\"num_key_value_heads\": 2,", ""), "c").n_kv_head, 4,
        "as many key heads as query heads");
    check_equal(config_from_json(replaced(gpt2, "\"n_inner\": null", "\"n_inner\": 48"), "c").n_hidden, 48, "n_inner");

    Config ours;
    ours.vocab_size = 5, ours.wiring = Wiring::post, ours.final_norm = false;
    ours.complete();
    const std::string base = config_json(ours);
    for (const std::string name : {"norm", "pos", "mlp", "wiring"}) {
        const auto at = base.find("\"" + name + "\": \"") + name.size() + 5;
        std::string changed = base;
        changed.insert(at, "x");
        check_error(
            [&] { config_from_json(changed, "c.json"); }, "c.json: \"" + name + "\" has an unknown value", name);
    }
    bad(base, "\"bias\": true", "\"bias\": 1", "\"bias\" has the wrong type");
    bad(base, "\"n_hidden\": 512", "\"n_hidden\": 0", "\"n_hidden\" is not a whole number from 1");
    bad(base, "\"n_head\": 4,", "", "\"n_head\" is missing");
}

// ---- broken safetensors ----

void broken_safetensors() {
    struct Case {
        std::string what, content, message;
    };
    const auto one = [](const std::string& fields, std::size_t data = 8) {
        return safetensors("{\"t\":{" + fields + "}}", std::string(data, '\0'));
    };
    const std::string dtype = "\"dtype\":\"F32\"", shape = "\"shape\":[2]", place = "\"data_offsets\":[0,8]",
                      whole = dtype + ',' + shape + ',' + place;
    const auto two = [&](const std::string& a, const std::string& b, std::size_t data) {
        return safetensors(
            "{\"a\":{" + dtype + ',' + a + "},\"b\":{" + dtype + ',' + b + "}}", std::string(data, '\0'));
    };
    const std::string all_ones = bytes_of(~std::uint64_t{0});
    const std::vector<Case> cases = {
        {"an empty file", "", "has 0 bytes: too short for safetensors"},
        {"seven bytes", "1234567", "has 7 bytes: too short for safetensors"},
        {"no header", bytes_of(std::uint64_t{0}), "(header) is not valid JSON at byte 0"},
        {"a header longer than the file", bytes_of(std::uint64_t{3}) + "{}", "its header would take 3 of 2 bytes"},
        {"a header of 2^64-1 bytes", all_ones + "{}", "its header would take 18446744073709551615 of 2 bytes"},
        {"a header of 2^63 bytes", bytes_of(std::uint64_t{1} << 63) + "{}",
            "its header would take 9223372036854775808 of 2 bytes"},
        {"a header that is no JSON", safetensors("{", ""), "(header) is not valid JSON at byte 1"},
        {"a header with more behind it", safetensors("{}x", ""),
            "(header) is not valid JSON at byte 2: something follows"},
        {"a header that is an array", safetensors("[]", ""), "the header is not a JSON object"},
        {"a header that is not UTF-8", safetensors("{\"\xFF\":1}", ""), "(header) is not UTF-8 at byte 2"},
        {"nested too deeply", safetensors("{\"a\":" + std::string(1000, '[') + "}", ""), "nested too deeply"},
        {"metadata that is no object", safetensors("{\"__metadata__\":[]}", ""),
            "__metadata__: a JSON object was expected"},
        {"metadata with a number", safetensors("{\"__metadata__\":{\"a\":1}}", ""),
            "__metadata__: \"a\" has the wrong type"},
        {"a tensor that is no object", safetensors("{\"t\":1}", ""), "t: a JSON object was expected"},
        {"a tensor twice", safetensors("{\"t\":{" + whole + "},\"t\":{" + whole + "}}", std::string(8, '\0')),
            "a name stands twice"},
        {"no dtype", one(shape + ',' + place), "t: \"dtype\" is missing"},
        {"a dtype that is a number", one("\"dtype\":32," + shape + ',' + place), "t: \"dtype\" has the wrong type"},
        {"no shape", one(dtype + ',' + place), "t: \"shape\" is missing"},
        {"a shape that is a number", one(dtype + ",\"shape\":2," + place), "t: \"shape\" has the wrong type"},
        {"a negative shape", one(dtype + ",\"shape\":[-2]," + place), "t: \"shape\" is not made of whole numbers"},
        {"a broken shape", one(dtype + ",\"shape\":[2.5]," + place), "t: \"shape\" is not made of whole numbers"},
        {"a shape of words", one(dtype + ",\"shape\":[\"2\"]," + place), "t: \"shape\" is not made of whole numbers"},
        {"a shape beyond all numbers", one(dtype + ",\"shape\":[1e300]," + place),
            "t: \"shape\" is not made of whole numbers"},
        {"a shape larger than the file", one(dtype + ",\"shape\":[4294967296]," + place),
            "t: \"shape\" is larger than the file"},
        {"a shape whose product overflows", one(dtype + ",\"shape\":[4294967296,4294967296]," + place),
            "t: \"shape\" is larger than the file"},
        {"a shape of many twos", one(dtype + ",\"shape\":[2,2,2,2,2,2,2,2,2,2]," + place),
            "t: \"shape\" is larger than the file"},
        {"a shape of nothing and much", one(dtype + ",\"shape\":[0,4294967296]," + place),
            "t: \"data_offsets\" does not fit its shape and type"},
        {"a shape too small", one(dtype + ",\"shape\":[1]," + place),
            "t: \"data_offsets\" does not fit its shape and type"},
        {"a shape too large", one(dtype + ",\"shape\":[3]," + place),
            "t: \"data_offsets\" does not fit its shape and type"},
        {"a scalar of two numbers", one(dtype + ",\"shape\":[]," + place),
            "t: \"data_offsets\" does not fit its shape and type"},
        {"no data_offsets", one(dtype + ',' + shape), "t: \"data_offsets\" is missing"},
        {"one data_offset", one(dtype + ',' + shape + ",\"data_offsets\":[0]"),
            "t: \"data_offsets\" is not two whole numbers"},
        {"three data_offsets", one(dtype + ',' + shape + ",\"data_offsets\":[0,4,8]"),
            "t: \"data_offsets\" is not two whole numbers"},
        {"negative data_offsets", one(dtype + ',' + shape + ",\"data_offsets\":[-8,0]"),
            "t: \"data_offsets\" is not two whole numbers"},
        {"broken data_offsets", one(dtype + ',' + shape + ",\"data_offsets\":[0,8.5]"),
            "t: \"data_offsets\" is not two whole numbers"},
        {"data_offsets of words", one(dtype + ',' + shape + ",\"data_offsets\":[\"0\",\"8\"]"),
            "t: \"data_offsets\" is not two whole numbers"},
        {"data_offsets beyond all numbers", one(dtype + ',' + shape + ",\"data_offsets\":[0,1e300]"),
            "t: \"data_offsets\" is not two whole numbers"},
        {"data_offsets too large for JSON", one(dtype + ',' + shape + ",\"data_offsets\":[0,1e400]"),
            "a number is too large"},
        {"an end before its begin", one(dtype + ',' + shape + ",\"data_offsets\":[8,0]"),
            "t: \"data_offsets\" begins after its end"},
        {"an end outside", one(dtype + ',' + shape + ",\"data_offsets\":[0,16]"),
            "t: \"data_offsets\" ends after the file's 8 bytes"},
        {"a tensor outside", one(dtype + ',' + shape + ",\"data_offsets\":[8,16]"),
            "t: \"data_offsets\" ends after the file's 8 bytes"},
        {"cut off", one(whole, 7), "t: \"data_offsets\" ends after the file's 7 bytes"},
        {"another type's size", one("\"dtype\":\"F64\"," + shape + ',' + place),
            "t: \"data_offsets\" does not fit its shape and type"},
        {"half a type's size", one("\"dtype\":\"BF16\"," + shape + ',' + place),
            "t: \"data_offsets\" does not fit its shape and type"},
        {"two at one place", two(shape + ',' + place, shape + ',' + place, 8), "two tensors overlap at byte 0"},
        {"two that overlap", two(shape + ',' + place, shape + ",\"data_offsets\":[4,12]", 12),
            "two tensors overlap at byte 4"},
        {"one inside the other", two("\"shape\":[4],\"data_offsets\":[0,16]", shape + ",\"data_offsets\":[4,12]", 16),
            "two tensors overlap at byte 4"},
    };
    const std::string dir = new_dir(), path = dir + "/model.safetensors";
    std::set<std::string> messages;
    for (const Case& c : cases) {
        write(path, c.content);
        largest = 0;
        check_error([&] { Safetensors{path}; }, path, c.what);
        check_error([&] { Safetensors{path}; }, c.message, c.what);
        report(largest < 1 << 16, text(c.what, ": took ", largest.load(), " bytes"));
    }
    check_error([&] { Safetensors{dir + "/none"}; }, "cannot read " + dir + "/none", "no file");
    check_error([&] { Safetensors{dir}; }, dir, "a directory for a file");
    write(path, one(whole));
    Safetensors open(path);
    real numbers[2];
    open.read("t", {"t", {2}, numbers, 0, 1});
    check(numbers[0] == 0 && numbers[1] == 0, "its numbers");
    fs::resize_file(path, fs::file_size(path) - 1);
    check_error(
        [&] {
            open.read("t", {"t", {2}, numbers, 0, 1});
        },
        "cannot read " + path + ", tensor t", "cut off while it is open");
    write(path, one(whole));
    check_equal(Safetensors(path).entries.size(), 1u, "the file that all these break");
    write(path, safetensors("{\"z\":{" + dtype + ",\"shape\":[0,4294967296],\"data_offsets\":[0,0]}}", ""));
    check_equal(Safetensors(path).entries.size(), 1u, "a tensor with no numbers");
}

// What is wrong only when config.json and the tensors are held against each other.
void broken_directories() {
    struct Case {
        std::string what;
        std::function<void(std::vector<Raw>&)> change;
        std::string message;
    };
    const std::string weight = "transformer.h.1.attn.c_attn.weight";
    const auto named = [](std::vector<Raw>& tensors, const std::string& name) -> Raw& {
        return *std::find_if(tensors.begin(), tensors.end(), [&](const Raw& t) { return t.name == name; });
    };
    const std::vector<Case> cases = {
        {"a tensor under another name", [&](auto& t) { named(t, weight).name = "transformer.h.1.attn.c_attn.weigth"; },
            "tensor " + weight + " is missing"},
        {"a tensor turned",
            [&](auto& t) {
                named(t, weight).shape = {96, 32};
            },
            "tensor " + weight + " has another shape"},
        {"a tensor flat", [&](auto& t) { named(t, weight).shape = {3072}; }, weight + " has another shape"},
        {"a tensor in three dimensions",
            [&](auto& t) {
                named(t, weight).shape = {32, 96, 1};
            },
            weight + " has another shape"},
        {"a tensor of integers", [&](auto& t) { named(t, weight).type = "I32"; },
            "tensor " + weight + " has type I32; F64, F32, F16 and BF16 are read"},
        {"one tensor more",
            [&](auto& t) {
                t.push_back({"score.weight", "F32", {1}, std::string(4, '\0')});
            },
            "tensor score.weight is not part of the model"},
        {"one layer more",
            [&](auto& t) {
                t.push_back({"transformer.h.2.ln_1.weight", "F32", {1}, std::string(4, '\0')});
            },
            "tensor transformer.h.2.ln_1.weight is not part"},
        {"no tensors", [&](auto& t) { t.clear(); }, "config.json describes a larger model than the weights"},
        {"one tensor only", [&](auto& t) { t.resize(1); }, "config.json describes a larger model than the weights"},
        {"a tensor that is not finite", [&](auto& t) { named(t, weight).data.replace(4, 4, bytes_of(std::nanf(""))); },
            "tensor " + weight + " is not finite at [0,1]"},
    };
    const Model gpt2 = load(golden("gpt2"));
    for (const Case& c : cases) {
        const std::string dir = copy_of_golden("gpt2");
        auto tensors = raw_tensors(gpt2, "F32");
        c.change(tensors);
        write(dir + "/model.safetensors", safetensors(tensors));
        check_error([&] { load(dir); }, c.message, c.what);
    }
    const auto change_config = [](const std::string& from, const std::string& to, const std::string& message) {
        const std::string dir = copy_of_golden("gpt2");
        write(dir + "/config.json", replaced(file(dir + "/config.json"), from, to));
        largest = 0;
        check_error([&] { load(dir); }, message, to);
        report(largest < 6 << 20, text(to, ": took ", largest.load(), " bytes"));
    };
    change_config("\"n_layer\": 2", "\"n_layer\": 3", "config.json describes a larger model than the weights");
    change_config("\"n_layer\": 2", "\"n_layer\": 65536", "config.json describes a larger model than the weights");
    change_config("\"n_embd\": 32", "\"n_embd\": 1048576", "config.json describes a larger model than the weights");
    change_config(
        "\"n_positions\": 16", "\"n_positions\": 1000000", "config.json describes a larger model than the weights");
    change_config("\"n_inner\": null", "\"n_inner\": 1000000", "config.json describes a larger model than the weights");
    change_config(
        "\"vocab_size\": 29", "\"vocab_size\": 28", "it has 29 characters, but config.json's vocab_size is 28");
    change_config("\"n_layer\": 2", "\"n_layer\": 1", "is not part of the model that config.json describes");
    change_config("\"n_embd\": 32", "\"n_embd\": 16", "tensor transformer.wte.weight has another shape");
    change_config("\"n_positions\": 16", "\"n_positions\": 8", "tensor transformer.wpe.weight has another shape");
    change_config("\"tie_word_embeddings\": true", "\"tie_word_embeddings\": false",
        "config.json describes a larger model than the weights");

    const std::string dir = copy_of_golden("gpt2");
    fs::remove(dir + "/tokenizer.json");
    check(!load(dir).tokenizer, "no tokenizer.json: token ids");
    fs::remove(dir + "/model.safetensors");
    check_error([&] { load(dir); }, "cannot read " + dir + "/model.safetensors", "no weights");
    fs::create_directory(dir + "/model.safetensors");
    check_error([&] { load(dir); }, dir + "/model.safetensors", "a directory for the weights");
    fs::remove(dir + "/config.json");
    check_error([&] { load(dir); }, "there is no model in " + dir + " (no config.json)", "no config.json");
    check_error([&] { load(dir + "/none"); }, "there is no model in " + dir + "/none", "no directory");
}

// Every byte of the headers changed, and the file cut off everywhere: it loads or it says what is wrong, and nothing
// else happens.
void damaged() {
    const auto survives = [](const auto& f, const std::string& what) {
        largest = 0;
        try {
            f();
        } catch (const Error& error) {
            report(std::string_view(error.what()).find('\n') == std::string_view::npos, what + ": more than one line");
        } catch (const std::exception& error) {
            report(false, text(what, ": ", error.what()));
        }
        report(largest < 6 << 20, text(what, ": took ", largest.load(), " bytes"));
    };
    const std::string dir = copy_of_golden("llama"), path = dir + "/model.safetensors", good = file(path);
    std::uint64_t length = 0;
    std::memcpy(&length, good.data(), 8);
    const std::size_t header = 8 + static_cast<std::size_t>(length);
    const Random random(7, Purpose::test);
    for (std::size_t i = 0; i < header; i++) {  // only the header is written again, over the good file's
        std::string changed = good.substr(0, header);
        changed[i] = static_cast<char>(random.bits(static_cast<idx>(i)) & 0xFF);
        std::fstream(path, std::ios::binary | std::ios::in | std::ios::out) << changed;
        survives([&] { Safetensors{path}; }, text("byte ", i, " of the header"));
        if (i % 16 == 0) survives([&] { load(dir); }, text("byte ", i, " of the header, in a directory"));
    }
    write(path, good);
    for (std::size_t n = good.size(); n > 0; n = n > header + 3000 ? n - 2999 : n - std::min<std::size_t>(n, 13)) {
        fs::resize_file(path, n - 1);
        try {
            load(dir);
            report(false, text("cut off to ", n - 1, " bytes, it loads"));
        } catch (const Error&) {
            report(true, "");
        }
    }
    for (const std::string name : {"config.json", "tokenizer.json"}) {
        const std::string content = file(golden("llama") + '/' + name);
        for (std::size_t i = 0; i < content.size(); i++)
            for (const char c : {'\0', '"', '{', '}', '9', '-', '\xFF'}) {
                std::string changed = content;
                changed[i] = c;
                if (name[0] == 'c') survives([&] { config_from_json(changed, name); }, text("byte ", i, " of ", name));
                else survives([&] { tokenizer_from_json(changed, name, 29); }, text("byte ", i, " of ", name));
                if (c == '\0')
                    survives([&] { JsonParser(content.substr(0, i), name).parse(); }, text(i, " bytes of ", name));
            }
    }
}

// ---- the log and the plot ----

void logs() {
    const std::string path = new_dir() + "/log.csv";
    const double none = std::nan("");
    const LogRow a{0, none, 3.5, none, none, none, none}, b{10, 1.0 / 3, none, 1e-3, 0.1, 12.25, 1e6},
        c{20, 1.5, 2.25, 1e-300, 7, 8, 9};
    check_equal(a.csv(), "0,,3.5,,,,\n", "a row with gaps");
    check_equal(b.csv(), "10,0.3333333333333333,,0.001,0.1,12.25,1e+06\n", "a row");
    write(path, std::string(LogRow::header) + a.csv() + b.csv() + c.csv());
    const auto rows = read_log(path, 20);
    check_equal(rows.size(), 3u, "rows");
    std::string again;
    for (const LogRow& row : rows) again += row.csv();
    check_equal(again, a.csv() + b.csv() + c.csv(), "a log read and written again");
    check_equal(read_log(path, 19).size(), 2u, "rows up to the state's iteration");
    check_equal(read_log(path, -1).size(), 0u, "no rows");
    write(path, std::string(LogRow::header) + a.csv() + b.csv().substr(0, 9));
    check_equal(read_log(path, 20).size(), 1u, "a row that a kill cut off");
    write(path, "");
    check_equal(read_log(path, 20).size(), 0u, "an empty log");
    check_error([&] { read_log(path + ".not", 20); }, "cannot read", "no log");
}

std::size_t count(const std::string& s, const std::string& part) {
    std::size_t n = 0;
    for (std::size_t at = s.find(part); at != std::string::npos; at = s.find(part, at + 1)) n++;
    return n;
}

void plots() {
    const double none = std::nan(""), infinity = std::numeric_limits<double>::infinity();
    const auto sound = [](const std::string& svg, const std::string& what) {
        report(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"), what + ": begin and end");
        for (const char* bad : {"nan", "inf", "1e+3"})
            report(svg.find(bad) == std::string::npos, text(what, ": it has ", bad));
        for (std::size_t at = svg.find(" d=\""); at != std::string::npos; at = svg.find(" d=\"", at + 1)) {
            std::istringstream points(svg.substr(at + 4, svg.find('"', at + 4) - at - 4));
            double x = 0, y = 0;
            for (char move = 0; points >> move >> x >> y;)
                report((move == 'M' || move == 'L') && x >= 83.9 && x <= 570.1 && y >= 43.9 && y <= 362.1,
                    text(what, ": the point ", move, x, ' ', y, " is outside"));
            report(points.eof(), what + ": a line that does not read");
        }
    };
    const Plot two{"A < B & C", "x", "y",
        {{"one", {{0, 1}, {1, 2}, {2, none}, {3, 4}, {4, infinity}, {5, 1}}}, {"two", {{0, 3}, {5, 3}}, true}}};
    const std::string svg = two.svg();
    sound(svg, "two lines");
    const auto path = svg.substr(svg.find(" d=\""), 200);
    check_equal(count(path.substr(0, path.find("/>")), "M"), 3u, "a value that is not finite breaks the line");
    check_equal(count(svg, "<path"), 2u, "lines");
    check_equal(count(svg, "stroke-dasharray"), 2u, "a dashed line and its legend");
    check(svg.find(">A &lt; B &amp; C</text>") != std::string::npos && svg.find(">one</text>") != std::string::npos,
        "titles");
    for (const char* tick : {">1<", ">2<", ">3<", ">4<", ">5<"})
        report(svg.find(tick) != std::string::npos, text("a tick ", tick));
    check(count(svg, "#0072b2") == 2 && count(svg, "#d55e00") == 2, "a colour for each line and its legend");
    Plot log{"", "", "", {{"a", {{1, 1e-6}, {10, 1}, {100, 1e6}, {1000, 0}, {1000, -1}}}}, true, true};
    sound(log.svg(), "decades");
    check_equal(count(log.svg(), "L"), 2u, "what a logarithm cannot show is left out");
    check(log.svg().find(">1e-06</text>") != std::string::npos, "a decade's tick");
    log.series = {{"a", {{2, 3}, {4, 5}}}};
    sound(log.svg(), "less than a decade");
    check(log.svg().find(">3</text>") != std::string::npos, "a tick between decades");
    sound(Plot{"empty", "x", "y", {}}.svg(), "no lines");
    sound(Plot{"empty", "x", "y", {{"a", {}}}}.svg(), "no points");
    sound(Plot{"one", "x", "y", {{"a", {{3, 5}}}}}.svg(), "one point");
    sound(Plot{"same", "x", "y", {{"a", {{1, 2}, {2, 2}, {3, 2}}}}}.svg(), "all the same");
    sound(Plot{"large", "x", "y", {{"a", {{0, 1e15}, {1, 1e15 + 1}}}}}.svg(), "large and close");
}

}  // namespace

int main() {
    golden_directories();
    same_bytes();
    replacing();
    names_and_types();
    mixed_descriptions();
    vocabularies();
    broken_configs();
    broken_safetensors();
    broken_directories();
    damaged();
    logs();
    plots();
    fs::remove_all(work);
    return result();
}
