#!/bin/sh
# Installs missing requirements of the runner's tests (sandboxes, and programs that ask in terminals), and jq for the tests of documented commands. Idempotent. Needs root and Debian packages.
set -eu
missing=
for pair in bwrap:bubblewrap dockerd:docker.io busybox:busybox-static jq:jq ps:procps setpriv:util-linux \
  bash:bash bc:bc curl:curl ed:ed git:git gpg:gpg less:less make:make man:man-db mkfs.ext4:e2fsprogs more:util-linux nano:nano openssl:openssl perl:perl \
  psql:postgresql-client script:bsdutils sqlite3:sqlite3 ssh-keygen:openssh-client tmux:tmux unzip:unzip vi:vim-tiny wget:wget whiptail:whiptail zip:zip; do
  program=${pair%%:*} package=${pair#*:}
  if command -v "$program" >/dev/null 2>&1; then
    echo "setup: $program is here"
  else
    missing="$missing $package"
  fi
done
# Busybox must be statically linked, because the test image contains nothing else.
if command -v busybox >/dev/null 2>&1 && ldd "$(command -v busybox)" >/dev/null 2>&1; then
  missing="$missing busybox-static"
fi
if [ -n "$missing" ]; then
  echo "setup: installing$missing"
  export DEBIAN_FRONTEND=noninteractive
  apt-get install -y --no-install-recommends $missing >/dev/null 2>&1 || {
    apt-get update >/dev/null && apt-get install -y --no-install-recommends $missing >/dev/null
  }
fi
bwrap --version
dockerd --version
busybox | head -n 1
