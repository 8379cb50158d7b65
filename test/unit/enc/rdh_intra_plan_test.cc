#include "enc/rdh_intra_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "enc/rdh_intra_proof.h"

namespace nccom {
namespace {

using testing::HasSubstr;

constexpr uint64_t kPart = 96;

/// A cube of 2^axes devices of 2^mateBits cores; members in a shuffled order.
encRdhGeometry cube(int axes, int mateBits, bool splits = true) {
  encRdhGeometry g;
  g.axes = axes;
  g.mateBits = mateBits;
  g.splitsDiagonal = splits;
  g.memberAt.assign(static_cast<size_t>(g.devices()),
                    std::vector<int>(static_cast<size_t>(g.mates())));
  std::vector<int> places(static_cast<size_t>(g.devices() * g.mates()));
  for (size_t i = 0; i < places.size(); i++)
    places[i] = static_cast<int>(i);
  std::mt19937 random(static_cast<unsigned>(axes));
  std::shuffle(places.begin(), places.end(), random);
  for (const int place : places) {
    g.memberAt[place / g.mates()][place % g.mates()] = static_cast<int>(g.device.size());
    g.device.push_back(place / g.mates());
    g.mate.push_back(place % g.mates());
  }
  return g;
}

encRdhWindow windowOf(const encRdhGeometry& g, encOp op, uint64_t last = kPart) {
  encRdhWindow w{op, true, {}, 7 * 32, 1 << 20};
  const size_t n = g.device.size();
  for (size_t i = 0; i < n; i++)
    w.chunks.push_back({1024 + i * kPart, i + 1 < n ? kPart : last});
  return w;
}

const std::vector<encOp> kOps{encOp::AllReduce, encOp::ReduceScatter, encOp::AllGather};

std::vector<encRdhGeometry> shapes() {
  std::vector<encRdhGeometry> all;
  for (const int axes : {0, 1, 2, 3, 4}) {
    for (const int mateBits : {1, 2, 3}) {
      for (const bool splits : {true, false})
        all.push_back(cube(axes, mateBits, splits));
    }
  }
  return all;
}

std::string proven(const encRdhGeometry& g, const encRdhWindow& w) {
  const auto plan = encPlanRdh(g, w);
  return plan.ok() ? "" : plan.error().message;
}

TEST(RdhIntraPlan, IsProvenForEveryShape) {
  for (const encRdhGeometry& g : shapes()) {
    for (const encOp op : kOps) {
      for (const bool writesOthers : {true, false}) {
        for (const uint64_t last : {kPart, uint64_t{36}, uint64_t{4}, uint64_t{0}}) {
          if (last != kPart && g.axes > 2) continue;
          encRdhWindow w = windowOf(g, op, last);
          w.writesOthers = writesOthers;
          ASSERT_EQ(proven(g, w), "") << g.devices() << " devices of " << g.mates() << " "
                                      << encOpName(op) << " last " << last;
        }
      }
    }
  }
}

// All ranks contribute to what a rank ends reduce-scatter with.
TEST(RdhIntraPlan, CompleteChunksHaveAllContributions) {
  const encRdhGeometry g = cube(4, 2);
  const auto devices = encPlanRdh(g, windowOf(g, encOp::ReduceScatter)).value();
  for (const rdh_device& device : devices) {
    const rdh_chunk* own = device.get_chunk(device.dev, "output");
    ASSERT_NE(own, nullptr);
    EXPECT_EQ(own->reduced_dev.size(), 64u);
    size_t stored = 0;
    for (const auto& received : device.received)
      stored += received.size();
    EXPECT_EQ(stored, 16u);  // 15 for others, and its own
  }
}

// Halves of a chunk come over both ways, and are kept apart until both are
// there.
TEST(RdhIntraPlan, HalvesOfAChunkHaveTagsOfTheirOwn) {
  const encRdhGeometry g = cube(1, 2);
  const auto devices = encPlanRdh(g, windowOf(g, encOp::AllGather)).value();
  for (const rdh_device& device : devices) {
    const int across = g.memberAt[g.device[device.dev]][g.mate[device.dev] ^ 3];
    const rdh_chunk* first = device.get_chunk(across, "d_output");
    const rdh_chunk* second = device.get_chunk(across, "v_output");
    const rdh_chunk* whole = device.get_chunk(across, "both_halves");
    ASSERT_TRUE(first != nullptr && second != nullptr && whole != nullptr);
    EXPECT_EQ(first->size + second->size, kPart);
    EXPECT_EQ(first->addr.offset + first->size, second->addr.offset);
    EXPECT_EQ(whole->size, kPart);
    EXPECT_EQ(device.get_chunk(across, "output"), nullptr);
  }
  const encRdhGeometry whole = cube(1, 2, false);
  const auto unsplit = encPlanRdh(whole, windowOf(whole, encOp::AllGather)).value();
  for (const rdh_device& device : unsplit) {
    const int across = whole.memberAt[whole.device[device.dev]][whole.mate[device.dev] ^ 3];
    EXPECT_NE(device.get_chunk(across, "d_v_output"), nullptr);
  }
}

// Whatever transfer is left out, changed or done twice, the proof finds it.
TEST(RdhIntraPlan, BrokenPlansAreNotProven) {
  size_t broken = 0;
  for (const encRdhGeometry& g : {cube(0, 3), cube(2, 2), cube(1, 3, false)}) {
    for (const encOp op : kOps) {
      const encRdhWindow w = windowOf(g, op);
      const std::vector<rdh_device> good = encPlanRdh(g, w).value();
      const auto refused = [&](size_t member, size_t step, const auto& change) {
        std::vector<rdh_device> bad(good.size());
        for (size_t i = 0; i < good.size(); i++) {
          bad[i].dev = good[i].dev;
          bad[i].schedule = good[i].schedule;
        }
        change(bad[member].schedule[step].transfers);
        broken++;
        return !encProveRdh(g, w, bad).ok();
      };
      for (size_t member = 0; member < good.size(); member += 3) {
        for (size_t step = 0; step < good[member].schedule.size(); step++) {
          const auto& transfers = good[member].schedule[step].transfers;
          for (size_t i = 0; i < transfers.size(); i++) {
            using List = std::vector<rdh_transfer>;
            EXPECT_TRUE(refused(member, step, [&](List& t) { t.erase(t.begin() + long(i)); }));
            EXPECT_TRUE(refused(member, step, [&](List& t) { t.push_back(t[i]); }));
            EXPECT_TRUE(refused(member, step, [&](List& t) { t[i].dst_devs.back() ^= 1; }));
            EXPECT_TRUE(refused(member, step, [&](List& t) { t[i].size -= 4; }));
            EXPECT_TRUE(refused(member, step, [&](List& t) {
              t[i].src_devs.push_back(t[i].src_devs[0]);
              t[i].src_addrs.push_back(t[i].src_addrs[0]);
            }));
            if (transfers[i].src_devs.size() > 1) {
              EXPECT_TRUE(refused(member, step, [&](List& t) {
                t[i].src_devs.pop_back();
                t[i].src_addrs.pop_back();
              }));
            }
          }
        }
      }
    }
  }
  EXPECT_GT(broken, 1000u);
}

// Ranks in different places of their devices use different links at a time.
TEST(RdhIntraPlan, AllLinksOfADeviceAreBusyInEveryStep) {
  const encRdhGeometry g = cube(4, 2);
  const auto devices = encPlanRdh(g, windowOf(g, encOp::AllReduce)).value();
  for (size_t step = 0; step < devices[0].schedule.size(); step++) {
    std::map<std::pair<int, int>, uint64_t> loads;  // [device to device]
    for (const rdh_device& device : devices) {
      for (const rdh_transfer& t : device.schedule[step].transfers) {
        for (const int dev : t.src_devs)
          loads[{g.device[dev], g.device[device.dev]}] += t.size;
        for (const int dev : t.dst_devs)
          loads[{g.device[device.dev], g.device[dev]}] += t.size;
      }
    }
    std::map<uint64_t, size_t> links;
    for (const auto& [link, bytes] : loads) {
      if (link.first != link.second) links[bytes]++;
    }
    if (links.empty()) continue;
    EXPECT_EQ(links.size(), 1u) << "step " << step;
    EXPECT_EQ(links.begin()->second, 64u) << "step " << step;
  }
}

// A semaphore that only one rank ever raises cannot be raised too early for
// another one's sake.
TEST(RdhIntraPlan, EverySemaphoreHasOneRaiser) {
  for (const encRdhGeometry& g : shapes()) {
    std::map<std::pair<int, enc_mesh_event_type>, int> raisers;
    for (const encOp op : kOps) {
      for (const bool writesOthers : {true, false}) {
        encRdhWindow w = windowOf(g, op);
        w.writesOthers = writesOthers;
        for (int member = 0; member < static_cast<int>(g.device.size()); member++) {
          std::vector<encRdhStep> steps = encScheduleRdh(g, w, member).value();
          for (const auto& more : {encRdhOpening(g, w, member), encRdhClosing(g, w, member)})
            steps.insert(steps.end(), more.begin(), more.end());
          for (const encRdhStep& step : steps) {
            for (const int peer : step.peers) {
              const enc_mesh_event_type event = encRdhSemaphore(g, peer, member, step.doubling);
              EXPECT_EQ(raisers.try_emplace({peer, event}, member).first->second, member);
            }
          }
        }
      }
    }
  }
}

TEST(RdhIntraPlan, StoresOnlyWhatOthersRead) {
  const encRdhGeometry g = cube(2, 2);
  encRdhWindow w = windowOf(g, encOp::AllReduce);
  w.capacity = 3 * kPart;
  EXPECT_EQ(proven(g, w), "");
  w.capacity--;
  EXPECT_THAT(proven(g, w), HasSubstr("96 bytes of a work area of 287, of which 95 are left"));
  encRdhBuffers buffers(100);
  EXPECT_EQ(buffers.getNewBuffer(1).value(), 0u);
  EXPECT_EQ(buffers.getNewBuffer(33).value(), 32u);
  EXPECT_FALSE(buffers.getNewBuffer(1).ok());
}

TEST(RdhIntraPlan, IsPrinted) {
  const encRdhGeometry g = cube(1, 2);
  const std::string text =
      encRdhPlanText(encScheduleRdh(g, windowOf(g, encOp::AllReduce), 0).value());
  EXPECT_THAT(text, HasSubstr("step 0 EVT_RH_STEP_0, then meets"));
  EXPECT_THAT(text, HasSubstr("half of it: output["));
}

}  // namespace
}  // namespace nccom
