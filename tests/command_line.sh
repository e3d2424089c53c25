#!/bin/bash
# The command line, by running the binary: every documented error, the forms of options, and train -> sample -> eval.
root=$(cd "$(dirname "$0")/.." && pwd)
. "$root/tests/check.bash"
cd "$work" || exit 1
gpt2=$root/tests/golden/gpt2 llama=$root/tests/golden/llama
small_text >text.txt
head -c 200 text.txt >short.txt

# ---- wrong usage: status 2 ----
refused 2 "the command is ''; it is train, sample or eval"
refused 2 "the command is 'trian'; it is train, sample or eval" trian
refused 2 "the command is '--out_dir=x'" --out_dir=x
refused 2 "'out' is not an option" train out
refused 2 "'-n' is not an option" train -n 3
refused 2 "there is no option --max_iter; did you mean --max_iters?" train --max_iter=3
refused 2 "there is no option --tempreature; did you mean --temperature?" sample --tempreature=1
refused 2 "--temperature is not an option of this command" train --temperature=1
refused 2 "--max_iters is not an option of this command" sample --max_iters=1
refused 2 "--seed needs a value" train --seed
refused 2 "--seed is given twice, 1 and 2" train --seed=1 --seed=2
refused 2 "--n_layer is 'four'; it takes a whole number" train --n_layer=four
refused 2 "--n_layer is '99999999999'; it takes a whole number from 1 to 65536" train --n_layer=99999999999
refused 2 "--learning_rate is 'nan'; it takes a number" train --learning_rate=nan
refused 2 "--learning_rate is 'inf'; it takes a number" train --learning_rate=inf
refused 2 "--learning_rate is '-1'; it takes a number from 0" train --learning_rate=-1
refused 2 "--batch_size is '0'; it takes a whole number from 1" train --batch_size=0
refused 2 "--seed is '-1'" train --seed=-1
refused 2 "--bias is 'maybe'; it takes true or false" train --bias=maybe
refused 2 "--arch is 'bert'; it takes gpt2, llama" train --arch=bert
refused 2 "--wiring is 'sideways'; it takes pre, post, none, plain" train --wiring=sideways
refused 2 "--top_p is '0'; it takes a number" sample --top_p=0
refused 2 "--split is 'dev'; it takes all, train, val" eval --split=dev
echo "n_layer: 3" >bad.cfg
refused 2 "bad.cfg line 1 is 'n_layer: 3'; write \`option = value\`" train --config=bad.cfg
echo "n_leyer = 3" >bad.cfg
refused 2 "there is no option --n_leyer; did you mean --n_layer?" train --config=bad.cfg
printf 'seed = 3\nbias = true\nseed = 4\n' >bad.cfg
refused 2 "bad.cfg line 3: --seed is given twice; give it once" train --config=bad.cfg
echo "config = bad.cfg" >bad.cfg
refused 2 "bad.cfg line 1: --config is given twice" train --config=bad.cfg

# ---- what the user can put right: status 1 ----
refused 1 "cannot read none.txt; check the name" train --data=none.txt --out_dir=x
refused 1 "cannot read none.cfg" train --config=none.cfg
refused 1 "$work is a directory, not a file" train --data="$work" --out_dir=x
refused 1 "min_lr 0.0001 is above learning_rate 1e-05; lower --min_lr, too" train "${tiny[@]}" --data=text.txt \
    --out_dir=x --max_iters=1 --learning_rate=1e-5
