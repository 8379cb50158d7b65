#!/bin/sh
# Every header compiles alone; the public ones as C99 too.
status=0
for header in $(git ls-files 'src/*.h' 'plugins/*.h' 'test/*.h' 'tools/*.h' | grep -v -e '-inl\.h$'); do
  echo "#include \"$header\"" | ${CXX:-g++} -std=c++20 -Isrc -I. -fsyntax-only -x c++ - || { echo "not alone: $header"; status=1; }
done
for header in $(git ls-files 'src/include/*.h'); do
  echo "#include \"$header\"" | ${CC:-gcc} -std=c99 -Wall -pedantic-errors -Isrc -I. -fsyntax-only -x c - || { echo "not C99: $header"; status=1; }
done
exit $status
