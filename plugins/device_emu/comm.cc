#include "plugins/device_emu/comm.h"

#include <algorithm>
#include <cstring>
#include <thread>

#include "plugins/device_emu/report.h"
#include "plugins/device_emu/runtime.h"

namespace nccom::emu {
namespace {

/// Writes `error` into a page unless there is an earlier cause.
/// @return whether it is now the cause
bool claimError(Page& page, const Error& error) {
  uint32_t none = 0;
  // E seq_cst, see Comm::failed()
  if (!page.error.state.compare_exchange_strong(none, 1, std::memory_order_seq_cst)) return false;
  page.error.code = error.code;
  const size_t bytes = std::min(error.message.size(), kErrorBytes - 1);
  memcpy(page.error.text, error.message.data(), bytes);
  page.error.text[bytes] = '\0';
  page.error.state.store(2, std::memory_order_seq_cst);  // release: pairs with cause()
  return true;
}

bool holdsLocks(const Page& page, uint32_t nQueues) {
  for (uint32_t i = 0; i < nQueues; i++) {
    if (page.locks[i].held.load(std::memory_order_seq_cst) != 0) return true;
  }
  return false;
}

/// Stands for a buffer that a launch does not have: no launch has one of this size.
constexpr nccomBufferBinding_v1 kNoBuffer{nullptr, UINT64_MAX};

bool sameBuffer(const nccomBufferBinding_v1& a, const nccomBufferBinding_v1& b) {
  return a.address == b.address && a.bytes == b.bytes;
}

unsigned long long number(uint64_t value) {
  return value;
}

}  // namespace

Comm::Comm(Runtime& runtime, const nccomDeviceCommConfig_v1& config)
    : base(config.nSemaphores), parked(config.nSemaphores), runtime_(runtime), config_(config) {
  for (auto& queue : parked)
    queue.store(0, std::memory_order_relaxed);
}

Result<std::shared_ptr<Comm>> Comm::create(Runtime& runtime,
                                           const nccomDeviceCommConfig_v1& config) {
  if (config.nRanks < 1 || config.rank < 0 || config.rank >= config.nRanks) {
    return fail(ncclInvalidArgument, "communicator: rank %d of %d", config.rank, config.nRanks);
  }
  if (config.timeoutMs < 0) {
    return fail(ncclInvalidArgument, "communicator: timeout of %lld ms",
                static_cast<long long>(config.timeoutMs));
  }
  auto comm = std::make_shared<Comm>(runtime, config);
  EMU_TRY(comm->openPage());
  comm->hostIndices_.resize(config.nConnections);
  return comm;
}

Status Comm::openPage() {
  const PageLayout layout =
      PageLayout::of(static_cast<uint64_t>(config_.nRanks), config_.nSemaphores);
  void* const block = EMU_TRY(runtime_.hbm().alloc(layout.bytes));
  memset(block, 0, layout.bytes);
  page_ = static_cast<Page*>(block);
  page_->version = kPageVersion;
  page_->pid = runtime_.peers().self().pid;
  page_->rank = config_.rank;
  page_->nRanks = config_.nRanks;
  page_->nonce = nonce_ = runtime_.nextNonce();
  page_->nSemaphores = config_.nSemaphores;
  page_->doorbellOffset = runtime_.hbm().offsetOf(&runtime_.doorbell());
  semaphores_ = semaphoresOf(page_);
  if (config_.scratchBytes > 0) {
    const auto scratch = runtime_.hbm().alloc(config_.scratchBytes);
    if (!scratch.ok()) {
      (void)runtime_.hbm().free(std::exchange(page_, nullptr));
      return fail(scratch.error().code, "scratch of %llu bytes: %s", number(config_.scratchBytes),
                  scratch.error().message.c_str());
    }
    scratch_ = static_cast<std::byte*>(scratch.value());
    page_->scratchOffset = runtime_.hbm().offsetOf(scratch_);
    page_->scratchBytes = config_.scratchBytes;
  }
  page_->state.store(static_cast<uint32_t>(RankState::kAlive), std::memory_order_relaxed);
  page_->magic.store(kPageMagic, std::memory_order_release);  // P1
  return Ok{};
}

nccomDeviceHandle_v1 Comm::handle() const {
  CommHandle content{};
  content.magic = kHandleMagic;
  content.process = runtime_.peers().self();
  content.pageOffset = runtime_.hbm().offsetOf(page_);
  content.nonce = nonce_;
  content.rank = config_.rank;
  nccomDeviceHandle_v1 handle{};
  memcpy(handle.bytes, &content, sizeof content);
  return handle;
}

void Comm::leave() {
  // acquire, pairs with the engine's release: the last call of netProgress has returned
  while (networkBusy.exchange(true, std::memory_order_acquire))
    std::this_thread::yield();
  page_->state.store(static_cast<uint32_t>(RankState::kLeft), std::memory_order_seq_cst);
  ringPeers();
  const std::lock_guard lock(outside_);
  left_ = true;
  for (Peer& peer : peers_) {
    if (peer.rank == rank()) continue;
    // release: our last accesses come before; pairs with the acquire in Runtime::bury()
    attachmentsOf(peer.page)[rank()].store(Attachment::kLeft, std::memory_order_release);
    peer.local.reset();
  }
}

Comm::~Comm() {
  if (page_ == nullptr) return;
  Remains remains{page_, {page_, scratch_, mailboxes_}, {}};
  for (const Bound& block : rooms_)
    remains.blocks.push_back(block.base);
  for (const Peer& peer : peers_) {
    if (peer.rank != rank()) remains.users.emplace_back(peer.rank, peer.process);
  }
  runtime_.bury(std::move(remains));
}

bool Comm::spansProcesses() const {
  return std::any_of(peers_.begin(), peers_.end(),
                     [](const Peer& peer) { return !peer.sameProcess(); });
}

bool Comm::stagesForeign() const {
  for (const Peer& peer : peers_) {
    if (attachmentsOf(page_)[peer.rank].load(std::memory_order_acquire) == Attachment::kNoCma) {
      return true;
    }
  }
  return false;
}

// ---- failure ------------------------------------------------------------------------------------

void Comm::raise(const Error& error) {
  const std::lock_guard lock(outside_);
  if (left_ || !claimError(*page_, error)) return;
  spread(error);
  tellHost(error);
}

void Comm::abort(const Error& error) {
  const std::lock_guard lock(outside_);
  if (left_ || !claimError(*page_, error)) return;
  told_ = true;
  spread(fail(ncclRemoteError, "rank %d was aborted: %s", rank(), error.message.c_str()));
}

Error Comm::toldCause() {
  Error error = cause();
  const std::lock_guard lock(outside_);
  if (!left_) tellHost(error);
  return error;
}

/// `outside_` is held.
void Comm::tellHost(const Error& error) {
  if (told_) return;
  told_ = true;
  const nccomHostCalls_v1& host = config_.host;
  if (host.failed != nullptr) host.failed(host.arg, error.code, error.message.c_str());
}

/// `outside_` is held.
void Comm::spread(const Error& error) {
  if (connected()) {
    for (Peer& peer : peers_)
      claimError(*peer.page, error);
  }
  ringPeers();
}

void Comm::ringPeers() {
  runtime_.doorbell().ring();
  if (!connected()) return;
  const Doorbell* last = &runtime_.doorbell();
  for (Peer& peer : peers_) {  // ranks of one process are mostly neighbours
    if (peer.doorbell != last) peer.doorbell->ring();
    last = peer.doorbell;
  }
}

Error Comm::cause() const {
  constexpr int kAttempts = 1000;  // of about 1 ms: its writer may have died in the middle
  for (int i = 0; i < kAttempts; i++) {
    // acquire, pairs with the release of claimError()
    if (page_->error.state.load(std::memory_order_acquire) == 2) {
      return Error{static_cast<ncclResult_t>(page_->error.code), page_->error.text};
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return fail(ncclRemoteError, "rank %d was failed by a rank of this host that did not say why",
              rank());
}

const char* Comm::causeText() const {
  const std::lock_guard lock(causeMutex_);
  if (cause_ == nullptr) cause_ = std::make_unique<const std::string>(cause().message);
  return cause_->c_str();
}

bool Comm::peersQuiet() {
  bool quiet = true;
  const Error error = cause();
  // Whoever noted the cause tells the peers first, maybe in other words.
  { const std::lock_guard lock(outside_); }
  for (Peer& peer : peers_) {
    if (peer.rank == rank() || peer.process->gone()) continue;
    if (peer.page->state.load(std::memory_order_acquire) !=
        static_cast<uint32_t>(RankState::kAlive)) {
      continue;
    }
    if (claimError(*peer.page, error)) peer.doorbell->ring();
    if (holdsLocks(*peer.page, NCCOM_MAX_QUEUES)) quiet = false;
  }
  return quiet;
}

void Comm::checkPeers() {
  if (!connected() || failed()) return;
  for (const Peer& peer : peers_) {
    if (peer.rank == rank() || peer.process->state() != PeerState::Died) continue;
    // Its memory stays mapped as long as `process`. What has become of its page after we left does
    // not matter: raise() looks.
    if (peer.page->state.load(std::memory_order_acquire) !=
        static_cast<uint32_t>(RankState::kAlive)) {
      continue;
    }
    raise(fail(ncclRemoteError, "rank %d (pid %d) of this host died", peer.rank, peer.page->pid));
    return;
  }
}

// ---- room for copies ----------------------------------------------------------------------------

constexpr size_t kRoomsKept = 4;  // INPUT and OUTPUT of an operation, and of one like it

Result<Bound> Comm::room(uint64_t bytes) {
  const auto fits = std::find_if(rooms_.begin(), rooms_.end(),
                                 [bytes](const Bound& block) { return block.bytes >= bytes; });
  if (fits != rooms_.end()) {
    const Bound block = *fits;
    rooms_.erase(fits);
    return block;
  }
  auto fresh = runtime_.hbm().alloc(bytes);
  if (!fresh.ok()) {
    for (const Bound& block : std::exchange(rooms_, {}))
      (void)runtime_.hbm().free(block.base);
    fresh = runtime_.hbm().alloc(bytes);
  }
  if (!fresh.ok()) return fresh.error();
  return Bound{static_cast<std::byte*>(fresh.value()), bytes};
}

void Comm::giveBack(const Bound& block) {
  const auto bySize = [](const Bound& a, const Bound& b) { return a.bytes < b.bytes; };
  rooms_.insert(std::upper_bound(rooms_.begin(), rooms_.end(), block, bySize), block);
  if (rooms_.size() <= kRoomsKept) return;
  (void)runtime_.hbm().free(rooms_.front().base);
  rooms_.erase(rooms_.begin());
}

// ---- operations ---------------------------------------------------------------------------------

Result<void*> Comm::load(const nccomProgram_v1& program, const nccomProgram_v1* staged) {
  ProgramLimits limits;
  limits.rank = rank();
  limits.nConnections = config_.nConnections;
  limits.ranks.resize(static_cast<size_t>(nRanks()));
  limits.ranks[static_cast<size_t>(rank())] = {true, config_.scratchBytes, config_.nSemaphores};
  if (connected()) {
    for (const Peer& peer : peers_) {
      limits.ranks[static_cast<size_t>(peer.rank)] = {true, peer.page->scratchBytes,
                                                      peer.page->nSemaphores};
    }
  }
  std::shared_ptr<LoadedProgram> loaded = EMU_TRY(LoadedProgram::load(program, limits));
  if (staged != nullptr) {
    std::unique_ptr<LoadedProgram> other = EMU_TRY(LoadedProgram::load(*staged, limits));
    EMU_TRY(loaded->setStaged(std::move(other)));
  }
  void* const handle = loaded.get();  // opaque to the host
  const std::lock_guard lock(opsMutex_);
  programs_.emplace(handle, std::move(loaded));
  return handle;
}

Status Comm::unload(void* handle) {
  const std::lock_guard lock(opsMutex_);
  checked_ = {};
  for (const auto& op : ops_) {
    if (op->launched.get() == handle) op->repeatable.store(false, std::memory_order_relaxed);
  }
  if (programs_.erase(handle) == 1) return Ok{};
  return fail(ncclInvalidArgument, "rank %d: no program %p is loaded", rank(), handle);
}

Status Comm::checkBuffers(const char* what, const std::vector<uint64_t>& touched,
                          const nccomBufferBinding_v1* buffers, uint32_t n, bool computes,
                          uint64_t elementBytes) const {
  for (size_t i = 0; i < touched.size(); i++) {
    if (touched[i] == 0) continue;
    if (i >= n) {
      return fail(ncclInvalidArgument, "rank %d: the launch has %u %s: the program uses number %zu",
                  rank(), n, what, i);
    }
    const nccomBufferBinding_v1& buffer = buffers[i];
    if (buffer.bytes < touched[i] || buffer.address == nullptr) {
      return fail(ncclInvalidArgument,
                  "rank %d: %s[%zu] at %p has %llu bytes: the program uses %llu of it", rank(),
                  what, i, buffer.address, number(buffer.bytes), number(touched[i]));
    }
    if (computes && reinterpret_cast<uintptr_t>(buffer.address) % elementBytes != 0) {
      return fail(ncclInvalidArgument,
                  "rank %d: %s[%zu] at %p is not aligned to its elements of %llu bytes", rank(),
                  what, i, buffer.address, number(elementBytes));
    }
    const Status usable = runtime_.hbm().checkUse(buffer.address, touched[i]);
    if (!usable.ok()) {
      return fail(ncclInvalidArgument, "rank %d: %s[%zu]: %s", rank(), what, i,
                  usable.error().message.c_str());
    }
  }
  return Ok{};
}

Status Comm::checkLaunch(const LoadedProgram& program, const nccomLaunch_v1& launch) const {
  EMU_TRY(checkBuffers("inputs", program.inputBytes(), launch.inputs, launch.nInputs,
                       program.computes(), program.elementBytes()));
  EMU_TRY(checkBuffers("outputs", program.outputBytes(), launch.outputs, launch.nOutputs,
                       program.computes(), program.elementBytes()));
  return Ok{};
}

Status Comm::checkCall(const LoadedProgram& program, const nccomLaunch_v1& launch) const {
  if (launch.divisor < 1) {
    return fail(ncclInvalidArgument, "rank %d: divisor %lld: want at least 1", rank(),
                static_cast<long long>(launch.divisor));
  }
  if (program.givesValue() && (launch.collective == 0 || launch.nInputs == 0 ||
                               launch.inputs[0].bytes > NCCOM_VALUE_BYTES)) {
    return fail(
        ncclInvalidArgument,
        "rank %d: the program gives an input by value: want the launch to have a collective "
        "number, and an input of at most %d bytes; it has number %llu and %u inputs of %llu",
        rank(), NCCOM_VALUE_BYTES, number(launch.collective), launch.nInputs,
        number(launch.nInputs == 0 ? 0 : launch.inputs[0].bytes));
  }
  if (launch.collective == 0 && program.namesPeers()) {
    return fail(ncclInvalidArgument,
                "rank %d: the program uses buffers of other ranks: its launch needs a collective "
                "number",
                rank());
  }
  return Ok{};
}

Op& Comm::freeOp() {
  if (Op* const op = runtime_.schedule().reuse(*this)) return *op;
  const std::lock_guard lock(opsMutex_);
  ops_.push_back(std::make_unique<Op>());
  ops_.back()->comm = this;
  return *ops_.back();
}

/// The program of a launch that may run.
Result<std::shared_ptr<const LoadedProgram>> Comm::checked(void* handle,
                                                           const nccomLaunch_v1& launch) {
  const bool isSmall = launch.nInputs <= 1 && launch.nOutputs <= 1;
  const nccomBufferBinding_v1 input = launch.nInputs == 1 ? launch.inputs[0] : kNoBuffer;
  const nccomBufferBinding_v1 output = launch.nOutputs == 1 ? launch.outputs[0] : kNoBuffer;
  const uint64_t memory = runtime_.hbm().epoch();
  const std::lock_guard lock(opsMutex_);
  for (const Checked& known : checked_) {
    if (known.handle == handle && isSmall && known.memory == memory &&
        sameBuffer(known.input, input) && sameBuffer(known.output, output)) {
      return known.program;
    }
  }
  const auto found = programs_.find(handle);
  if (found == programs_.end()) {
    return fail(ncclInvalidArgument, "rank %d: no program %p is loaded", rank(), handle);
  }
  if (!connected()) return fail(ncclInvalidUsage, "rank %d: launch before connect", rank());
  const LoadedProgram& program = *found->second;
  EMU_TRY(checkLaunch(program, launch));
  if (program.staged() != nullptr) EMU_TRY(checkLaunch(*program.staged(), launch));
  if (isSmall) {
    checked_[nextChecked_++ % checked_.size()] = {handle, found->second, input, output, memory};
  }
  return found->second;
}

Result<Op*> Comm::prepare(void* handle, const nccomLaunch_v1& launch) {
  if (failed()) return toldCause();
  const uint64_t memory = runtime_.hbm().epoch();
  std::shared_ptr<const LoadedProgram> program = EMU_TRY(checked(handle, launch));
  EMU_TRY(checkCall(*program, launch));
  Op& op = freeOp();
  op.content = contents_.fetch_add(1, std::memory_order_relaxed) + 1;
  op.memory = memory;
  op.bound = false;
  op.launched = std::move(program);
  op.program = op.launched.get();
  op.ready = op.published = op.posted = false;
  op.opCount = launch.opCount;
  op.collective = launch.collective;
  op.userInputs.assign(launch.inputs, launch.inputs + launch.nInputs);
  op.userOutputs.assign(launch.outputs, launch.outputs + launch.nOutputs);
  op.scale = launch.scale;
  op.divisor = launch.divisor;
  op.signature = launch.signature;
  op.check = checkOf(op.signature);
  const std::string_view name = launch.name != nullptr ? launch.name : "unnamed operation";
  if (name != op.name.data()) {
    op.name = {};
    memcpy(op.name.data(), name.data(), std::min(name.size(), kNameBytes - 1));
  }
  op.repeatable.store(true, std::memory_order_relaxed);
  return &op;
}

Op* Comm::repeat(const void* handle, const nccomLaunch_v1& launch) {
  if (failed()) return nullptr;
  const uint64_t memory = runtime_.hbm().epoch();
  size_t at = freeOps.size();
  const size_t least = at - std::min(at, kKeptOps);
  while (at > least && !freeOps[at - 1]->repeats(handle, launch, memory))
    at--;
  if (at == least) return nullptr;
  Op* const op = freeOps[at - 1];
  freeOps.erase(freeOps.begin() + static_cast<std::ptrdiff_t>(at - 1));
  op->program = op->launched.get();
  op->ready = op->published = op->posted = false;
  op->opCount = launch.opCount;
  op->collective = launch.collective;
  return op;
}

void Comm::showLaunched(const Op& op) {
  // relaxed: for reports
  Board& board = page_->board;
  board.launchedName.show(op.content, op.name.data());
  board.launched.store(op.opCount, std::memory_order_relaxed);
  if (op.collective != 0) board.collective.store(op.collective, std::memory_order_relaxed);
}

void Comm::showStarted(const Op& op) {
  // relaxed: for reports
  Board& board = page_->board;
  board.startedName.show(op.content, op.name.data());
  board.started.store(op.opCount, std::memory_order_relaxed);
}

void Op::bindAsIs() {
  const auto asIs = [](const auto& user, std::vector<Bound>& to) {
    to.clear();
    for (const nccomBufferBinding_v1& buffer : user)
      to.push_back({static_cast<std::byte*>(buffer.address), buffer.bytes});
  };
  asIs(userInputs, inputs);
  asIs(userOutputs, outputs);
  bound = true;
}

bool Op::repeats(const void* handle, const nccomLaunch_v1& launch, uint64_t memoryNow) const {
  const auto same = [](const std::vector<nccomBufferBinding_v1>& known,
                       const nccomBufferBinding_v1* buffers, uint32_t n) {
    return std::equal(known.begin(), known.end(), buffers, buffers + n, sameBuffer);
  };
  // A collective with a number stays one; names follow from the program and the signature.
  return repeatable.load(std::memory_order_relaxed) && launched.get() == handle &&
         memory == memoryNow && (collective != 0) == (launch.collective != 0) &&
         scale == launch.scale && divisor == launch.divisor &&
         wordsOf(signature) == wordsOf(launch.signature) &&
         same(userInputs, launch.inputs, launch.nInputs) &&
         same(userOutputs, launch.outputs, launch.nOutputs);
}

}  // namespace nccom::emu
