#!/usr/bin/env bash
# Installs what tests and benchmarks run beside Python: engines, languages and tools.
set -euo pipefail
packages=()
command -v bwrap >/dev/null || packages+=(bubblewrap)     # a backend, and what benchmarks are compared with
command -v firejail >/dev/null || packages+=(firejail)    # a backend
command -v gcc >/dev/null || packages+=(gcc libc6-dev)    # attacks whose point is a raw system call
guest=/usr/local/bin:/usr/bin:/bin                        # where a sandbox finds compilers, which batches use
PATH=$guest command -v rustc >/dev/null || packages+=(rustc)
PATH=$guest command -v go >/dev/null || packages+=(golang-go)
PATH=$guest command -v javac >/dev/null || packages+=(default-jdk-headless)
command -v ruby >/dev/null || packages+=(ruby)            # languages that are run
command -v node >/dev/null || packages+=(nodejs)
command -v npm >/dev/null || packages+=(npm)              # and what installs packages for one
command -v chromium >/dev/null || packages+=(chromium)    # looks at the report of a batch
command -v git >/dev/null || packages+=(git)
command -v stress-ng >/dev/null || packages+=(stress-ng)  # what neighbours are measured with
command -v setpriv >/dev/null || packages+=(util-linux)
"$(dirname "$0")/install.sh" "${packages[@]}"
