// How a rank finds the other ranks of its host.
#include <algorithm>
#include <cstring>

#include "plugins/device_emu/comm.h"
#include "plugins/device_emu/cores.h"
#include "plugins/device_emu/runtime.h"

namespace nccom::emu {
namespace {

Result<Page*> checkPage(const PeerProcess& process, const CommHandle& handle, int32_t nRanks) {
  void* const start = EMU_TRY(process.at(handle.pageOffset, sizeof(Page)));
  auto* const page = static_cast<Page*>(start);
  // acquire, pairs with P1
  if (page->magic.load(std::memory_order_acquire) != kPageMagic || page->nonce != handle.nonce ||
      page->state.load(std::memory_order_acquire) != static_cast<uint32_t>(RankState::kAlive)) {
    return fail(ncclRemoteError, "rank %d has left before this rank connected", handle.rank);
  }
  if (page->version != kPageVersion || page->rank != handle.rank || page->nRanks != nRanks) {
    return fail(ncclInvalidArgument,
                "rank %d shows a page of version %u, rank %d of %d: want version %u, rank %d of %d",
                handle.rank, page->version, page->rank, page->nRanks, kPageVersion, handle.rank,
                nRanks);
  }
  const PageLayout layout = PageLayout::of(static_cast<uint64_t>(nRanks), page->nSemaphores);
  EMU_TRY(process.at(handle.pageOffset, layout.bytes));
  EMU_TRY(process.at(page->scratchOffset, page->scratchBytes));
  EMU_TRY(process.at(page->doorbellOffset, sizeof(Doorbell)));
  return page;
}

}  // namespace

Result<Peer> Comm::open(const nccomDeviceHandle_v1& handle, int32_t peerRank,
                        Clock::time_point deadline) {
  CommHandle content;
  memcpy(&content, handle.bytes, sizeof content);
  if (content.magic != kHandleMagic || content.rank != peerRank) {
    return fail(ncclInvalidArgument,
                "handle of rank %d has magic %llx, rank %d: want magic %llx, rank %d", peerRank,
                static_cast<unsigned long long>(content.magic), content.rank,
                static_cast<unsigned long long>(kHandleMagic), peerRank);
  }
  Peer peer;
  peer.rank = peerRank;
  auto process = runtime_.peers().attach(content.process, deadline);
  if (!process.ok()) {
    return fail(process.error().code, "rank %d: %s", peerRank, process.error().message.c_str());
  }
  peer.process = std::move(process).value();
  peer.page = EMU_TRY(checkPage(*peer.process, content, nRanks()));
  peer.semaphores = semaphoresOf(peer.page);
  peer.scratch = peer.process->base() + peer.page->scratchOffset;
  peer.doorbell = reinterpret_cast<Doorbell*>(peer.process->base() + peer.page->doorbellOffset);
  if (peer.sameProcess() && peerRank != rank()) {
    peer.local = runtime_.findComm(peer.page);
    if (peer.local == nullptr) {
      return fail(ncclRemoteError, "rank %d of this process has been destroyed", peerRank);
    }
  }
  return peer;
}

Status Comm::attachTo(Peer& peer) {
  Attachment attachment = Attachment::kSameProcess;
  if (!peer.sameProcess()) {
    const Status probe = runtime_.config().cma == 0 ? Status(fail(ncclSystemError, "switched off"))
                                                    : cmaProbe(peer.process->cmaCheck());
    peer.cma = probe.ok();
    attachment = peer.cma ? Attachment::kCma : Attachment::kNoCma;
    if (!peer.cma && runtime_.config().cma == 1) {
      return fail(probe.error().code,
                  "cross-memory attach is required, but rank %d cannot reach rank %d: %s", rank(),
                  peer.rank, probe.error().message.c_str());
    }
  }
  // release: pairs with the owner's acquire; then the count that the owner may wait for
  attachmentsOf(peer.page)[rank()].store(attachment, std::memory_order_release);
  peer.page->attached.fetch_add(1, std::memory_order_seq_cst);
  return Ok{};
}

Status Comm::openMailboxes() {
  const uint64_t bytes = peers_.size() * sizeof(Mailbox);
  void* const block = EMU_TRY(runtime_.hbm().alloc(bytes));
  memset(block, 0, bytes);
  mailboxes_ = static_cast<Mailbox*>(block);
  // M1 seq_cst: at least release; see Doorbell::ring()
  page_->mailboxes.store(runtime_.hbm().offsetOf(block), std::memory_order_seq_cst);
  return Ok{};
}

Status Comm::connect(const nccomDeviceHandle_v1* handles, const int32_t* sameHost,
                     Clock::time_point deadline) {
  if (connected()) return fail(ncclInvalidUsage, "rank %d is connected already", rank());
  std::vector<Peer> opened;
  for (int32_t r = 0; r < nRanks(); r++) {
    if (failed()) return cause();
    if (r != rank() && sameHost[r] == 0) continue;
    Peer peer = EMU_TRY(open(r == rank() ? handle() : handles[r], r, deadline));
    peer.localRank = static_cast<uint32_t>(opened.size());
    if (r == rank()) localRank_ = peer.localRank;
    opened.push_back(std::move(peer));
  }
  peers_ = std::move(opened);
  peerOf_.assign(static_cast<size_t>(nRanks()), nullptr);
  for (Peer& peer : peers_)
    peerOf_[static_cast<size_t>(peer.rank)] = &peer;
  EMU_TRY(openMailboxes());
  for (Peer& peer : peers_) {
    if (peer.rank != rank()) EMU_TRY(attachTo(peer));
  }
  const auto competes = [](const Peer& peer) {
    return peer.sameProcess() || sharesCores(peer.process->pid());
  };
  const auto competing = std::count_if(peers_.begin(), peers_.end(), competes);
  runtime_.engine().competing(static_cast<uint32_t>(competing));
  connected_.store(true, std::memory_order_release);  // pairs with connected()
  ringPeers();
  checkPeers();
  return failed() ? Status(cause()) : Status(Ok{});
}

}  // namespace nccom::emu
