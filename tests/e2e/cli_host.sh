#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The command line of heap_profile host: what COMMAND prints and how it ends are its own,
# and what is asked for wrongly is refused. HEAPPROFD_BUILD: the build directory.
set -uo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export TMPDIR=$work
tool=$HEAPPROFD_BUILD/heap_profile
failed=0

# expect CODE STDOUT ARGUMENTS...
expect() {
    local code=$1 wanted=$2 got printed
    shift 2
    printed=$("$tool" "$@" 2>"$work/errors")
    got=$?
    [ "$got" -eq "$code" ] && [ "$printed" = "$wanted" ] && return
    echo "heap_profile $*: exit code $got for $code, printed '$printed' for '$wanted'"
    cat "$work/errors"
    failed=1
}

expect 7 hi host --quiet -o "$work/seven" -- sh -c 'printf hi; exit 7'
expect 143 '' host --quiet -o "$work/term" -- sh -c 'kill -TERM $$'
expect 127 '' host -o "$work/missing" -- no-such-command-anywhere
expect 126 '' host -o "$work/plain" -- /etc/passwd
expect 125 '' host -o "$work/seven" -- true
expect 125 '' host -i 0 -- true
expect 125 '' host --no-such-option -- true
expect 125 '' host --

[ -s "$work/seven/raw-trace" ] || { echo "no raw-trace was written"; failed=1; }
"$tool" report "$work/seven" >"$work/report" || { echo "report failed"; failed=1; }
grep -q '^  allocated .* exact$' "$work/report" || { echo "no exact totals:"; cat "$work/report"; failed=1; }
exit $failed
