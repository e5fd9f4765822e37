#!/usr/bin/env bash
# Writes docs/mutants.md: each protection switched off in a copy of the source, attacked in namespaces of its own. As root.
set -euo pipefail
python=$1
shift
fresh=$(mktemp)
trap 'rm -f "$fresh"' EXIT
{
    cat tests/mutants/head.md
    "$python" -m tests.mutants --markdown "$@"
} > "$fresh"
cp "$fresh" docs/mutants.md
