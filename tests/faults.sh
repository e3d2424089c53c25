#!/bin/bash
# What can go wrong around a run: disk, memory, texts, values. For each the user reads one line, and what was there is
# unharmed.
# tests/faults.sh BINARY [all]: with `all` the slow ones as well (a text of 200 MB). docs/robustness.md has the table.
root=$(cd "$(dirname "$0")/.." && pwd)
. "$root/tests/check.bash"
trap 'cd /; umount "$work/disk" 2>/dev/null; rm -rf "$work"' EXIT
cd "$work" || exit 1
small_text >text.txt
tr a-z A-Z <text.txt >upper.txt # other characters
run=("${tiny[@]}" --data=text.txt --max_iters=40 --eval_interval=10 --log_interval=10 --learning_rate=0.01)
more=(--data=text.txt --max_iters=5 --batch_size=4 --eval_iters=1)
skipped() { echo "skipped: $1"; }

# A run that must survive what follows: the model, its description and the state to resume from.
quiet "the model" nanogpt train "${run[@]}" --out_dir=pristine
model_of() { (cd "$1" && cat config.json model.safetensors state.safetensors tokenizer.json tokenizer_config.json | \
    cksum); }
pristine=$(model_of pristine)
fresh() { rm -rf good && cp -a pristine good; }
unharmed() { # DIR TEXT
    [ "$pristine" = "$(model_of "$1" 2>&1)" ]
    report $? "$2: the model in $1 was changed; it holds $(ls "$1" | tr '\n' ' ')"
    [ -z "$(find "$1" -name '*.tmp')" ]
    report $? "$2: it left $(find "$1" -name '*.tmp')"
}

# ---- a file-size limit stands for a full disk ----
(ulimit -f 8 && nanogpt train "${tiny[@]}" --data=text.txt --max_iters=5 --out_dir=limited >stdout 2>err)
judge 1 "cannot write limited/model.safetensors; is the disk full" "ulimit -f" $?
[ -z "$(find limited -name '*.tmp')" ] && [ ! -e limited/model.safetensors ]
report $? "ulimit -f left $(find limited)"
fresh
(ulimit -f 8 && nanogpt train --init_from=resume --out_dir=good --max_iters=80 >stdout 2>err)
judge 1 "cannot write good/model.safetensors; is the disk full" "ulimit -f in a resumed run" $?
unharmed good "ulimit -f in a resumed run"
(ulimit -f 8 && nanogpt train --init_from=good --out_dir=good "${more[@]}" >stdout 2>err)
judge 1 "cannot write good/model.safetensors; is the disk full" "ulimit -f in a new run over an old one" $?
unharmed good/previous "ulimit -f in a new run over an old one"
quiet "ulimit -f in a new run over an old one" nanogpt eval --out_dir=good --data=text.txt

# ---- nothing that was kept is lost: not by a second failed run, nor by a run from it or over it ----
fresh
for _ in 1 2; do
    (ulimit -f 8 && nanogpt train --init_from=good --out_dir=good "${more[@]}" >stdout 2>err)
    judge 1 "cannot write good/model.safetensors" "two failed runs over an old one" $?
done
unharmed good/previous "two failed runs over an old one"
[ ! -e good/previous2 ]
report $? "two failed runs keep the same model twice"
cp good/previous/state.safetensors good
quiet "the same model, further" nanogpt train --init_from=resume --out_dir=good --max_iters=41 --learning_rate=0 \
    --min_lr=0
cp good/state.safetensors further
quiet "the same model, further" nanogpt train --init_from=good --out_dir=good "${more[@]}"
same further good/previous2/state.safetensors "a state of the same model"
for kept in previous3 previous4; do
    quiet "runs over each other" nanogpt train "${tiny[@]}" --data=text.txt --max_iters=3 --out_dir=good
    says stdout "is kept in good/$kept" "runs over each other"
