#!/usr/bin/env bash
# Writes docs/mutants.md, as root. Each protection is switched off in a copy of the source, and attacked in its own namespaces.
set -euo pipefail
python=$1
shift
fresh=$(mktemp)
trap '[[ $? == 0 ]] || cat "$fresh" >&2; rm -f "$fresh"' EXIT # the file says what nobody noticed
{
    cat tests/mutants/head.md
    "$python" -m tests.mutants --markdown "$@"
} > "$fresh"
cp "$fresh" docs/mutants.md
