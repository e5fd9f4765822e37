#!/usr/bin/env bash
# Reads the public members of the pinned E2B SDK, in a virtual environment that is removed after that, and writes docs/e2b.md.
set -euo pipefail
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
"$1" -m venv "$place"
"$place/bin/pip" install --quiet --disable-pip-version-check e2b==2.63.0 e2b-code-interpreter==2.11.5
"$place/bin/python" scripts/e2b_members.py >tests/docs/e2b-members.txt
"$1" -m tests.docs.e2b
