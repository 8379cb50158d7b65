#include <algorithm>
#include <utility>

#include "enc/verify_run.h"

namespace nccom {
namespace {

std::string nameOf(uint64_t number, int rank) {
  return "message " + std::to_string(number) + " of rank " + std::to_string(rank);
}

}  // namespace

/// The queue knows what came with a message, or with its reading.
void encVerifyRun::learn(encQueueRef ref, const encRelease& release) {
  encRelease& state = queueOf(ref).state;
  order_.acquire(state.knowledge, release.knowledge);
  state.chain = std::max(state.chain, release.chain);
}

void encVerifyRun::wakeAll(std::vector<encQueueRef>& waiting) {
  runnable_.insert(runnable_.end(), waiting.begin(), waiting.end());
  waiting.clear();
}

/// Messages are read in the order of their numbers. So whoever knows that one was read knows it of
/// all before, among them the one whose room is used again.
Result<encVerifyRun::Step> encVerifyRun::post(encQueueRef ref, uint32_t site, const encDesc& desc) {
  Rank& r = ranks_[ref.rank];
  Mail& mail = mail_[{ref.rank, desc.rank}];
  const uint64_t number = r.posted[desc.rank] + static_cast<uint64_t>(desc.value);
  const uint64_t ahead = encPostedAhead(desc.byValue);
  if (number >= ahead) {
    const auto earlier = mail.posts.find(number - ahead);
    if (earlier == mail.posts.end() || !earlier->second.wasRead) {
      mail.waiting.push_back(ref);
      return Step::Blocked;
    }
    learn(ref, earlier->second.read);
  }
  if (mail.posts.contains(number)) {
    return world_.bad(site, nameOf(number, ref.rank) + " is posted twice");
  }
  Posted message{r.operation, desc.index, desc.bytes, site, {}, {}, false, {}};
  const encAccess access = event(ref, site);
  if (desc.byValue) {
    encMemory& value = message.value.emplace();
    Pieces pieces;
    const Place from = buffer(ref.rank, encBuffer::Input, desc.index, 0);
    const auto end = from.begin + static_cast<int64_t>(desc.bytes);
    const auto conflict =
        from.memory->read(from.begin, end, access, observer(queueOf(ref).state.knowledge), pieces);
    if (conflict) return world_.bad(site, text(*conflict));
    for (const encMemory::Piece& piece : pieces)
      value.preset(piece.begin, piece.end, piece.value);
  }
  message.post = queueOf(ref).state;
  mail.posts.emplace(number, std::move(message));
  wakeAll(mail.waiting);
  return Step::Done;
}

uint64_t encVerifyRun::numberOf(int rank, const encAddress& address) {
  return ranks_[rank].received[address.rank] + address.index;
}

Result<encVerifyRun::Place> encVerifyRun::locatePosted(encQueueRef ref, uint32_t site,
                                                       const encAddress& address, uint64_t bytes) {
  Mail& mail = mail_[{address.rank, ref.rank}];
  const uint64_t number = numberOf(ref.rank, address);
  const auto found = mail.posts.find(number);
  if (found == mail.posts.end()) {
    mail.waiting.push_back(ref);
    return Place{nullptr, 0, true};
  }
  Posted& message = found->second;
  if (message.bytes != bytes || address.offset != 0 || address.stride != 0) {
    return world_.bad(site, nameOf(number, address.rank) + " has " + std::to_string(message.bytes) +
                                " bytes: want to read all of it, once");
  }
  learn(ref, message.post);
  if (message.value) return Place{&*message.value, 0, false};
  Rank& owner = ranks_[address.rank];
  if (owner.operation != message.operation || !owner.running) {
    return world_.bad(site,
                      nameOf(number, address.rank) + " is touched after that rank's program ended");
  }
  return Place{&owner.inputs[message.index], 0, false};
}

/// The messages that a transfer has read may be overwritten.
Status encVerifyRun::take(encQueueRef ref, uint32_t site, const encDesc& desc) {
  for (const encAddress& address : desc.sources) {
    if (address.buffer != encBuffer::Posted) continue;
    Mail& mail = mail_[{address.rank, ref.rank}];
    const uint64_t number = numberOf(ref.rank, address);
    Posted& message = mail.posts.at(number);
    if (message.wasRead) {
      return world_.bad(site, nameOf(number, address.rank) + " is read twice");
    }
    const encKnowledge& own = queueOf(ref).state.knowledge;
    const auto before = number > 0 ? mail.posts.find(number - 1) : mail.posts.end();
    const bool inOrder = number == 0 || (before != mail.posts.end() && before->second.wasRead &&
                                         order_.knows(own, before->second.read.knowledge.agent,
                                                      before->second.read.knowledge.time));
    if (!inOrder) {
      return world_.bad(site, nameOf(number, address.rank) +
                                  " is read, but the one before it is not known to be");
    }
    event(ref, site);
    message.wasRead = true;
    message.value.reset();
    message.read = queueOf(ref).state;
    wakeAll(mail.waiting);
  }
  return Ok{};
}

/// Nobody waits for the reader of a value, so a message that is never read shows only here.
Status encVerifyRun::unread() const {
  for (const auto& [way, mail] : mail_) {
    for (const auto& [number, message] : mail.posts) {
      if (message.wasRead) continue;
      return world_.bad(message.site, nameOf(number, way.first) + " to rank " +
                                          std::to_string(way.second) + " is never read");
    }
  }
  return Ok{};
}

}  // namespace nccom
