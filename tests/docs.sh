#!/bin/bash
# The documents against the sources: equation numbers, names, paths, links and formulas. bash tests/docs.sh [TOP] prints each
# problem on a line and exits 1 if there is one.
set -u
export LC_ALL=C  # a byte is a character: what depends on UTF-8 says so below
cd "${1:-$(dirname "$0")/..}" || exit 1
shopt -s nullglob

checks=0 problems=0
problem() { problems=$((problems + 1)); echo "$*"; }
# check STATUS TEXT: a check that has been made; 0 is good.
check() { checks=$((checks + 1)); [ "$1" = 0 ] || problem "${@:2}"; }

sources=(nanogpt.cpp docs/lab.cpp)
theory=(docs/derivations.md docs/derivations.zh.md docs/reading.md docs/reading.zh.md)
documents=(docs/*.md README*.md)
for file in "${sources[@]}" "${theory[@]}"; do
    [ -f "$file" ]
    check $? "$file is missing"
done
[ "$problems" = 0 ] || exit 1

# ---- what stands where ----

# The equation numbers in parentheses: (T5), (T12, T13), (X1). A range, as (T1) to (T20), is a way of speaking and names none.
labels() {
    sed -E 's/\([TX][0-9]+\)( to |…|–|-| 到 )\([TX][0-9]+\)//g' "$@" | grep -oE '\([TX][0-9]+[^()]*\)' | grep -oE '[TX][0-9]+' | sort -u
}
# The code spans, one a line.
spans() { grep -oE '`[^`]+`' "$@" | tr -d '`' | sort -u; }
# The words of the code, without its comments.
code_words() { sed -E 's:(^|[^\:])//.*:\1:' "$@" 2>/dev/null | grep -oE '[A-Za-z_][A-Za-z0-9_]*' | sort -u; }
# The display formulas, one a line, without words and spaces.
formulas() {
    awk '$0 == "$$" { inside = !inside; next } inside' "$1" | sed -E 's/\\text\{[^}]*\}//g; s/\\ //g; s/ //g'
}
# The anchors that GitHub gives to a document's headings.
anchors() {
    sed -nE 's/^#+ +//p' "$1" | tr 'A-Z' 'a-z' | sed -E 's/：|，|、|。|（|）|？|“|”//g; s/[]!-,.\/:-@\\^`{|}~[]//g; s/ /-/g'
}

# What the theory may name: nanogpt.cpp's words, the lab's experiments, the test functions. Other documents: any word of the code.
declare -A is_word is_theory
while read -r word; do is_word[$word]=1; done < <(code_words nanogpt.cpp docs/*.cpp docs/*.h tests/*.cpp tests/*.h data/*.cpp)
while read -r word; do is_theory[$word]=1; done < <(
    code_words nanogpt.cpp
    grep -oE '"[a-z]+"' docs/lab.cpp | tr -d '"'
    code_words tests/*.cpp | grep '^test_')

# ---- equation numbers: in both derivations all of them, and the same in the sources ----

numbers=()
for n in {1..20}; do numbers+=("T$n"); done
numbers+=(X1 X2)
known=" ${numbers[*]} "
in_sources=" $(labels "${sources[@]}" | tr '\n' ' ')"
for number in "${numbers[@]}"; do
    for file in docs/derivations.md docs/derivations.zh.md; do
        [ "$(grep -cF -e "**($number)**" "$file")" = 1 ]
        check $? "$file does not state **($number)** exactly once"
    done
    [[ $in_sources == *" $number "* ]]
    check $? "($number) stands in no source: ${sources[*]}"
done
for file in "${sources[@]}" tests/*.cpp tests/*.h "${documents[@]}"; do
    for number in $(labels "$file"); do
        [[ $known == *" $number "* ]]
        check $? "$file: ($number) is no equation of the derivations"
    done
done

# ---- the two languages: the same names, formulas and number of sections ----

for name in derivations reading; do
    english=docs/$name.md chinese=docs/$name.zh.md
    while IFS= read -r line; do
        problem "$english and $chinese do not have the same code spans: ${line/#</only English:}"
    done < <(diff <(spans "$english" | grep -v '\.md$') <(spans "$chinese" | grep -v '\.md$') | grep '^[<>]' | sed 's/^>/only Chinese:/')
    while IFS= read -r line; do
        problem "$english and $chinese do not have the same formulas: $line"
    done < <(diff <(formulas "$english") <(formulas "$chinese") | grep '^[<>]')
    [ "$(grep -c '^#' "$english")" = "$(grep -c '^#' "$chinese")" ]
    check $? "$english and $chinese do not have the same number of headings"
    diff -q <(labels "$english") <(labels "$chinese") >/dev/null
    check $? "$english and $chinese do not have the same equation numbers"
    checks=$((checks + $(spans "$english" | wc -l) + $(formulas "$english" | wc -l)))
done

# ---- names: each that is written as code exists ----

name='[A-Za-z_][A-Za-z0-9_]*'
for file in "${documents[@]}"; do
    strict=0
    [[ " ${theory[*]} " == *" $file "* ]] && strict=1
    while IFS= read -r span; do
        if [[ $span =~ ^$name(::$name)*(\(.*\))?$ ]]; then
            # Elsewhere a bare word may be anything; with an underscore, :: or parentheses it is a name of the code.
            [ $strict = 1 ] || [[ $span == *[_:\(]* ]] || continue
            for word in $(grep -oE "$name" <<<"${span%%(*}"); do
                [ -n "${is_theory[$word]:-}" ] || { [ $strict = 0 ] && [ -n "${is_word[$word]:-}" ]; }
                check $? "$file: \`$span\`: there is no $word in the code"
            done
        elif [[ $span =~ ^--([a-z_0-9]+)(=.*)?$ ]]; then
            grep -qE "\"(--)?${BASH_REMATCH[1]}\"" "${sources[@]}"
            check $? "$file: \`$span\`: there is no option ${BASH_REMATCH[1]}"
        elif [[ $span =~ ^make\ ([a-z]+) ]]; then
            grep -qE "^([a-z ]+ )?${BASH_REMATCH[1]}( [a-z ]+)?:" Makefile
            check $? "$file: \`$span\`: the Makefile has no target ${BASH_REMATCH[1]}"
        elif [[ $span =~ ^[A-Za-z0-9_.-]+\.(cpp|h|sh|py|md)$ ]]; then
            [ -e "$span" ] || [ -e "docs/$span" ]
            check $? "$file: \`$span\`: there is no such file"
        fi
    done < <(spans "$file")
    # A test function stands in one of the programs that its line names.
    while IFS= read -r line; do
        programs=$(grep -oE 'tests/[a-z_]+\.cpp' <<<"$line")
        for test in $(grep -oE '`test_[a-z_]+`' <<<"$line" | tr -d '`'); do
            grep -qsE "^[a-z]+ $test\(" $programs /dev/null
            check $? "$file: there is no $test() in" "${programs//$'\n'/ }"
        done
    done < <(grep -E '`test_[a-z_]+`' "$file")
done

# Each layer of nanogpt.cpp is derived.
for file in docs/derivations.md docs/derivations.zh.md; do
    for layer in $(sed -nE 's/^inline void ([a-z_]+_(forward|backward))\(.*/\1/p' nanogpt.cpp); do
        grep -qF -e "\`$layer\`" "$file"
        check $? "$file does not name $layer of nanogpt.cpp"
    done
done
# Each experiment that the theory names is one of the lab's.
for file in "${theory[@]}"; do
    for experiment in $(grep -oE '(Lab: |实验：)`[a-z]+`((, |、)`[a-z]+`)*' "$file" | grep -oE '`[a-z]+`' | tr -d '`' | sort -u); do
        grep -qsF -e "\"$experiment\"" docs/lab.cpp
        check $? "$file: docs/lab.cpp has no experiment \"$experiment\""
    done
done

# ---- paths and links ----

for file in "${documents[@]}" data/README.md tests/golden/README.md; do
    [ -f "$file" ] || continue
    for path in $(grep -oE '(^|[^A-Za-z0-9_./-])(docs|tests|data|\.ci)/[A-Za-z0-9_./*-]+' "$file" | grep -oE '(docs|tests|data|\.ci)/.*' | sed 's/[.]*$//' | sort -u); do
        found=($path)
        # A file that is made or fetched need not be there.
        [ -e "${found[0]:-}" ] || grep -qsF -e "$path" Makefile || { [[ $path == data/* ]] && grep -qsw -e "$(basename "${path%.*}")" data/get.sh; }
        check $? "$file: there is no $path"
    done
    while IFS= read -r target; do
        [[ $target == http* || $target == mailto:* ]] && continue
        path=${target%%#*} anchor=
        [[ $target == *#* ]] && anchor=${target#*#}
        [ -n "$path" ] && path=$(dirname "$file")/$path || path=$file
        [ -e "$path" ] || [[ $path == */out/* || $path == out/* ]]
        check $? "$file: the link to $target leads nowhere"
        if [ -n "$anchor" ] && [[ $path == *.md ]] && [ -f "$path" ]; then
            anchors "$path" | grep -qxF -e "$anchor"
            check $? "$file: $path has no heading #$anchor"
        fi
    done < <(grep -oE '\]\([^) ]+\)' "$file" | sed -E 's/^\]\(//; s/\)$//' | sort -u)
done

# ---- formulas that GitHub would not render ----

for file in "${documents[@]}"; do
    while IFS= read -r line; do problem "$file:$line"; done < <(awk '
        function bad(what) { print NR ": " what ": " $0 }
        function check_formula(f) {
            if (index(f, "\\\\")) bad("a double backslash")
            if (f ~ /[})]_/) bad("an underscore behind a bracket")
            if (f ~ /<[A-Za-z\/]/) bad("< before a letter")
            if (f ~ /\*/) bad("an asterisk")
            if (f ~ /\\[,;:!{}|_]/) bad("a backslash before punctuation, which Markdown takes away")
        }
        /^```/ { fenced = !fenced }
        fenced { next }
        $0 == "$$" { if (inside && lines != 1) bad("a display formula is one line"); inside = !inside; lines = 0; next }
        inside { lines++; check_formula($0); if (/\$/) bad("a $ in a display formula"); if (/^([-+#>=]|[0-9]+[.)] )/) bad("begins like a list or a heading"); next }
        /\$/ {
            text = $0
            gsub(/`[^`]*`/, "C", text)
            gsub(/\\\$/, "D", text)
            n = split(text, part, "$")
            if (n % 2 == 0) { bad("an odd number of $"); next }
            for (i = 2; i < n; i += 2) {
                check_formula(part[i])
                if (part[i] ~ /^ | $/ || part[i] == "") bad("a space inside $")
                if (part[i - 1] ~ /[^ (|]$/) bad("a character before $ that hides the formula")
                if (part[i + 1] ~ /^[^ .,;:)?!|]/) bad("a character behind $ that hides the formula")
            }
        }
        END { if (inside) print NR ": a $$ is not closed" }' "$file")
    checks=$((checks + $(grep -c '\$' "$file")))
done

# ---- nanogpt.cpp is 120 columns wide; nothing is left to do ----

# In UTF-8 a character's further bytes are \200-\277, and the combining marks (as in x̂) are \314 and \315 with one more.
while IFS= read -r line; do problem "$line"; done < <(awk '{
    gsub(/\314[\200-\277]|\315[\200-\257]/, ""); gsub(/[\200-\277]/, "")
    if (length($0) > 120) print FILENAME ":" NR ": " length($0) " columns; the limit is 120"
}' nanogpt.cpp)
checks=$((checks + $(wc -l <nanogpt.cpp)))

marks='TO''DO|FIX''ME|XX''X'
while IFS= read -r line; do problem "$line"; done < <(
    grep -nwE "$marks" nanogpt.cpp Makefile README*.md LICENSE .clang-format .gitignore docs/*.* data/*.cpp data/*.sh data/*.md tests/*.* .ci/* 2>/dev/null)
checks=$((checks + 1))

echo "$checks checks, $problems problems"
[ "$problems" = 0 ]
