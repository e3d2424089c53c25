// What every test program shares: named cases, checks that say what they compared, and the finite-difference check.
#pragma once
#define NANOGPT_NO_MAIN
#ifndef NANOGPT_CPP
#define NANOGPT_CPP "../nanogpt.cpp"
#endif
#include NANOGPT_CPP

inline int failures = 0, checks = 0;

inline std::string digits(double d) {  // all of them
    char out[32];
    std::snprintf(out, sizeof out, "%.17g", d);
    return out;
}

inline void report(bool good, const std::string& what) {
    checks++;
    if (good) return;
#ifdef GRADIENTS_ONLY
    std::_Exit(1);  // one failure is all that tests/mutate.sh asks for
#endif
    if (++failures <= 20) std::printf("FAILED: %s\n", what.c_str());
}

inline void check(bool good, const std::string& what) { report(good, what); }

template <class A, class B> void check_equal(const A& a, const B& b, const std::string& what) {
    report(a == b, text(what, ": ", a, " is not ", b));
}

// |a - b| <= tolerance * max(scale, |a|, |b|)
inline void check_close(double a, double b, double tolerance, const std::string& what, double scale = 1) {
    const double difference = std::abs(a - b) / std::max({scale, std::abs(a), std::abs(b)});
    if (difference <= tolerance) return report(true, what);
    report(false, text(what, ": ", digits(a), " against ", digits(b), ", relative difference ", difference));
}

// f must throw an Error whose message contains `part`.
template <class F> void check_error(const F& f, const std::string& part, const std::string& what) {
    try {
        f();
    } catch (const Error& error) {
        report(std::string_view(error.what()).find(part) != std::string_view::npos,
            text(what, ": the message is '", error.what(), "', without '", part, "'"));
        return;
    } catch (const std::exception& error) {
        return report(false, text(what, ": not an Error but '", error.what(), "'"));
    }
    report(false, what + ": no error");
}

// ---- random inputs, and finite differences ----

using Numbers = std::vector<real>;

inline Numbers zeros(idx n) { return Numbers(static_cast<std::size_t>(n)); }

// Standard normal numbers, others at each call, the same in each run.
inline Numbers normals(idx n, double scale = 1, double mean = 0) {
    static std::uint64_t call = 0;
    const Random random(7, Purpose::test, call++);
    Numbers numbers = zeros(n);
    for (idx i = 0; i < n; i++) numbers[static_cast<std::size_t>(i)] = real(mean + scale * random.normal(i));
    return numbers;
}

inline std::vector<Token> random_tokens(idx n, idx V, std::uint64_t seed = 1) {
    const Random random(seed, Purpose::test);
    std::vector<Token> tokens(static_cast<std::size_t>(n));
    for (idx i = 0; i < n; i++) tokens[static_cast<std::size_t>(i)] = Token(random.bits(i) % std::uint64_t(V));
    return tokens;
}

// The largest absolute value.
inline double magnitude(const real* x, idx n) {
    double largest = 0;
    for (idx i = 0; i < n; i++) largest = std::max(largest, std::abs(double(x[i])));
    return largest;
}

inline double largest_difference = 0;  // of a gradient from the finite difference, as check_gradient measures it

// gradient[i] against dloss/dx[i] by central differences of fourth order,
//
//     (8 (f(x + h) - f(x - h)) - (f(x + 2h) - f(x - 2h))) / 12h = f' + O(h^4),
//
// for every i, or if n > most for `most` of them spread evenly from the first to the last. Where the loss bends too
// sharply for h, as behind a norm of small numbers, h/8 or h/64 decides: each time the error is 4096 times smaller. The
// difference is relative to the element's own size, but not to less than a thousandth of the largest one that was
// looked at; what the rounding of the loss itself can contribute, 16 units in its last place over h, is taken off.
// Meant for real = double.
template <class Loss> void check_gradient(
    const std::string& what, const Loss& loss, real* x, const real* gradient, idx n, idx most = 1 << 30) {
    constexpr double tolerance = 1e-8;
    const double unit = std::numeric_limits<double>::epsilon() * std::abs(double(loss()));
    const idx count = std::min(n, most);
    const auto place = [&](idx k) { return count > 1 ? k * (n - 1) / (count - 1) : 0; };
    double largest = 0;
    for (idx k = 0; k < count; k++) largest = std::max(largest, std::abs(double(gradient[place(k)])));
    for (idx k = 0; k < count; k++) {
        const idx i = place(k);
        const real keep = x[i];
        const double g = double(gradient[i]);
        double expected = 0, difference = 1;
        for (const double h : {1e-3, 1e-3 / 8, 1e-3 / 64}) {
            const auto at = [&](double steps) {
                x[i] = real(double(keep) + steps * h);
                return double(loss());
            };
            expected = (8 * (at(1) - at(-1)) - (at(2) - at(-2))) / (12 * h);
            x[i] = keep;
            const double scale = std::max({std::abs(expected), std::abs(g), 1e-3 * largest, 1e-300});
            difference = std::abs(expected - g) <= 16 * unit / h ? 0 : (std::abs(expected - g) - 16 * unit / h) / scale;
            if (difference <= tolerance) break;
        }
        if (difference <= tolerance) {  // false for NaN, as it should be
            report(true, what);
            largest_difference = std::max(largest_difference, difference);
        } else {
            report(false, text(what, "[", i, "]: ", digits(g), ", but the finite difference is ", digits(expected)));
        }
    }
}

inline int result() {
    std::printf("%d checks, %d failed\n", checks, failures);
    return failures || !checks ? 1 : 0;
}
