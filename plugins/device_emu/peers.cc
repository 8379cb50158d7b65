#include "plugins/device_emu/peers.h"

#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

#include "plugins/device_emu/peer_watcher.h"
#include "plugins/device_emu/peer_wire.h"

namespace nccom::emu {
namespace {

using ull = unsigned long long;

// Identifies a network namespace on this machine; 0: unknown.
uint64_t networkNamespace() {
  struct stat status {};
  return stat("/proc/self/ns/net", &status) == 0 ? status.st_ino : 0;
}

Error connectError(const ProcessExport& process, int error) {
  if (error == EAGAIN) {
    return fail(ncclSystemError, "process %d of this host did not answer in time", process.pid);
  }
  if (error != ECONNREFUSED) {
    return fail(ncclSystemError, "unix socket of process %d: %s", process.pid, strerror(error));
  }
  const uint64_t here = networkNamespace();
  if (here != 0 && process.netNamespace != 0 && here != process.netNamespace) {
    return fail(ncclSystemError,
                "process %d is in network namespace %llu, this one is in %llu: processes that "
                "share device memory "
                "must share the network namespace, too (or set different NCCL_HOSTIDs)",
                process.pid, ull{process.netNamespace}, ull{here});
  }
  return fail(ncclRemoteError, "process %d of this host has ended, or closed its device memory",
              process.pid);
}

// A connection to the process's door, answered by a process of our user.
struct Opened {
  OwnedFd socket;
  OwnedFd memory;
  pid_t pid;
};

Result<Opened> knock(const ProcessExport& process, const ProcessToken& self,
                     PeerProcesses::Clock::time_point deadline) {
  auto [fd, error] = connectTo(process.name, deadline);
  if (!fd) return connectError(process, error);
  const ucred peer = EMU_TRY(credentialsOf(fd.get()));
  if (peer.uid != geteuid()) {
    return fail(
        ncclSystemError,
        "process %d runs as user %u, this one as user %u: device memory is shared within a user",
        process.pid, peer.uid, geteuid());
  }
  HelloMessage hello;
  hello.to = process.token;
  hello.from = self;
  WelcomeMessage answer;
  OwnedFd memory;
  setSocketDeadline(fd.get(), deadline);
  if (!sendPacket(fd.get(), &hello, sizeof hello))
    return connectError(process, errno == EPIPE ? ECONNREFUSED : errno);
  const ssize_t bytes = receivePacket(fd.get(), &answer, sizeof answer, &memory);
  if (bytes < 0 && errno != ECONNRESET) return connectError(process, errno);
  if (bytes <= 0)
    return fail(ncclRemoteError, "process %d ended, or refused to share its device memory",
                process.pid);
  if (bytes != sizeof answer || answer.magic != WelcomeMessage::kMagic || !memory) {
    return fail(ncclRemoteError, "process %d answered %zd bytes that are no welcome", process.pid,
                bytes);
  }
  struct stat status {};
  if (fstat(memory.get(), &status) != 0 || answer.hbmBytes != process.hbmBytes ||
      status.st_size < static_cast<off_t>(process.hbmBytes)) {
    return fail(ncclRemoteError, "process %d announced %llu bytes of device memory and shares %lld",
                process.pid, ull{process.hbmBytes}, static_cast<long long>(status.st_size));
  }
  return Opened{std::move(fd), std::move(memory), peer.pid};
}

}  // namespace

PeerProcess::PeerProcess(Parts parts) : parts_(std::move(parts)) {}

PeerProcess::~PeerProcess() {
  if (parts_.onDetach) parts_.onDetach();
}

void PeerProcess::setState(PeerState state) {
  PeerState alive = PeerState::Alive;
  // release, pairs with the acquire of state().
  state_.compare_exchange_strong(alive, state, std::memory_order_release,
                                 std::memory_order_relaxed);
}

Result<void*> PeerProcess::at(uint64_t offset, uint64_t bytes) const {
  if (offset > this->bytes() || bytes > this->bytes() - offset) {
    return fail(ncclRemoteError,
                "process %d: %llu bytes at offset %llu are beyond its device memory of %llu bytes",
                parts_.process.pid, ull{bytes}, ull{offset}, ull{this->bytes()});
  }
  return static_cast<void*>(base() + offset);
}

Result<std::unique_ptr<PeerProcesses>> PeerProcesses::open(Hbm& hbm, OnDeath onDeath) {
  ProcessExport self;
  self.magic = kExportMagic;
  self.pid = getpid();
  self.hbmBytes = hbm.bytes();
  self.netNamespace = networkNamespace();
  uint64_t check = 0;
  EMU_TRY(randomBytes(self.token.bytes.data(), self.token.bytes.size()));
  EMU_TRY(randomBytes(self.name.data(), self.name.size()));
  EMU_TRY(randomBytes(&check, sizeof check));

  // Before anybody can map it.
  auto* const header = new (hbm.at(0)) ProcessHeader{};
  header->magic = kHeaderMagic;
  header->version = kPeerVersion;
  header->pid = self.pid;
  header->token = self.token;
  header->address = reinterpret_cast<uintptr_t>(header);
  header->check = check | 1;

  std::unique_ptr<PeerProcesses> peers(new PeerProcesses(hbm, self));
  peers->watcher_ = EMU_TRY(PeerWatcher::open(self, hbm.fd(), std::move(onDeath), {}));
  return peers;
}

PeerProcesses::PeerProcesses(Hbm& hbm, const ProcessExport& self)
    : self_(self),
      pid_(getpid()),
      own_(std::make_shared<PeerProcess>(PeerProcess::Parts{
          .process = self, .pid = pid_, .base = hbm.base(), .mapping = {}, .onDetach = {}})) {}

PeerProcesses::~PeerProcesses() = default;

bool PeerProcesses::died(const ProcessToken& token) const {
  return watcher_->died(token);
}

Result<std::shared_ptr<PeerProcess>> PeerProcesses::attach(const ProcessExport& process,
                                                           Clock::time_point deadline) {
  if (process.magic != kExportMagic) {
    return fail(
        ncclInvalidArgument,
        "process handle with magic 0x%x, expected 0x%x: another version of the device plugin?",
        process.magic, kExportMagic);
  }
  if (getpid() != pid_) {
    return fail(
        ncclInvalidUsage,
        "process %d was forked from process %d, which had initialised: it has no device memory",
        getpid(), pid_);
  }
  if (process.token == self_.token) return own_;

  // Nothing: this thread is the one to connect.
  if (auto found = EMU_TRY(find(process, deadline))) return found;
  auto connected = connect(process, deadline);
  const std::lock_guard lock(mutex_);
  if (connected.ok()) {
    entries_[process.token] = {connected.value(), false};
  } else {
    entries_.erase(process.token);
  }
  changed_.notify_all();
  return connected;
}

// The process if it is mapped already; else null, and its entry says that the caller is connecting.
Result<std::shared_ptr<PeerProcess>> PeerProcesses::find(const ProcessExport& process,
                                                         Clock::time_point deadline) {
  std::unique_lock lock(mutex_);
  std::erase_if(entries_, [](const auto& entry) {
    return !entry.second.connecting && entry.second.peer.expired();
  });
  while (true) {
    if (died(process.token))
      return fail(ncclRemoteError, "process %d of this host has died", process.pid);
    Entry& entry = entries_[process.token];
    if (auto peer = entry.peer.lock()) {
      if (!peer->gone()) return peer;
      return fail(ncclRemoteError, "process %d of this host has closed its device memory",
                  process.pid);
    }
    if (!entry.connecting) {
      entry.connecting = true;
      return std::shared_ptr<PeerProcess>();
    }
    if (changed_.wait_until(lock, deadline) == std::cv_status::timeout) {
      return fail(ncclSystemError, "process %d of this host did not answer in time", process.pid);
    }
  }
}

Result<std::shared_ptr<PeerProcess>> PeerProcesses::connect(const ProcessExport& process,
                                                            Clock::time_point deadline) {
  Opened door = EMU_TRY(knock(process, self_.token, deadline));
  OwnedMapping mapping = EMU_TRY(mapShared(door.memory.get(), process.hbmBytes));
  // Where the owner has huge pages we then have them, too; where not, nothing changes.
  madvise(mapping.base(), mapping.bytes(), MADV_HUGEPAGE);
  const auto* const header = reinterpret_cast<const ProcessHeader*>(mapping.base());
  if (header->magic != kHeaderMagic || header->version != kPeerVersion ||
      header->token != process.token) {
    return fail(ncclRemoteError, "process %d shares memory without the expected header",
                process.pid);
  }
  std::byte* const base = mapping.base();
  auto peer = std::make_shared<PeerProcess>(
      PeerProcess::Parts{.process = process,
                         .pid = door.pid,
                         .base = base,
                         .mapping = std::move(mapping),
                         .onDetach = [bell = watcher_->bell()] { bell->ring(); }});
  watcher_->watch(std::move(door.socket), peer);
  return peer;
}

}  // namespace nccom::emu
