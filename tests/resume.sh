#!/bin/bash
# Stopped at any moment and resumed, a run ends with the same bits as one that was never stopped; and what a kill leaves
# always loads.
# tests/resume.sh BINARY [KILLS [SEED]]: kill -9, Ctrl-C and a kill while a new run begins over an old one, KILLS in
# all.
root=$(cd "$(dirname "$0")/.." && pwd)
. "$root/tests/check.bash"
kills=${2:-10}
RANDOM=${3:-$$}
echo "seed ${3:-$$}"
cd "$work" || exit 1
small_text 150 >text.txt
small_text 150 | tr a-z A-Z >other.txt
sort text.txt >sorted.txt
# Many checkpoints and few steps between them: what can go wrong goes wrong while files are written.
run=("${tiny[@]}" --data=../text.txt --max_iters=150 --eval_interval=3 --log_interval=2 --dropout=0.1 \
    --learning_rate=0.01)
results="model.safetensors state.safetensors config.json tokenizer.json tokenizer_config.json loss.svg"

milliseconds() { echo $(($(date +%s%N) / 1000000)); }
mkdir whole && cd whole || exit 1
begin=$(milliseconds)
quiet "the run that is never stopped" nanogpt train "${run[@]}"
length=$(($(milliseconds) - begin))
cd ..

# as_whole DIR TEXT: the run in it ended as the one that was never stopped.
as_whole() {
    local name
    for name in $results; do same "whole/out/$name" "$1/out/$name" "$2"; done
    log_without_times whole/out/log.csv >log1
    log_without_times "$1/out/log.csv" >log2
    same log1 log2 "$2: log.csv"
}

# Runs in the background and sends SIGNAL after a random part of LENGTH milliseconds; status is that of the run.
interrupt() { # SIGNAL LENGTH arguments…
    local signal=$1 wait=$((RANDOM * $2 / 32768)) pid
    shift 2
    ${RUN_WITH:-} "$binary" train "$@" >"$work/stdout" 2>"$work/err" &
    pid=$!
    sleep "$(printf '%d.%03d' $((wait / 1000)) $((wait % 1000)))"
    kill "-$signal" "$pid" 2>/dev/null
    wait "$pid" 2>/dev/null
    status=$?
    after="$signal after $wait ms"
}

# What a kill left loads, once there is a model.
loads() {
    [ -e out/model.safetensors ] || return
    nanogpt sample --max_new_tokens=1 --tokens --start=1 >"$work/sampled" 2>"$work/err"
    report $? "$1: the directory does not load: $(cat "$work/err"), it holds $(ls out | tr '\n' ' ')"
}

done_kills=0 stopped=0 round=0
while [ $done_kills -lt "$kills" ]; do
    round=$((round + 1))
    mkdir r$round && cd r$round || exit 1
    history=""
    for try in $(seq 1000); do
        if [ -e out/state.safetensors ]; then arguments=(--init_from=resume); else arguments=("${run[@]}"); fi
        # In each round one kill at most happens early, so that rounds end.
        signal=KILL
        [ $((RANDOM % 3)) = 0 ] && signal=INT
        [ $done_kills -ge "$kills" ] && break
        interrupt $signal $((length * (try == 1 ? 12 : 6) / 10)) "${arguments[@]}"
        history="$history, $after"
        if [ $status = 137 ]; then
            done_kills=$((done_kills + 1))
            loads "round $round$history"
        elif [ $status = 0 ]; then
            if grep -q "^stopped at iteration .*; go on with: ./nanogpt train --init_from=resume --out_dir=out" \
                "$work/stdout"; then
                done_kills=$((done_kills + 1)) stopped=$((stopped + 1))
                loads "round $round$history"
            else
                break # it came to its end
            fi
        elif [ $status != 130 ]; then
            report 1 "round $round$history: status $status, $(cat "$work/err")"
            break
        fi
    done
    if [ -e out/state.safetensors ]; then arguments=(--init_from=resume); else arguments=("${run[@]}"); fi
    quiet "round $round$history: the rest" nanogpt train "${arguments[@]}"
    cd ..
    as_whole r$round "round $round$history"
    rm -rf r$round
done
echo "$done_kills stopped runs, $stopped of them by Ctrl-C"

# A new run over an old one's directory, killed as it begins: the directory loads, and the old model is still there or
# kept.
old=$(cksum <whole/out/model.safetensors)
for try in $(seq $(((kills + 1) / 2))); do
    cp -r whole over && cd over || exit 1
    interrupt KILL $((length / 5)) "${tiny[@]}" --n_layer=2 --data=../other.txt --max_iters=150 --eval_interval=3
    loads "over an old run, $after"
    [ "$old" = "$(cksum <out/model.safetensors)" ] || [ "$old" = "$(cksum <out/previous/model.safetensors)" ]
    report $? "over an old run, $after: the old model is lost"
    # What can be resumed is one of the two runs, with its own log.
    if nanogpt train --init_from=resume --max_iters=151 >"$work/stdout" 2>"$work/err"; then
        [ "$(cut -d, -f1 out/log.csv | tail -n +2 | head -1)" = 0 ]
        report $? "over an old run, $after: resumed, the log begins with $(sed -n 2p out/log.csv)"
        [ -z "$(cut -d, -f1 out/log.csv | tail -n +2 | sort -n | uniq -d)" ]
        report $? "over an old run, $after: resumed, the log repeats rows"
    else
        judge 1 "state.safetensors" "over an old run, $after" 1
    fi
    cd ..
    rm -rf over
