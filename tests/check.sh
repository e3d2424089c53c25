#!/bin/bash
# What CI runs beyond `make test`: other compilers and libraries, the sanitizers, another processor, the slow fault
# tests, an independent reader, the fuzzers for a moment, and the format. Each stage prints a line; the first that fails
# ends the run with its log.
# tests/check.sh [STAGE…]: only these. What is not installed fails; .ci/run installs it.
cd "$(dirname "$0")/.." || exit 1
mkdir -p build/check
jobs=$(nproc)
sources=(nanogpt.cpp tests/*.cpp tests/*.h tests/fuzz/*.cpp tests/fuzz/*.h docs/*.cpp docs/*.h data/fables.cpp)
strict="-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror"

# stage NAME COMMAND…: runs it with its output in build/check/NAME.log.
stage() {
    local name=$1 begin=$SECONDS
    shift
    [ ${#only[@]} -gt 0 ] && [[ " ${only[*]} " != *" $name "* ]] && return
    if "$@" >"build/check/$name.log" 2>&1; then
        printf '%-12s ok     %4d s  %s\n' "$name" $((SECONDS - begin)) \
            "$(grep -E 'tests passed|nothing found$' "build/check/$name.log" | tail -1)"
    else
        printf '%-12s FAILED %4d s  the end of build/check/%s.log:\n' "$name" $((SECONDS - begin)) "$name"
        tail -n 60 "build/check/$name.log"
        exit 1
    fi
}

# tests DIR COMPILER FLAGS ONLY: builds the tests whose names match ONLY and runs them; the documents' is not repeated.
tests() {
    local dir=build/check/$1
    cmake -S tests -B "$dir" -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_COMPILER="$2" -DNANOGPT_FLAGS="$3" -DONLY="$4" \
        -DRUN_WITH="${run_with:-}" && cmake --build "$dir" -j "$jobs" &&
        ctest --test-dir "$dir" --output-on-failure -j "$jobs" -E '^docs$'
}

compile() { # what the tests do not build, strictly, without making anything
    export compile="$* -std=c++20 $strict -fsyntax-only"
    printf '%s\n' "nanogpt.cpp -DNANOGPT_REAL=double" docs/lab.cpp data/fables.cpp tests/bench.cpp |
        xargs -P "$jobs" -L 1 bash -c '$compile $1 "$0"'
}

optimized() { # the program as make builds it: the further it is optimized, the more a compiler warns of
    export compile="-std=c++20 -O3 -fno-math-errno -fno-trapping-math $strict -c nanogpt.cpp -o /dev/null"
    printf '%s\n' g++ "g++ -march=native" clang++ "clang++ -march=native" |
        xargs -P "$jobs" -I {} bash -c '{} $compile'
}

arm64() {
    local run_with="qemu-aarch64 -L /usr/aarch64-linux-gnu"
    tests arm64 aarch64-linux-gnu-g++ "-Werror -Wno-psabi" "$1"
}

numpy() {
    local binary=build/check/portable/nanogpt out arch
    for arch in gpt2 llama; do
        out=tests/golden/$arch
        /usr/bin/python3 tests/independent.py $out $out/text.txt $out/text_loss.json || return
    done
    out=build/check/numpy
    head -c 20000 data/fables.txt >build/check/text.txt
    for arch in gpt2 llama "llama --n_kv_head=2 --tie=false" "gpt2 --tie=false --n_hidden=40" "llama --bias=true"; do
        rm -rf $out
        # shellcheck disable=SC2086
        $binary train --arch=$arch --data=build/check/text.txt --out_dir=$out --max_iters=60 --n_layer=2 --n_embd=32 \
            --block_size=24 --eval_iters=2 || return
        $binary eval --out_dir=$out --data=build/check/text.txt --split=val >build/check/eval.txt || return
        cat build/check/eval.txt
        /usr/bin/python3 tests/independent.py $out build/check/text.txt build/check/eval.txt || return
    done
}

only=("$@")
make data/fables.txt >build/check/make.log 2>&1 || { cat build/check/make.log; exit 1; }
stage format clang-format --dry-run -Werror "${sources[@]}"
stage g++ compile g++
stage clang++ compile clang++
stage libc++ compile clang++ -stdlib=libc++
stage optimized optimized
# Without -march=native: other tiles, another number of lanes. With this binary the slow tests of faults run.
stage portable tests portable g++ -Werror .
stage faults bash tests/faults.sh build/check/portable/nanogpt all
stage kills bash tests/resume.sh build/check/portable/nanogpt 50
stage numpy numpy
stage clang tests clang clang++ "-march=native -Werror" .
stage clang-libc++ tests libc++ clang++ "-stdlib=libc++ -march=native -Werror" \
    '^(text|checkpoint|model|training|command_line)$'
# AddressSanitizer needs more memory than faults allows.
stage address tests address clang++ "-O1 -march=native -fsanitize=address,undefined -fno-sanitize-recover=all" \
    '^(layers|model|model_double|training|theorems|text|checkpoint|command_line|resume)$'
stage thread tests thread clang++ "-O1 -g -march=native -fsanitize=thread" '^(training|command_line)$'
stage arm64 arm64 '^(text|checkpoint|model|command_line)$'
stage fuzz bash tests/fuzz.sh 5
echo "all checks passed"