done
unharmed good/previous "runs over each other"
(ulimit -f 8 && nanogpt train --init_from=good/previous --out_dir=good "${more[@]}" >stdout 2>err)
judge 1 "cannot write good/model.safetensors" "a failed run from the kept model" $?
unharmed good/previous "a failed run from the kept model"
fresh
mkdir good/previous && echo thesis >good/previous/notes.txt
quiet "somebody's directory" nanogpt train --init_from=good --out_dir=good "${more[@]}"
[ "$(cat good/previous/notes.txt)" = thesis ]
report $? "a run removed what is not its own: $(ls good/previous)"
unharmed good/previous2 "somebody's directory"
fresh
mkdir links
for file in good/*; do ln -s "../$file" links/; done
quiet "relative links" nanogpt train --init_from=links --out_dir=links "${more[@]}"
unharmed links/previous "relative links"
unharmed good "relative links"
cp -r pristine several && mv several/model.safetensors several/model-00001-of-00001.safetensors
printf '{"weight_map":{%s}}' "$(head -c 20000 pristine/model.safetensors | grep -aoE '"[a-z_0-9.]+":\{"dtype' |
    sed 's/:{"dtype/:"model-00001-of-00001.safetensors"/' | paste -sd,)" >several/model.safetensors.index.json
quiet "a model in several files" nanogpt eval --out_dir=several --data=text.txt
refused 1 "there is a model in several files in several; choose another --out_dir" train "${run[@]}" --out_dir=several
quiet "a model in several files" nanogpt eval --out_dir=several --data=text.txt

# ---- who reads the progress ends first ----
nanogpt train "${run[@]}" --out_dir=unread 2>err | head -1 >stdout
[ "$(tail -1 unread/log.csv | cut -d, -f1)" = 40 ]
report $? "train | head -1 ended at $(tail -1 unread/log.csv); $(cat err)"

# ---- a small file system: full, then read-only ----
mkdir disk
if mount -t tmpfs -o size=512k tmpfs disk 2>/dev/null; then
    cp -a pristine disk/good
    head -c 600k /dev/zero >disk/rest 2>/dev/null
    nanogpt train --init_from=resume --out_dir=disk/good --max_iters=80 >stdout 2>err
    judge 1 "; is the disk full" "a full disk" $?
    unharmed disk/good "a full disk"
    nanogpt train --init_from=scratch "${run[@]}" --out_dir=disk/good >stdout 2>err
    judge 1 "disk/good" "a full disk, a new run" $?
    quiet "a full disk" nanogpt eval --out_dir=disk/good --data=text.txt
    nanogpt train "${run[@]}" --out_dir=disk/new >stdout 2>err
    judge 1 "disk/new" "a full disk, a new directory" $?
    rm -r disk/rest disk/good && cp -a pristine disk/good
    quiet "space again" nanogpt train --init_from=resume --out_dir=disk/good --max_iters=80
    rm -r disk/good && cp -a pristine disk/good
    mount -o remount,ro disk
    nanogpt train --init_from=resume --out_dir=disk/good --max_iters=80 >stdout 2>err
    judge 1 "read-only" "a read-only directory, resumed" $?
    nanogpt train "${run[@]}" --out_dir=disk/good >stdout 2>err
    judge 1 "disk/good" "a read-only directory, a new run over an old one" $?
    nanogpt train "${run[@]}" --out_dir=disk/new >stdout 2>err
    judge 1 "disk/new" "a read-only directory, a new one in it" $?
    unharmed disk/good "a read-only directory"
    quiet "eval from a read-only directory" nanogpt eval --out_dir=disk/good --data=text.txt
    quiet "go on from a read-only directory" nanogpt train --init_from=disk/good --out_dir=elsewhere "${more[@]}"
    umount disk
else
    skipped "a full and a read-only disk (no mount here)"
fi

# ---- out_dir is no directory, or goes away ----
refused 1 "cannot write to text.txt" train "${run[@]}" --out_dir=text.txt
refused 1 "cannot write to text.txt/x" train "${run[@]}" --out_dir=text.txt/x
refused 1 "/proc/nothing" train "${run[@]}" --out_dir=/proc/nothing
refused 1 "no model in text.txt" eval --out_dir=text.txt --data=text.txt
refused 1 "cannot read text.txt/state.safetensors" train --init_from=resume --out_dir=text.txt
${RUN_WITH:-} "$binary" train "${tiny[@]}" --data=text.txt --out_dir=gone --max_iters=1000000 --eval_interval=50 \
    >stdout 2>err &
pid=$!
for _ in $(seq 300); do
    [ -e gone/loss.svg ] && break
    sleep 0.02
done
while [ -e gone ]; do rm -rf gone 2>/dev/null; done
wait $pid
judge 1 "cannot write gone/" "out_dir removed during the run" $?
mkdir -p odd/model.safetensors odd/state.safetensors
refused 1 "odd" train "${run[@]}" --out_dir=odd

# ---- memory ----
big=(--data=text.txt --batch_size=4 --block_size=32 --n_head=8)
if [ -z "${RUN_WITH:-}" ]; then
    (ulimit -v 300000 && nanogpt train "${big[@]}" --threads=1 --n_layer=12 --n_embd=1024 --out_dir=big >stdout 2>err)
    judge 1 "not enough memory; lower --batch_size, --block_size, --n_embd or --n_layer" "a memory limit" $?
    says stdout "memory  " "a memory limit: the size is told first"
    (ulimit -v 1000000 && nanogpt train "${big[@]}" --threads=1024 --out_dir=big >stdout 2>err)
    judge 1 "cannot start 1024 threads; lower --threads" "too many threads for the memory" $?
fi
refused 1 "not enough memory" train --data=text.txt --n_embd=1048576 --n_layer=65536 --out_dir=big
refused 1 "not enough memory" train --data=text.txt --batch_size=1073741824 --out_dir=big
[ ! -e big ]
report $? "a run without memory left a directory"

# ---- texts ----
text() { # NAME FORMAT: a text made by printf
    # shellcheck disable=SC2059
    printf "$2" >"$1.txt"
}
text empty ''
text bom '\xef\xbb\xbf'
text one 'a'
text chinese_one '中'
for name in empty bom one chinese_one; do
    tokens=0
    [[ $name == *one ]] && tokens=1
    refused 1 "$name.txt has $tokens tokens; with block_size 16 it takes about 170; take a longer text" \
        train "${tiny[@]}" --data=$name.txt --out_dir=x
done
head -c 160 text.txt >short.txt # 16 tokens to validate with, and no successor for the last
refused 1 "short.txt has 160 tokens; with block_size 16 it takes about 170" train "${tiny[@]}" --data=short.txt \
    --out_dir=x
head -c 161 text.txt >enough.txt
quiet "the shortest text" nanogpt train "${tiny[@]}" --data=enough.txt --out_dir=enough --max_iters=2
head -c 500 /dev/zero | tr '\0' a >same.txt
quiet "all one character" nanogpt train "${tiny[@]}" --data=same.txt --out_dir=same --max_iters=2
says stdout "best validation loss 0 " "all one character"
quiet "all one character" nanogpt sample --out_dir=same --max_new_tokens=3
[ "$(cat stdout)" = aaaa ]
report $? "all one character: it samples $(cat stdout)"
{ head -c 300 text.txt; printf 'a\0b\0'; head -c 300 text.txt; } >nul.txt
quiet "NUL bytes" nanogpt train "${tiny[@]}" --data=nul.txt --out_dir=nul --max_iters=2
says stdout "nul.txt: 604 tokens" "NUL bytes"
quiet "NUL bytes" nanogpt eval --out_dir=nul --data=nul.txt
says stdout "603 tokens" "NUL bytes"
sed 's/$/\r/' text.txt >crlf.txt
quiet "CRLF" nanogpt train "${tiny[@]}" --data=crlf.txt --out_dir=crlf --max_iters=2
says stdout "crlf.txt: $(wc -c <crlf.txt) tokens" "CRLF"
quiet "CRLF" nanogpt eval --out_dir=crlf --data=crlf.txt
{ printf '\xef\xbb\xbf'; cat text.txt; } >with_bom.txt
quiet "a byte-order mark" nanogpt train "${run[@]}" --out_dir=no_bom
quiet "a byte-order mark" nanogpt train "${tiny[@]}" --data=with_bom.txt --max_iters=40 --eval_interval=10 \
    --log_interval=10 --learning_rate=0.01 --out_dir=bom
same bom/model.safetensors no_bom/model.safetensors "a byte-order mark"
for i in $(seq 0 17 250); do
    for bad in '\xff' '\xc3' '\xe4\xb8' '\xed\xa0\x80' '\xc0\x80' '\xf4\x90\x80\x80'; do
        # shellcheck disable=SC2059
        { head -c "$i" text.txt; printf "$bad"; tail -c +$((i + 1)) text.txt; } >invalid.txt
        refused 1 "invalid.txt is not UTF-8 at byte $i " train "${tiny[@]}" --data=invalid.txt --out_dir=x
    done
done
refused 1 "is a directory" train "${tiny[@]}" --data=. --out_dir=x
long=$(printf 'a%.0s' {1..300})
refused 1 "cannot use $long/config.json (File name too long)" eval --data=text.txt --out_dir="$long"
[ -r /proc/self/mem ] && refused 1 "cannot read /proc/self/mem" train "${tiny[@]}" --data=/proc/self/mem --out_dir=x
[ ! -e x ]
report $? "a refused text left a directory"
if [ "${2:-}" = all ]; then
    yes "$(cat text.txt)" | head -c 200000000 >huge.txt
    quiet "200 MB" nanogpt train "${tiny[@]}" --data=huge.txt --out_dir=huge --max_iters=2
    says stdout "huge.txt: 200000000 tokens" "200 MB"
    rm -r huge huge.txt
fi

# ---- values ----
nanogpt train --help | sed -n 's/^  --\([a-z0-9_]*\)=.*/\1/p' | grep -vxE 'data|out_dir|init_from|config' >options
[ "$(wc -l <options)" -ge 30 ]
report $? "train --help names $(wc -l <options) options"
base=("${tiny[@]}" --data=text.txt --max_iters=1 --out_dir=values)
while read -r name; do
    others=()
    for option in "${base[@]}"; do [[ $option == "--$name="* ]] || others+=("$option"); done
    for value in -1 nan inf -inf x '' 1e400 99999999999999999999 '1 1' 1,5; do
        refused 2 "--$name is '$value'; it takes" train "${others[@]}" "--$name=$value"
    done
    refused 2 "--$name is given twice" train "${others[@]}" "--$name=1" "--$name=1"
