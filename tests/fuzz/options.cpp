// The command line and a configuration file. The first byte is the command, NUL separates the arguments.
#include "fuzz.h"

static void check(const OptionList& list) {
    Options o, again;
    set_options(o, list);
    for (const Option& option : option_table(o)) set_option(again, option.name, value_text(option));
    std::vector<std::string> before, after;
    for (const Option& option : option_table(o)) before.push_back(value_text(option));
    set_options(again, {});
    for (const Option& option : option_table(o)) set_option(again, option.name, value_text(option));
    for (const Option& option : option_table(again)) after.push_back(value_text(option));
    must(before == after, "options come back");
    o.model.vocab_size = 10;
    o.model.complete();
    must(o.model.n_embd % o.model.n_head == 0 && o.batch_size > 0 && o.eval_interval > 0 && o.threads >= 0, "options make sense");
}

void target(std::string_view input) {
    if (input.empty()) return;
    const char command = "tse"[static_cast<unsigned char>(input[0]) % 3];
    try {
        check(read_config_file(as_file(input.substr(1))));
    } catch (const Error&) {
    }
    std::vector<std::string> arguments(1);
    for (const char c : input.substr(1)) {
        if (c == '\0') arguments.emplace_back();
        else arguments.back() += c;
    }
    for (const std::string& argument : arguments)
        if (argument.find("config") != std::string::npos) return;  // reads the machine's files
    check(given_options(arguments, command));
}
