#!/usr/bin/env bash
# Writes docs/guarantees.md from real runs of the attack suite and of the overshoot bench, as root and as an ordinary user with
# an account, so that firejail serves it too.
set -euo pipefail
python=$1
out=docs/guarantees.md
fresh=$(mktemp)
trap '[[ $? == 0 ]] || cat "$fresh" >&2; rm -f "$fresh"' EXIT # the file holds the failures
{
    echo "# What holds each guarantee"
    echo
    echo "\`make guarantees\` writes this page from real runs. Each attack first ran unconfined and succeeded; otherwise its confined run"
    echo "would prove nothing. Then it ran confined, and met exactly the expected refusal. If a backend does not refuse an attack, its plan"
    echo "says that the guarantee is not held. \`stockade attack --all\` prints the same table for your own machine."
    for who in root "an ordinary user"; do
        run=("$python")
        [[ $who == root ]] || run=(scripts/as-user.sh --account)
        echo
        echo "## As $who"
        echo
        "${run[@]}" -m stockade attack --all --jobs 2 --markdown
        echo
        echo "The most by which a run exceeded its limit, worst of 50 (\`make overshoot\`):"
        echo
        "${run[@]}" bench/overshoot.py
    done
} > "$fresh"
cp "$fresh" "$out"