done <options
for name in n_layer n_head n_embd block_size batch_size gradient_accumulation_steps eval_interval eval_iters \
    log_interval; do
    others=()
    for option in "${base[@]}"; do [[ $option == "--$name="* ]] || others+=("$option"); done
    refused 2 "--$name is '0'; it takes a whole number from 1" train "${others[@]}" --$name=0
done
quiet "zeros" nanogpt train --data=text.txt --out_dir=zeros --batch_size=2 --n_embd=16 --block_size=8 --max_iters=0 \
    --warmup_iters=0 --lr_decay_iters=0 --eval_iters=1 \
    --learning_rate=0 --min_lr=0 --weight_decay=0 --beta1=0 --beta2=0 --grad_clip=0 --seed=0 --threads=0 --dropout=0
refused 1 "n_embd 18 is not a multiple of n_head 4; choose" train --data=text.txt --n_embd=18 --out_dir=values
refused 1 "n_head 4 is not a multiple of n_kv_head 3; choose" train --data=text.txt --n_kv_head=3 --out_dir=values
refused 1 "n_embd / n_head = 3 is odd; make it even or choose another --pos" train --data=text.txt --arch=llama \
    --n_embd=12 --out_dir=values
[ ! -e values ]
report $? "a refused value left a directory"

# ---- a learning rate that diverges ----
fresh
nanogpt train --init_from=resume --out_dir=good --max_iters=100 --learning_rate=1e9 --min_lr=1e9 --grad_clip=0 \
    --eval_interval=1000 >stdout 2>err
