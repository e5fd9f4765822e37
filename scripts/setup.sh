#!/usr/bin/env bash
# Creates the virtual environment with all Python packages for the demo and the tests.
set -euo pipefail

packages=()
"$PYTHON" -c 'import ensurepip, venv' 2>/dev/null || packages+=(python3-venv)
command -v "$PYTHON" >/dev/null || packages+=(python3)
"$(dirname "$0")/install.sh" "${packages[@]}"

"$PYTHON" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
    echo "Python 3.11 or newer is needed; $("$PYTHON" --version) found. Name one: make PYTHON=/path/to/python3.11" >&2
    exit 1
}
"$PYTHON" -m venv "$VENV"
"$VENV/bin/pip" install --quiet --disable-pip-version-check -e '.[dev,humaneval]'
