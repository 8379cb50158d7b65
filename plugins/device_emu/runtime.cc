#include "plugins/device_emu/runtime.h"

#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <random>

#include "plugins/device_emu/cores.h"
#include "plugins/device_emu/foreign.h"

namespace nccom::emu {
namespace {

constexpr int kLogWarn = 2, kLogInfo = 3;      // NCCL's levels
constexpr unsigned long kSubsysInit = 1;       // NCCL's subsystem INIT
constexpr uint64_t kDefaultL2Bytes = 1 << 20;  // where the machine does not tell

uint64_t l2Bytes() {
  const long bytes = sysconf(_SC_LEVEL2_CACHE_SIZE);
  return bytes > 0 ? static_cast<uint64_t>(bytes) : kDefaultL2Bytes;
}

}  // namespace

Result<std::unique_ptr<Runtime>> Runtime::open(const nccomDeviceConfig_v1& config) {
  if (config.nDevices < 1 || config.engineThreads < -1 || config.cma < -1 || config.cma > 1) {
    return fail(ncclInvalidArgument,
                "device config: %d devices (want at least 1), %d engine threads (want at least "
                "-1), cma %d (want -1, 0 or 1)",
                config.nDevices, config.engineThreads, config.cma);
  }
  std::unique_ptr<Runtime> runtime(new Runtime(config));  // NOLINT: the constructor is private
  EMU_TRY(runtime->start());
  return runtime;
}

Status Runtime::start() {
  const auto pageBytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  void* const mark =
      mmap(nullptr, pageBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mark == MAP_FAILED) return fail(ncclSystemError, "mmap of a page: %s", strerror(errno));
  mark_ = OwnedMapping(mark, pageBytes);
  if (madvise(mark, pageBytes, MADV_WIPEONFORK) != 0) {
    return fail(ncclSystemError, "madvise WIPEONFORK: %s (want Linux 4.14)", strerror(errno));
  }
  *mark_.base() = std::byte{1};
  if (config_.cma == 1) EMU_TRY(cmaAdmitPeers());

  HbmOptions options;
  if (config_.hbmBytes != 0) options.bytes = config_.hbmBytes;
  hbm_ = EMU_TRY(Hbm::open(options));
  if (!hbm_->notice().empty()) log(kLogWarn, hbm_->notice());
  void* const bell = EMU_TRY(hbm_->alloc(sizeof(Doorbell)));
  memset(bell, 0, sizeof(Doorbell));
  doorbell_ = static_cast<Doorbell*>(bell);
  std::random_device random;
  nonce_.store(uint64_t{random()} << 32 | random(), std::memory_order_relaxed);

  const EngineLimits limits{availableCores(), config_.engineThreads, l2Bytes()};
  engine_ = std::make_unique<Engine>(*doorbell_, limits);
  schedule_ = std::make_unique<Schedule>(*engine_);
  peers_ = EMU_TRY(PeerProcesses::open(*hbm_, [this](const ProcessToken&, pid_t) { peerDied(); }));
  log(kLogInfo, "emulated device: " + std::to_string(config_.nDevices) + " devices, " +
                    std::to_string(hbm_->bytes() >> 20) + " MiB of address space, " +
                    std::to_string(limits.cores) + " cores");
  return Ok{};
}

Runtime::~Runtime() {
  if (engine_ == nullptr || schedule_ == nullptr || peers_ == nullptr) return;
  const auto comms = engine_->comms();
  for (const auto& comm : *comms)
    (void)destroyComm(*comm);
  peers_.reset();
}

Status Runtime::ownedByThisProcess() const {
  if (*mark_.base() == std::byte{1}) return Ok{};
  return fail(ncclInvalidUsage,
              "this process was forked from the one that initialised the device: it has to "
              "initialise its own");
}

Status Runtime::checkDevice(int device) const {
  if (device >= 0 && device < config_.nDevices) return Ok{};
  return fail(ncclInvalidArgument, "device %d: there are %d", device, config_.nDevices);
}

void Runtime::log(int level, const std::string& text) const {
  if (config_.logger != nullptr) config_.logger(level, kSubsysInit, text.c_str());
}

uint64_t Runtime::nextNonce() {
  return nonce_.fetch_add(1, std::memory_order_relaxed);
}

Place Runtime::placeOf(const std::byte* base, uint64_t bytes) const {
  const bool device = hbm_->contains(base, bytes);
  return {reinterpret_cast<uint64_t>(base), bytes, device ? hbm_->offsetOf(base) : Place::kForeign};
}

Result<Comm*> Runtime::createComm(const nccomDeviceCommConfig_v1& config) {
  EMU_TRY(checkDevice(config.device));
  const std::shared_ptr<Comm> comm = EMU_TRY(Comm::create(*this, config));
  engine_->add(comm);
  return comm.get();
}

std::shared_ptr<Comm> Runtime::findComm(const Page* page) {
  const auto comms = engine_->comms();
  const auto found = std::find_if(comms->begin(), comms->end(),
                                  [&](const auto& comm) { return &comm->page() == page; });
  return found == comms->end() ? nullptr : *found;
}

void Runtime::help(std::function<bool()> ready) {
  Waiter waiter(std::move(ready));
  engine_->help(*schedule_, waiter);
}

void Runtime::drain(Comm& comm) {
  if (comm.failed()) {
    schedule_->cancel(comm, comm.toldCause());
    doorbell_->ring();  // other communicators' operations may have come to the head of a stream
  }
  help(schedule_->untilIdle(comm));
}

Status Runtime::destroyComm(Comm& comm) {
  schedule_->close(comm);
  if (!schedule_->idle(comm)) {
    // Peers may pass the text on as it is, so it names the rank.
    comm.abort(fail(ncclInvalidUsage,
                    "rank %d: its communicator was destroyed while operations ran", comm.rank()));
    drain(comm);
  }
  const std::shared_ptr<Comm> keep = findComm(&comm.page());
  schedule_->awaitLookers(comm);
  comm.leave();
  engine_->remove(comm);
  return Ok{};
}

void Runtime::bury(Remains remains) {
  const std::lock_guard lock(remainsMutex_);
  if (remains.page != nullptr) remains_.push_back(std::move(remains));
  std::erase_if(remains_, [this](const Remains& one) {
    for (const auto& [rank, process] : one.users) {
      // acquire, pairs with Comm::leave()
      const Attachment use = attachmentsOf(one.page)[rank].load(std::memory_order_acquire);
      const bool away = use == Attachment::kNone || use == Attachment::kLeft;
      if (!away && !process->gone()) return false;
    }
    one.page->magic.store(0, std::memory_order_relaxed);
    for (void* block : one.blocks)
      (void)hbm_->free(block);  // ours, and freed once: cannot fail
    return true;
  });
}

void Runtime::peerDied() {
  const auto comms = engine_->comms();
  for (const auto& comm : *comms)
    comm->checkPeers();
}

}  // namespace nccom::emu
