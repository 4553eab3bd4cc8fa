# Sourced by examples that need a server: starts a temporary one on a free port, with a new state folder.

set -euo pipefail
cd "$(dirname "$0")"

BURSAR_STATE=$(mktemp -d)
export BURSAR_STATE
unset BURSAR_SERVER BURSAR_TOKEN
TIMEOUT_SECONDS=120
SERVER=

stop_server() {
  bursar cancel --mine -y >"$BURSAR_STATE/cancel.log" 2>&1 || true
  kill "$SERVER" 2>/dev/null || true
  wait "$SERVER" || true
  rm -rf "$BURSAR_STATE"
}

# start_server FLEET
start_server() {
  bursar up --port 0 --state "$BURSAR_STATE" --fleet "$1" >"$BURSAR_STATE/server.log" 2>&1 &
  SERVER=$!
  trap stop_server EXIT
  trap 'exit 130' INT TERM
  wait_until "the server responds" bursar whoami
}

# wait_until TEXT COMMAND...: waits until the command succeeds.
wait_until() {
  local end=$((SECONDS + TIMEOUT_SECONDS))
  until "${@:2}" >/dev/null 2>&1; do
    if [ $SECONDS -gt $end ] || ! kill -0 "$SERVER" 2>/dev/null; then
      echo "timed out waiting until $1; the end of the server's log:" >&2
      tail -n 15 "$BURSAR_STATE/server.log" >&2
      exit 1
    fi
    sleep 0.2
  done
}

# wait_for_jobs COUNT STATE QUEUE
wait_for_jobs() {
  wait_until "$1 jobs of $3 are $2" has_jobs "$@"
}

has_jobs() {
  [ "$(bursar status --queue "$3" --state "$2" -o csv | tail -n +2 | wc -l)" -eq "$1" ]
}

# explain TEXT: prints what happens next.
explain() {
  printf '\n== %s\n' "$1"
}

# show ARGUMENT...: prints a bursar command and runs it.
show() {
  printf '$ bursar %s\n' "$*"
  bursar "$@"
}
