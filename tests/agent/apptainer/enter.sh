#!/bin/sh
# Runs a program as the user of the pilots in the root directory that build.sh has made:
#
#     unshare --mount sh tests/agent/apptainer/enter.sh ROOT DIRECTORY PROGRAM [ARGUMENT …]
#
# It needs root and a mount namespace of its own. DIRECTORY is both the program's working directory and visible there,
# as /tmp is. The root is entered by pivot_root: the kernel refuses user namespaces, which apptainer needs, in a chroot.
set -eu
root=$1 directory=$2
shift 2
mount --make-rprivate /
mount --bind "$root" "$root"
for shared in /proc /sys /dev /tmp "$directory"; do
    mkdir -p "$root$shared"
    mount --rbind "$shared" "$root$shared"
done
cd "$root"
pivot_root . .
umount --lazy .
cd "$directory"
exec setpriv --reuid pilots --regid pilots --clear-groups -- "$@"
