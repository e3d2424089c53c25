# make            the program ./nanogpt and its default text
# make test       finite differences check every gradient, and much more (needs cmake)
# make lab        the tutorial's theorems, measured and drawn: out/lab/index.html
# make bench      this machine's peak, and how close a training step comes
# make check      other compilers, sanitizers, another processor (what CI runs; needs what .ci/run installs)
# make fuzz       hostile files, a minute for each reader      make coverage     which lines the tests reach
# make clean      removes what was built; out/ with its models stays
#
# make PORTABLE=1 builds for any x86-64 or arm64 instead of this machine.

CXX ?= g++
# clang++ keeps loops to half of AVX-512's width unless told.
WIDE := $(if $(filter x86_64,$(shell uname -m)),-mprefer-vector-width=512)
ARCH := $(if $(PORTABLE),,-march=native $(WIDE))
# The two -fno flags let the compiler vectorize exp; NaN, infinity and the order of additions stay as written.
CXXFLAGS ?= -O3 $(ARCH) -fno-math-errno -fno-trapping-math -Wall -Wextra -Wpedantic
BUILD = $(CXX) -std=c++20 $(CXXFLAGS) -pthread

all: nanogpt data/fables.txt

nanogpt: nanogpt.cpp Makefile
	$(BUILD) $< -o $@

data/fables.txt: build/fables
	build/fables $@ >build/fables.log

build/fables: data/fables.cpp
	@mkdir -p build
	$(BUILD) $< -o $@

build/lab: docs/lab.cpp docs/lab.h nanogpt.cpp Makefile
	@mkdir -p build
	$(BUILD) $< -o $@

build/bench: tests/bench.cpp nanogpt.cpp Makefile
	@mkdir -p build
	$(BUILD) $< -o $@

test:
	@mkdir -p build
	cmake -S tests -B build/test -DCMAKE_BUILD_TYPE=Release >build/cmake.log 2>&1 || { cat build/cmake.log; exit 1; }
	cmake --build build/test -j 2
	ctest --test-dir build/test --output-on-failure

lab: build/lab data/fables.txt
	build/lab

bench: build/bench
	build/bench

check fuzz coverage:
	tests/$@.sh

clean:
	rm -rf build nanogpt data/fables.txt

.PHONY: all test lab bench check fuzz coverage clean
