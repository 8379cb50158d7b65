#include "plugins/device_emu/foreign.h"

#include <sys/prctl.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace nccom::emu {
namespace {

constexpr size_t kMaxCall = size_t{1} << 30;  // below what the kernel takes at once, 2 GiB - 4 KiB

void* inOtherProcess(uint64_t address) {
  return reinterpret_cast<void*>(address);  // NOLINT(performance-no-int-to-ptr): no pointer of ours
}

Error cmaError(const char* call, pid_t pid, uint64_t address, size_t bytes, int error) {
  if (error == ESRCH) {
    return fail(ncclRemoteError, "%s: process %d has ended", call, pid);
  }
  return fail(ncclSystemError, "%s: %zu bytes at 0x%llx in process %d: %s%s", call, bytes,
              static_cast<unsigned long long>(address), pid, strerror(error),
              error == EFAULT ? " (not mapped there)" : "");
}

// One of the two calls until all is done: a transfer may stop at any page, and a signal may come
// first.
Status transfer(const char* name, CmaCalls::Call call, pid_t pid, void* local, uint64_t remote,
                size_t bytes) {
  size_t done = 0;
  while (done < bytes) {
    const size_t part = std::min(bytes - done, kMaxCall);
    const iovec here = {static_cast<char*>(local) + done, part};
    const iovec there = {inOtherProcess(remote + done), part};
    const ssize_t moved = call(pid, &here, 1, &there, 1, 0);
    if (moved < 0 && errno == EINTR) continue;
    if (moved <= 0)
      return cmaError(name, pid, remote + done, bytes - done, moved < 0 ? errno : EFAULT);
    done += static_cast<size_t>(moved);
  }
  return Ok{};
}

Error refused(const char* call, pid_t pid, int error) {
  const char* hint = "";
  if (error == EPERM) {
    hint =
        " (wants kernel.yama.ptrace_scope 0 or CAP_SYS_PTRACE; in a container, a seccomp profile "
        "that allows it)";
  } else if (error == ENOSYS) {
    hint = " (the kernel is built without cross-memory attach)";
  }
  return fail(error == ESRCH ? ncclRemoteError : ncclSystemError, "%s: process %d: %s%s", call, pid,
              strerror(error), hint);
}

}  // namespace

const CmaCalls kCmaSystemCalls = {&process_vm_readv, &process_vm_writev};

Status cmaProbe(const CmaCheck& check, const CmaCalls& calls) {
  if (check.pid <= 0) {
    return fail(ncclSystemError, "cross-memory attach: the process is not in our pid namespace");
  }
  uint64_t value = 0;
  const iovec here = {&value, sizeof value};
  const iovec there = {inOtherProcess(check.address), sizeof value};
  ssize_t moved = -1;
  while ((moved = calls.readv(check.pid, &here, 1, &there, 1, 0)) < 0 && errno == EINTR) {
  }
  if (moved < 0 && errno != EFAULT) return refused("process_vm_readv", check.pid, errno);
  if (moved != static_cast<ssize_t>(sizeof value) || value != check.value) {
    return fail(
        ncclRemoteError,
        "cross-memory attach: process %d is not the expected one: its check word at 0x%llx %s",
        check.pid, static_cast<unsigned long long>(check.address),
        moved < 0 ? "is not mapped" : "has another value");
  }
  // Nothing is written, but a filter that forbids writing alone answers.
  if (calls.writev(check.pid, nullptr, 0, nullptr, 0, 0) < 0)
    return refused("process_vm_writev", check.pid, errno);
  return Ok{};
}

Status cmaAdmitPeers() {
  // EINVAL: no Yama here, so nothing to admit.
  if (prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0) == 0 || errno == EINVAL) return Ok{};
  return fail(ncclSystemError, "prctl(PR_SET_PTRACER): %s", strerror(errno));
}

Status cmaRead(pid_t pid, uint64_t from, void* to, size_t bytes, const CmaCalls& calls) {
  return transfer("process_vm_readv", calls.readv, pid, to, from, bytes);
}

Status cmaWrite(pid_t pid, uint64_t to, const void* from, size_t bytes, const CmaCalls& calls) {
  // iovec knows no const; writev only reads it.
  return transfer("process_vm_writev", calls.writev, pid, const_cast<void*>(from), to, bytes);
}

}  // namespace nccom::emu
