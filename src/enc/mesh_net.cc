// Meshes between hosts: each member gives each other one what it has for it, in one step, and folds
// what came. Members of other hosts get it through the slots of their pipes, four chunks at a time;
// those that share memory get it in their OUTPUT, or leave it to be read, or find it in their work
// area where INPUT may be overwritten meanwhile.
#include <algorithm>
#include <deque>
#include <utility>

#include "enc/mesh_compose.h"
#include "enc/mesh_passes.h"
#include "enc/mesh_walk.h"
#include "enc/pipe.h"

namespace nccom {
namespace {

using Event = enc_mesh_event_type;

constexpr int kMaxFolded = 64;  // sources of a transfer of the device

/// Chunks that are under way at once: as many as a pipe has slots.
struct Round {
  uint64_t begin = 0;
  uint64_t chunks = kRingSlots;
};

class NetComposer {
 public:
  NetComposer(encBuilder& builder, const encStage& stage, const encMeshPlan& plan,
              const enc_alg_mesh_subtype& subtype);
  Status compose();

 private:
  struct Peer {
    int member = 0;
    encPipe pipe;
  };
  bool folds() const { return stage_.op == encOp::AllReduce || stage_.op == encOp::ReduceScatter; }
  /// Work areas are used: others' INPUT is overwritten while we need it.
  bool copies() const { return stage_.op == encOp::AllReduce && !sharing_.empty(); }
  /// So is our own: a fold of so many goes on in OUTPUT, which INPUT may be.
  bool copiesOwn() const { return folds() && stage_.n() > kMaxFolded; }
  encPart lane(int from, int to) const;
  uint64_t bytesAt(int from, int to, uint64_t offset) const;
  uint64_t inOffset(int from, int to) const;
  encAddress work(int at, int from, uint64_t offset) const;

  void declare(const encPages& pages);
  Status chooseChunk();
  void handshake();
  void rounds();
  void round(const Round& r);
  void send(const Round& r);
  void giveCopies(const Round& r);
  void foldChunk(uint64_t offset, uint64_t inRound);
  void placeChunk(uint64_t offset);
  void shareMemory();

