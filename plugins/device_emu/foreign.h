// Memory of another process that is in nobody's HBM: read and written by cross-memory attach (CMA).
#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include <cstddef>
#include <cstdint>

#include "plugins/device_emu/status.h"

namespace nccom::emu {

// The two system calls, with the signature of process_vm_readv(2); tests put others in their place.
struct CmaCalls {
  using Call = ssize_t (*)(pid_t, const iovec*, unsigned long, const iovec*, unsigned long,
                           unsigned long);
  Call readv;
  Call writev;
};
extern const CmaCalls kCmaSystemCalls;

// A word of the other process, by which cmaProbe() knows that it reads the right process.
struct CmaCheck {
  pid_t pid;         // as this process sees it; 0: it does not
  uint64_t address;  // in that process
  uint64_t value;    // random, never 0
};

/// Whether this process may read and write the memory of another: reads the word of `check` and
/// tries an empty write.
///
/// @error ncclSystemError   not permitted, or not built into the kernel: says why, and what to do
/// @error ncclRemoteError   there is no such process, or it is not the one that `check` describes
Status cmaProbe(const CmaCheck& check, const CmaCalls& calls = kCmaSystemCalls);

/// Lets every process of this user attach to this one where the Yama security module would demand a
/// parent (ptrace_scope 1). To be called only where the user asked for CMA: it also admits
/// debuggers.
Status cmaAdmitPeers();

/// Copies `bytes` at `from` in process `pid` to `to`. Any alignment, any size; one call copies
/// without looking at anything else, so cut large ranges to the time you may be away.
///
/// @error ncclRemoteError  the process has ended
/// @error ncclSystemError  other failures, with pid, address and the system's words
Status cmaRead(pid_t pid, uint64_t from, void* to, size_t bytes,
               const CmaCalls& calls = kCmaSystemCalls);
/// Copies `bytes` at `from` to `to` in process `pid`; errors as cmaRead().
Status cmaWrite(pid_t pid, uint64_t to, const void* from, size_t bytes,
                const CmaCalls& calls = kCmaSystemCalls);

}  // namespace nccom::emu
