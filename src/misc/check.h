// A broken invariant is a bug: NCCL_CHECK stops the process and says where, in release too.
#pragma once

#include <cstdio>
#include <cstdlib>

namespace nccom {
[[noreturn]] inline void checkFailed(const char* file, int line, const char* condition) {
  fprintf(stderr, "NCCL BUG %s:%d: broken invariant: %s\n", file, line, condition);
  abort();
}
}  // namespace nccom

#define NCCL_CHECK(condition)                                               \
  do {                                                                      \
    if (!(condition)) ::nccom::checkFailed(__FILE__, __LINE__, #condition); \
  } while (0)