done

# ---- what may change and what may not ----
mkdir longer && cd longer || exit 1
half=("${run[@]}")
for i in "${!half[@]}"; do [[ ${half[i]} == --max_iters=* ]] && half[i]=--max_iters=75; done
quiet "half the run" nanogpt train "${half[@]}" --lr_decay_iters=150
# A crash between the two files of a checkpoint leaves newer weights than the state's. (The run's best ones come last.)
mkdir -p ../between && cp -r out ../between
for name in config.json model.safetensors tokenizer.json tokenizer_config.json; do cp ../whole/out/$name \
    ../between/out; done
quiet "the other half" nanogpt train --init_from=resume --max_iters=150 --lr_decay_iters=0
cd ..
as_whole longer "max_iters raised"
cd between || exit 1
quiet "newer weights than the state's" nanogpt train --init_from=resume --max_iters=150 --lr_decay_iters=0
cd ..
as_whole between "newer weights than the state's"

mkdir finished && cp -r whole/out finished && cd finished || exit 1
quiet "a finished run" nanogpt train --init_from=resume
says "$work/stdout" "already at iteration 150; raise --max_iters to go on" "a finished run"
cd ..
as_whole finished "a finished run, resumed"
cd finished || exit 1
unchanged=$(cat out/* | cksum)
for option in n_layer=2 n_head=4 n_embd=32 block_size=8 n_hidden=8 n_kv_head=1 arch=llama norm=rmsnorm pos=rope \
    mlp=swiglu wiring=post bias=false \
    tie=false; do
    refused 1 "--$option would change the model; leave it out" train --init_from=resume --$option
done
refused 1 "../sorted.txt is not the text of the run in out" train --init_from=resume --data=../sorted.txt
refused 2 "--max_iters is '-1'" train --init_from=resume --max_iters=-1
[ "$unchanged" = "$(cat out/* | cksum)" ]
report $? "a refused resume changed a file"
quiet "what may change" nanogpt train --init_from=resume --max_iters=160 --learning_rate=0.002 --dropout=0 \
    --batch_size=3 --n_layer=1 --arch=gpt2 \
    --eval_interval=5 --weight_decay=0 --threads=2 --data="$work/text.txt"
[ "$(tail -1 out/log.csv | cut -d, -f1)" = 160 ]
report $? "what may change: the log ends with $(tail -1 out/log.csv)"
cd ..

# ---- a state that is none ----
cp -r whole broken && cd broken || exit 1
broken() { # TEXT PART
    refused 1 "$2" train --init_from=resume --max_iters=200
    cp ../whole/out/* out/
}
head -c 5000 ../whole/out/state.safetensors >out/state.safetensors
broken "cut off" "state.safetensors"
cp "$root/tests/golden/gpt2/model.safetensors" out/state.safetensors
broken "another file" "state.safetensors is not a run's state; start a new run"
sed 's/"iter":"[0-9]/"iter":"x/' ../whole/out/state.safetensors >out/state.safetensors
broken "an iteration that is no number" "state.safetensors is not a run's state"
sed 's/"--/"++/g' ../whole/out/state.safetensors >out/state.safetensors
broken "no options" "state.safetensors is not a run's state; start a new run"
for change in 's/"iter"/"itex"/' 's/"text"/"tezt"/' 's/"best_loss"/"best_lost"/' \
    's/\\"vocab_size\\"/\\"vocab_sixe\\"/' 's/"config.json"/"config.jsom"/' 's/"tokenizer.json"/"tokenizer.jsom"/' \
    's/"--n_layer"/"--n_lexer"/' 's/"--n_layer":"1"/"--n_layer":"x"/' 's/"--beta1":"0.9"/"--beta1":"9.9"/' \
    's/"adamw.m"/"adamw.x"/'; do
    sed "$change" ../whole/out/state.safetensors >out/state.safetensors
    ! cmp -s ../whole/out/state.safetensors out/state.safetensors
    report $? "$change changes nothing"
    nanogpt train --init_from=resume --max_iters=200 >"$work/stdout" 2>"$work/err"
    status=$?
    # A wrong option may be status 1 or 2.
    [[ $change == *n_lexer* || $change == *layer*x* || $change == *9.9* ]] && expected=$status || expected=1
    judge $expected "" "$change" $status
    [ $status != 0 ]
    report $? "$change is accepted"
    cp ../whole/out/* out/
done
rm out/log.csv
broken "no log" "cannot read out/log.csv"
rm out/model.safetensors
broken "no model" "out/model.safetensors"
finish