refused 1 "n_embd 30 is not a multiple of n_head 4" train --data=text.txt --out_dir=x --n_embd=30
refused 1 "n_head 4 is not a multiple of n_kv_head 3" train --data=text.txt --out_dir=x --n_kv_head=3
refused 1 "n_embd / n_head = 5 is odd" train --data=text.txt --out_dir=x --n_embd=20 --pos=rope
refused 2 "--dropout is '1.5'; it takes a number from 0" train --data=text.txt --out_dir=x --dropout=1.5
refused 2 "--n_layer is '0'; it takes a whole number from 1" train --data=text.txt --out_dir=x --n_layer=0
refused 1 "short.txt has 200 tokens; with block_size 64 it takes about 650" train --data=short.txt --out_dir=x
refused 1 "there is no model in nowhere (no config.json); train one" sample --out_dir=nowhere
refused 1 "there is no model in nowhere" eval --out_dir=nowhere --data=text.txt
refused 1 "there is no model in nowhere" train --init_from=nowhere --data=text.txt --out_dir=x
refused 1 "cannot read nowhere/state.safetensors" train --init_from=resume --out_dir=nowhere
refused 1 "cannot read none.txt" eval --init_from="$gpt2" --data=none.txt
refused 1 "cannot read none.txt" sample --init_from="$gpt2" --start=FILE:none.txt
refused 1 "the model has never seen 'T' (U+0054), character 1 of text.txt" eval --init_from="$gpt2" --data=text.txt
refused 1 "the model has never seen '中' (U+4E2D), character 3 of --start" sample --init_from="$gpt2" --start=ab中
refused 1 "--start is empty" sample --init_from="$gpt2" --start=
refused 1 "--n_layer=3 would change the model" train --init_from="$gpt2" --n_layer=3 --data="$gpt2/text.txt" --out_dir=x
refused 1 "--arch=gpt2 would change the model" train --init_from="$llama" --arch=gpt2 --data="$gpt2/text.txt" \
    --out_dir=x
refused 1 "token 1 of --start is '9 $(printf '9%.0s' {1..38})'; this" sample --init_from="$gpt2" --tokens \
    --start=$'9\e'"$(printf '9%.0s' {1..500})"
refused 1 "token 2 of --start is '29'; this model takes token ids, whole numbers below 29" sample --init_from="$gpt2" \
    --tokens --start="3 29"
printf a >one.txt
refused 1 "one.txt has 1 tokens to score with --split=all; it takes at least 2" eval --init_from="$gpt2" --data=one.txt
printf 'ab\xffc' >bad.txt
refused 1 "bad.txt is not UTF-8 at byte 2" train --data=bad.txt --out_dir=x
refused 1 "bad.txt is not UTF-8 at byte 2" eval --init_from="$gpt2" --data=bad.txt
refused 1 "--start is not UTF-8 at byte 1" sample --init_from="$gpt2" --start=$'a\xff'
[ ! -e x ]
report $? "an error before the training began left $(ls -d x 2>&1)"
refused 2 "it takes a whole number" train --n_layer=$'3\n4' # one line all the same

# ---- help ----
for words in --help -h help "train --help" "sample -h" "eval --seed=x --help"; do
    # shellcheck disable=SC2086
    quiet "$words" nanogpt $words
    says stdout "--threads=" "$words"
done
quiet "train --help" nanogpt train --help
says stdout "--max_iters=2000" "train --help has its own options"
! grep -q -e --temperature stdout
report $? "train --help has sample's options"
quiet "sample --start=help" nanogpt sample --init_from="$gpt2" --max_new_tokens=3 --start help
grep -q ^help stdout
report $? "sample --start help gives: $(head -1 stdout)"

# ---- train, sample, eval ----
quiet "train" nanogpt train "${tiny[@]}" --data=text.txt --out_dir=a --max_iters=20 --eval_interval=10 --log_interval=5
says stdout "parameters" "the beginning of a run"
says stdout "memory" "the beginning of a run"
says stdout "iter 10/20" "a line of progress"
says stdout "best validation loss" "the end of a run"
says stdout "sample from it: ./nanogpt sample --out_dir=a" "the end of a run"
[ "$(ls a | tr '\n' ' ')" = \
    "config.json log.csv loss.svg model.safetensors state.safetensors tokenizer.json tokenizer_config.json " ]
