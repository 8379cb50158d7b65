// Fuzz targets: functions that take any bytes, and must neither crash nor hang. The unit test
// fuzz_test replays their seeds and mutations of these; `make fuzz` lets libFuzzer search.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace nccom {

using FuzzInput = std::span<const uint8_t>;

void fuzzTopoSystem(FuzzInput input);  // a <system> document: lint, read, paths, write, read
void fuzzTopoGraph(FuzzInput input);   // a <graphs> document
void fuzzBootstrap(FuzzInput input);   // what a stranger says to a bootstrap root
void fuzzMonitor(FuzzInput input);     // what a neighbour says on the control ring
void fuzzNetSocket(FuzzInput input);   // what a peer says to the builtin socket net
void fuzzUniqueId(FuzzInput input);    // an ncclUniqueId, and an address as text
void fuzzParameters(FuzzInput input);  // every variable, a cluster, message sizes

inline std::string textOf(FuzzInput input) {
  return std::string(reinterpret_cast<const char*>(input.data()), input.size());
}

/// Stops the program: what must hold for any input does not.
void fuzzRequire(bool holds, const char* what);

}  // namespace nccom

#ifdef NCCOM_LIBFUZZER
#define FUZZ_ENTRY(target)                                                  \
  extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) { \
    target({data, size});                                                   \
    return 0;                                                               \
  }
#else
#define FUZZ_ENTRY(target)
#endif
