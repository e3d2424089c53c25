// What every test program shares: named cases, checks that say what they compared, and the finite-difference check.
#pragma once
#define NANOGPT_NO_MAIN
#include "../nanogpt.cpp"

inline int failures = 0, checks = 0;

inline void report(bool good, const std::string& what) {
    checks++;
    if (good) return;
    if (++failures <= 20) std::printf("FAILED: %s\n", what.c_str());
}

inline void check(bool good, const std::string& what) { report(good, what); }

template <class A, class B>
void check_equal(const A& a, const B& b, const std::string& what) {
    report(a == b, text(what, ": ", a, " is not ", b));
}

// |a - b| <= tolerance * max(scale, |a|, |b|)
inline void check_close(double a, double b, double tolerance, const std::string& what, double scale = 1) {
    const double difference = std::abs(a - b) / std::max({scale, std::abs(a), std::abs(b)});
    report(difference <= tolerance, text(what, ": ", shortest(a), " against ", shortest(b), ", relative difference ", difference));
}

// f must throw an Error whose message contains `part`.
template <class F>
void check_error(const F& f, const std::string& part, const std::string& what) {
    try {
        f();
    } catch (const Error& error) {
        report(std::string_view(error.what()).find(part) != std::string_view::npos,
               text(what, ": the message is '", error.what(), "', without '", part, "'"));
        return;
    }
    report(false, what + ": no error");
}

inline int result() {
    std::printf("%d checks, %d failed\n", checks, failures);
    return failures || !checks ? 1 : 0;
}
