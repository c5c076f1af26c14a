#!/usr/bin/env bash
# Installs the real MCP servers and clients that the tests use into a cache directory; does nothing if they are already installed.
#   tests/setup.sh DIRECTORY        then: ALTHING_MCP_SERVERS=DIRECTORY cargo nextest run --workspace -E 'package(althing-mcp)'
set -euo pipefail
[ $# -eq 1 ] || { echo "usage: $0 DIRECTORY" >&2; exit 2; }
mkdir -p "$1"
dir=$(cd "$1" && pwd)

npm_packages="@modelcontextprotocol/server-everything@2026.8.31 @modelcontextprotocol/server-filesystem@2026.8.31 @modelcontextprotocol/inspector@1.0.3"
# Separate from the older one, which knows no MCP tasks.
newest_packages="@modelcontextprotocol/inspector@2.12.0"
pip_packages="mcp-server-git==2026.10.19 mcp-server-time==2026.10.19"
# Separate from the servers, which need an older version.
client_packages="mcp==2.3.0"

# A stamp records what was installed, so that an incomplete or outdated installation is repeated.
# npm_install NAME PACKAGES: a separate directory
npm_install() {
  [ "$(cat "$dir/$1.stamp" 2>/dev/null)" != "$2" ] || return 0
  rm -rf "${dir:?}/$1" "$dir/$1.stamp"
  # shellcheck disable=SC2086  # a list
  npm install --silent --no-fund --no-audit --prefix "$dir/$1" $2
  echo "$2" > "$dir/$1.stamp"
}
npm_install npm "$npm_packages"
npm_install newest "$newest_packages"
# python NAME STAMP PACKAGES: a separate environment
python() {
  [ "$(cat "$dir/$2" 2>/dev/null)" != "$3" ] || return 0
  rm -rf "${dir:?}/$1" "$dir/$2"
  python3 -m venv "$dir/$1"
  # shellcheck disable=SC2086  # a list
  "$dir/$1/bin/pip" install --quiet --disable-pip-version-check $3
  echo "$3" > "$dir/$2"
}
python venv pip.stamp "$pip_packages"
python client client.stamp "$client_packages"
