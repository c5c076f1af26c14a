#!/usr/bin/env bash
# Installs the real agents' programs (more than a gigabyte) into a cache directory; does nothing where they are there already.
#   tests/setup.sh DIRECTORY        then: ALTHING_AGENT_CLIS=DIRECTORY cargo test -p althing programs::
# Where they cannot be had it says so and goes on, except in CI: there the tests of them must run.
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

# The stamp holds what was installed, so that a half-made or an older installation is made anew.
[ "$(cat "$dir/stamp" 2>/dev/null)" != "$packages" ] || exit 0
command -v npm >/dev/null || lacking "there is no npm"
rm -rf "$dir/node_modules" "$dir/package.json" "$dir/package-lock.json" "$dir/stamp"
# shellcheck disable=SC2086  # a list
npm install --silent --no-fund --no-audit --prefix "$dir" $packages || lacking "npm could not install them"
echo "$packages" > "$dir/stamp"
