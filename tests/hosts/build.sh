#!/usr/bin/env bash
# Builds the machine that tests/hosts boots: a Debian kernel, an initial ramdisk and an ext4 root.
# Called by image.py, which names the folder after a digest of everything that goes in:
#   build.sh FOLDER PYTHON REQUIREMENT...
# Nothing is installed on this machine: packages are downloaded and unpacked.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
target=$1
python=$2
shift 2
suite=bookworm
# shellcheck disable=SC2016  # apt's own placeholder
mirror=$(apt-get indextargets --format '$(REPO_URI)' "Codename: $suite" 'Created-By: Packages' | sed -n 1p)
[[ -n $mirror ]] || { echo "apt knows no mirror of Debian $suite: name one in /etc/apt/sources.list" >&2; exit 1; }
guest_python=3.11 # of that suite
umask 022

work=$(mktemp -d "${TMPDIR:-/tmp}/stockade-hosts-build.XXXXXX")
trap 'rm -rf "$work"' EXIT

say() { echo "  $*" >&2; }

fetch() { # PACKAGE FOLDER: download one Debian package and unpack it
    (cd "$work" && chmod 755 . && apt-get download -qq -o APT::Sandbox::User=root "$1" >&2)
    dpkg-deb -x "$work/${1}"_*.deb "$2"
}

say "the kernel"
kernel_package=$(apt-cache depends --important linux-image-cloud-amd64 | sed -n 's/.*Depends: \(linux-image-[^ ]*\)$/\1/p' | head -1)
[[ -n $kernel_package ]] || { echo "apt knows no linux-image-cloud-amd64 (apt-get update?)" >&2; exit 1; }
fetch "$kernel_package" "$work/kernel"
"$python" "$here/vmlinux.py" "$work"/kernel/boot/vmlinuz-* "$work/vmlinux"

say "the initial ramdisk"
modules=$(echo "$work"/kernel/lib/modules/*/kernel)
fetch busybox-static "$work/busybox"
ramdisk=$work/ramdisk
mkdir -p "$ramdisk"/{bin,dev,proc,sys,root,modules}
cp "$work/busybox/bin/busybox" "$ramdisk/bin/busybox"
cp "$here/guest/ramdisk-init" "$ramdisk/init"
chmod 755 "$ramdisk/init"
# In the order in which they are loaded: each before those that need it.
for module in virtio/virtio_ring virtio/virtio virtio/virtio_mmio \
    block/virtio_blk char/virtio_console char/hw_random/virtio-rng; do
    name=$(basename "$module").ko
    cp "$modules/drivers/$module.ko" "$ramdisk/modules/$name"
    echo "$name" >>"$ramdisk/modules/order"
done
cp "$modules/fs/overlayfs/overlay.ko" "$ramdisk/modules/"
echo overlay.ko >>"$ramdisk/modules/order"
(cd "$ramdisk" && find . | LC_ALL=C sort | cpio --quiet -o -H newc | gzip -1) >"$work/initrd.gz"

say "the userland (debootstrap, about half a minute)"
root=$work/root
debootstrap --variant=minbase --include=python3,python3-venv "$suite" "$root" "$mirror" >"$work/debootstrap.log" 2>&1 || {
    tail -20 "$work/debootstrap.log" >&2
    exit 1
}
say "Python packages"
"$python" -m pip install --quiet --disable-pip-version-check --no-compile --target "$root/opt/python" \
    --only-binary=:all: --implementation cp --python-version "$guest_python" \
    --platform manylinux_2_28_x86_64 --platform manylinux_2_17_x86_64 --platform manylinux2014_x86_64 "$@" >&2
chroot "$root" /usr/bin/python3 -m compileall -q /opt/python >&2
echo 'user:x:1000:1000:user:/home/user:/bin/sh' >>"$root/etc/passwd"
echo 'user:x:1000:' >>"$root/etc/group"
mkdir -p "$root/home/user" "$root/project"
chown 1000:1000 "$root/home/user"
rm -rf "$root"/var/cache/apt/* "$root"/var/lib/apt/lists/* "$root"/usr/share/{doc,man,locale,info}/* "$root"/var/log/*

say "the root image"
size=$(($(du -sm --apparent-size "$root" | cut -f1) * 5 / 4 + 64))
mke2fs -q -t ext4 -O ^has_journal -L root -d "$root" "$work/root.ext4" "${size}M" >/dev/null

install -m 644 "$work/vmlinux" "$work/initrd.gz" "$target/"
install -m 644 "$work/root.ext4" "$target/root.ext4"
echo "$kernel_package" >"$target/about"
say "done: $(du -sh --apparent-size "$target" | cut -f1) in $target"
