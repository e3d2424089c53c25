// JSON: what is accepted is the same after it was written and read again, and is nothing with more behind it.
#include "fuzz.h"

static std::string written(const Json& json) {
    if (const auto* b = json.as<bool>()) return *b ? "true" : "false";
    if (const auto* d = json.as<double>()) return shortest(*d);
    if (const auto* s = json.as<std::string>()) return json_quote(*s);
    std::string out, comma;
    if (const auto* array = json.as<Json::Array>()) {
        for (const Json& item : *array) out += std::exchange(comma, ",") + written(item);
        return '[' + out + ']';
    }
    if (const auto* object = json.as<Json::Object>()) {
        for (const auto& [name, member] : *object)
            out += std::exchange(comma, ",") + json_quote(name) + ':' + written(member);
        return '{' + out + '}';
    }
    return "null";
}

void target(std::string_view input) {
    const std::string once = written(JsonParser(input, "input").parse());
    must(written(JsonParser(once, "written").parse()) == once, "JSON comes back");
    try {
        JsonParser(once + "]", "more").parse();
    } catch (const Error&) {
        return;
    }
    must(false, "something behind the end is refused");
}
