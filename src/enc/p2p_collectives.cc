#include <utility>
#include <vector>

#include "enc/p2p.h"
#include "enc/p2p_net.h"
#include "enc/pull_queues.h"
#include "misc/datatype.h"

namespace nccom {
namespace {

/// Does `from` give `to` a part in this operation?
bool gives(const encTask& task, int from, int to) {
  switch (task.op) {
    case encOp::Gather:
      return to == task.root;
    case encOp::Scatter:
      return from == task.root;
    default:
      return true;
  }
}

/// Where the part from `from` to `to` lies in from's INPUT and in to's OUTPUT.
int64_t inputOffset(const encTask& task, int to, uint64_t part) {
  return task.op == encOp::Gather ? 0 : static_cast<int64_t>(static_cast<uint64_t>(to) * part);
}
int64_t outputOffset(const encTask& task, int from, uint64_t part) {
  return task.op == encOp::Scatter ? 0 : static_cast<int64_t>(static_cast<uint64_t>(from) * part);
}

/// The ranks of our host that we pull from, ourselves first, then by rising distance downstream: at
/// any time the ranks read from different owners.
std::vector<int> owners(const enc_comm_info& info, const encTask& task) {
  std::vector<int> found;
  for (int distance = 0; distance < info.rank_n; distance++) {
    const int peer = (info.rank + distance) % info.rank_n;
    if (info.sameNode(info.rank, peer) && gives(task, peer, info.rank)) found.push_back(peer);
  }
  return found;
}

void pull(encBuilder& builder, const encTask& task, uint64_t part) {
  const enc_comm_info& info = builder.info();
  const encLayout& layout = builder.layout();
  const int self = info.rank;
  const std::vector<int> from = owners(info, task);
  const encPullQueues queues(builder, from.size(), from.size() * part);
  for (size_t i = 0; i < from.size(); i++) {
    const int peer = from[i];
    const encStep step = peer == self ? encStep::Copy : encStep::Pull;
    const encAddress source{peer, encBuffer::Input, 0, inputOffset(task, self, part), 0};
    const encAddress destination{self, encBuffer::Output, 0, outputOffset(task, peer, part), 0};
    builder.append(queues.of(i), encTransfer(step, source, destination, part));
    if (peer == self) continue;
    builder.append(queues.of(i),
                   encInc(step, peer, layout.semaphore(encPeerSemaphore::CollectiveDone, self)));
  }
  for (int peer = 0; peer < info.rank_n; peer++) {
    if (peer == self || !info.sameNode(self, peer) || !gives(task, self, peer)) continue;
    const uint32_t done = layout.semaphore(encPeerSemaphore::CollectiveDone, peer);
    builder.append(queues.of(0), encWait(encStep::Sync, peer, done, 1));
    builder.expect(done, 1);
    builder.peersReadInputs();
  }
}

void exchange(encBuilder& builder, const encTask& task, uint64_t part) {
  const enc_comm_info& info = builder.info();
  const int self = info.rank;
  encP2pNet net(builder);
  for (int distance = 1; distance < info.rank_n; distance++) {
    const int to = (self + distance) % info.rank_n;
    const int from = (self + info.rank_n - distance) % info.rank_n;
    if (!info.sameNode(self, to) && gives(task, self, to)) {
      net.send(to, {self, encBuffer::Input, 0, inputOffset(task, to, part), 0}, part);
    }
    if (!info.sameNode(self, from) && gives(task, from, self)) {
      net.receive(from, {self, encBuffer::Output, 0, outputOffset(task, from, part), 0}, part);
    }
  }
  net.finish();
}

}  // namespace

Result<encProgram> encComposeP2pCollective(const enc_comm_info& info, const encTask& task) {
  TRY(encCheckComm(info));
  TRY(encCheckTask(info, task));
  if (task.op != encOp::AlltoAll && task.op != encOp::Gather && task.op != encOp::Scatter) {
    return fail(ncclInvalidArgument, "%s: want AlltoAll, Gather or Scatter", encOpName(task.op));
  }
  encBuilder builder(info, task, "p2p");
  const uint64_t part = task.count * ncclTypeSize(task.type);
  if (part > 0) {
    exchange(builder, task, part);
    pull(builder, task, part);
  }
  return std::move(builder).finish();
}

}  // namespace nccom
