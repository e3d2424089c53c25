// config.json: what is accepted makes a model whose own description says the same.
#include "fuzz.h"

void target(std::string_view input) {
    const Config config = config_from_json(std::string(input), "input");
    must(config.n_embd % config.n_head == 0 && config.n_head % config.n_kv_head == 0 && config.vocab_size > 0,
        "the sizes divide");
    const std::string once = config_json(config);
    must(config_json(config_from_json(once, "written")) == once, "a configuration comes back");
    if (config.n_layer > 100) return;
    try {
        must(Parameters(config).count() > 0, "there are parameters");
    } catch (const std::bad_alloc&) {  // it only counts, and says so when there are too many
    }
}
