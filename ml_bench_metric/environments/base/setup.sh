#!/bin/sh
# Turns a bare Debian or a python:3.x-slim into the base of every environment, so that both look the same to a
# candidate. Runs as root with `sh -eu`; $PYTHON_WANTED is the version. Needs the network only where Python is missing.
export DEBIAN_FRONTEND=noninteractive

ldconfig  # a Python that was copied into /usr/local may have its library there
if ! command -v python3 >/dev/null; then
    apt-get update
    # netbase and tzdata: the python images have them.
    apt-get install -y --no-install-recommends python3 python3-pip python3-venv ca-certificates netbase tzdata
fi
python_found="$(python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')"
if [ "$python_found" != "$PYTHON_WANTED" ]; then
    echo "the base has Python $python_found, wanted is $PYTHON_WANTED" >&2
    exit 1
fi
# A Python that was copied from elsewhere comes without pip; the one that it carries has no paths of another machine.
python3 -m pip --version >/dev/null 2>&1 || python3 -m ensurepip

# The names python, python3, pip and pip3, in /usr/local/bin and (for scripts' first lines) python3 in /usr/bin.
for name in python3 pip3; do
    [ -e "/usr/local/bin/$name" ] || ln -s "$(command -v "$name")" "/usr/local/bin/$name"
done
for name in python pip; do
    [ -e "/usr/local/bin/$name" ] || ln -s "${name}3" "/usr/local/bin/$name"
done
[ -e /usr/bin/python3 ] || ln -s /usr/local/bin/python3 /usr/bin/python3
# Debian forbids pip outside a virtual environment; in an image that serves one purpose that protects nothing.
rm -f /usr/lib/python3*/EXTERNALLY-MANAGED

if owner="$(getent passwd 1000)"; then
    owner="${owner%%:*}"
    [ "$owner" = candidate ] || usermod --login candidate --home /home/candidate --move-home "$owner"
else
    groupadd --gid 1000 candidate
    useradd --uid 1000 --gid 1000 --no-create-home --home-dir /home/candidate --shell /bin/bash candidate
fi
mkdir -p /home/candidate /workspace /opt/assets
chown 1000:1000 /home/candidate /workspace /opt/assets

for name in bash timeout head python python3 pip; do
    if ! command -v "$name" >/dev/null; then
        echo "the base has no $name" >&2
        exit 1
    fi
done
python -m pip --version
python -c "import bz2, ctypes, lzma, sqlite3, ssl, zlib"

# The python images have no compiled modules, and a candidate cannot keep any: each start would compile them again.
python -m compileall -q "$(python -c 'import os; print(os.path.dirname(os.__file__))')" || true

rm -rf /var/lib/apt/lists/* /var/cache/apt/*.bin /var/cache/apt/archives/*.deb /var/log/*.log /var/log/apt /root/.cache
