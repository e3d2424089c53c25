#!/bin/bash
# Does any wrong line of a backward go unnoticed? Breaks the code that computes gradients and updates, in very many ways
# one at a time, and runs the gradient tests (layers.cpp, model.cpp in double) on each: all must fail. Prints the
# survivors; 0 if there are none beyond those that `equivalent`, below, explains.
#
#     tests/mutate.sh              about half an hour on two cores; not part of `make test`
#     tests/mutate.sh NAME …       these functions only; the kernel's (multiply, product …) run on its tests
#     tests/mutate.sh --list …     only shows the mutants
#
# To be fast it compiles hundreds of mutants at once. A copy of sections 1 to 5 is made in which before each function
# stand its mutants under other names, mutant_1_name, mutant_2_name …, and the function begins by handing over to the
# one that the environment variable MUTANT asks for. What does not compile is found by the lines of the compiler's
# errors and left out.
set -u
cd "$(dirname "$0")/.." || exit 1
work=build/mutate
mkdir -p $work

# Besides every function whose name has "backward" in it.
others="sum_rows normalize hide_later drop_scores gathered rope mask dropout drop attention_dropout cross_entropy loss
    update gradient_norm clip_factor scheduled_rate"

# One name for another: what an author could mix up.
swaps="dw:w dgain:gain gradients:weights weights:gradients keys:values values:keys dkeys:dvalues dvalues:dkeys
    dkeys:dqueries p:ds ds:p s:ds ds:s q:d_o d_o:q top:over_z over_z:top queries:visible visible:queries
    rows:visible visible:rows g:h h:g h:b b:g i:j j:i i0:i H:G G:H D:T T:D
    row:out_row out_row:row width:row dgamma:dbeta dbeta:dgamma gamma:beta mean_u:mean_ux mean_ux:mean_u rstd:mean
    mean:rstd xn:dyn dyn:xn x:dy dy:x b1:b2 b2:b1 mt:vt vt:mt beta1:beta2 beta2:beta1 m:v v:m in:out out:in N:in
    N:out C:V V:C N:C C:F F:fc fc:F norm_1:norm_2 norm_2:norm_1 dx_:dsum_ dsum_:dx_ dx_:branch_ branch_:dx_
    masked_:dx_ normed_:branch_ act_:branch_ in:x dy:din x_:sums_ sums_:x_ dw.fc:dw.out w.fc:w.out w.out:w.fc
    w.qkv:w.projection qkv_:attended_ attended_:qkv_ ai:bi bi:ai a:b c:si si:c learning_rate:min_lr
    min_lr:learning_rate k:l true:false false:true silu:s u:g d:u top:total total:top warmup_iters:lr_decay_iters
    lr_decay_iters:warmup_iters swiglu:gelu"

