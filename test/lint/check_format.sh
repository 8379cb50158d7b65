#!/bin/sh
# clang-format changes nothing. Says so where there is no clang-format.
command -v clang-format >/dev/null || { echo "skipped: no clang-format here"; exit 0; }
clang-format --dry-run --Werror $(git ls-files '*.cc' '*.h' '*.c')
