// Programs of all ranks, of every platform, operation and admitted algorithm, must pass the
// verifier. A cut of it runs always; LIBNCCOM_VERIFY_ALL=1 (make verify-all) runs everything, and
// LIBNCCOM_VERIFY_ALL=<text> the groups whose lines, as they are printed, begin with the text:
// "trn2", "trn2.48xlarge LNC 1", "trn2u.48xlarge X4 LNC 2, 4 x 64".
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <map>

#include "enc/alg_select.h"
#include "enc/alg_table.h"
#include "enc/comm_shape.h"
#include "enc/direct.h"
#include "enc/select.h"
#include "enc/situation_of.h"
#include "enc/verify.h"
#include "graph/platform.h"
#include "misc/datatype.h"
#include "test/unit/enc/worlds.h"

namespace nccom {
namespace {

using test::World;

/// "" : a cut.
std::string wanted() {
  const char* all = std::getenv("LIBNCCOM_VERIFY_ALL");
  return all != nullptr ? all : "";
}
bool wantsAll() {
  return !wanted().empty();
}
bool isWanted(const std::string& group) {
  return !wantsAll() || wanted() == "1" || group.starts_with(wanted());
}

struct Machine {
  std::string platform, pod;
  std::vector<int> nodeCounts;
};

/// What the library is for: each generation, its pods, and this machine.
const std::vector<Machine> kMachines{
    {"inf2.xlarge", "", {1, 2, 4, 8, 16}},
    {"inf2.24xlarge", "", {1, 2, 4, 8, 16}},
    {"inf2.48xlarge", "", {1, 2, 4, 8, 16}},
    {"trn1.2xlarge", "", {1, 2, 4, 8, 16}},
    {"trn1.32xlarge", "", {1, 2, 4, 8, 16}},
    {"trn1n.32xlarge", "", {1, 2, 4, 8, 16}},
    {"trn2.3xlarge", "", {1, 2, 4, 8, 16}},
    {"trn2.48xlarge", "", {1, 2, 4, 8, 16}},
    {"trn2u.48xlarge", "X4", {4, 8, 16}},
    {"trn3p.48xlarge", "", {1, 2, 4, 8, 16}},
    {"trn3p.48xlarge", "X4", {4}},
    {"trn3.48xlarge", "X4", {4}},
    {"trn3e.24xlarge", "X36", {36}},
    {"trn3.48xlarge", "", {1, 2, 4, 8, 16}},
    {"trn3e.24xlarge", "", {1, 2, 4, 8, 16}},
    {"host", "", {1, 2, 4, 8, 16}},
};

/// Ranks of a server: all, one, and what groups of fewer devices have.
std::vector<int> rankCounts(int cores, bool all) {
  std::vector<int> counts;
  for (int count = 1; count < cores; count *= 2) {
    if (all || count == 1 || count == 8) counts.push_back(count);
  }
  if (all && cores > 6) counts.insert(counts.end(), {3, 6, 12});
  counts.push_back(cores);
  return counts;
}

encMachine machineOf(const Machine& machine, int lnc) {
  encMachine result;
  result.hostDevices = 16;
  if (machine.platform == "host") return result;
  result.platform = findPlatform(machine.platform).value();
  result.lnc = lnc;
  result.shape = findPodShape(*result.platform, machine.pod).value();
  return result;
}

class Sweep {
 public:
  /// Every admitted algorithm on a group, forced; and the one that is chosen.
  void group(const encMachine& machine, int nodes, int perNode) {
    const auto cores = encDealtCores(machine, nodes, nodes * perNode);
    if (!cores.ok()) return;
    auto info = encShapeComm(machine, cores.value());
    ASSERT_TRUE(info.ok()) << info.error().message;
    World world;
    world.comm = std::move(info).value();
    world.comm->sizes = {16384, 16384, 1 << 20};
    for (const encOp op : test::kCollectives)
      operation(world, op);
  }

  void report() const {
    uint64_t all = 0;
    for (const auto& [name, count] : programs_)
      all += count;
    printf("verified %llu programs in %llu collectives:", static_cast<unsigned long long>(all),
           static_cast<unsigned long long>(collectives_));
    for (const auto& [name, count] : programs_)
      printf(" %s %llu", name.c_str(), static_cast<unsigned long long>(count));
    printf("\n");
  }
  const std::map<std::string, uint64_t>& programs() const { return programs_; }

