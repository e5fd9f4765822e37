#!/usr/bin/env bash
# Writes docs/guarantees.md from real runs of the attack suite and of the overshoot bench, as root and as an ordinary user (one
# with an account, whom firejail serves too).
set -euo pipefail
python=$1
out=docs/guarantees.md
fresh=$(mktemp)
trap '[[ $? == 0 ]] || cat "$fresh" >&2; rm -f "$fresh"' EXIT # what failed is in there
{
    echo "# What holds each guarantee"
    echo
    echo "Written by \`make guarantees\`: each attack ran unconfined first and succeeded, or its confined run would prove nothing;"
    echo "then confined, and met exactly the refusal that was expected. Nothing here is typed by hand. What is not refused on a"
    echo "backend, its plan says is not held; \`stockade attack --all\` tells the same of your own machine."
    for who in root "an ordinary user"; do
        run=("$python")
        [[ $who == root ]] || run=(scripts/as-user.sh --account)
        echo
        echo "## As $who"
        echo
        "${run[@]}" -m stockade attack --all --jobs 2 --markdown
        echo
        echo "How far past its limit a run got, worst of 50 (\`make overshoot\`):"
        echo
        "${run[@]}" bench/overshoot.py
    done
} > "$fresh"
cp "$fresh" "$out"
