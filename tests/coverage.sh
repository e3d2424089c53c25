#!/bin/bash
# Which lines of nanogpt.cpp the tests reach, those that run the binary included: the percentage, and the lines that
# are left. tests/coverage.sh; the result stays in build/coverage.txt.
cd "$(dirname "$0")/.." || exit 1
dir=build/coverage
mkdir -p $dir
find $dir -name '*.gcda' -delete
failed() { # LOG
    tail -n 60 "$1"
    exit 1
}
# Without the tests that reach the same lines once more, in double.
only='^(layers|model|training|text|checkpoint|command_line|resume|faults)$'
flags="-O1 -march=native --coverage -fprofile-update=atomic"
cmake -S tests -B $dir -DNANOGPT_FLAGS="$flags" -DONLY="$only" >$dir/cmake.log || failed $dir/cmake.log
cmake --build $dir -j "$(nproc)" >$dir/build.log 2>&1 || failed $dir/build.log
ctest --test-dir $dir --output-on-failure -j "$(nproc)" -E '^docs$' >$dir/test.log 2>&1 || failed $dir/test.log
gcovr --root . --filter 'nanogpt\.cpp' --object-directory $dir --txt build/coverage.txt $dir || exit 1
cat build/coverage.txt
