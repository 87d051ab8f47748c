#!/bin/sh
# Starts systemd as process 1 of the namespaces in which this runs, for machine.py: its file system is this machine's,
# with a layer of its own in which all changes stay; in the directories, files can be read by all accounts.
#
#     unshare --mount --pid --net --uts --ipc --cgroup --fork boot.sh LAYER DIRECTORY…
set -eu
layer=$1
shift
mount --make-rprivate /
mount -t tmpfs tmpfs "$layer"
cd "$layer"
mkdir changes work root
mount -t overlay overlay -o "lowerdir=/,upperdir=changes,workdir=work" root
cd root

mount -t proc proc proc
mount -t sysfs -o ro sysfs sys
mount -t tmpfs -o mode=755 tmpfs sys/fs/cgroup
mount -t cgroup2 cgroup2 sys/fs/cgroup
mount -t tmpfs -o mode=755 tmpfs run
mount -t tmpfs tmpfs tmp
# Devices that every program may use, and no other: systemd leaves files of its own beside them.
mount -t tmpfs -o mode=755 tmpfs dev
for device in null zero full random urandom tty; do
    : >"dev/$device"
    mount --bind "/dev/$device" "dev/$device"
done
mkdir dev/pts dev/shm
mount -t devpts -o newinstance,ptmxmode=0666,mode=620 devpts dev/pts
mount -t tmpfs tmpfs dev/shm
ln -s pts/ptmx dev/ptmx
ln -s /proc/self/fd dev/fd
# At their own places, also where these are closed to other accounts, or are other file systems.
for directory in "$@"; do
    mkdir -p ".$directory"
    mount --bind "$directory" ".$directory"
    while [ "$directory" != / ]; do
        directory=$(dirname "$directory")
        chmod a+x ".$directory"
    done
done

mkdir old
pivot_root . old
umount -l /old
ip link set lo up
exec env -i container=tests PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 \
    /lib/systemd/systemd --unit=basic.target --show-status=no --log-target=journal
