#!/usr/bin/env bash
# Installs the given Debian packages as root on Debian; otherwise reports that they are missing.
set -euo pipefail
(($#)) || exit 0
if [[ $(id -u) == 0 ]] && command -v apt-get >/dev/null; then
    echo "installing $*"
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq
    apt-get install -y -qq --no-install-recommends "$@" >/dev/null
else
    echo "not installed here: $* (as root: apt-get install $*)" >&2
fi
