#!/usr/bin/env bash
# Unpacks Debian's kernel for virtual machines into the folder FOLDER, for `stockade images build microvm --packages FOLDER`.
# Nothing is installed: an installed kernel would be in the way of the machine's own.
set -euo pipefail
folder=$1
[[ -d $folder/boot ]] && exit 0
if [[ $(id -u) != 0 ]] || ! command -v apt-get >/dev/null || ! command -v dpkg-deb >/dev/null; then
    echo "not unpacked here: linux-image-cloud-amd64 (as root: scripts/kernel.sh $folder)" >&2
    exit 0
fi
work=$(mktemp -d "${TMPDIR:-/tmp}/stockade-kernel.XXXXXX")
trap 'rm -rf "$work"' EXIT
package=$(apt-cache depends --important linux-image-cloud-amd64 | sed -n 's/.*Depends: \(linux-image-[^ ]*\)$/\1/p' | head -1)
[[ -n $package ]] || { echo "apt knows no linux-image-cloud-amd64 (apt-get update?)" >&2; exit 1; }
(cd "$work" && apt-get download -qq -o APT::Sandbox::User=root "$package")
mkdir "$work/unpacked"
dpkg-deb -x "$work"/*.deb "$work/unpacked"
mkdir -p "$(dirname "$folder")"
mv -T "$work/unpacked" "$folder"
chmod 755 "$folder"