report $? "out_dir holds $(ls a | tr '\n' ' ')"
[ "$(cut -d, -f1 a/log.csv | tr '\n' ' ')" = "iter 0 5 10 15 20 " ]
report $? "log.csv has the rows $(cut -d, -f1 a/log.csv | tr '\n' ' ')"
quiet "sample" nanogpt sample --out_dir=a --max_new_tokens=50 --start="The cat" --seed=5
[ "$(wc -m <stdout)" = 58 ] && grep -q "^The cat" stdout
report $? "sample: $(wc -m <stdout) characters, $(head -1 stdout)"
cp stdout first
quiet "sample" nanogpt sample --out_dir=a --max_new_tokens=50 --start="The cat" --seed=5 --threads=2
same stdout first "the same seed, the same text, with two threads too"
quiet "sample" nanogpt sample --out_dir=a --max_new_tokens=50 --start="The cat" --seed=6
! cmp -s stdout first
report $? "another seed, the same text"
quiet "samples" nanogpt sample --out_dir=a --max_new_tokens=50 --start="The cat" --seed=5 --num_samples=2
[ "$(grep -c -e ---------- stdout)" = 1 ] && [ "$(head -c 57 stdout)" = "$(head -c 57 first)" ]
report $? "two samples: $(cat stdout)"
printf 'The cat' >start.txt
quiet "from a file" nanogpt sample --out_dir=a --max_new_tokens=50 --start=FILE:start.txt --seed=5
same stdout first "--start=FILE:"
nanogpt sample --out_dir=a --max_new_tokens=50 --start=- --seed=5 <start.txt >second 2>err
same second first "--start=-"
quiet "no start" nanogpt sample --out_dir=a --max_new_tokens=5
quiet "greedy" nanogpt sample --out_dir=a --max_new_tokens=20 --temperature=0 --start="The cat"
cp stdout greedy
quiet "greedy" nanogpt sample --out_dir=a --max_new_tokens=20 --top_k=1 --seed=9 --start="The cat"
same stdout greedy "temperature 0 and top_k 1"
quiet "token ids" nanogpt sample --out_dir=a --max_new_tokens=5 --tokens --start="3 4"
[ "$(wc -w <stdout)" = 7 ] && [[ $(cat stdout) == "3 4 "* ]]
report $? "token ids: $(cat stdout)"
for split in all train val; do
    quiet "eval $split" nanogpt eval --out_dir=a --data=text.txt --split=$split
    n=$(wc -m <text.txt) cut=$((n * 9 / 10))
    case $split in all) scored=$((n - 1)) ;; train) scored=$((cut - 1)) ;; *) scored=$((n - cut - 1)) ;; esac
    grep -qE "^loss [0-9]+\.[0-9]{6} nats/token \([0-9]+\.[0-9]{6} bits, perplexity [0-9.]+, $scored tokens\)$" stdout
    report $? "eval --split=$split: $(cat stdout)"
done
for model in gpt2 llama; do
    expected=$(sed -n 's/.*"mean_loss_nats_per_token": \([0-9.]*\),*/\1/p' "$root/tests/golden/$model/text_loss.json")
    quiet "eval $model" nanogpt eval --init_from="$root/tests/golden/$model" --data="$root/tests/golden/$model/text.txt"
    says stdout "loss $(printf %.6f "$expected") nats/token" "the golden loss of $model"
    says stdout ", 699 tokens)" "the golden text of $model"
done

# ---- the forms of options ----
quiet "--a=b" nanogpt train "${tiny[@]}" --data=text.txt --out_dir=f1 --max_iters=2 --learning_rate=0.01
quiet "--a b" nanogpt train "${tiny[@]}" --data text.txt --out_dir f2 --max_iters 2 --learning_rate 0.01
quiet "dashes" nanogpt train "${tiny[@]}" --data=text.txt --out-dir=f3 --max-iters=2 --learning-rate=1e-2
cat >some.cfg <<'END'
# a run
data = text.txt
  out_dir=f4     # a comment
max_iters = 2
learning_rate = 1
temperature = 2  # another command's
END
quiet "--config" nanogpt train "${tiny[@]}" --config some.cfg --learning_rate=0.01
for dir in f2 f3 f4; do same f1/model.safetensors $dir/model.safetensors "forms of options"; done
quiet "--config elsewhere" nanogpt sample --config=some.cfg --max_new_tokens=3

