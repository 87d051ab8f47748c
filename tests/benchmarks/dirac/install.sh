#!/usr/bin/env bash
# Installs what the benchmark `dirac` compares with: DIRAC's TaskQueueDB in a virtual environment of its own, and MariaDB.
# DIRAC is licensed under the GPL: it is installed and called, and nothing of it is in this repository.
#
# usage: install.sh DIRECTORY
set -euo pipefail
directory=$1

if ! command -v mariadbd mariadb-install-db gcc pkg-config swig >/dev/null || ! pkg-config --exists libmariadb openssl; then
    # MariaDB's server without Debian's service, and what pip builds mysqlclient and M2Crypto with.
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
        mariadb-server-core mariadb-client-core libmariadb-dev libssl-dev gcc pkg-config python3-venv swig >/dev/null
fi

python3 -m venv "$directory"
pip=("$directory/bin/pip" install --quiet --disable-pip-version-check --prefer-binary)
# Without what DIRAC names but TaskQueueDB does not import: grid file transfers that have to be built, and much else.
"${pip[@]}" --no-deps DIRAC==9.1.22 DIRACCommon==9.1.22
"${pip[@]}" M2Crypto cachetools diraccfg diracx-client diracx-core importlib_metadata importlib_resources mysqlclient \
    psutil pyasn1 pyasn1-modules pyparsing python-dateutil pytz requests typing_extensions
"$directory/bin/python" -c "from DIRAC.WorkloadManagementSystem.DB.TaskQueueDB import TaskQueueDB"
