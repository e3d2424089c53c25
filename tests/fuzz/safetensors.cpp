// safetensors: what is accepted can be read, every tensor of it, within the file.
#include "fuzz.h"

void target(std::string_view input) {
    Safetensors file(as_file(input));
    for (const auto& [name, entry] : file.entries) {
        must(entry.begin <= entry.end && entry.end <= input.size(), "a tensor is inside the file");
        if (!Safetensors::type_size(entry.type) || entry.shape.empty()) continue;
        idx numbers = 1;
        for (const idx n : entry.shape) numbers *= n;
        must(static_cast<std::uint64_t>(numbers) * Safetensors::type_size(entry.type) == entry.end - entry.begin,
            "a tensor fills its place");
        std::vector<real> values(static_cast<std::size_t>(numbers) + 1);
        try {
            file.read(name, {name, {numbers}, values.data(), 0, 1});
        } catch (const Error&) {
            continue;  // not finite
        }
        for (const real value : values) must(std::isfinite(value), "what is read is finite");
    }
}