# ---- the same bytes with any number of threads ----
quick=(--n_layer=2 --n_head=4 --n_embd=32 --block_size=16 --batch_size=5 --warmup_iters=2 --eval_iters=2)
quick+=(--data=text.txt --max_iters=6 --eval_interval=3 --log_interval=1 --dropout=0.1)
for arch in gpt2 llama; do
    for threads in 1 2 3; do
        quiet "$threads threads" nanogpt train "${quick[@]}" --arch=$arch --out_dir=$arch$threads --threads=$threads
        same $arch$threads/model.safetensors ${arch}1/model.safetensors "$threads threads"
        log_without_times $arch$threads/log.csv >log$threads
        same log$threads log1 "$threads threads"
    done
    # The state records the options, of which out_dir and threads differ; the numbers after the header must not.
    for threads in 2 3; do
        n=$(($(wc -c <${arch}1/model.safetensors) * 2))
        cmp -s <(tail -c $n $arch$threads/state.safetensors) <(tail -c $n ${arch}1/state.safetensors)
        report $? "state.safetensors with $threads threads"
    done
done

# ---- a vocabulary that was removed stands in the weights' file, too ----
quiet "own" nanogpt sample --out_dir=a --max_new_tokens=9
cp stdout own
mv a/tokenizer.json .
nanogpt sample --out_dir=a --max_new_tokens=9 >stdout 2>err
judge 0 "note: a/tokenizer.json is not the one the weights were saved with; taking theirs" "no tokenizer.json" $?
same stdout own "no tokenizer.json"
mv tokenizer.json a

# ---- weights that are finite, but too large to compute with ----
cp -r "$gpt2" huge
header=$((8 + $(od -An -t u8 -N8 huge/model.safetensors)))
numbers=$(($(wc -c <huge/model.safetensors) - header))
{ head -c $header "$gpt2/model.safetensors" && head -c $numbers /dev/zero | tr '\0' '~'; } >huge/model.safetensors
refused 1 "nan; the model's weights are damaged or too large" sample --init_from=huge --start=a
refused 1 "nan; the model's weights are damaged or too large" eval --init_from=huge --data="$gpt2/text.txt"

# ---- other texts ----
for i in $(seq 60); do echo "天地玄黄，宇宙洪荒。日月盈昃，辰宿列张。第$i句。"; done >chinese.txt
quiet "Chinese" nanogpt train "${tiny[@]}" --data=chinese.txt --out_dir=zh --max_iters=5
quiet "Chinese" nanogpt sample --out_dir=zh --start=天地 --max_new_tokens=20
[ "$(wc -m <stdout)" = 23 ] && grep -q ^天地 stdout
report $? "Chinese: $(cat stdout)"
quiet "Chinese" nanogpt eval --out_dir=zh --data=chinese.txt
tr ' ' '\t' <text.txt >tabs.txt # the tab comes before the line break in the vocabulary
quiet "tabs" nanogpt train "${tiny[@]}" --data=tabs.txt --out_dir=tabs --max_iters=2
quiet "tabs" nanogpt sample --out_dir=tabs --max_new_tokens=3
[ "$(head -c 1 stdout | od -An -c | tr -d ' ')" = '\n' ]
report $? "the default start is not a line break: $(od -c stdout | head -1)"
tr -d '\n' <text.txt >line.txt
quiet "no line break" nanogpt train "${tiny[@]}" --data=line.txt --out_dir=line --max_iters=2
quiet "no line break" nanogpt sample --out_dir=line --max_new_tokens=3
[ "$(head -c 1 stdout)" = ' ' ]
report $? "the start without a line break is not the first character: $(od -c stdout | head -1)"
quiet "llama, not tied" nanogpt train "${tiny[@]}" --arch=llama --tie=false --data=text.txt --out_dir=c --max_iters=2
quiet "the same said again" nanogpt train --init_from=c --arch=llama --tie=false --data=text.txt --out_dir=c2 \
    --max_iters=2 --batch_size=2 --eval_iters=1
