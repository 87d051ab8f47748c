#!/bin/sh
# Builds a root directory with the apptainer of Debian sid, which no released Debian has, for ../container_nodes.py.
#
#     tests/agent/apptainer/build.sh DIRECTORY && WMS_TESTS_APPTAINER=DIRECTORY pytest tests/agent/test_containers.py
#
# It takes two minutes, and nothing when DIRECTORY is there already. It needs root, debootstrap, and a Debian whose apt
# says where packages come from. Exit code 3: it cannot be built on this machine.
set -eu
root=${1:?the directory to build in}
[ ! -e "$root/srv/built" ] || exit 0
[ "$(id -u)" = 0 ] || { echo "Only root can build and enter another root directory." >&2; exit 3; }
command -v debootstrap >/dev/null || { echo "debootstrap is not installed." >&2; exit 3; }

. /etc/os-release
archive=$(apt-get indextargets --format '$(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' |
    sed -n "s/ ${VERSION_CODENAME:-no} main\$//p" | head -n 1)
[ -n "$archive" ] && [ "$ID" = debian ] || { echo "apt does not say where Debian's packages come from." >&2; exit 3; }

# The unfinished directory is named after this process, so that two builds at once do not disturb each other.
unfinished="$root.$$"
trap 'rm -rf --one-file-system "$unfinished"' EXIT
debootstrap --variant=minbase --include=apptainer,python3,busybox-static sid "$unfinished" "$archive" \
    >"$unfinished.log" 2>&1 || { tail -n 20 "$unfinished.log" >&2; exit 1; }
rm -rf "$unfinished.log" "$unfinished"/var/cache/apt/archives/*.deb "$unfinished"/var/lib/apt/lists/*
# Apptainer runs without a set-uid program only as an ordinary user, in a user namespace of its own.
chroot "$unfinished" useradd --uid 1000 --create-home pilots
touch "$unfinished/srv/built"
mv -T "$unfinished" "$root" || [ -e "$root/srv/built" ]
