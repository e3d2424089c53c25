// Text and options: UTF-8, the tokenizer, batches, JSON, the command line's parts. Everything here comes from a user or
// a file.
#include "check.h"

namespace {

std::string bytes(std::initializer_list<int> list) {
    std::string s;
    for (const int b : list) s += static_cast<char>(b);
    return s;
}

// ---- UTF-8 ----

void utf8_round_trip() {
    std::string all;
    std::size_t wrong = 0, wrong_length = 0, scalars = 0;
    for (char32_t c = 0; c < 0x110000; c++) {
        if (c >= 0xD800 && c < 0xE000) continue;
        const std::string s = utf8(c);
        std::size_t i = 0;
        wrong += next_code_point(s, i, "x") != c || i != s.size();
        wrong_length += s.size() != (c < 0x80 ? 1u : c < 0x800 ? 2u : c < 0x10000 ? 3u : 4u);
        all += s;
        scalars++;
    }
    check_equal(wrong, 0u, "code points that do not survive utf8 and next_code_point");
    check_equal(wrong_length, 0u, "code points of the wrong length in UTF-8");
    char32_t expected = 0;
    std::size_t count = 0, out_of_order = 0;
    each_code_point(all, "x", [&](char32_t c) {
        if (expected == 0xD800) expected = 0xE000;
        out_of_order += c != expected++;
        count++;
    });
    check_equal(out_of_order, 0u, "code points out of order in a text that has them all");
    check_equal(count, scalars, "code points in a text that has them all");
    check_equal(utf8(U'中'), "\xE4\xB8\xAD", "U+4E2D");
    check_equal(utf8(U'😀'), "\xF0\x9F\x98\x80", "U+1F600");

    const Tokenizer tokenizer = Tokenizer::of_text(all, "all");
    check_equal(tokenizer.size(), 0x110000 - 0x800, "vocabulary of a text that has every code point");
    std::string back;
    for (const Token t : tokenizer.encode(all, "all")) back += tokenizer.decode(t);
    check(back == all, "a text that has every code point, encoded and decoded");
}

// The length of the well-formed sequence at the start of s by Unicode's table 3-7, or 0: written from the table, not
// from the code.
std::size_t well_formed(std::string_view s) {
    struct Row {
        int from, to, second_from, second_to;
        std::size_t length;
    };
    static constexpr Row table[] = {{0x00, 0x7F, 0, 0, 1}, {0xC2, 0xDF, 0x80, 0xBF, 2}, {0xE0, 0xE0, 0xA0, 0xBF, 3},
        {0xE1, 0xEC, 0x80, 0xBF, 3}, {0xED, 0xED, 0x80, 0x9F, 3}, {0xEE, 0xEF, 0x80, 0xBF, 3},
        {0xF0, 0xF0, 0x90, 0xBF, 4}, {0xF1, 0xF3, 0x80, 0xBF, 4}, {0xF4, 0xF4, 0x80, 0x8F, 4}};
    const auto at = [&](std::size_t i) { return int{static_cast<unsigned char>(s[i])}; };
    for (const Row& row : table) {
        if (at(0) < row.from || at(0) > row.to) continue;
        if (row.length == 1) return 1;
        if (s.size() < row.length || at(1) < row.second_from || at(1) > row.second_to) return 0;
        for (std::size_t k = 2; k < row.length; k++)
            if (at(k) < 0x80 || at(k) > 0xBF) return 0;
        return row.length;
    }
    return 0;
}

void utf8_errors() {
    struct Case {
        std::string bytes, what;
    };
    const std::vector<Case> cases = {
        {bytes({0x80}), "a continuation alone"},
        {bytes({0xBF}), "the last continuation alone"},
        {bytes({0xC0, 0x80}), "overlong NUL"},
        {bytes({0xC1, 0xBF}), "overlong U+007F"},
        {bytes({0xE0, 0x80, 0x80}), "overlong NUL in three"},
        {bytes({0xE0, 0x9F, 0xBF}), "overlong U+07FF"},
        {bytes({0xF0, 0x80, 0x80, 0x80}), "overlong NUL in four"},
        {bytes({0xF0, 0x8F, 0xBF, 0xBF}), "overlong U+FFFF"},
        {bytes({0xED, 0xA0, 0x80}), "surrogate U+D800"},
        {bytes({0xED, 0xAF, 0xBF}), "surrogate U+DBFF"},
        {bytes({0xED, 0xB0, 0x80}), "surrogate U+DC00"},
        {bytes({0xED, 0xBF, 0xBF}), "surrogate U+DFFF"},
        {bytes({0xF4, 0x90, 0x80, 0x80}), "U+110000"},
        {bytes({0xF5, 0x80, 0x80, 0x80}), "U+140000"},
        {bytes({0xF8, 0x88, 0x80, 0x80, 0x80}), "five bytes"},
        {bytes({0xFC, 0x84, 0x80, 0x80, 0x80, 0x80}), "six bytes"},
        {bytes({0xFE}), "FE"},
        {bytes({0xFF}), "FF"},
        {bytes({0xE4, 0xC4, 0x80}), "a beginning inside a character"},
    };
    for (const Case& c : cases)
        for (const std::string& before :
            {std::string(), std::string("ab"), std::string("中文"), bytes({0xEF, 0xBB, 0xBF})})
            check_error([&] { Tokenizer::of_text(before + c.bytes + "z", "f.txt"); },
                text("f.txt is not UTF-8 at byte ", before.size(), " "), c.what);

    for (const char32_t c : {U'é', U'中', U'😀'}) {  // cut off at each position: at the end, and by another character
        const std::string whole = utf8(c);
        for (std::size_t n = 1; n < whole.size(); n++)
            for (const std::string after : {"", "a", "\n", "é"})
                check_error([&] { Tokenizer::of_text("xyz" + whole.substr(0, n) + after, "f.txt"); },
                    "f.txt is not UTF-8 at byte 3 (value", text("the first ", n, " bytes of ", whole));
    }

    // All strings of four bytes that stand at the limits of some rule.
    const int limits[] = {0x00, 0x41, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0, 0xC1, 0xC2, 0xDF, 0xE0, 0xE1,
        0xEC, 0xED, 0xEE, 0xEF, 0xF0, 0xF1, 0xF3, 0xF4, 0xF5, 0xFF};
    std::size_t tried = 0, wrong = 0;
    for (const int a : limits)
        for (const int b : limits)
            for (const int c : limits)
                for (const int d : limits) {
                    const std::string s = bytes({a, b, c, d});
                    std::size_t end = 0;
                    try {
                        next_code_point(s, end, "x");
                    } catch (const Error&) {
                        wrong += end != 0;  // a refused character leaves the position where it was
                    }
                    wrong += end != well_formed(s);
                    tried++;
                }
    check_equal(wrong, 0u, text("wrongly judged of ", tried, " byte strings"));
    check_error([] { Tokenizer::of_text("\xFF", "f.txt"); }, "iconv", "the UTF-8 error says what to do");
}

void special_characters() {
    const std::string bom = "\xEF\xBB\xBF";
    const auto characters = [](const std::string& s) { return Tokenizer::of_text(s, "x").characters(); };
    check(characters(bom + "ba") == std::vector<char32_t>{'a', 'b'}, "a leading byte-order mark is dropped");
    check(characters("a" + bom) == std::vector<char32_t>{'a', 0xFEFF}, "U+FEFF inside a text stays");
    check(characters(bom + bom) == std::vector<char32_t>{0xFEFF}, "only one byte-order mark is dropped");
    check(characters(bom).empty() && characters("").empty(), "no characters in an empty text");
    check(characters("a\r\nb\n") == std::vector<char32_t>{'\n', '\r', 'a', 'b'}, "CRLF is read as written");
    check(characters(std::string("b\0a", 3)) == std::vector<char32_t>{0, 'a', 'b'}, "NUL is a character");
    check(characters("天地玄黄，天") == std::vector<char32_t>{U'地', U'天', U'玄', U'黄', U'，'},
        "Chinese, in the order of code points");

    const Tokenizer tokenizer = Tokenizer::of_text("cab 中", "x");
    check(tokenizer.encode(bom + "a中b", "x") == std::vector<Token>{1, 4, 2},
        "ids in order of code points, no byte-order mark");
    check_equal(tokenizer.size(), 5, "vocabulary");
    check_error([&] { tokenizer.encode("abd", "my.txt"); }, "has never seen 'd' (U+0064), character 3 of my.txt;",
        "an unknown letter");
    check_error([&] { tokenizer.encode("中中é", "my.txt"); }, "has never seen 'é' (U+00E9), character 3 of my.txt;",
        "position in characters");
    check_error([&] { tokenizer.encode(bom + "😀", "my.txt"); }, "has never seen '😀' (U+1F600), character 1 of my.txt;",
        "an unknown emoji");
    check_error([&] { tokenizer.encode("a\n", "my.txt"); }, "(U+000A), character 2 of my.txt;",
        "a control character by its number");
    check_error([&] { tokenizer.encode("a\n", "my.txt"); }, "'' (U+000A)", "a control character is not printed");
    check_error([&] { tokenizer.encode("a\xC3", "my.txt"); }, "my.txt is not UTF-8 at byte 1",
        "invalid UTF-8 in a text to encode");
}

void batches() {
    for (idx n = 0; n < 2000; n++) report(training_part(n) == n * 9 / 10, text("training_part(", n, ")"));
    constexpr idx most = std::numeric_limits<idx>::max();
    check_equal(training_part(most), most / 10 * 9 + 6, "training_part does not overflow");

    std::vector<Token> tokens(50);
    std::iota(tokens.begin(), tokens.end(), 0);
    Batch batch;
    bool first = false, last = false;
    for (std::uint64_t step = 0; step < 500; step++) {
        random_batch(batch, Random(1, Purpose::batch, step), tokens.data(), 50, 3, 8);
        for (std::size_t i = 0; i < batch.inputs.size(); i++) {
            report(batch.targets[i] == batch.inputs[i] + 1, "targets are the successors");
            report(i % 8 == 0 || batch.inputs[i] == batch.inputs[i - 1] + 1, "rows are windows");
        }
        first |= batch.inputs[0] == 0, last |= batch.targets[7] == 49;
    }
    check(first && last, "random windows reach both ends of the text");
    even_batch(batch, 0, 4, tokens.data(), 50, 3, 8);
    check_equal(batch.inputs[0], 0, "the first validation window");
    even_batch(batch, 3, 4, tokens.data(), 50, 3, 8);
    check_equal(batch.targets.back(), 49, "the last validation window");
    even_batch(batch, 0, 1, tokens.data(), 9, 1, 8);
    check_equal(batch.targets.back(), 8, "the only validation window");
}

void token_ids() {
    const auto read = [](const std::string& s) { return read_tokens(s, "ids.txt", {}, true, 10); };
    check(read(" 3\n0\t9 ") == std::vector<Token>{3, 0, 9}, "token ids");
    check(read("").empty(), "no token ids");
    check_error([&] { read("3 10"); }, "token 2 of ids.txt is '10'; ", "an id that the model does not have");
    for (const char* word : {"-1", "x", "1x", "1.0", "99999999999", "+1", "0x1"})
        check_error([&] { read(word); }, text("token 1 of ids.txt is '", word, "'"), "not a token id");
    const Tokenizer digits = Tokenizer::of_text("123", "x");
    check(read_tokens("31", "x", digits, false, 3) == std::vector<Token>{2, 0}, "characters");
    check(
        read_tokens("2 1", "x", digits, true, 3) == std::vector<Token>{2, 1}, "token ids though there are characters");
    check_error([&] { read("the"); }, "token ids", "text for a model that has no characters");
}

// ---- JSON ----

void json() {
    const char* good[] = {
        "null",
        "true",
        "false",
        "0",
        "-0",
        "1",
        "-12.5",
        "1e5",
        "1E+5",
        "1.5e-3",
        "\"\"",
        "\"a\"",
        "[]",
        "{}",
        "[1,2]",
        "[[],{}]",
        " \t\r\n{ \"a\" : [ 1 , null ] } \n",
        "{\"a\":{\"b\":{\"c\":[true,false]}}}",
        "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"",
        "\"\\u0041\\u00e9\\u4E2D\"",
        "\"\\uD83D\\uDE00\"",
        "\"\\u0000\"",
        "\"中文\"",
        "1e-400",
        "123456789012345678901234567890",
        "\"\x7F\"",
        "{\"\":0}",
        "1.7976931348623157e308",
    };
    for (const char* s : good) {
        bool accepted = true;
        try {
            JsonParser(s, "j").parse();
        } catch (const Error&) {
            accepted = false;
        }
        report(accepted, text("valid JSON is refused: ", s));
    }
    struct Bad {
        std::string json;
        const char* message;
    };
    const std::vector<Bad> bad = {
        {"", "j is not valid JSON at byte 0: a value is missing"},
        {" ", "at byte 1: a value is missing"},
        {std::string("\0", 1), "at byte 0: a value is missing"},
        {"nul", "a value is missing"},
        {"nullx", "at byte 4: something follows"},
        {"True", "a value is missing"},
        {"NaN", "a value is missing"},
        {"Infinity", "a value is missing"},
        {"-Infinity", "a digit is missing"},
        {"1 2", "at byte 2: something follows"},
        {"{} {}", "something follows"},
        {std::string("1\0", 2), "at byte 1: something follows"},
        {"01", "something follows"},
        {"-01", "something follows"},
        {"+1", "a value is missing"},
        {".5", "a value is missing"},
        {"1.", "at byte 2: a digit is missing"},
        {"1.e5", "a digit is missing"},
        {"1e", "a digit is missing"},
        {"1e+", "a digit is missing"},
        {"1e+-5", "a digit is missing"},
        {"-", "a digit is missing"},
        {"--1", "a digit is missing"},
        {"0x10", "something follows"},
        {"1e400", "a number is too large"},
        {"-1e309", "a number is too large"},
        {"[", "a value is missing"},
        {"[1", "bracket is missing"},
        {"[1,", "a value is missing"},
        {"[1,]", "a value is missing"},
        {"[,1]", "a value is missing"},
        {"[1 2]", "bracket is missing"},
        {"]", "a value is missing"},
        {"{", "a string is missing"},
        {"{1:2}", "a string is missing"},
        {"{a:1}", "a string is missing"},
        {"{'a':1}", "a string is missing"},
        {"{\"a\"}", "':' is missing"},
        {"{\"a\" 1}", "':' is missing"},
        {"{\"a\":}", "a value is missing"},
        {"{\"a\":1", "bracket is missing"},
        {"{\"a\":1,}", "a string is missing"},
        {"{\"a\":1 \"b\":2}", "bracket is missing"},
        {"{\"a\":1,\"a\":2}", "a name stands twice"},
        {"{\"a\":1,\"\\u0061\":2}", "a name stands twice"},
        {"[1}", "bracket is missing"},
        {"// no\n1", "a value is missing"},
        {"\"a", "a string does not end"},
        {"\"a\\\"", "a string does not end"},
        {"\"\\", "an unknown escape"},
        {"\"\\x41\"", "an unknown escape"},
        {"\"\\'\"", "an unknown escape"},
        {std::string("\"\\\0\"", 4), "an unknown escape"},
        {"\"\\u\"", "four hexadecimal digits"},
        {"\"\\u12\"", "four hexadecimal digits"},
        {"\"\\u12g4\"", "four hexadecimal digits"},
        {"\"\\u+123\"", "four hexadecimal digits"},
        {"\"\\uD83D\"", "a surrogate stands alone"},
        {"\"\\uD83Dx\"", "a surrogate stands alone"},
        {"\"\\uD83D\\n\"", "a surrogate stands alone"},
        {"\"\\uD83D\\u0041\"", "a surrogate stands alone"},
        {"\"\\uD83D\\uD83D\"", "a surrogate stands alone"},
        {"\"\\uDE00\"", "a surrogate stands alone"},
        {"\"\n\"", "a control character"},
        {"\"\t\"", "a control character"},
        {std::string("\"\0\"", 3), "a control character"},
        {"\"\xFF\"", "j is not UTF-8 at byte 1"},
        {"\"\xED\xA0\x80\"", "j is not UTF-8 at byte 1"},
        {"\xEF\xBB\xBF{}", "a value is missing"},
        {std::string(100, '['), "nested too deeply"},
        {std::string(100000, '['), "nested too deeply"},
    };
    for (const Bad& b : bad)
        check_error([&] { JsonParser(b.json, "j").parse(); }, b.message, "JSON " + b.json.substr(0, 40));
    std::string nested = std::string(64, '[') + std::string(64, ']');
    check(JsonParser(nested, "j").parse().as<Json::Array>() != nullptr, "64 arrays in each other");
    check_error([&] { JsonParser('[' + nested + "1]", "j").parse(); }, "is missing", "65 arrays");
    std::string objects;
    for (int i = 0; i < 70; i++) objects += "{\"a\":";
    check_error([&] { JsonParser(objects, "j").parse(); }, "nested too deeply", "objects in each other");

    const Json parsed = JsonParser(R"({"n":-1.25e2,"s":"\ud83d\ude00\n","a":[true,null],"z":null})", "j").parse();
    const Fields f(parsed, "file");
    check_equal(f.get<double>("n"), -125.0, "a number");
    check_equal(f.get<std::string>("s"), "😀\n", "a string with escapes");
    const auto& array = f.get<Json::Array>("a");
    check(array.size() == 2 && *array[0].as<bool>() && array[1].as<std::nullptr_t>(), "an array");
    check(f.find("n") && !f.find("z") && !f.find("q"), "null counts as absent");
    check_error([&] { f.get<double>("q"); }, "file: \"q\" is missing", "a missing field");
    check_error([&] { f.get<double>("s"); }, "file: \"s\" has the wrong type", "a field of another type");
    check_error([&] { f.whole("n", 0); }, "file: \"n\" is not a whole number from 0", "an integer below its least");
    check_error([&] { Fields(*f.find("n"), "file"); }, "file: a JSON object was expected", "a number for an object");
    for (const char* number : {"1.5", "1e10", "-1"}) {
        const Json one = JsonParser(text("{\"n\":", number, "}"), "j").parse();
        check_error([&] { Fields(one, "file").whole("n", 0); }, "is not a whole number from 0", number);
    }

    std::string all;  // every code point through json_quote and back
    for (char32_t c = 0; c < 0x110000; c += c < 0x3000 ? 1 : 97)
        if (c < 0xD800 || c >= 0xE000) all += utf8(c);
    check(*JsonParser(json_quote(all), "j").parse().as<std::string>() == all, "json_quote and back");
    check_equal(json_quote("a\"\\\n\x01\x7F中"), "\"a\\\"\\\\\\n\\u0001\\u007f中\"", "json_quote");
    for (const double d : {0.0, 1e-5, 0.1, 1.0 / 3, 1e300, -5e-324, 123456789.125})
        check_equal(std::strtod(shortest(d).c_str(), nullptr), d, "shortest reads back");
    check_equal(shortest(1e-5), "1e-05", "shortest");
}

// ---- options ----

Options options_of(const std::vector<std::string>& arguments, char command = 't') {
    Options o;
    set_options(o, given_options(arguments, command));
    return o;
}

template <class F> void check_usage(const F& f, const std::string& part, const std::string& what) {
    try {
        f();
    } catch (const UsageError& error) {
        report(std::string_view(error.what()).find(part) != std::string_view::npos,
            text(what, ": '", error.what(), "' without '", part, "'"));
        return;
    } catch (const Error& error) {
        return report(false, text(what, ": a plain Error, so the exit status is 1: ", error.what()));
    }
    report(false, what + ": no error");
}

void option_forms() {
    check_equal(options_of({"--n_layer=6"}).model.n_layer, 6, "--name=value");
    check_equal(options_of({"--n_layer", "6"}).model.n_layer, 6, "--name value");
    check_equal(options_of({"--n-layer=6"}).model.n_layer, 6, "dashes for underscores");
    check_equal(options_of({"--out-dir", "my-dir_x"}).out_dir, "my-dir_x", "the value keeps its dashes");
    check_equal(options_of({"--start=a=b"}, 's').start, "a=b", "an equals sign in a value");
    check_equal(options_of({"--start="}, 's').start, "", "an empty value");
    check_equal(options_of({"--start=--x"}, 's').start, "--x", "a value that looks like an option");
    check(options_of({"--tokens"}, 's').tokens, "a flag alone");
    check(options_of({"--tokens", "--seed=3"}, 's').tokens, "a flag alone before another option");
    check(!options_of({"--bias", "false"}).model.bias && !options_of({"--bias=0"}).model.bias, "a flag with a value");
    check(
        options_of({"--bias=True", "--arch=llama"}).model.bias, "a single option overrides --arch, wherever it stands");
    const Config llama = options_of({"--arch=llama"}).model;
    check(
        llama.norm == Norm::rms && llama.pos == Position::rope && llama.mlp == Mlp::swiglu && !llama.bias && llama.tie,
        "--arch=llama");
    const Config gpt2 = options_of({"--arch=gpt2"}).model;
    check(gpt2.norm == Norm::layer && gpt2.pos == Position::learned && gpt2.mlp == Mlp::gelu && gpt2.bias && gpt2.tie,
        "--arch=gpt2");
    check_equal(options_of({"--learning_rate=3e-4"}).learning_rate, 3e-4, "a number with an exponent");
    check_equal(options_of({"--seed=18446744073709551615"}).seed, std::numeric_limits<std::uint64_t>::max(),
        "the largest seed");
    check(options_of({"--wiring=post", "--norm=rmsnorm", "--pos=none", "--mlp=swiglu"}).model.wiring == Wiring::post,
        "words");

    // Each option's default, written out and read again, is the default: what is saved for a resume reads back.
    Options defaults, read;
    for (const Option& option : option_table(defaults)) {
        set_option(read, option.name, value_text(option));
        for (const Option& other : option_table(read))
            if (std::string_view(other.name) == option.name)
                check_equal(value_text(other), value_text(option), option.name);
    }
}

void option_errors() {
    const auto bad = [](const std::string& argument, const std::string& part, char command = 't') {
        check_usage([&] { options_of({argument}, command); }, part, argument);
    };
    bad("n_layer=4", "'n_layer=4' is not an option");
    bad("-n_layer=4", "is not an option");
    bad("--", "there is no option --");
    bad("--n_layr=4", "there is no option --n_layr; did you mean --n_layer?");
    bad("--bacth_size=4", "did you mean --batch_size?");
    bad("--learningrate=1", "did you mean --learning_rate?");
    bad("--lr=1", "there is no option --lr");
    bad("--max_iter", "did you mean --max_iters?");
    bad("--n_layer", "--n_layer needs a value");
    bad("--top_k=3", "--top_k is not an option of this command");
    bad("--learning_rate=3", "--learning_rate is not an option of this command", 's');
    bad("--arch=bert", "--arch is 'bert'; it takes gpt2, llama");
    bad("--norm=batch", "--norm is 'batch'; it takes layernorm, rmsnorm");
    bad("--pos=alibi", "it takes learned, sinusoidal, rope, none");
    bad("--mlp=relu", "it takes gelu, swiglu");
    bad("--wiring=", "it takes pre, post, none, plain");
    bad("--split=test", "--split is 'test'; it takes all, train, val", 'e');
    bad("--bias=yes", "--bias is 'yes'; it takes true or false");
    for (const char* value :
        {"", "x", "1.5", "1e3", "+1", " 1", "1 ", "0x10", "1,000", "一", "2147483648", "-2147483649"})
        bad(text("--n_layer=", value), text("--n_layer is '", value, "'; it takes a whole number from 1 to 65536"));
    for (const char* value : {"-1", "18446744073709551616", "1.5", "", "x"})
        bad(text("--seed=", value), text("--seed is '", value, "'; it takes a whole number from 0 to 1.84467e+19"));
    for (const char* value :
        {"", "x", "1.5x", "inf", "-inf", "nan", "NaN", "infinity", "1e999", "-1e999", " 1", "1 ", "1,5", "-1"})
        bad(text("--learning_rate=", value), text("--learning_rate is '", value, "'; it takes a number from 0 to "));
    for (const char* name :
        {"batch_size", "gradient_accumulation_steps", "eval_interval", "eval_iters", "log_interval", "n_head"})
        for (const char* value : {"0", "-1"}) bad(text("--", name, "=", value), "it takes a whole number from 1 to ");
    for (const char* name :
        {"max_iters", "warmup_iters", "lr_decay_iters", "min_lr", "weight_decay", "grad_clip", "dropout", "n_hidden"})
        bad(text("--", name, "=-1"), text("--", name, " is '-1'; it takes a "));
    for (const char* name : {"beta1", "beta2", "dropout"})
        for (const char* value : {"-0.1", "1", "2"})
            bad(text("--", name, "=", value), "it takes a number from 0 to 0.999999");
    for (const char* value : {"-1", "1025"}) bad(text("--threads=", value), "it takes a whole number from 0 to 1024");
    bad("--num_samples=0", "--num_samples is '0'; it takes a whole number from 1", 's');
    for (const char* name : {"max_new_tokens", "top_k", "temperature"})
        bad(text("--", name, "=-1"), "number from 0", 's');
    for (const char* value : {"0", "-0.5", "1.01"})
        bad(text("--top_p=", value), text("--top_p is '", value, "'; it takes a number"), 's');
    for (const char* name : {"n_layer", "n_head", "n_embd", "block_size", "n_hidden"})
        bad(text("--", name, "=2000000000"), "it takes a whole number");
    check_usage([] { options_of({"--seed=1", "--seed=2"}); }, "--seed is given twice, 1 and 2", "an option twice");
    check_usage(
        [] {
            options_of({"--n_layer=1", "--n-layer", "1"});
        },
        "--n_layer is given twice", "an option twice in two spellings");
    check_error([] { options_of({"--data=\xFF"}); }, "--data is not UTF-8 at byte 0", "a value that is not UTF-8");

    const auto model = [](const std::vector<std::string>& arguments, const std::string& part) {
        check_error([&] { options_of(arguments).model.complete(); }, part, arguments[0]);
    };
    model({"--n_embd=30"}, "n_embd 30 is not a multiple of n_head 4");
    model({"--n_kv_head=3"}, "n_head 4 is not a multiple of n_kv_head 3");
    model({"--n_embd=12", "--pos=rope"}, "n_embd / n_head = 3 is odd");
}

void distances() {
    check_equal(edit_distance("", ""), 0u, "nothing and nothing");
    check_equal(edit_distance("abc", ""), 3u, "all deleted");
    check_equal(edit_distance("", "abc"), 3u, "all inserted");
    check_equal(edit_distance("kitten", "sitting"), 3u, "kitten and sitting");
    check_equal(edit_distance("flaw", "lawn"), 2u, "flaw and lawn");
    check_equal(edit_distance("n_layer", "n_layer"), 0u, "the same");
    Options o;
    for (const Option& option :
        option_table(o)) {  // one letter dropped: the nearest is still the one that was meant (of twins, the first)
        const std::string name = option.name, mistyped = name.substr(0, name.size() - 1);
        std::string message;
        try {
            set_option(o, mistyped, "1");
        } catch (const UsageError& error) {
            message = error.what();
        }
        report(message.find("did you mean --" + name + "?") != std::string::npos || name == "beta2" || name == "top_p",
            mistyped + ": " + message);
    }
}

void config_files() {
    const std::filesystem::path dir = std::filesystem::temp_directory_path() /
        text("nanogpt-text-", std::chrono::steady_clock::now().time_since_epoch().count());
    std::filesystem::create_directory(dir);
    const std::string path = dir / "train.cfg";
    const auto with = [&](const std::string& content, const std::vector<std::string>& more = {}, char command = 't') {
        std::ofstream(path, std::ios::binary) << content;
        std::vector<std::string> arguments = more;
        arguments.insert(arguments.begin(), "--config=" + path);
        return options_of(arguments, command);
    };
    const Options o = with(
        "# a comment\n\n  n_layer = 3 # more\nout_dir=my dir\r\nlearning_rate=2e-3\ndata = x y.txt \narch = llama\nbias = true");
    check(o.model.n_layer == 3 && o.out_dir == "my dir" && o.learning_rate == 2e-3 && o.data == "x y.txt",
        "a configuration file");
    check(o.model.mlp == Mlp::swiglu && o.model.bias, "--arch in a configuration file");
    check_equal(with("n_layer = 3\nn_head = 2\n", {"--n_layer=5"}).model.n_layer, 5, "the command line wins");
    check_equal(with("n_layer = 3\nn_head = 2\n", {"--n_layer=5"}).model.n_head, 2, "what it does not name stays");
    check_equal(with("n_layer = 3\ntop_k = 7\n", {}, 's').taste.top_k, 7, "options of other commands are passed over");
    check_equal(with("").model.n_layer, 4, "an empty configuration file");
    check_usage([&] { with("n_layer 3\n"); }, "line 1 is 'n_layer 3'; write `option = value`", "no equals sign");
    check_usage([&] { with("n_layer = 3\n\nn_lyer = 3\n"); }, "no option --n_lyer; did you mean --n_layer?",
        "an unknown option in a file");
    check_usage([&] { with("n_layer = three\n"); }, "--n_layer is 'three'", "a bad value in a file");
    check_usage(
        [&] { with("n_layer = 3\n", {"--n_layer=0x"}); }, "--n_layer is '0x'", "a bad value on the command line");
    check_error([&] { options_of({"--config=" + path + ".not"}); }, "cannot read " + path + ".not",
        "a configuration file that is not there");
    check_error(
        [&] { options_of({"--config=" + dir.string()}); }, "is a directory", "a directory for a configuration file");
    std::filesystem::remove_all(dir);
}

void small_things() {
    check_equal(text("a", 1, 'b', 2.5), "a1b2.5", "text");
    check(!is_terminal("/dev/null") && !is_terminal("nanogpt.cpp") && !is_terminal("/nowhere/at/all"),
        "what is no terminal");
    const real logits[] = {0, 2, 1, 2};
    Taste taste;
    taste.temperature = 0;
    check_equal(draw(logits, 4, taste, 0.99), 1, "greedy takes the first of equals");
    taste.temperature = 1e-300;
    check_equal(draw(logits, 4, taste, 0.999), 3, "a temperature near 0 leaves the largest");
    taste.temperature = 1, taste.top_k = 2;
    for (int i = 0; i < 100; i++) report(logits[draw(logits, 4, taste, i / 100.0)] == 2, "top_k");
    taste.top_k = 0, taste.top_p = 1e-9;
    check_equal(draw(logits, 4, taste, 0.9), 1, "the smallest top_p leaves one");
    taste.top_p = 0.75;  // the two largest have 0.78 of the probability
    for (int i = 0; i < 100; i++) report(logits[draw(logits, 4, taste, i / 100.0)] == 2, "top_p");
}

}  // namespace

int main() {
    utf8_round_trip();
    utf8_errors();
    special_characters();
    batches();
    token_ids();
    json();
    option_forms();
    option_errors();
    distances();
    config_files();
    small_things();
    return result();
}
