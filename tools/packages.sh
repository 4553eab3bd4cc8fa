# Sourced by the other scripts: functions that install packages and report results.
# Each script sets PART, the name it reports under, before it sources this file.

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

VENV=.venv
LOG=$VENV/install.log
CACHE=${XDG_CACHE_HOME:-$HOME/.cache}/bursar # what is built once and serves every checkout
TORCH=$(sed -n 's/^torch = \["\(.*\)"\]$/\1/p' pyproject.toml)
SECONDS=0                                    # bash counts them from here

say() {
  echo "$PART: $1"
}

# finish TEXT: reports the result with the seconds it took; .ci/run collects these lines.
finish() {
  say "$1 ($SECONDS s)"
  if [ -n "${BURSAR_TIMES:-}" ]; then
    printf '%6d s  %s\n' "$SECONDS" "$PART: $1" >>"$BURSAR_TIMES"
  fi
}

# fail TEXT: ends the script, after the end of the log if there is one.
fail() {
  echo "$PART: $1" >&2
  if [ -n "${2:-}" ]; then
    echo "$PART: the end of $2:" >&2
    tail -n 15 "$2" >&2
  fi
  exit 1
}

can_use_apt() {
  [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null
}

# apt_install PACKAGE...: Debian starts the servers it installs; the tests start their own, so it may not.
apt_install() {
  local policy=/usr/sbin/policy-rc.d
  say "installing $* with apt-get"
  if [ ! -e $policy ]; then
    trap 'rm -f /usr/sbin/policy-rc.d' EXIT
    printf '#!/bin/sh\nexit 101\n' >$policy
    chmod 755 $policy
  fi
  export DEBIAN_FRONTEND=noninteractive
  { apt-get update -qq && apt-get install -y -qq --no-install-recommends "$@"; } >/dev/null ||
    fail "apt-get could not install $*; its messages are above"
}

need_venv() {
  [ -x $VENV/bin/python ] || tools/make-venv run
}

# pip_install PYTHON REQUIREMENT...: modules are compiled when they are first imported, which is seldom.
pip_install() {
  "$1" -m pip install --disable-pip-version-check --no-input --no-compile -q "${@:2}" >>"$LOG" 2>&1
}

# has_packages NAME[==VERSION]...: whether .venv has them whole; pip writes their RECORD last.
has_packages() {
  $VENV/bin/python - "$@" <<'PYTHON'
import re, sys
from importlib import metadata

for requirement in sys.argv[1:]:
    name, _, version = re.sub(r"\[.*\]", "", requirement).partition("==")
    try:
        package = metadata.distribution(name)
    except metadata.PackageNotFoundError:
        sys.exit(1)
    if package.files is None or version not in ("", package.version.partition("+")[0]):
        sys.exit(1)
PYTHON
}

# Whether C extensions can be built: a compiler, and the headers of .venv's Python.
has_compiler() {
  command -v cc >/dev/null && $VENV/bin/python -c "
import pathlib, sys, sysconfig
sys.exit(not pathlib.Path(sysconfig.get_path('include'), 'Python.h').exists())"
}
