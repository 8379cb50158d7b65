// Prints docs/env.md from the table of environment variables.
#include "misc/params.h"

#include <cstdio>

int main() {
  fputs(nccom::paramsMarkdown().c_str(), stdout);
  return 0;
}
