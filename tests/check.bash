# What the shell tests share; they run as `bash tests/NAME.sh BINARY`. RUN_WITH names a program that runs it, as
# qemu-aarch64.
set -u
export LC_ALL=C.UTF-8
binary=$(realpath "${1:?the nanogpt program is missing}")
work=$(mktemp -d)
trap 'cd /; rm -rf "$work"' EXIT
checks=0 failures=0
tiny=(--n_layer=1 --n_head=2 --n_embd=16 --block_size=16 --batch_size=4 --warmup_iters=2 --eval_iters=2 --threads=1)

nanogpt() { ${RUN_WITH:-} "$binary" "$@"; }

# report STATUS TEXT: a check that has been made; 0 is good.
report() {
    checks=$((checks + 1))
    [ "$1" = 0 ] && return
    failures=$((failures + 1))
    echo "FAILED: $2"
}

# says FILE PART TEXT: the file has the part in it.
says() {
    grep -qF -e "$2" "$1"
    report $? "$3: no '$2' in: $(head -c 400 "$1")"
}

same() { cmp -s "$1" "$2"; report $? "$3: $1 and $2 differ"; }

# judge STATUS PART TEXT RESULT: what was run ended with RESULT and its stderr is in $work/err.
judge() {
    sed -i '/^libgcov profiling error/d' "$work/err" # coverage.sh's counts cannot be written under a file-size limit
    [ "$4" = "$1" ]
    report $? "$3: status $4 instead of $1; $(head -c 400 "$work/err")"
    [ "$(wc -l <"$work/err")" = 1 ] && [[ $(cat "$work/err") == "nanogpt: "* ]]
    report $? "$3: not one line that begins with nanogpt: but $(head -c 400 "$work/err")"
    says "$work/err" "$2" "$3"
}

# refused STATUS PART arguments…: one line on stderr, `nanogpt: …PART…`, and the exit status.
refused() {
    local status=$1 part=$2
    shift 2
    nanogpt "$@" >"$work/stdout" 2>"$work/err" </dev/null
    judge "$status" "$part" "$*" $?
}

# quiet TEXT command…: it succeeds without a word on stderr; its output is in $work/stdout.
quiet() {
    local what=$1
    shift
    "$@" >"$work/stdout" 2>"$work/err"
    report $? "$what: status $?; $(head -c 400 "$work/err")"
    [ ! -s "$work/err" ]
    report $? "$what: on stderr: $(head -c 400 "$work/err")"
}

# A small English text, and the times-free columns of a log.
small_text() { for i in $(seq "${1:-120}"); do echo \
    "The cat number $i sat on mat $((i * 7 % 13)), and saw $((i * i % 97)) mice."; done; }
log_without_times() { cut -d, -f1-5 "$1"; }

finish() {
    echo "$checks checks, $failures failed"
    [ "$failures" = 0 ] && [ "$checks" -gt 0 ]
    exit
}
