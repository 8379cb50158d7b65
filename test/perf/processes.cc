#include "test/perf/processes.h"

#include <cstdio>
#include <cstdlib>

namespace nccom::perf {

void OneProcess::abort(int status) {
  fflush(stdout);
  std::_Exit(status);  // no destructors: other threads may be inside the library
}

}  // namespace nccom::perf
