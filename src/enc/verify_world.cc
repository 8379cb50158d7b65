#include "enc/verify_world.h"

#include <algorithm>

namespace nccom {

size_t encIndex::placeOf(uint64_t key) const {
  const uint64_t hash = key * 0x9E3779B97F4A7C15;
  size_t place = (hash ^ hash >> 32) & (entries_.size() - 1);
  while (entries_[place].used && entries_[place].key != key)
    place = (place + 1) & (entries_.size() - 1);
  return place;
}

void encIndex::grow() {
  std::vector<Entry> old(std::max<size_t>(64, entries_.size() * 2));
  old.swap(entries_);
  for (const Entry& entry : old) {
    if (entry.used) entries_[placeOf(entry.key)] = entry;
  }
}

uint32_t encIndex::add(uint64_t key, uint32_t next) {
  if (entries_.size() < 2 * (used_ + 1)) grow();
  Entry& entry = entries_[placeOf(key)];
  if (entry.used) return entry.value;
  entry = {key, next, true};
  used_++;
  return next;
}

std::optional<uint32_t> encIndex::find(uint64_t key) const {
  if (entries_.empty()) return std::nullopt;
  const Entry& entry = entries_[placeOf(key)];
  return entry.used ? std::optional(entry.value) : std::nullopt;
}

const encDesc& encVerifyWorld::desc(const encSite& site) const {
  return program(site.operation, site.rank).queues[site.queue].blocks[site.block].descs[site.desc];
}

void encVerifyWorld::addBlock(const encSite& first) {
  const size_t program =
      static_cast<size_t>(first.operation) * operations[0].size() + static_cast<size_t>(first.rank);
  while (programQueues_.size() <= program)
    programQueues_.push_back(static_cast<uint32_t>(queueBlocks_.size()));
  if (first.block == 0) queueBlocks_.push_back(static_cast<uint32_t>(blocks_.size()));
  blocks_.push_back({first, static_cast<uint32_t>(targets.size())});
  targets.resize(targets.size() + this->program(first.operation, first.rank)
                                      .queues[first.queue]
                                      .blocks[first.block]
                                      .descs.size());
}

uint32_t encVerifyWorld::blockSite(int operation, int rank, size_t queue, size_t block) const {
  const size_t program =
      static_cast<size_t>(operation) * operations[0].size() + static_cast<size_t>(rank);
  return blocks_[queueBlocks_[programQueues_[program] + queue] + block].number;
}

encSite encVerifyWorld::site(uint32_t number) const {
  const auto after =
      std::upper_bound(blocks_.begin(), blocks_.end(), number,
                       [](uint32_t wanted, const Block& block) { return wanted < block.number; });
  encSite site = std::prev(after)->first;
  site.desc = number - std::prev(after)->number;
  return site;
}

uint32_t encVerifyWorld::addSemaphore(int rank, uint32_t semaphore) {
  const uint32_t number = semaphoreNumbers_.add(semaphoreKey(rank, semaphore),
                                                static_cast<uint32_t>(semaphores.size()));
  if (number == semaphores.size()) semaphores.push_back({rank, semaphore, {}});
  return number;
}

std::string encVerifyWorld::text(const encSite& site) const {
  const encProgram& of = program(site.operation, site.rank);
  return "rank " + std::to_string(site.rank) + " queue " + std::to_string(site.queue) + " block " +
         std::to_string(site.block) + " descriptor " + std::to_string(site.desc) +
         " of operation " + std::to_string(site.operation) + " (" + encOpName(of.task.op) +
         "): " + encDump(desc(site));
}

Error encVerifyWorld::bad(const encSite& site, const std::string& what) const {
  return fail(ncclInternalError, "%s: %s", text(site).c_str(), what.c_str());
}

}  // namespace nccom
