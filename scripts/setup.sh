#!/usr/bin/env bash
# Makes the virtual environment with everything that demo and tests need.
# As root on Debian it installs missing system packages first; otherwise it says which ones are missing.
set -euo pipefail

packages=()
"$PYTHON" -c 'import ensurepip, venv' 2>/dev/null || packages+=(python3-venv)
command -v "$PYTHON" >/dev/null || packages+=(python3)
command -v bwrap >/dev/null || packages+=(bubblewrap)     # what benchmarks are compared with
command -v firejail >/dev/null || packages+=(firejail)   # a backend
command -v gcc >/dev/null || packages+=(gcc libc6-dev)    # attacks whose point is a raw system call
command -v ruby >/dev/null || packages+=(ruby)            # languages that are run
command -v node >/dev/null || packages+=(nodejs)
command -v npm >/dev/null || packages+=(npm)              # and what installs packages for one
command -v chromium >/dev/null || packages+=(chromium)    # looks at the report of a batch
command -v git >/dev/null || packages+=(git)
command -v setpriv >/dev/null || packages+=(util-linux)

if ((${#packages[@]})); then
    if [[ $(id -u) == 0 ]] && command -v apt-get >/dev/null; then
        echo "installing ${packages[*]}"
        export DEBIAN_FRONTEND=noninteractive
        apt-get update -qq
        apt-get install -y -qq "${packages[@]}" >/dev/null
    else
        echo "not installed here: ${packages[*]} (as root: apt-get install ${packages[*]})" >&2
    fi
fi

"$PYTHON" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
    echo "Python 3.11 or newer is needed; $("$PYTHON" --version) found. Name one: make PYTHON=/path/to/python3.11" >&2
    exit 1
}
"$PYTHON" -m venv "$VENV"
"$VENV/bin/pip" install --quiet --disable-pip-version-check -e '.[dev,humaneval]'
