#!/bin/bash
# Runs all test programs of a build folder and prints, as its last line, 'N passed, N failed'.
# --unit leaves out the tests that run the built programs. Usage: run.sh [--unit] BUILD
system=1
if [ "$1" = --unit ]; then system=0; shift; fi
build=$1
passed=0
failed=0

for program in "$build"/test/*_test; do
  [ "$system" = 0 ] && [ "$(basename "$program")" = system_test ] && continue
  log="$program.log"
  LIBNCCOM_TEST_BUILD=$build timeout -k 10 900 "$program" > "$log" 2>&1
  status=$?
  ok=$(grep -c '^\[       OK \]' "$log")
  bad=$(grep -c '^\[  FAILED  \] .* ms)$' "$log")
  # A crash, a time-out, or no test at all is a failure that no line in the log counts.
  if [ $status -ne 0 ] && [ "$bad" = 0 ]; then bad=1; fi
  if [ $status -eq 0 ] && [ "$ok" = 0 ]; then bad=1; fi
  printf '%-32s %5d passed, %d failed\n' "$(basename "$program")" "$ok" "$bad"
  [ "$bad" = 0 ] || { echo "--- $log, exit status $status"; grep -v -e '^\[ RUN ' -e '^\[       OK' "$log" | tail -60; }
  passed=$((passed + ok))
  failed=$((failed + bad))
done

[ $((passed + failed)) -gt 0 ] || failed=1
echo "$passed passed, $failed failed"
[ $failed = 0 ]
