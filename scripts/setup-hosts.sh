#!/usr/bin/env bash
# Installs the programs that build and boot the machine of tests/hosts, as root on Debian.
# Elsewhere the tests themselves say what to install.
set -euo pipefail
[[ $(id -u) == 0 ]] && command -v apt-get >/dev/null || exit 0
export PATH=$PATH:/usr/sbin:/sbin

packages=()
command -v qemu-system-x86_64 >/dev/null || packages+=(qemu-system-x86)
command -v mke2fs >/dev/null || packages+=(e2fsprogs)
command -v debootstrap >/dev/null || packages+=(debootstrap)
command -v cpio >/dev/null || packages+=(cpio)
command -v lz4 >/dev/null || packages+=(lz4)

if ((${#packages[@]})); then
    echo "installing ${packages[*]}"
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq
    apt-get install -y -qq --no-install-recommends "${packages[@]}" >/dev/null
fi
