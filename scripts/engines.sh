#!/usr/bin/env bash
# Installs the programs that tests and benchmarks need beside Python: engines, languages and tools.
set -euo pipefail
packages=()
command -v bwrap >/dev/null || packages+=(bubblewrap)     # a backend, and a baseline of benchmarks
command -v firejail >/dev/null || packages+=(firejail)    # a backend
command -v crun >/dev/null || packages+=(crun)            # a backend
command -v runsc >/dev/null || packages+=(runsc)          # a backend
command -v dockerd >/dev/null || packages+=(docker.io)    # a backend; tests start a daemon of their own
command -v podman >/dev/null || packages+=(podman)        # a backend; tests start a service of their own
command -v newuidmap >/dev/null || packages+=(uidmap)     # podman without root
command -v qemu-system-x86_64 >/dev/null || packages+=(qemu-system-x86) # a backend
command -v gcc >/dev/null || packages+=(gcc libc6-dev)    # attacks in C
guest=/usr/local/bin:/usr/bin:/bin                        # a sandbox finds compilers of batches here
PATH=$guest command -v rustc >/dev/null || packages+=(rustc)
PATH=$guest command -v go >/dev/null || packages+=(golang-go)
PATH=$guest command -v javac >/dev/null || packages+=(default-jdk-headless)
command -v ruby >/dev/null || packages+=(ruby)            # languages of guests
command -v node >/dev/null || packages+=(nodejs)
command -v npm >/dev/null || packages+=(npm)              # installs packages for Node
command -v chromium >/dev/null || packages+=(chromium)    # opens the report of a batch
command -v ip >/dev/null || packages+=(iproute2)          # networks of tests
command -v openssl >/dev/null || packages+=(openssl)      # certificates of tests
command -v git >/dev/null || packages+=(git)
command -v stress-ng >/dev/null || packages+=(stress-ng)  # the load in measurements of neighbours
command -v setpriv >/dev/null || packages+=(util-linux)
"$(dirname "$0")/install.sh" "${packages[@]}"
"$(dirname "$0")/kernel.sh" /var/cache/stockade-tests/kernel # for the machines of tests
