#!/usr/bin/env bash
# Runs the tests that do not fork, and native's conformance suite, on every CPython from 3.11 on that this machine has.
# Each version is tested once, in a virtual environment of its own below the folder that the first argument names.
set -euo pipefail
place=$1
shopt -s nullglob
failed=() seen=" "
for python in /usr/bin/python3.* /usr/local/bin/python3.* "${PYENV_ROOT:-$HOME/.pyenv}"/versions/*/bin/python3; do
    version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2] if sys.implementation.name == "cpython" else "")' 2>/dev/null) || continue
    [[ $version =~ ^3\.(1[1-9]|[2-9][0-9])$ && $seen != *" $version "* ]] || continue
    seen+="$version "
    echo "== Python $version ($python)"
    [[ -x $place/$version/bin/pytest ]] || {
        "$python" -m venv "$place/$version"
        "$place/$version/bin/pip" install --quiet --disable-pip-version-check -e '.[humaneval,server]' pytest pytest-timeout hypothesis
    }
    {
        "$place/$version/bin/python" -m pytest -q tests/unit tests/property &&
            "$place/$version/bin/python" -m pytest -q tests/contract/test_backends.py -k TestNative
    } || failed+=("$version")
done
[[ $seen != " " ]] || { echo "no CPython from 3.11 on was found" >&2; exit 1; }
echo "ran on:$seen"
((${#failed[@]} == 0)) || { echo "failed on: ${failed[*]}" >&2; exit 1; }
