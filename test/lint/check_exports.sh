#!/bin/sh
# The library exports exactly the functions of exports.txt, and each plugin exactly its tables.
# Usage: check_exports.sh LIBDIR
lib=$1
here=$(dirname "$0")
status=0

compare() {  # FILE EXPECTED
  nm -D --defined-only "$1" | awk '$2 ~ /^[TDBRWV]$/ {print $3}' | sort > /tmp/exports.$$
  sort "$2" | diff - /tmp/exports.$$ > /tmp/exports.$$.diff || { echo "$1: exports differ ('<' missing, '>' surplus)"; cat /tmp/exports.$$.diff; status=1; }
  rm -f /tmp/exports.$$ /tmp/exports.$$.diff
}

compare "$lib/libnccom.so.2" "$here/exports.txt"
compare "$lib/libnccom-device-emu.so" "$here/exports-device-emu.txt"
compare "$lib/libnccom-net-ofi.so" "$here/exports-net-ofi.txt"
exit $status
