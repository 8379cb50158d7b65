// Groups on all machines, and what selection says of them, for tests.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "enc/alg_describe.h"
#include "enc/alg_select.h"

namespace nccom::test {

using Alg = enc_alg_type;
using Op = enc_op_type;

#define EXPECT_HAS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

struct Machine {
  std::string platform;  // "host": this machine
  int lnc;
  std::string pod;
};

inline const std::vector<Machine> kMachines{
    {"host", 1, ""},
    {"inf2.xlarge", 1, ""},
    {"inf2.24xlarge", 1, ""},
    {"inf2.48xlarge", 1, ""},
    {"trn1.2xlarge", 1, ""},
    {"trn1.32xlarge", 1, ""},
    {"trn1n.32xlarge", 1, ""},
    {"trn2.3xlarge", 1, ""},
    {"trn2.3xlarge", 2, ""},
    {"trn2.48xlarge", 1, ""},
    {"trn2.48xlarge", 2, ""},
    {"trn2u.48xlarge", 2, "X4"},
    {"trn2u.48xlarge", 1, "X4"},
};

inline encMachine machineOf(const Machine& machine) {
  encMachine result;
  result.lnc = machine.lnc;
  result.hostDevices = 64;
  if (machine.platform == "host") return result;
  result.platform = findPlatform(machine.platform).value();
  result.shape = findPodShape(*result.platform, machine.pod).value();
  return result;
}

inline encSituation describe(const Machine& machine, int nodes, int ranks) {
  const encMachine hosts = machineOf(machine);
  const auto cores = encDealtCores(hosts, nodes, ranks);
  EXPECT_TRUE(cores.ok()) << cores.error().message;
  const auto situation = encDescribe(hosts, cores.value());
  EXPECT_TRUE(situation.ok()) << situation.error().message;
  return situation.value();
}

inline encSituation trn2(int ranks = 64, int nodes = 1) {
  return describe({"trn2.48xlarge", 2, ""}, nodes, ranks);
}

inline encAlgSelection select(encSituation s, Op op, uint64_t bytes,
                              const encAlgOptions& options = {}) {
  s.op = op;
  s.bytes = bytes;
  const auto selection = encSelectAlg(s, options);
  EXPECT_TRUE(selection.ok()) << selection.error().message;
  return selection.ok() ? selection.value() : encAlgSelection{};
}

inline std::string errorOf(encSituation s, Op op, uint64_t bytes,
                           const encAlgOptions& options = {}) {
  s.op = op;
  s.bytes = bytes;
  const auto selection = encSelectAlg(s, options);
  return selection.ok() ? "" : selection.error().message;
}

inline const std::string& why(const encAlgSelection& selection, Alg alg) {
  return selection.verdicts[static_cast<size_t>(alg)].why;
}
inline encVerdictKind kind(const encAlgSelection& selection, Alg alg) {
  return selection.verdicts[static_cast<size_t>(alg)].kind;
}

/// All groups of the machines: node counts by ranks a node.
inline const std::vector<encSituation>& allGroups() {
  static const std::vector<encSituation> groups = [] {
    std::vector<encSituation> all;
    for (const Machine& machine : kMachines) {
      const encMachine hosts = machineOf(machine);
      const int cores = hosts.platform == nullptr ? 64 : hosts.platform->logicalCores(hosts.lnc);
      for (int local = 1; local <= cores; local += local < 12 ? 1 : local / 2) {
        const encSituation one = describe(machine, 1, local);
        all.push_back(one);
        for (const int nodes : {2, 4, 8, 16, 32}) {
          encSituation several = describe(machine, nodes, nodes * local);
          all.push_back(several);
        }
      }
    }
    return all;
  }();
  return groups;
}

inline constexpr Op kGatherReduce[] = {Op::AllGather, Op::AllReduce, Op::ReduceScatter};

}  // namespace nccom::test
