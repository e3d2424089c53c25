#!/bin/bash
# Hostile input for everything that reads files: builds tests/fuzz/*.cpp with libFuzzer and the sanitizers and runs
# each.
# tests/fuzz.sh [SECONDS [NAME…]]   default: 60 seconds each. What fails is left in build/fuzz/NAME-crash-…
cd "$(dirname "$0")/.." || exit 1
seconds=${1:-60}
shift
names=("$@")
[ ${#names[@]} = 0 ] && names=(safetensors json tokenizer config utf8 options)
CXX=${FUZZ_CXX:-clang++}
mkdir -p build/fuzz
failed=0
for name in "${names[@]}"; do
    $CXX -std=c++20 -O1 -g -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all -pthread \
        "tests/fuzz/$name.cpp" -o "build/fuzz/$name" || exit 1
    mkdir -p "build/fuzz/corpus-$name"
    # New inputs go to build/; the committed corpus is only read.
    if "build/fuzz/$name" -max_total_time="$seconds" -max_len=4096 -timeout=10 -rss_limit_mb=2048 -malloc_limit_mb=256 \
        -print_final_stats=1 \
        -artifact_prefix="build/fuzz/$name-" "build/fuzz/corpus-$name" "tests/fuzz/corpus/$name" \
            >"build/fuzz/$name.log" 2>&1; then
        inputs=$(sed -n 's/^stat::number_of_executed_units: *//p' "build/fuzz/$name.log")
        echo "fuzz $name: $inputs inputs, nothing found"
    else
        echo "fuzz $name: FAILED, see build/fuzz/$name.log"
        tail -n 30 "build/fuzz/$name.log"
        failed=1
    fi
done
rm -f /dev/shm/nanogpt-fuzz-*
exit $failed