  encBuilder& builder_;
  encStage stage_;  // its addresses move in loops
  const enc_alg_mesh& mesh_;
  encMeshWalk walk_;
  std::deque<Peer> peers_;    // of other hosts, the next one first
  std::vector<int> sharing_;  // others that share our memory
  uint64_t chunk_ = 0;
};

NetComposer::NetComposer(encBuilder& builder, const encStage& stage, const encMeshPlan& plan,
                         const enc_alg_mesh_subtype& subtype)
    : builder_(builder), stage_(stage), mesh_(plan.mesh), walk_(builder, stage_, subtype) {
  for (const int member : plan.order) {
    const int rank = stage.ranks[member];
    if (member == stage.self) continue;
    if (builder.info().sameNode(stage.rank(), rank)) {
      sharing_.push_back(member);
      continue;
    }
    peers_.push_back({member, encPipe(builder, builder.layout().peerPipe(rank), rank, rank,
                                      walk_.queue(), encReceives::InOrder)});
  }
}

/// What one member gives another: bytes, and where they begin in the message.
encPart NetComposer::lane(int from, int to) const {
  switch (stage_.op) {
    case encOp::AllReduce:
      return {0, stage_.messageBytes};
    case encOp::AllGather:
      return stage_.part(from);
    default:
      return stage_.part(to);
  }
}

uint64_t NetComposer::bytesAt(int from, int to, uint64_t offset) const {
  const uint64_t bytes = lane(from, to).bytes;
  return std::min(chunk_, bytes - std::min(bytes, offset));
}

/// Where it is in the giver's INPUT.
uint64_t NetComposer::inOffset(int from, int to) const {
  return stage_.op == encOp::AllGather ? 0 : lane(from, to).begin;
}

encAddress NetComposer::work(int at, int from, uint64_t offset) const {
  return stage_.work(at, static_cast<uint64_t>(from) * kRingSlots * chunk_ + offset);
}

/// Others name our buffers.
void NetComposer::declare(const encPages& pages) {
  if (pages.buffer == encBuffer::Input) builder_.peersReadInputs();
  if (pages.buffer == encBuffer::Output) builder_.peersWriteOutputs();
}

Status NetComposer::chooseChunk() {
  chunk_ = UINT64_MAX;
  for (const Peer& peer : peers_)
    chunk_ = std::min(chunk_, peer.pipe.slotBytes());
  if (copies() || copiesOwn()) {
    const uint64_t share =
        TRY(encMeshPassBytes(mesh_.max_chbuf_space_per_rank / kRingSlots, stage_.elementBytes));
    chunk_ = std::min(chunk_, share);
  }
  if (chunk_ == UINT64_MAX) chunk_ = std::max<uint64_t>(stage_.messageBytes, 1);
  return Ok{};
}

Status NetComposer::compose() {
  TRY(chooseChunk());
  for (Peer& peer : peers_)
    peer.pipe.begin();
  handshake();
  if (!folds()) shareMemory();
  if (stage_.op == encOp::ReduceScatter && !sharing_.empty()) declare(stage_.input);
  rounds();
  if (!copies()) walk_.barrier(Event::EVT_SYNC);
  for (Peer& peer : peers_)
    peer.pipe.finish();
  return Ok{};
}

void NetComposer::handshake() {
  if (stage_.first && mesh_.double_buffer && !copies()) return;
  for (const Event type : {Event::EVT_LOCAL_HNDSHK, Event::EVT_GLOBAL_HNDSHK}) {
    if (walk_.beginIfValid(type)) walk_.signal();
  }
  walk_.await();
}

void NetComposer::rounds() {
  std::vector<encPart> parts;
  parts.reserve(static_cast<size_t>(stage_.n()));
  for (int member = 0; member < stage_.n(); member++)
    parts.push_back(lane(member, member));
  encMeshPasses(builder_, stage_, parts, kRingSlots * chunk_, [&](const encMeshPass& pass) {
    round({pass.begin, (pass.bytes - 1) / chunk_ + 1});
  });
}

void NetComposer::round(const Round& r) {
  send(r);
  if (copies()) giveCopies(r);
  for (uint64_t i = 0; i < r.chunks; i++) {
    if (folds()) {
      foldChunk(r.begin + i * chunk_, i * chunk_);
    } else {
      placeChunk(r.begin + i * chunk_);
    }
  }
  if (copies()) walk_.barrier(Event::EVT_SYNC);
}

void NetComposer::send(const Round& r) {
  const encStep step = encMeshStep(Event::EVT_INTER_GRP_BRDCST);
  const int self = stage_.self;
  const auto each = [&](auto&& body) {
    for (uint64_t i = 0; i < r.chunks; i++) {
      for (Peer& peer : peers_)
        body(peer, r.begin + i * chunk_);
    }
  };
  // All that will come is asked for before anything is sent: nobody waits for the other to ask.
  each([&](Peer& peer, uint64_t offset) {
    const uint64_t bytes = bytesAt(peer.member, self, offset);
    if (bytes > 0) peer.pipe.expectData(step, bytes);
  });
  each([&](Peer& peer, uint64_t offset) {
    const uint64_t bytes = bytesAt(self, peer.member, offset);
    if (bytes == 0) return;
    peer.pipe.awaitRoom(step);
    builder_.transfer(walk_.queue(),
                      {.step = step,
                       .sources = {stage_.in(self, inOffset(self, peer.member) + offset)},
                       .destinations = {peer.pipe.room()},
                       .bytes = bytes});
    peer.pipe.sent(step, bytes);
  });
}

/// Our INPUT of the round, to those that share memory.
void NetComposer::giveCopies(const Round& r) {
  walk_.begin(Event::EVT_INTER_GRP_BRDCST);
  encMove move{.sources = {stage_.in(stage_.self, r.begin)},
               .bytes = std::min(r.chunks * chunk_, stage_.messageBytes - r.begin)};
  for (const int member : sharing_)
    move.destinations.emplace_back(work(member, stage_.self, 0));
  walk_.transfer(move);
  walk_.signal();
  walk_.await();
}

/// @param inRound  of it, in the copies
void NetComposer::foldChunk(uint64_t offset, uint64_t inRound) {
  const encStep step = encMeshStep(Event::EVT_REDUCE_WRITE);
  const int self = stage_.self;
  const uint64_t bytes = bytesAt(self, self, offset);
  if (bytes == 0) return;
  const uint64_t at = inOffset(self, self) + offset;
  if (copiesOwn()) {
    builder_.transfer(walk_.queue(), {.step = step,
                                      .sources = {stage_.in(self, at)},
                                      .destinations = {work(self, self, inRound)},
                                      .bytes = bytes});
  }
  std::vector<encSpan> sources;
  sources.reserve(stage_.ranks.size());
  for (int member = 0; member < stage_.n(); member++) {
    const bool isCopied = member == self ? copiesOwn() : copies();
    sources.push_back(isCopied ? encSpan(work(self, member, inRound)) : stage_.in(member, at));
  }
  for (Peer& peer : peers_) {
    peer.pipe.awaitData(step, bytes);
    sources[peer.member] = peer.pipe.data();
  }
  builder_.transfer(walk_.queue(), {.step = step,
                                    .sources = std::move(sources),
                                    .destinations = {stage_.out(self, offset)},
                                    .bytes = bytes,
                                    .scaleAll = stage_.scaleInputs,
                                    .divide = stage_.divide});
  for (Peer& peer : peers_)
    peer.pipe.taken(step);
}

/// AllGather, AlltoAll: where what came belongs.
void NetComposer::placeChunk(uint64_t offset) {
  const encStep step = encMeshStep(Event::EVT_INTER_GRP_BRDCST);
  for (Peer& peer : peers_) {
    const uint64_t bytes = bytesAt(peer.member, stage_.self, offset);
    if (bytes == 0) continue;
    peer.pipe.awaitData(step, bytes);
    const uint64_t at = stage_.part(peer.member).begin + offset;
    builder_.transfer(walk_.queue(), {.step = step,
                                      .sources = {peer.pipe.data()},
                                      .destinations = {stage_.out(stage_.self, at)},
                                      .bytes = bytes});
    peer.pipe.taken(step);
  }
}

/// AllGather, AlltoAll: parts for ourselves, and for those that share memory.
void NetComposer::shareMemory() {
  walk_.begin(Event::EVT_INTER_GRP_BRDCST);
  if (!sharing_.empty()) declare(stage_.writesOthers() ? stage_.output : stage_.input);
  const int self = stage_.self;
  const uint64_t mine = stage_.part(self).begin;
  std::vector<int> members = sharing_;
  members.insert(members.begin(), self);
  for (const int member : members) {
    const bool writes = stage_.writesOthers() || member == self;
    const int from = writes ? self : member, to = writes ? member : self;
    const encPart part = lane(from, to);
    const uint64_t theirs = from == self ? mine : stage_.part(member).begin;
    walk_.transfer({.sources = {stage_.in(from, inOffset(from, to))},
                    .destinations = {stage_.out(to, theirs)},
                    .bytes = part.bytes});
  }
}

}  // namespace

Status encComposeMeshByNet(encBuilder& builder, const encStage& stage, const encMeshPlan& plan,
                           const enc_alg_mesh_subtype& subtype) {
  return NetComposer(builder, stage, plan, subtype).compose();
}

}  // namespace nccom
