// The command line and a configuration file. The first byte is the command, NUL separates the arguments.
#include "fuzz.h"

static void check(const OptionList& list, std::size_t hash) {
    Options o, again;
    set_options(o, list);
    o.model.vocab_size = 10;
    Config model = o.model;
    model.complete();
    must(model.n_embd % model.n_head == 0 && o.batch_size > 0 && o.eval_interval > 0 && o.threads >= 0,
        "options make sense");
    if (hash % 64) return;  // each of the following looks for the nearest option's name: slow
    const auto before = option_table(o), after = option_table(again);
    for (std::size_t i = 0; i < before.size(); i++) {
        set_option(again, before[i].name, value_text(before[i]));
        must(value_text(after[i]) == value_text(before[i]), "an option comes back");
    }
}

void target(std::string_view input) {
    if (input.empty()) return;
    const std::size_t hash = std::hash<std::string_view>()(input);
    const char command = "tse"[static_cast<unsigned char>(input[0]) % 3];
    try {
        check(read_config_file(as_file(input.substr(1))), hash);
    } catch (const Error&) {}
    std::vector<std::string> arguments(1);
    for (const char c : input.substr(1)) {
        if (c == '\0') arguments.emplace_back();
        else arguments.back() += c;
    }
    for (const std::string& argument : arguments)
        if (argument.find("config") != std::string::npos) return;  // reads the machine's files
    check(given_options(arguments, command), hash);
}
