#include "comm/group.h"

#include <algorithm>
#include <optional>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "comm/comm.h"
#include "comm/joining.h"

namespace nccom {
namespace {

struct Group {
  int depth = 0;
  std::vector<std::function<Status()>> inits;
  std::vector<CollectiveCall> collectives;
  std::vector<MessageCall> messages;
  std::optional<Error> error;  // the first failure of a call inside the group

  void clear() {
    inits.clear();
    collectives.clear();
    messages.clear();
    error.reset();
  }
};

// Per thread, because NCCL's groups are: a thread's calls never join another thread's group.
thread_local Group group;

/// The failure that tells most: one rank's own trouble rather than what it did to the others.
Status rootCause(std::vector<Status>& results) {
  Status* worst = nullptr;
  for (Status& result : results) {
    if (result.ok()) continue;
    const bool tellsMore =
        worst != nullptr && isConsequence(worst->error()) && !isConsequence(result.error());
    if (worst == nullptr || tellsMore) worst = &result;
  }
  if (worst == nullptr) return Ok{};
  return std::move(*worst);
}

/// Runs `jobs` side by side, each blocking until ranks elsewhere have come too.
Status runAll(const std::vector<std::function<Status()>>& jobs) {
  if (jobs.size() == 1) return jobs[0]();
  std::vector<Status> results(jobs.size(), Status(Ok{}));
  std::vector<std::thread> threads;
  threads.reserve(jobs.size());
  for (size_t i = 0; i < jobs.size(); ++i) {
    threads.emplace_back([&jobs, &results, i] { results[i] = jobs[i](); });
  }
  for (std::thread& thread : threads)
    thread.join();
  return rootCause(results);
}

/// The calls of one communicator, in their order.
using Batch = std::pair<ncclComm_t, std::vector<MessageCall>>;

std::vector<Batch> batchesOf(const std::vector<MessageCall>& messages) {
  std::vector<Batch> batches;
  for (const MessageCall& message : messages) {
    const auto same = [&](const Batch& batch) { return batch.first == message.comm; };
    auto found = std::find_if(batches.begin(), batches.end(), same);
    if (found == batches.end()) found = batches.insert(batches.end(), {message.comm, {}});
    found->second.push_back(message);
  }
  return batches;
}

/// Network connections of point-to-point peers are made by both ends together, so communicators of
/// one thread connect side by side.
Status connectPeers(const std::vector<Batch>& batches, const std::vector<CollectiveCall>& calls) {
  std::vector<std::function<Status()>> jobs;
  for (const Batch& batch : batches) {
    const auto comm = TRY(commOf(batch.first));
    if (comm->connected(batch.second)) continue;
    jobs.emplace_back([comm, &batch] { return comm->connect(batch.second); });
  }
  for (const CollectiveCall& call : calls) {
    const auto comm = TRY(commOf(call.comm));
    if (comm->connected(call)) continue;
    jobs.emplace_back([comm, &call] { return comm->connect(call); });
  }
  if (jobs.empty()) return Ok{};
  return runAll(jobs);
}

Status runGroup(Group& work) {
  if (work.error) return *work.error;
  if (!work.inits.empty()) TRY(runAll(work.inits));
  const std::vector<Batch> batches = batchesOf(work.messages);
  TRY(connectPeers(batches, work.collectives));
  for (const CollectiveCall& call : work.collectives) {
    const auto comm = TRY(commOf(call.comm));
    TRY(comm->launch(call));
  }
  for (const Batch& batch : batches) {
    const auto comm = TRY(commOf(batch.first));
    TRY(comm->launch(batch.second));
  }
  return Ok{};
}

/// The common case, without copies: messages of one communicator that has its connections.
/// Nothing: the group is another one, and still to be run.
std::optional<Status> runMessages() {
  const std::vector<MessageCall>& messages = group.messages;
  if (messages.empty() || group.error || !group.inits.empty() || !group.collectives.empty()) {
    return std::nullopt;
  }
  const auto sameComm = [&](const MessageCall& call) { return call.comm == messages[0].comm; };
  if (!std::all_of(messages.begin(), messages.end(), sameComm)) return std::nullopt;
  const auto sameStream = [&](const MessageCall& call) {
    return call.stream == messages[0].stream;
  };
  if (std::all_of(messages.begin(), messages.end(), sameStream)) {
    if (auto done = repeatOn(messages[0].comm, messages)) {
      group.messages.clear();
      return done;
    }
  }
  const auto comm = commOf(messages[0].comm);
  if (!comm.ok() || !comm.value()->connected(messages)) return std::nullopt;
  Status done = comm.value()->launch(messages);
  group.messages.clear();
  return done;
}

Status runIfLone() {
  if (group.depth > 0) return Ok{};
  if (auto done = runMessages()) return std::move(*done);
  Group work = std::exchange(group, Group{});
  return runGroup(work);
}

}  // namespace

Status groupStart() {
  ++group.depth;
  return Ok{};
}

Status groupEnd() {
  if (group.depth == 0) {
    return fail(ncclInvalidUsage, "ncclGroupEnd without an ncclGroupStart in this thread");
  }
  --group.depth;
  return runIfLone();
}

bool groupActive() {
  return group.depth > 0;
}

void groupFailed(const Error& error) {
  if (group.depth > 0 && !group.error) group.error = error;
}

Status groupAdd(Communicator& comm, const CollectiveCall& call) {
  if (group.depth == 0) {  // the common case copies nothing
    if (!comm.connected(call)) TRY(comm.connect(call));
    return comm.launch(call);
  }
  group.collectives.push_back(call);
  return Ok{};
}

Status groupAdd(Communicator& comm, const MessageCall& call) {
  if (group.depth == 0) {
    const std::span<const MessageCall> lone(&call, 1);
    if (!comm.connected(lone)) TRY(comm.connect(lone));
    return comm.launch(lone);
  }
  group.messages.push_back(call);
  return Ok{};
}

Status groupAddInit(std::function<Status()> create) {
  group.inits.push_back(std::move(create));
  return runIfLone();
}

void groupDiscard() {
  group.clear();
}

}  // namespace nccom
