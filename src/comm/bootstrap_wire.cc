#include "comm/bootstrap_wire.h"

#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>

namespace nccom {
namespace {

constexpr uint64_t kIdMagic = 0x3164696d6f63636eULL;  // "nccomid1" in memory

/// How an id lies in its 128 bytes; the rest is zero.
struct IdLayout {
  uint64_t magic;
  uint64_t secret;
  SocketAddress root;
  uint32_t fromCommId;
  uint64_t check;  // of all before it
};
static_assert(sizeof(IdLayout) == 56 && sizeof(IdLayout) <= sizeof(ncclUniqueId));

/// FNV-1a, 64 bits. @source  Fowler, Noll, Vo; draft-eastlake-fnv
uint64_t hashBytes(std::string_view bytes) {
  uint64_t hash = 0xcbf29ce484222325ULL;
  for (const char c : bytes)
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  return hash;
}

uint64_t checkOf(const IdLayout& layout) {
  return hashBytes({reinterpret_cast<const char*>(&layout), offsetof(IdLayout, check)});
}

}  // namespace

ncclUniqueId packUniqueId(const BootstrapId& id) {
  IdLayout layout{kIdMagic, id.secret, id.root, id.fromCommId ? 1U : 0U, 0};
  layout.check = checkOf(layout);
  ncclUniqueId out{};
  memcpy(&out, &layout, sizeof layout);
  return out;
}

Result<BootstrapId> unpackUniqueId(const ncclUniqueId& id) {
  IdLayout layout{};
  memcpy(static_cast<void*>(&layout), &id, sizeof layout);
  const std::string_view bytes(reinterpret_cast<const char*>(&id), sizeof id);
  if (std::all_of(bytes.begin(), bytes.end(), [](char c) { return c == 0; })) {
    return fail(ncclInvalidArgument,
                "the unique id is all zero; expected one that ncclGetUniqueId has filled");
  }
  if (layout.magic != kIdMagic) {
    return fail(ncclInvalidArgument,
                "the unique id begins with %016llx; an id of this library begins with %016llx",
                static_cast<unsigned long long>(layout.magic),
                static_cast<unsigned long long>(kIdMagic));
  }
  if (layout.check != checkOf(layout) || !layout.root.valid() || layout.fromCommId > 1) {
    return fail(ncclInvalidArgument,
                "the unique id is damaged: its check value is %016llx, expected %016llx",
                static_cast<unsigned long long>(layout.check),
                static_cast<unsigned long long>(checkOf(layout)));
  }
  return BootstrapId{layout.secret, layout.root, layout.fromCommId == 1};
}

Result<BootstrapId> idFromCommId(const std::string& commId, int family) {
  auto address = SocketAddress::parse(commId, family);
  if (!address.ok()) {
    return fail(address.error().code, "NCCL_COMM_ID: %s", address.error().message.c_str());
  }
  // The text is all that the ranks share, so the secret is no more than it: enough to tell two
  // communicators apart, not enough to keep anybody out.
  return BootstrapId{hashBytes(commId) | 1, address.value(), true};
}

Result<uint64_t> randomBits() {
  uint64_t bits = 0;
  while (true) {
    const ssize_t got = getrandom(&bits, sizeof bits, 0);
    if (got == sizeof bits) return bits;
    if (got < 0 && errno != EINTR) return fail(ncclSystemError, "getrandom: %s", strerror(errno));
  }
}

ProcessName ownName() {
  ProcessName name;
  char host[256] = {};  // HOST_NAME_MAX is 64; a container may do as it likes
  if (gethostname(host, sizeof host - 1) != 0) strcpy(host, "?");
  memcpy(name.host, host, std::min(strlen(host), sizeof name.host - 1));
  name.pid = static_cast<int32_t>(getpid());
  return name;
}

std::string describeProcess(const ProcessName& name) {
  std::string host(name.host, strnlen(name.host, sizeof name.host));
  for (char& c : host) {
    if (c <= ' ' || c > '~') c = '?';
  }
  return "host " + host + ", pid " + std::to_string(name.pid);
}

std::string describeRank(int rank, const ProcessName& name) {
  return "rank " + std::to_string(rank) + " (" + describeProcess(name) + ")";
}

}  // namespace nccom
