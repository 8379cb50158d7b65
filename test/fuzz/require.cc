#include <cstdio>
#include <cstdlib>

#include "test/fuzz/fuzz.h"

namespace nccom {

void fuzzRequire(bool holds, const char* what) {
  if (holds) return;
  fprintf(stderr, "does not hold: %s\n", what);
  abort();
}

}  // namespace nccom
