#!/bin/sh
# Runs a pool of HTCondor in the root directory $1, in namespaces of its own: nothing of it outlives this process.
set -eu
mount -t proc proc "$1/proc"
# All that the pool writes; many pools may use one root directory.
mount -t tmpfs -o mode=0755 pool "$1/srv"
mkdir "$1/srv/pool"
cat >"$1/srv/pool/condor_config"
cd "$1/srv/pool" && mkdir home log spool execute
exec chroot "$1" sh -c '
    chown -R pilots:pilots /srv/pool
    # The change of user makes the kernel forget that this is to end with its parent.
    exec setpriv --reuid pilots --regid pilots --clear-groups --pdeathsig KILL \
        env -i PATH=/usr/bin:/usr/sbin:/bin HOME=/srv/pool/home LANG=C.UTF-8 CONDOR_CONFIG=/srv/pool/condor_config condor_master -f
'