 private:
  void operation(const World& world, encOp op) {
    const encOpMask ops = opMask(encOpTypeOf(op));
    verify(world, op, std::nullopt);
    if (encOpTypeOf(op) == enc_op_type::Invalid || world.rank_n() < 2) return;
    for (int i = 0; i < kEncAlgs; i++) {
      const auto alg = static_cast<enc_alg_type>(i);
      if ((encAlgRowOf(alg).ops & ops) == 0) continue;
      encAlgOptions options = world.comm->options;
      options.forced = alg;
      encSituation situation = world.comm->situation;
      situation.op = encOpTypeOf(op);
      situation.bytes = 1;
      if (!encSelectAlg(situation, options).ok()) continue;  // with the rule, see AlgForced
      verify(world, op, alg);
    }
    if (!encCheckDirect(*world.comm, test::collective(op, 1)).ok()) return;
    for (const encSharedWay way : {encSharedWay::Direct, encSharedWay::Staged}) {
      World shared = world;
      shared.comm->options.shared = way;
      verify(shared, op, std::nullopt);
    }
  }

  /// Small and large messages one after the other, twice: what one leaves behind the next one
  /// finds.
  void verify(World world, encOp op, std::optional<enc_alg_type> alg) {
    world.comm->options.forced = alg;
    // Programs of AlltoAll grow with the square of the ranks: of more they do not fit into memory.
    if (op == encOp::AlltoAll && world.rank_n() > 1024) return;
    const bool large = world.rank_n() <= (wantsAll() ? 256 : 64);
    std::vector<uint64_t> counts{37};
    if (world.rank_n() <= 512) counts.insert(counts.begin(), 1);
    if (large) counts.push_back(static_cast<uint64_t>(70'001 / (op == encOp::AllReduce ? 1 : 8)));
    std::vector<encOperation> operations;
    for (const uint64_t count : counts) {
      operations.push_back(
          test::composeAll(world, test::collective(op, count, ncclFloat32, ncclAvg)));
      if (operations.back().empty()) return;
      programs_[operations.back()[0].algorithm] += operations.back().size();
      collectives_++;
    }
    operations.push_back(operations.front());
    for (const bool inPlace : {false, true}) {
      if (inPlace && op == encOp::AlltoAll) continue;
      const Status status = encVerify(world.info(0), operations, {.inPlace = inPlace});
      ASSERT_TRUE(status.ok()) << world.text() << ": " << encOpName(op) << " by "
                               << operations[0][0].algorithm << (inPlace ? " in place: " : ": ")
                               << status.error().message;
    }
  }

  std::map<std::string, uint64_t> programs_;
  uint64_t collectives_ = 0;
};

TEST(Sweep, EveryAdmittedAlgorithmIsVerified) {
  Sweep sweep;
  const bool all = wantsAll();
  const int most = all ? 2048 : 64;  // ranks
  for (const Machine& machine : kMachines) {
    std::vector<int> lncs{1};
    if (machine.platform != "host") {
      const auto offered = findPlatform(machine.platform).value()->lncs;
      lncs.assign(offered.begin(), offered.end());
    }
    for (const int lnc : lncs) {
      const encMachine on = machineOf(machine, lnc);
      const int cores = on.platform == nullptr ? on.hostDevices : on.platform->logicalCores(lnc);
      for (const int nodes : machine.nodeCounts) {
        for (const int perNode : rankCounts(cores, all)) {
          if (nodes * perNode > most) continue;
          const std::string group = machine.platform + " " + machine.pod +
                                    (machine.pod.empty() ? "" : " ") + "LNC " +
                                    std::to_string(lnc) + ", " + std::to_string(nodes) + " x " +
                                    std::to_string(perNode) + " ranks";
          if (!isWanted(group)) continue;
          const auto before = std::chrono::steady_clock::now();
          sweep.group(on, nodes, perNode);
          if (HasFatalFailure()) return;
          const auto spent = std::chrono::steady_clock::now() - before;
          if (all) {
            printf("%s: %.1f s\n", group.c_str(), std::chrono::duration<double>(spent).count());
            fflush(stdout);
          }
        }
      }
    }
  }
  sweep.report();
  if (all && wanted() != "1") return;
  EXPECT_GT(sweep.programs().count("direct") * sweep.programs().count("staged"), 0u);
  for (const encAlgRow& row : encAlgTable())
    EXPECT_GT(sweep.programs().count(row.name), 0u) << row.name << " was never composed";
}

}  // namespace
}  // namespace nccom
