// Prints docs/env.md from the table of environment variables.
#include <cstdio>

#include "misc/params.h"

int main() {
  fputs(nccom::paramsMarkdown().c_str(), stdout);
  return 0;
}
