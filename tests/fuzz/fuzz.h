// What the fuzz targets share: nanogpt.cpp without its main, a file in memory, and a check that cannot be compiled away.
#pragma once
#define NANOGPT_NO_MAIN
#include "../../nanogpt.cpp"

// A target holds if the input is refused with an Error, or accepted and all `must` hold.
inline void must(bool good, const char* what) {
    if (good) return;
    std::fprintf(stderr, "does not hold: %s\n", what);
    std::abort();
}

// The input as a file, for what reads files.
inline const std::string& as_file(std::string_view content) {
    static const std::string path =
        text("/dev/shm/nanogpt-fuzz-", std::chrono::steady_clock::now().time_since_epoch().count());
    std::ofstream(path, std::ios::binary) << content;
    return path;
}

void target(std::string_view input);

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    try {
        target({reinterpret_cast<const char*>(data), size});
    } catch (const Error&) {}
    return 0;
}