# Mutants that compute the same: `# why`, then lines `function: the mutated line`, as --list shows it.
equivalent() {
    cat <<'END'
# Other working memory, which nothing else is using, or more of it than is needed.
sum_rows: real* partial = scratch<1>(pieces * 2 * C);
sum_rows: real* partial = scratch<0>(pieces * 3 * C);
gradient_norm: double* squares = scratch<1, double>(pieces);
attention_backward: const Packed packed_keys = pack(scratch<7>(packed_size(T, D)), keys, T, D);
# Blocks of queries of another length: the same sums.
attention_backward: const idx row = s.row(), D = s.D, T = s.T, block = std::min(query_block, D), width = round_up(block, 16);
# Gathered or where they lie: the same numbers.
gathered: ;
gathered: if (!(T * rows.row <= warm)) return rows;
gathered: if (T / rows.row <= warm) return rows;
gathered: if (T * rows.row < warm) return rows;
gathered: if (T <= warm) return rows;
gathered: if (rows.row <= warm) return rows;
gathered: if (D * rows.row <= warm) return rows;
# Keys that are not after the first query hide from no query.
hide_later: for (idx j = i0 - 1; j < visible; j++)
hide_later: for (idx j = i0; j < visible; j++)
hide_later: for (idx j = 1; j < visible; j++)
# Blocks without queries before the last one: they set the keys' gradients to 0 and add nothing.
attention_backward: for (idx i0 = (T + 1) / block * block; i0 >= 0; i0 -= block, first = false) {
attention_backward: for (idx i0 = (T - 1) * block * block; i0 >= 0; i0 -= block, first = false) {
attention_backward: for (idx i0 = (T - 1) * block; i0 >= 0; i0 -= block, first = false) {
attention_backward: for (idx i0 = (T) / block * block; i0 >= 0; i0 -= block, first = false) {
# At time 0 nothing is turned.
attention_backward_branch: if (turns_) rope(dqkv_, turns_, -1, heads(), 1);
# For GELU the two widths are the same, for gradients and weights the tensors.
mlp_backward_branch: else gelu_backward(of(fc_, l), act_, N * fc);
update: parallel_ranges(gradients.memory.size(), many, [=, this, &weights](idx begin, idx end) {
# Rows a task.
cross_entropy: parallel_each<5>(N, [=](idx n) {
# n is a multiple of 16.
gradient_norm: const idx n = gradients.memory.size(), pieces = (n + many - 2) / many;
END
}

list=
[ "${1:-}" = --list ] && list=1 && shift
functions="$*"
[ $# -gt 0 ] ||
    functions="$(grep -oE 'void [a-z_]*backward[a-z_]*\(' nanogpt.cpp | sed 's/void //; s/(//' | xargs) ${others//$'\n'/ }"

# generate PART LEFT_OUT FROM TO: $work/PART.cpp with the mutants FROM to TO and without those LEFT_OUT, and
# $work/PART.table with a line for each: number, function, its first and last line in PART.cpp, its line in the source,
# the mutated line.
generate() {
    awk -v functions="$functions" -v swaps="${swaps//$'\n'/ }" -v left_out="$2" -v from="$3" -v to="$4" \
        -v table="$work/$1.table" -v program="$work/$1.cpp" '
    # The text that one operand takes from s[at] on: a name or number with all its [..], (..), <..>( and .member; or a
    # parenthesis.
    function operand(s, at,    i, c, depth) {
        for (i = at; i <= length(s); i++) {
            c = substr(s, i, 1)
            if (c ~ /[(\[]/) depth++
            else if (c ~ /[)\]]/) { if (--depth < 0) break }
            else if (depth == 0 && c !~ /[A-Za-z0-9_.:]/) break
        }
        return i - at
    }
    # The same backwards: how many characters end at s[at].
    function operand_before(s, at,    i, c, depth) {
        for (i = at; i > 0; i--) {
            c = substr(s, i, 1)
            if (c ~ /[)\]]/) depth++
            else if (c ~ /[(\[]/) { if (--depth < 0) break }
            else if (depth == 0 && c !~ /[A-Za-z0-9_.:]/) break
        }
        return at - i
    }
    function balance(s) { return gsub(/[{(]/, "", s) - gsub(/[})]/, "", s) }
    function try(line, mutated) {
        if (mutated == line || (mutated in tried)) return
        if (balance(mutated) != balance(line)) return  # the rest would not compile either
        tried[mutated]
        mutants++
        if (mutants < from || mutants > to || index(left_out, " " mutants " ")) return
        mutant[++count] = mutated; number[count] = mutants; place[count] = row
    }
    function replace_all(line, from, to,    i) {  # each occurrence by itself
        for (i = 1; (i <= length(line)) && index(substr(line, i), from); i++) {
            i += index(substr(line, i), from) - 1
            try(line, substr(line, 1, i - 1) to substr(line, i + length(from)))
        }
    }
    function is_name(c) { return c ~ /[A-Za-z0-9_]/ }
    function replace_word(line, from, to,    i) {
        for (i = 1; (i <= length(line)) && index(substr(line, i), from); i++) {
            i += index(substr(line, i), from) - 1
            if (!is_name(substr(line, i - 1, i > 1)) && !is_name(substr(line, i + length(from), 1)))
                try(line, substr(line, 1, i - 1) to substr(line, i + length(from)))
        }
    }
    function mutate(line, before,    i, n, m, c, pairs, pair, two) {
        if (line ~ /__builtin_prefetch/) return  # no result depends on it
        split("", tried)
        # Drop the statement; negate the condition.
        if (line ~ /;$/ && line !~ /^ *(const|auto|real|idx|return|constexpr) / && before ~ /[;{})]$/) try(line, ";")
        if (match(line, /if \(/)) {
            n = operand(line, RSTART + 3)
            try(line, substr(line, 1, RSTART + 2) "(!" substr(line, RSTART + 3, n) ")" substr(line, RSTART + 3 + n))
        }
        # Other operators; a loop that ends one early.
        m = split("+ -,- +,* /,/ *,+= =,+= -=,-= =,-= +=,== !=,!= ==,&& ||,|| &&,< >=,> <=,>= >,<= <", pairs, ",")
        for (i = 1; i <= m; i++) {
            split(pairs[i], two, " ")
            replace_all(line, " " two[1] " ", " " two[2] " ")
        }
        replace_all(line, " < ", " + 1 < ")
        # Drop a term, a factor, a divisor, or what stands before one.
        for (i = 2; i < length(line) - 2; i++) {
            c = substr(line, i, 3)
            if (c != " + " && c != " - " && c != " * " && c != " / ") continue
            n = operand(line, i + 3)
            try(line, substr(line, 1, i - 1) substr(line, i + 3 + n))
            if (c == " + " || c == " - ")  # with its factors
                while (substr(line, i + 3 + n, 3) ~ /^ [*\/] $/) n += 3 + operand(line, i + 6 + n)
            try(line, substr(line, 1, i - 1) substr(line, i + 3 + n))
            n = operand_before(line, i - 1)
            if (c != " / ") try(line, substr(line, 1, i - 1 - n) substr(line, i + 3))
        }
        # Whole numbers one larger, also as template arguments; an index 0; a sign gone; a condition turned round; no
        # transposition.
        for (i = 1; i <= length(line); i++) {
            c = substr(line, i, 1)
            if (c ~ /[0-9]/ && substr(line, i - 1, 1) !~ /[A-Za-z0-9_.]/ && substr(line, i + 1, 1) !~ /[0-9.x]/)
                try(line, substr(line, 1, i - 1) c + 1 substr(line, i + 1))
            if (c == "[" && match(substr(line, i), /^\[[a-z_0-9.]+\]/) && is_name(substr(line, i - 1, 1)))
                try(line, substr(line, 1, i) "0" substr(line, i + RLENGTH - 1))
            if (c == "-" && substr(line, i - 1, 1) ~ /[ (]/ && substr(line, i + 1, 1) ~ /[a-z0-9(]/)
                try(line, substr(line, 1, i - 1) substr(line, i + 1))
            if (substr(line, i, 3) == " ? ") {
                n = operand_before(line, i - 1)
                try(line, substr(line, 1, i - 1 - n) "!" substr(line, i - n))
            }
            if (substr(line, i, 11) == "transposed(") {
                n = operand(line, i + 10)
                try(line, substr(line, 1, i - 1) substr(line, i + 10))
            }
        }
        m = split(swaps, pairs, /[ \n]+/)
        for (i = 1; i <= m; i++) {
            split(pairs[i], two, ":")
            if (index(all, two[2])) replace_word(line, two[1], two[2])
        }
    }
    function code(line) { sub(/ *\/\/.*/, "", line); return line }

    # The function that starts in line `first` of text[]: its signature, its mutants, and the dispatch to them.
    function emit(name, first,    last, opens, indent, signature, i, k, c, depth, args, arg, n, before) {
        indent = text[first]; sub(/[^ ].*/, "", indent)
        for (opens = first; code(text[opens]) !~ /\{$/; opens++);
        for (last = opens + 1; text[last] !~ "^" indent "}"; last++);
        signature = ""
        for (i = first; i <= opens; i++) signature = signature " " text[i]
        sub(".*[ &*]" name "\\(", "", signature)
        # The names of its parameters: what stands before each comma, without defaults.
        args = ""; arg = ""; depth = 1
        for (i = 1; depth; i++) {
            c = substr(signature, i, 1)
            if (c == "(" || c == "<") depth++
            if (c == ")" || c == ">") depth--
            if ((c == "," && depth == 1) || !depth) {
                sub(/ *=.*/, "", arg)
                if (match(arg, /[A-Za-z_0-9]+$/)) args = args (args == "" ? "" : ", ") substr(arg, RSTART)
                arg = ""
            } else arg = arg c
        }
        all = ""
        for (i = first; i <= last; i++) all = all text[i]
        count = 0
        before = "{"
        for (row = opens + 1; row < last; row++) {
            if (code(text[row]) ~ /[^ ]/) { mutate(code(text[row]), before); before = code(text[row]) }
        }
        for (k = 1; k <= count; k++) {
            for (i = first; i <= last; i++) {
                c = i == place[k] ? mutant[k] : text[i]
                if (i <= opens && sub("[ &*]" name "\\(", "&@", c))
                    sub(name "\\(@", "mutant_" number[k] "_" name "(", c)
                print c >program
                written++
            }
            c = mutant[k]; sub(/^ */, "", c)
            printf "%d\t%s\t%d\t%d\t%d\t%s\n", number[k], name, written - (last - first), written, place[k], c >table
        }
        for (i = first; i <= opens; i++) { print text[i] >program; written++ }
        for (k = 1; k <= count; k++) {
            print "if (mutant == " number[k] ") return mutant_" number[k] "_" name "(" args ");" >program
            written++
        }
        for (i = opens + 1; i <= last; i++) { print text[i] >program; written++ }
        return last
    }
    { text[NR] = $0 }
    END {
        m = split(functions, names, " ")
        printf "" >table
        print "#include <cstdlib>" >program
        print "inline const int mutant = std::atoi(std::getenv(\"MUTANT\"));" >program
        written = 2
        for (line = 1; line <= NR; line++) {
            found = 0
            for (f = 1; f <= m && !found; f++)
                if (text[line] ~ "^ *(template <[^>]*> )?(inline )?[A-Za-z:<>]+ " names[f] "\\(" &&
                    text[line] !~ /[;=]$|^ *return/) {
                    line = emit(names[f], line)
                    seen[names[f]]
                    found = 1
                }
            if (found) continue
            print text[line] >program; written++
        }
        for (f = 1; f <= m; f++)
            if (!(names[f] in seen)) print "mutate.sh: there is no function " names[f] >"/dev/stderr"
    }' $work/source.cpp
}

# Sections 1 to 5; statements that take several lines are written in one, and functions that stand in one line in three.
sed '/^\/\/ 6  Text/,$d' nanogpt.cpp |
    awk '{
        line = $0
        if (open) sub(/^ */, open ~ /\($/ ? "" : " ", line)
        line = open line
        end = line
        sub(/ *\/\/.*/, "", end)
        if (end !~ /^ *#/ && end ~ /([(,=+*?:|-]|&&)$/ && end !~ /(public|private):$/) open = end
        else { print line; open = "" }
    }' |
    sed -E 's/^( *)((inline )?[A-Za-z:<>]+ [a-z_]+\(.*\).* \{) (.*;) \}$/\1\2\n\1    \4\n\1}/' >$work/source.cpp
generate all "" 1 1000000
if [ $list ]; then
    cut -f2,6 $work/all.table | sed 's/\t/: /'
    exit
fi

cat >$work/gradients.cc <<'END'
#define GRADIENTS_ONLY
#define main layers_main
#include "../../tests/layers.cpp"
#undef main
#define main model_main
#include "../../tests/model.cpp"
#undef main
// gradients layers|model NAME: first the test that knows the function best, as a caught mutant ends the program.
int main(int, char** argv) {
    const std::string_view test = argv[1], name = argv[2];
    if (test == "model") return model_main();
    const auto about = [&](const char* word) { return name.find(word) != std::string_view::npos; };
    if (about("pack") || about("multiply") || about("product") || about("matmul"))
        test_multiply(), test_matmul(), test_matmul_threads();
    if (about("attention") || about("softmax") || about("scores") || about("later") || about("gathered")) test_attention();
    if (about("norm") || about("sum_rows")) test_norms();
    if (about("rope")) test_rope();
    if (about("embedding")) test_embedding();
    if (about("gradient")) test_gradient_norm();
    if (about("update") || about("gradient") || about("clip") || about("scheduled")) test_adamw();
    if (about("lu_") || about("dropout") || about("mask") || about("residual")) test_elementwise();
    if (about("cross")) test_cross_entropy();
    return layers_main();
}
END

# compile PART LEFT_OUT FROM TO FLAGS: the program $work/PART. Leaves out what does not compile, until all does.
compile() {
    part=$1 bad=" $2 "
    flags="-std=c++20 -w -pthread -fno-math-errno -fno-trapping-math ${ARCH--march=native} -DNANOGPT_REAL=double $5"
    flags="$flags -DNANOGPT_CPP=\"../build/mutate/$part.cpp\""
    generate $part "$bad" "$3" "$4"
    while ! ${CXX:-g++} $flags -fsyntax-only -fmax-errors=0 $work/gradients.cc 2>$work/$part.errors; do
        more=
        for kind in ' error: ' ''; do  # if an error itself is in no mutant, who asked for the template that it is in?
            [ -z "$more" ] || break
            more=$(grep "$kind" $work/$part.errors | sed -nE "s/.*$part.cpp:([0-9]+):.*/\1/p" | sort -un |
                awk 'NR == FNR { wrong[$1]; next }
                     { for (l in wrong) if (l + 0 >= $3 && l + 0 <= $4) { printf "%d ", $1; break } }
                ' - FS='\t' $work/$part.table)
        done
        if [ -z "$more" ]; then
            head -30 $work/$part.errors
            echo "mutate.sh: $part does not compile for another reason"
            return 1
        fi
        bad="$bad$more"
        generate $part "$bad" "$3" "$4"
    done
    ${CXX:-g++} $flags -O2 $work/gradients.cc -o $work/$part || return 1
    for test in layers model; do
        MUTANT=0 $work/$part $test none >/dev/null || { echo "mutate.sh: $test fails without a mutant"; return 1; }
    done
}
# try NUMBER NAME PART: the layers' own tests first, but for members of GPT the model's. A crash or a loop without end
# is noticed, too.
try() {
    [ "$3" = part_memory ] || ulimit -v 4000000
    ulimit -c 0
    first=layers second=model
    [ "$2" != update ] && [ "$2" != mask ] &&
        grep -qE "^    (void|double|Dropout|std::optional<Dropout>|template <.*> void) $2\(" $work/source.cpp &&
        first=model second=layers
    for test in $first $second; do
        MUTANT=$1 timeout 100 $work/"$3" $test "$2" >/dev/null || exit 0
    done
    echo "$1"
}
export -f generate compile try
export work functions swaps

each=200 total=$(wc -l <$work/all.table)
echo "$total mutants"
rm -f $work/part_*
seq 1 $each "$total" |
    xargs -P "${JOBS:-2}" -I {} bash -c "compile part_{} '' {} \$(({} + $each - 1)) '' || exit 255" || exit 1
for part in $(seq 1 $each "$total"); do
    awk -v part=part_"$part" -F '\t' '{ print $1, $2, part }' $work/part_"$part".table
done >$work/jobs
echo "$((total - $(wc -l <$work/jobs))) do not compile, $(wc -l <$work/jobs) run"
xargs -P "${JOBS:-2}" -L 1 bash -c 'try "$0" "$1" "$2"' <$work/jobs >$work/survivors 2>/dev/null

# What is left may have read or written past an array without harm: once more with the AddressSanitizer.
if [ -s $work/survivors ]; then
    others=$(cut -f1 $work/all.table | grep -vxFf $work/survivors | xargs)
    compile part_memory "$others" 1 1000000 -fsanitize=address || exit 1
    awk -F '\t' '{ print $1, $2, "part_memory" }' $work/part_memory.table |
        xargs -P "${JOBS:-2}" -L 1 bash -c 'try "$0" "$1" "$2"' >$work/survivors 2>/dev/null
fi

equivalent | grep -v '^ *#' | grep . | sort >$work/equivalent
explained=0 unexplained=0
while IFS=$'\t' read -r number name _ _ line mutated; do
    grep -qx "$number" $work/survivors || continue
    if grep -qxF "$name: $mutated" $work/equivalent; then
        explained=$((explained + 1))
    else
        unexplained=$((unexplained + 1))
        echo "SURVIVED  $name: $mutated"
        echo "     was  $(sed -n "${line}{s/^ *//;p}" $work/source.cpp)"
    fi
done <$work/all.table
total=$(wc -l <$work/jobs)
echo "$total mutants: $((total - explained - unexplained)) caught, $explained explained above, $unexplained survived"
[ $unexplained = 0 ]
