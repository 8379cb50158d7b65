#include "enc/rdh_intra_proof.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace nccom {
namespace {

std::string text(const encRdhAddress& address) {
  constexpr const char* kNames[] = {"INPUT", "OUTPUT", "work"};
  return std::string(kNames[static_cast<size_t>(address.buffer)]) + " " +
         std::to_string(address.offset);
}

/// The way by which data comes from one member to another.
std::string wayTag(const encRdhGeometry& g, int from, int to) {
  const auto axes = static_cast<unsigned>(g.device[from] ^ g.device[to]);
  if (axes != 0) return "pcie_chunk_" + std::to_string(std::countr_zero(axes));
  constexpr const char* kTags[] = {"output", "v_output", "d_output", "d_v_output", "local_peer"};
  const int way = g.mate[from] ^ g.mate[to];
  return way < 5 ? kTags[way] : "no way";
}

class Proof {
 public:
  Proof(const encRdhGeometry& geometry, const encRdhWindow& window,
        std::vector<rdh_device>& devices)
      : g_(geometry), w_(window), devices_(devices) {}

  Status run();

 private:
  struct Delivery {
    int to = 0;
    rdh_chunk chunk;
    bool half = false;
  };

  bool reduces() const { return w_.op != encOp::AllGather; }
  size_t n() const { return devices_.size(); }
  Error bad(int member, size_t step, int idx, const std::string& what) const;

  void begin();
  Status step(size_t number);
  Status transfer(int member, size_t step, const rdh_transfer& t);
  Result<std::vector<int>> merge(int member, size_t step, const rdh_transfer& t) const;
  Status receive(size_t step, Delivery delivery);
  Status complete(size_t step, int to, int idx);
  Status finished() const;
  Status holds(int member, int idx) const;

