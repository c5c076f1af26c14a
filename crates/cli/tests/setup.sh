#!/usr/bin/env bash
# Installs the real CLI agents (more than a gigabyte) into a cache directory; does nothing if they are already there.
#   tests/setup.sh DIRECTORY        then: ALTHING_AGENT_CLIS=DIRECTORY cargo test -p althing programs::
# If they cannot be installed it prints a message and succeeds, except in CI, where their tests must run.
set -euo pipefail
[ $# -eq 1 ] || { echo "usage: $0 DIRECTORY" >&2; exit 2; }
mkdir -p "$1"
dir=$(cd "$1" && pwd)

packages="@anthropic-ai/claude-code@2.1.325 @openai/codex@0.166.0 @google/gemini-cli@0.61.0 opencode-ai@1.18.33"

lacking() {
  echo "$0: $1; CLAUDE CODE, CODEX, GEMINI CLI AND OPENCODE ARE NOT TESTED" >&2
  [ "${CI:-}" = true ] && exit 1
  exit 0
}

# The stamp file records what was installed, so that a partial or older installation is replaced.
[ "$(cat "$dir/stamp" 2>/dev/null)" != "$packages" ] || exit 0
command -v npm >/dev/null || lacking "there is no npm"
rm -rf "$dir/node_modules" "$dir/package.json" "$dir/package-lock.json" "$dir/stamp"
# shellcheck disable=SC2086  # a list
npm install --silent --no-fund --no-audit --prefix "$dir" $packages || lacking "npm could not install them"
echo "$packages" > "$dir/stamp"
