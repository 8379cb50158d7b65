#include <algorithm>
#include <numeric>
#include <utility>

#include "enc/buffers.h"
#include "enc/builder.h"
#include "enc/verify_run.h"
#include "misc/datatype.h"

namespace nccom {

Result<encVerifyRun::Step> encVerifyRun::transfer(encQueueRef ref, const encSite& site,
                                                  const encDesc& desc) {
  std::vector<Place> sources, destinations;
  for (const auto* addresses : {&desc.sources, &desc.destinations}) {
    for (const encAddress& address : *addresses) {
      const Place place = TRY(locate(ref, site, address, desc.bytes));
      if (place.blocked) return Step::Blocked;
      (addresses == &desc.sources ? sources : destinations).push_back(place);
    }
  }
  const auto bytes = static_cast<int64_t>(desc.bytes);
  if (bytes == 0) return Step::Done;
  TRY(overlaps(site, sources, destinations, bytes));
  Queue& queue = ranks_[ref.rank].queues[ref.queue];
  queue.clock[queue.agent]++;
  queue.snapshot.reset();
  const encAccess access{queue.agent, queue.clock[queue.agent], world_.siteId(site),
                         queue.at.iteration};
  std::vector<std::vector<encMemory::Piece>> pieces(sources.size());
  std::vector<int64_t> begins;
  for (size_t k = 0; k < sources.size(); k++) {
    const int64_t begin = sources[k].begin;
    const auto conflict =
        sources[k].memory->read(begin, begin + bytes, access, queue.clock, pieces[k]);
    if (conflict) return world_.bad(site, "source " + std::to_string(k) + " " + text(*conflict));
    begins.push_back(begin);
  }
  const auto result = TRY(gather(site, desc, std::move(pieces), begins));
  for (size_t k = 0; k < destinations.size(); k++) {
    std::vector<encMemory::Piece> placed = result;
    for (encMemory::Piece& piece : placed) {
      piece.begin += destinations[k].begin;
      piece.end += destinations[k].begin;
      piece.value.shift -= destinations[k].begin;
    }
    const encAddress& to = desc.destinations[k];
    const bool oneWriter = to.buffer == encBuffer::Scratch && !isWork(to);
    const auto conflict =
        destinations[k].memory->write(placed, access, queue.clock, oneWriter ? ref.rank : -1);
    if (conflict) {
      return world_.bad(site, "destination " + std::to_string(k) + " " + text(*conflict));
    }
  }
  return Step::Done;
}

/// The fold of the sources' pieces, placed at 0.
Result<std::vector<encMemory::Piece>> encVerifyRun::gather(
    const encSite& site, const encDesc& desc, std::vector<std::vector<encMemory::Piece>> sources,
    const std::vector<int64_t>& begins) {
  const auto bytes = static_cast<int64_t>(desc.bytes);
  std::vector<size_t> next(sources.size(), 0);
  std::vector<encMemory::Piece> result;
  const uint64_t size =
      std::max<uint64_t>(ncclTypeSize(world_.program(site.operation, site.rank).task.type), 1);
  const bool computes = sources.size() > 1 || desc.scaledSources != 0 || desc.divide;
  for (int64_t at = 0; at < bytes;) {
    int64_t end = bytes;
    std::vector<encContents::Value> values;
    for (size_t k = 0; k < sources.size(); k++) {
      const encMemory::Piece& piece = sources[k][next[k]];
      end = std::min(end, piece.end - begins[k]);
      values.push_back({piece.value.id, piece.value.shift + begins[k]});
    }
    for (const encContents::Value& value : values) {
      if (!computes || (value.shift + at) % static_cast<int64_t>(size) == 0) continue;
      return world_.bad(site, "computes with parts of elements");
    }
    result.push_back({at, end, contents_.fold(values, desc.scaledSources, desc.divide)});
    at = end;
    for (size_t k = 0; k < sources.size(); k++) {
      if (sources[k][next[k]].end - begins[k] == at) next[k]++;
    }
  }
  return result;
}

/// A destination may be a source, byte for byte; it may not overlap one in another way.
Status encVerifyRun::overlaps(const encSite& site, const std::vector<Place>& sources,
                              const std::vector<Place>& destinations, int64_t bytes) const {
  const auto clash = [&](const Place& a, const Place& b) {
    return a.memory == b.memory && std::abs(a.begin - b.begin) < bytes;
  };
  for (size_t d = 0; d < destinations.size(); d++) {
    for (const Place& source : sources) {
      if (clash(source, destinations[d]) && source.begin != destinations[d].begin) {
        return world_.bad(site, "a destination overlaps a source");
      }
    }
    for (size_t e = 0; e < d; e++) {
      if (clash(destinations[e], destinations[d])) {
        return world_.bad(site, "two destinations overlap");
      }
    }
  }
  return Ok{};
}

/// A rank's own memory for a buffer of its current operation; in place, OUTPUT lies in INPUT.
encVerifyRun::Place encVerifyRun::buffer(int rank, encBuffer which, uint16_t index,
                                         int64_t offset) {
  Rank& r = ranks_[rank];
  if (which == encBuffer::Scratch) return {&r.scratch, offset, false};
  if (which == encBuffer::Input) return {&r.inputs[index], offset, false};
  int64_t shift = 0;
  const encTask& task = world_.program(r.operation, rank).task;
  if (world_.options.inPlace && encInPlace(task, rank, &shift)) {
    return {&r.inputs[index], offset + shift, false};
  }
  return {&r.outputs[index], offset, false};
}

Result<encVerifyRun::Place> encVerifyRun::locate(encQueueRef ref, const encSite& site,
                                                 const encAddress& address, uint64_t bytes) {
  const Queue& queue = ranks_[ref.rank].queues[ref.queue];
  const int64_t offset = address.offset + static_cast<int64_t>(queue.at.iteration) * address.stride;
  if (address.buffer == encBuffer::Posted) return locatePosted(ref, site, address, bytes);
  if (isWork(address)) return locateWork(ref, site, address.rank, offset);
  if (address.buffer == encBuffer::Scratch) {
    return buffer(address.rank, address.buffer, address.index, offset);
  }
  Rank& owner = ranks_[address.rank];
  if (owner.operation < site.operation) {  // naming a peer's buffer waits for its launch
    owner.waiting.push_back(ref);
    return Place{nullptr, 0, true};
  }
  if (owner.operation > site.operation || !owner.running) {
    return world_.bad(site, "touches a buffer of rank " + std::to_string(address.rank) +
                                " after that rank's program ended");
  }
  knowLaunch(ref, owner);
  return buffer(address.rank, address.buffer, address.index, offset);
}

/// Nothing makes a rank wait for the work area of another: it must know that this one has launched.
Result<encVerifyRun::Place> encVerifyRun::locateWork(encQueueRef ref, const encSite& site, int rank,
                                                     int64_t offset) {
  Rank& owner = ranks_[rank];
  const encClock& clock = ranks_[ref.rank].queues[ref.queue].clock;
  if (rank != ref.rank) {
    const bool known =
        owner.operation == site.operation && clock[owner.firstAgent] >= owner.launchTime;
    if (owner.operation < site.operation || (owner.running && !known)) {
      return world_.bad(site, "touches the work area of rank " + std::to_string(rank) +
                                  " without knowing that it has launched");
    }
    if (owner.operation > site.operation || !owner.running) {
      return world_.bad(site, "touches the work area of rank " + std::to_string(rank) +
                                  " after that rank's program ended");
    }
  }
  return Place{&owner.work, offset, false};
}

/// Whoever finds a buffer of a rank's operation knows that it has launched.
void encVerifyRun::knowLaunch(encQueueRef ref, const Rank& owner) {
  Queue& queue = ranks_[ref.rank].queues[ref.queue];
  uint32_t& known = queue.clock[owner.firstAgent];
  if (known >= owner.launchTime) return;
  known = owner.launchTime;
  queue.snapshot.reset();
}

Result<encVerifyRun::Place> encVerifyRun::locatePosted(encQueueRef ref, const encSite& site,
                                                       const encAddress& address, uint64_t bytes) {
  Queue& queue = ranks_[ref.rank].queues[ref.queue];
  const uint32_t posted =
      world_.layouts[ref.rank].semaphore(encPeerSemaphore::Posted, address.rank);
  const uint64_t number = static_cast<uint64_t>(semaphore(ref.rank, posted).base) + address.index;
  auto& posts = posts_[{address.rank, ref.rank}];
  const auto found = posts.find(number);
  const std::string name =
      "message " + std::to_string(number) + " of rank " + std::to_string(address.rank);
  if (found == posts.end() || !found->second.post.before(queue.clock)) {
    return world_.bad(site, name + " is not known to be posted");
  }
  Posted& message = found->second;
  if (message.bytes != bytes || address.offset != 0 || address.stride != 0) {
    return world_.bad(site, name + " has " + std::to_string(message.bytes) +
                                " bytes: want to read all of it, once");
  }
  Rank& owner = ranks_[address.rank];
  if (owner.operation != message.operation || !owner.running) {
    return world_.bad(site, name + " is touched after that rank's program ended");
  }
  message.wasRead = true;
  message.read = {queue.agent, queue.clock[queue.agent] + 1, world_.siteId(site),
                  queue.at.iteration};
  if (bytes == 0)
    queue.clock[queue.agent]++, queue.snapshot.reset();  // no access: the event is this
  return Place{&owner.inputs[message.index], 0, false};
}

std::string encVerifyRun::text(const encConflict& conflict) const {
  using Kind = encConflict::Kind;
  std::string bytes =
      "bytes " + std::to_string(conflict.begin) + " to " + std::to_string(conflict.end);
  const std::string other = conflict.other.agent < 0
                                ? "the owner's launch"
                                : world_.text(world_.sites[conflict.other.site]) + ", iteration " +
                                      std::to_string(conflict.other.iteration);
  switch (conflict.kind) {
    case Kind::ReadsUnwritten:
      return "reads " + bytes + ", which nobody has written";
    case Kind::ReadsUnorderedWrite:
      return "reads " + bytes + " without order with their writer: " + other;
    case Kind::WritesUnorderedWrite:
      return "writes " + bytes + " without order with their writer: " + other;
    case Kind::WritesUnorderedRead:
      return "writes " + bytes + " without order with their reader: " + other;
    case Kind::SecondWriter:
      return "writes scratch " + bytes + ", which has another writer: " + other;
    case Kind::WritesSkipped:
      return "writes " + bytes + ", which skipped iterations write";
  }
  return bytes;
}

Status encVerifyRun::checkOutputs(int rank) {
  Rank& r = ranks_[rank];
  for (const encExpectation& wanted : encExpect(world_, contents_, r.operation, rank)) {
    const Place place = buffer(rank, encBuffer::Output, wanted.index, wanted.begin);
    const int64_t end = place.begin + wanted.end - wanted.begin;
    const encContents::Value value{wanted.content, wanted.source - place.begin};
    const auto wrong = place.memory->mismatch(place.begin, end, value);
    if (!wrong) continue;
    const long long begin = wrong->begin + wanted.begin - place.begin;
    const long long source = wrong->begin + value.shift;
    std::string found = "nothing";
    if (wrong->found) {
      found =
          contents_.text(wrong->found->id) + " from byte " +
          std::to_string(wrong->begin + wrong->found->shift) + ", by " +
          (wrong->writer.agent < 0 ? "the owner" : world_.text(world_.sites[wrong->writer.site]));
    }
    return fail(
        ncclInternalError,
        "operation %d: rank %d ends with bytes %lld to %lld of OUTPUT%u holding %s: want %s "
        "from byte %lld",
        r.operation, rank, begin, begin + (wrong->end - wrong->begin), unsigned{wanted.index},
        found.c_str(), contents_.text(wanted.content).c_str(), source);
  }
  return Ok{};
}

}  // namespace nccom