  const encRdhGeometry& g_;
  const encRdhWindow& w_;
  std::vector<rdh_device>& devices_;
  std::vector<Delivery> deliveries_;                       // of the step
  std::map<std::pair<int, int>, int> half_chunk_tracker_;  // (member, idx): halves that came
};

Error Proof::bad(int member, size_t step, int idx, const std::string& what) const {
  return Error{ncclInternalError, "intra_rdh: member " + std::to_string(member) + " step " +
                                      std::to_string(step) + " chunk " + std::to_string(idx) +
                                      ": " + what};
}

void Proof::begin() {
  for (rdh_device& device : devices_) {
    device.received.assign(device.schedule.size(), {});
    for (int idx = 0; idx < static_cast<int>(n()); idx++) {
      if (!reduces() && idx != device.dev) continue;
      const uint64_t offset = reduces() ? w_.chunks[idx].begin : w_.alone;
      device.all_chunks[idx].push_back(
          {idx, {device.dev}, {encRdhBuffer::Input, offset}, w_.chunks[idx].bytes, "input"});
    }
  }
}

/// Who has contributed to the sum of a transfer's sources.
Result<std::vector<int>> Proof::merge(int member, size_t step, const rdh_transfer& t) const {
  std::vector<int> merged;
  if (t.src_devs.size() != t.src_addrs.size() || t.src_devs.empty()) {
    return bad(member, step, t.idx, "sources and their addresses differ in number");
  }
  for (size_t i = 0; i < t.src_devs.size(); i++) {
    const rdh_device& source = devices_[t.src_devs[i]];
    const auto known = source.all_chunks.find(t.idx);
    const rdh_chunk* chunk = nullptr;
    if (known != source.all_chunks.end()) {
      for (const rdh_chunk& candidate : known->second) {
        const encRdhAddress& at = candidate.addr;
        const encRdhAddress& wanted = t.src_addrs[i];
        if (at.buffer == wanted.buffer && at.offset <= wanted.offset &&
            wanted.offset + t.size <= at.offset + candidate.size) {
          chunk = &candidate;
        }
      }
    }
    if (chunk == nullptr) {
      return bad(member, step, t.idx,
                 "reads " + text(t.src_addrs[i]) + " of member " + std::to_string(source.dev) +
                     ", where it is not yet");
    }
    for (const int dev : chunk->reduced_dev) {
      const auto at = std::lower_bound(merged.begin(), merged.end(), dev);
      if (at != merged.end() && *at == dev) {
        return bad(member, step, t.idx, "adds what member " + std::to_string(dev) + " has twice");
      }
      merged.insert(at, dev);
    }
  }
  return merged;
}

Status Proof::transfer(int member, size_t step, const rdh_transfer& t) {
  const std::vector<int> merged = TRY(merge(member, step, t));
  if (t.dst_devs.size() != t.dst_addrs.size() || t.dst_devs.empty()) {
    return bad(member, step, t.idx, "destinations and their addresses differ in number");
  }
  const int from = t.src_devs.size() == 1 ? t.src_devs[0] : member;
  for (size_t i = 0; i < t.dst_devs.size(); i++) {
    const int to = t.dst_devs[i];
    const bool stores = t.dst_addrs[i].buffer == encRdhBuffer::Work;
    if (t.dst_addrs[i].buffer == encRdhBuffer::Input || (stores && to != member)) {
      return bad(member, step, t.idx,
                 "writes " + text(t.dst_addrs[i]) + " of member " + std::to_string(to));
    }
    std::string tag = stores ? "step" + std::to_string(step) + "_chunk0" : wayTag(g_, from, to);
    deliveries_.push_back(
        {to, {t.idx, merged, t.dst_addrs[i], t.size, std::move(tag)}, t.dst_idx == kRdhHalfChunk});
  }
  return Ok{};
}

Status Proof::receive(size_t step, Delivery delivery) {
  rdh_device& device = devices_[delivery.to];
  std::vector<rdh_chunk>& copies = device.all_chunks[delivery.chunk.idx];
  for (const rdh_chunk& copy : copies) {
    const bool overlaps = copy.addr.buffer == delivery.chunk.addr.buffer &&
                          copy.addr.offset < delivery.chunk.addr.offset + delivery.chunk.size &&
                          delivery.chunk.addr.offset < copy.addr.offset + copy.size;
    if (copy.tag != delivery.chunk.tag && !overlaps) continue;
    return bad(device.dev, step, copy.idx,
               "gets " + delivery.chunk.tag + " at " + text(delivery.chunk.addr) + ", but has " +
                   copy.tag + " at " + text(copy.addr));
  }
  const int idx = delivery.chunk.idx;
  device.received[step].push_back(delivery.chunk);
  copies.push_back(std::move(delivery.chunk));
  if (!delivery.half || ++half_chunk_tracker_[{device.dev, idx}] != 2) return Ok{};
  return complete(step, device.dev, idx);
}

/// Both halves of a chunk have come: it is whole.
Status Proof::complete(size_t step, int to, int idx) {
  std::vector<rdh_chunk>& copies = devices_[to].all_chunks[idx];
  const rdh_chunk &one = copies[copies.size() - 2], &other = copies[copies.size() - 1];
  const rdh_chunk& first = one.addr.offset < other.addr.offset ? one : other;
  if (one.addr.buffer != other.addr.buffer || one.size + other.size != w_.chunks[idx].bytes ||
      one.reduced_dev != other.reduced_dev ||
      std::max(one.addr.offset, other.addr.offset) != first.addr.offset + first.size) {
    return bad(to, step, idx, "gets halves that make no whole");
  }
  rdh_chunk whole = first;
  whole.size = w_.chunks[idx].bytes;
  whole.tag = "both_halves";
  copies.push_back(std::move(whole));
  return Ok{};
}

Status Proof::step(size_t number) {
  deliveries_.clear();
  for (const rdh_device& device : devices_) {
    for (const rdh_transfer& t : device.schedule[number].transfers)
      TRY(transfer(device.dev, number, t));
  }
  for (Delivery& delivery : deliveries_)
    TRY(receive(number, std::move(delivery)));
  return Ok{};
}

/// That a member has a chunk in OUTPUT, whole, and with everybody's contribution.
Status Proof::holds(int member, int idx) const {
  const rdh_device& device = devices_[member];
  const size_t last = device.schedule.size();
  if (w_.chunks[idx].bytes == 0) return Ok{};
  const uint64_t offset = w_.op == encOp::ReduceScatter ? w_.alone : w_.chunks[idx].begin;
  const encRdhAddress wanted{encRdhBuffer::Output, offset};
  const auto copies = device.all_chunks.find(idx);
  const rdh_chunk* found = nullptr;
  if (copies != device.all_chunks.end()) {
    for (const rdh_chunk& copy : copies->second) {
      if (copy.addr == wanted && copy.size == w_.chunks[idx].bytes) found = &copy;
    }
  }
  if (found == nullptr) return bad(member, last, idx, "is not in OUTPUT in the end");
  const size_t contributors = reduces() ? n() : 1;
  if (found->reduced_dev.size() == contributors) return Ok{};
  return bad(member, last, idx,
             "has contributions of " + std::to_string(found->reduced_dev.size()) +
                 " members, want " + std::to_string(contributors));
}

Status Proof::finished() const {
  for (const auto& [place, halves] : half_chunk_tracker_) {
    if (halves != 2) {
      return bad(place.first, devices_[place.first].schedule.size(), place.second,
                 std::to_string(halves) + " of 2 halves came");
    }
  }
  for (int member = 0; member < static_cast<int>(n()); member++) {
    for (int idx = 0; idx < static_cast<int>(n()); idx++) {
      if (w_.op == encOp::ReduceScatter && idx != member) continue;
      TRY(holds(member, idx));
    }
  }
  return Ok{};
}

Status Proof::run() {
  for (const rdh_device& device : devices_) {
    if (device.schedule.size() == devices_[0].schedule.size()) continue;
    return bad(device.dev, device.schedule.size(), -1,
               "want " + std::to_string(devices_[0].schedule.size()) + " steps");
  }
  begin();
  for (size_t number = 0; number < devices_[0].schedule.size(); number++)
    TRY(step(number));
  return finished();
}

}  // namespace

const rdh_chunk* rdh_device::get_chunk(int idx, const std::string& tag) const {
  const auto copies = all_chunks.find(idx);
  if (copies == all_chunks.end()) return nullptr;
  const auto found = std::find_if(copies->second.begin(), copies->second.end(),
                                  [&](const rdh_chunk& chunk) { return chunk.tag == tag; });
  return found == copies->second.end() ? nullptr : &*found;
}

Result<std::vector<rdh_device>> encPlanRdh(const encRdhGeometry& geometry,
                                           const encRdhWindow& window) {
  std::vector<rdh_device> devices(geometry.device.size());
  for (size_t member = 0; member < devices.size(); member++) {
    devices[member].dev = static_cast<int>(member);
    devices[member].schedule = TRY(encScheduleRdh(geometry, window, static_cast<int>(member)));
  }
  TRY(encProveRdh(geometry, window, devices));
  return devices;
}

Status encProveRdh(const encRdhGeometry& geometry, const encRdhWindow& window,
                   std::vector<rdh_device>& devices) {
  return Proof(geometry, window, devices).run();
}

}  // namespace nccom