mkdir no_tokenizer && cp "$gpt2"/{config.json,model.safetensors} no_tokenizer
for i in $(seq 0 400); do echo $((i * i % 29)); done >ids.txt
for flag in --tokens --tokens=false; do # with no vocabulary of characters, text is token ids anyway
    nanogpt eval --init_from=no_tokenizer --data=ids.txt $flag >stdout 2>err
    judge 0 "note: this vocabulary is not one token a character; text is token ids" "eval of token ids" $?
    says stdout "400 tokens" "eval of token ids"
done
quiet "eval of token ids though there are characters" nanogpt eval --init_from="$gpt2" --data=ids.txt --tokens
nanogpt sample --init_from=no_tokenizer --max_new_tokens=3 >stdout 2>err
judge 0 "text is token ids" "sample of token ids" $?
[ "$(wc -w <stdout)" = 4 ]
report $? "sample of token ids: $(cat stdout)"
refused 1 "token 1 of $gpt2/text.txt is '" eval --init_from=no_tokenizer --data="$gpt2/text.txt"
refused 2 "--tokens goes with --init_from=DIR" train "${tiny[@]}" --tokens --data=ids.txt --out_dir=x
quiet "train on token ids" nanogpt train --init_from=no_tokenizer --tokens --data=ids.txt --out_dir=a_copy \
    --max_iters=2 --batch_size=2 --eval_iters=1
quiet "a model of characters" nanogpt train "${tiny[@]}" --data=text.txt --out_dir=b --max_iters=3
quiet "token ids in its place" nanogpt train --init_from=no_tokenizer --tokens --data=ids.txt --out_dir=b \
    --max_iters=2 --batch_size=2 --eval_iters=1
nanogpt sample --out_dir=b --max_new_tokens=3 --start="1 2" >stdout 2>err # not with the old one's characters
judge 0 "text is token ids" "token ids where characters were" $?
rm -r b
quiet "only nanogpt reads it" nanogpt train "${tiny[@]}" --data=text.txt --out_dir=post --max_iters=3 --wiring=post
says stdout "only nanogpt reads this model" "a model of another architecture"
quiet "go on from a model" nanogpt train --init_from=a --data=text.txt --out_dir=b --max_iters=3 --batch_size=4 \
    --eval_iters=2
quiet "go on from a golden model" nanogpt train --init_from="$llama" --data="$llama/text.txt" --out_dir=c \
    --max_iters=3 --batch_size=2 --eval_iters=1
quiet "a run over another" nanogpt train "${tiny[@]}" --data=text.txt --out_dir=b --max_iters=2
says stdout "the model that was in b is kept in b/previous" "a run over another"
quiet "the kept one" nanogpt eval --init_from=b/previous --data=text.txt

# ---- standard output ----
nanogpt sample --out_dir=a --max_new_tokens=5000 2>err | head -1 >/dev/null
[ ! -s err ]
report $? "sample | head -1: $(cat err)"
if [ -e /dev/full ]; then
    nanogpt sample --out_dir=a --max_new_tokens=50 >/dev/full 2>err
    judge 1 "cannot write to standard output" "sample >/dev/full" $?
    nanogpt eval --out_dir=a --data=text.txt >/dev/full 2>err
    judge 1 "cannot write to standard output" "eval >/dev/full" $?
    nanogpt --help >/dev/full 2>err
    judge 1 "cannot write to standard output" "--help >/dev/full" $?
fi
nanogpt sample --out_dir=a --max_new_tokens=5 2>err >&-
judge 1 "cannot write to standard output" "sample >&-" $?
nanogpt train "${tiny[@]}" --data=text.txt --out_dir=closed --max_iters=20 --eval_interval=10 --log_interval=5 2>err >&-
judge 1 "cannot write to standard output" "train >&-" $?
log_without_times a/log.csv >log1
log_without_times closed/log.csv >log2
same log1 log2 "a run whose standard output is closed"
finish
