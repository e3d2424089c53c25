// tokenizer.json: what is accepted is one token a character, and comes back. The first byte is config.json's
// vocab_size.
#include "fuzz.h"

void target(std::string_view input) {
    if (input.empty()) return;
    const int vocab_size = static_cast<unsigned char>(input[0]);
    const auto tokenizer = tokenizer_from_json(std::string(input.substr(1)), "input", vocab_size);
    if (!tokenizer) return;
    must(tokenizer->size() == vocab_size, "the vocabulary is as large as config.json says");
    const auto again = tokenizer_from_json(tokenizer_json(*tokenizer), "written", vocab_size);
    must(again && again->characters() == tokenizer->characters(), "a tokenizer comes back");
    for (Token t = 0; t < vocab_size; t++) {
        const auto tokens = tokenizer->encode("x" == tokenizer->decode(t) ? "x" : tokenizer->decode(t), "a character");
        must(tokens == std::vector<Token>{t} || tokenizer->decode(t) == "\xEF\xBB\xBF", "a character is its token");
    }
}
