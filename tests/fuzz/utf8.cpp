// Text: what is accepted comes back as it was, through the tokenizer too.
#include "fuzz.h"

void target(std::string_view input) {
    std::string back;
    each_code_point(input, "input", [&](char32_t c) {
        must(c < 0xD800 || (c >= 0xE000 && c < 0x110000), "a code point is a Unicode scalar value");
        back += utf8(c);
    });
    must(back == input || "\xEF\xBB\xBF" + back == input, "a text comes back");
    if (std::hash<std::string_view>()(input) % 64) return;  // a tokenizer has a table of all code points: slow to make
    const Tokenizer tokenizer = Tokenizer::of_text(input, "input");
    must(std::is_sorted(tokenizer.characters().begin(), tokenizer.characters().end()), "the vocabulary is in order");
    std::string decoded;
    for (const Token t : tokenizer.encode(input, "input")) decoded += tokenizer.decode(t);
    must(decoded == back, "a text comes back from its tokens");
}