judge 1 "lower --learning_rate" "divergence" $?
says err "at iteration" "divergence names the iteration"
says err "the last good checkpoint is in good" "divergence"
unharmed good "divergence"
refused 1 "the weights' norm became inf at iteration 4; lower --learning_rate (0.001) or raise" train --n_layer=1 \
    --n_head=1 --n_embd=8 --block_size=8 --batch_size=2 --eval_iters=2 --threads=1 --bias=false --seed=3 --warmup_iters=0 --weight_decay=1e9 --eval_interval=4 --max_iters=12 \
    --data=text.txt --out_dir=grown
says err "--warmup_iters (0); the last good checkpoint is in grown" "weights that grew too large"
[ "$(grep -ao '"iter":"[0-9]*"' grown/model.safetensors)" = '"iter":"0"' ]
report $? "the weights that grew too large took the place of the last good ones"

# ---- a model of another vocabulary ----
fresh
refused 1 \
    "the model has never seen 'H' (U+0048), character 2 of upper.txt; leave it out, or train on a text that has it" \
    train --init_from=good --out_dir=good --data=upper.txt
refused 1 "the model has never seen" eval --init_from=good --data=upper.txt
grep -v 7 text.txt >fewer.txt
unharmed good "a text with other characters"
quiet "a text with fewer characters" nanogpt train --init_from=good --out_dir=fewer --data=fewer.txt --max_iters=2 \
    --batch_size=4 --eval_iters=1
