#include <algorithm>
#include <utility>
#include <vector>

#include "enc/p2p.h"
#include "enc/p2p_net.h"
#include "enc/pull_queues.h"

namespace nccom {
namespace {

using Messages = std::vector<encMessage>;
using PeerMessages = std::vector<Messages>;  // [peer] in the order of the calls

PeerMessages byPeer(const Messages& messages, int nRanks) {
  PeerMessages sorted(nRanks);
  for (const encMessage& message : messages)
    sorted[message.peer].push_back(message);
  return sorted;
}

/// Sends to ourselves and receives from ourselves match in order.
Status copySelf(encBuilder& builder, size_t queue, const Messages& sends, const Messages& recvs) {
  const int self = builder.self();
  if (sends.size() != recvs.size()) {
    return fail(ncclInvalidUsage,
                "rank %d: %zu sends to itself, %zu receives from itself in one group: "
                "want as many",
                self, sends.size(), recvs.size());
  }
  for (size_t k = 0; k < sends.size(); k++) {
    if (sends[k].bytes != recvs[k].bytes) {
      return fail(ncclInvalidUsage,
                  "rank %d: send %zu to itself has %llu bytes, receive %zu from itself "
                  "%llu: want the same",
                  self, k, static_cast<unsigned long long>(sends[k].bytes), k,
                  static_cast<unsigned long long>(recvs[k].bytes));
    }
    if (sends[k].bytes == 0) continue;
    builder.append(queue,
                   encTransfer(encStep::Copy, {self, encBuffer::Input, sends[k].index, 0, 0},
                               {self, encBuffer::Output, recvs[k].index, 0, 0}, sends[k].bytes));
  }
  return Ok{};
}

/// Peers of this host, ourselves left out; by (peer - self) mod n, or the other way round.
std::vector<int> localPeers(const enc_comm_info& info, bool downstream) {
  std::vector<int> peers;
  for (int distance = 1; distance < info.rank_n; distance++) {
    const int peer = (info.rank + (downstream ? distance : info.rank_n - distance)) % info.rank_n;
    if (info.sameNode(info.rank, peer)) peers.push_back(peer);
  }
  return peers;
}

size_t most(const PeerMessages& messages, const std::vector<int>& peers) {
  size_t count = 0;
  for (const int peer : peers)
    count = std::max(count, messages[peer].size());
  return count;
}

/// Both sides decide by the size, which they have in common.
bool goesByValue(const encMessage& message) {
  return message.bytes <= kMaxValueBytes;
}

uint64_t byReference(const Messages& messages) {
  return static_cast<uint64_t>(std::count_if(messages.begin(), messages.end(),
                                             [](const auto& one) { return !goesByValue(one); }));
}

// Messages go in waves of kWave to a peer. Posts and pulls run in separate queues, both by wave
// first and distance second. A post waits until an earlier message to the same peer has been read
// that is at least a wave before it. So the unfinished message of least (wave, distance) always
// moves: what its post waits for, and what is posted and pulled before it, is less than it.
constexpr size_t kWave = kMaxPostedValues;
static_assert(kMaxPostedValues <= kMaxPosted);

encDesc postOf(const encMessage& message, size_t number) {
  encDesc desc;
  desc.type = encDescType::Post;
  desc.step = encStep::PostSend;
  desc.rank = message.peer;
  desc.value = static_cast<int64_t>(number);
  desc.index = message.index;
  desc.bytes = message.bytes;
  desc.byValue = goesByValue(message);
  return desc;
}

/// What goes by value is forgotten once it is posted; the rest is awaited at the end.
void post(encBuilder& builder, const PeerMessages& sends) {
  const std::vector<int> peers = localPeers(builder.info(), true);
  const size_t count = most(sends, peers);
  if (count == 0) return;
  const size_t queue = builder.addQueue(0);
  for (size_t first = 0; first < count; first += kWave) {
    for (const int peer : peers) {
      const size_t end = std::min(sends[peer].size(), first + kWave);
      for (size_t k = first; k < end; k++)
        builder.append(queue, postOf(sends[peer][k], k));
    }
  }
  for (const int peer : peers) {
    const uint64_t awaited = byReference(sends[peer]);
    if (awaited == 0) continue;
    const uint32_t done = builder.layout().semaphore(encPeerSemaphore::Done, peer);
    builder.append(queue, encWait(encStep::Sync, peer, done, static_cast<int64_t>(awaited)));
    builder.expect(done, awaited);
    builder.peersReadInputs();
  }
}

/// Messages of 0 bytes are pulled as well: both sides' numbers stay equal, and a size that differs
/// between the two sides shows. No memory is touched.
void pull(encBuilder& builder, const PeerMessages& recvs, const encPullQueues& queues) {
  const int self = builder.self();
  const uint32_t done = builder.layout().semaphore(encPeerSemaphore::Done, self);
  const std::vector<int> peers = localPeers(builder.info(), false);
  const size_t count = most(recvs, peers);
  for (size_t first = 0; first < count; first += kWave) {
    for (size_t i = 0; i < peers.size(); i++) {
      const int peer = peers[i];
      const size_t end = std::min(recvs[peer].size(), first + kWave);
      for (size_t k = first; k < end; k++) {
        const encMessage& message = recvs[peer][k];
        const encAddress source{peer, encBuffer::Posted, static_cast<uint16_t>(k), 0, 0};
        const encAddress destination{self, encBuffer::Output, message.index, 0, 0};
        builder.append(queues.of(i),
                       encTransfer(encStep::Pull, source, destination, message.bytes));
        if (goesByValue(message)) continue;
        builder.append(queues.of(i), encInc(encStep::Pull, peer, done));
      }
    }
  }
}

void exchange(encBuilder& builder, const PeerMessages& sends, const PeerMessages& recvs) {
  const enc_comm_info& info = builder.info();
  const int self = info.rank;
  encP2pNet net(builder);
  for (int distance = 1; distance < info.rank_n; distance++) {
    const int to = (self + distance) % info.rank_n;
    const int from = (self + info.rank_n - distance) % info.rank_n;
    if (!info.sameNode(self, to)) {
      for (const encMessage& message : sends[to]) {
        net.send(to, {self, encBuffer::Input, message.index, 0, 0}, message.bytes);
      }
    }
    if (!info.sameNode(self, from)) {
      for (const encMessage& message : recvs[from]) {
        net.receive(from, {self, encBuffer::Output, message.index, 0, 0}, message.bytes);
      }
    }
  }
  net.finish();
}

}  // namespace

Result<encProgram> encComposeSendRecv(const enc_comm_info& info, const encTask& task) {
  TRY(encCheckComm(info));
  TRY(encCheckTask(info, task));
  if (task.op != encOp::SendRecv) {
    return fail(ncclInvalidArgument, "%s: want a group of sends and receives", encOpName(task.op));
  }
  const PeerMessages sends = byPeer(task.sends, info.rank_n);
  const PeerMessages recvs = byPeer(task.recvs, info.rank_n);
  encBuilder builder(info, task, "p2p");
  post(builder, sends);
  exchange(builder, sends, recvs);
  uint64_t bytes = 0;
  for (const encMessage& message : task.recvs)
    bytes += message.bytes;
  const encPullQueues queues(builder, localPeers(info, false).size(), bytes);
  pull(builder, recvs, queues);
  TRY(copySelf(builder, queues.of(0), sends[info.rank], recvs[info.rank]));
  return std::move(builder).finish();
}

}  // namespace nccom
