#!/bin/bash
# Which lines of nanogpt.cpp the tests reach, those that run the binary included. `make coverage`; the details are in build/coverage.txt.
cd "$(dirname "$0")/.." || exit 1
set -e
dir=build/coverage
mkdir -p $dir
find $dir -name '*.gcda' -delete
cmake -S tests -B $dir -DNANOGPT_FLAGS="-O1 -march=native --coverage -fprofile-update=atomic" >$dir/cmake.log
cmake --build $dir -j "$(nproc)" >$dir/build.log 2>&1 || { tail -n 40 $dir/build.log; exit 1; }
# A kill leaves no counts, so resume.sh and faults.sh count only for what ends by itself.
ctest --test-dir $dir --output-on-failure -j "$(nproc)" >$dir/test.log 2>&1 || { tail -n 60 $dir/test.log; exit 1; }
gcovr --root . --filter 'nanogpt\.cpp' --object-directory $dir --exclude-unreachable-branches --exclude-lines-by-pattern '^\s*\}?\s*$' \
    --gcov-ignore-parse-errors --merge-mode-functions=merge-use-line-0 --txt build/coverage.txt $dir 2>$dir/gcovr.log ||
    gcovr --root . --filter 'nanogpt\.cpp' --object-directory $dir --txt build/coverage.txt $dir
cat build/coverage.txt
sed -n 's/^nanogpt\.cpp .* \([0-9]*\)%.*/line coverage of nanogpt.cpp: \1 %/p' build/coverage.txt