quiet "a text with fewer characters" nanogpt eval --init_from=good --data=fewer.txt

# ---- signals ----
for signal in TERM INT; do
    fresh
    ${RUN_WITH:-} "$binary" train --init_from=resume --out_dir=good --max_iters=1000000 --eval_interval=1000000 \
        --log_interval=1 >stdout 2>err &
    pid=$!
    for _ in $(seq 300); do
        [ "$(wc -l <stdout)" -ge 8 ] && break
        sleep 0.02
    done
    kill -$signal $pid
    wait $pid
    report $? "SIG$signal: status $?, $(cat err)"
    says stdout "go on with: ./nanogpt train --init_from=resume --out_dir=good" "SIG$signal"
    iteration=$(sed -n 's/^stopped at iteration \([0-9]*\);.*/\1/p' stdout)
    quiet "resumed after SIG$signal" nanogpt train --init_from=resume --out_dir=good --max_iters="${iteration:-0}"
    says stdout "already at iteration ${iteration:-none}" "SIG$signal"
done
for signal in INT TERM; do
    fresh
    ${RUN_WITH:-} "$binary" train --init_from=resume --out_dir=good --max_iters=1000 \
        --gradient_accumulation_steps=1000000 >stdout 2>err & # a step that takes minutes
    pid=$!
    for _ in $(seq 300); do
        [ good/log.csv -nt stdout ] && break # it has begun
        sleep 0.02
    done
    sleep 0.2
    kill -$signal $pid
    sleep 0.1
    kill -0 $pid
    report $? "SIG$signal in a long step: it does not wait for its end"
    kill -$signal $pid
    wait $pid
    status=$?
    [ $status = $((128 + $(kill -l $signal))) ]
    report $? "SIG$signal twice: status $status, $(cat err)"
    unharmed good "SIG$signal twice"
done
finish
