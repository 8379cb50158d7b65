// A quick cut of NCCL's own answers, where they are at hand.
#include <cstdlib>
#include <set>

#include "tool_test_util.h"

namespace nccom {
namespace {

namespace fs = std::filesystem;

fs::path corpus() {
  const char* said = getenv("LIBNCCOM_TOPO_CORPUS");
  return said != nullptr ? said : "../shared/topo";
}

/// Node links without their far ends, as rates rounded to a thousandth.
std::multiset<std::string> linksOf(const Json& nodes) {
  std::multiset<std::string> links;
  for (const auto& [type, all] : nodes.items()) {
    for (const Json& node : all) {
      for (const Json& link : node["links"]) {
        const auto rate = static_cast<int64_t>(link[1].get<double>() * 1000 + 0.5);
        links.insert(type + " " + link[0].get<std::string>() + " " + std::to_string(rate));
      }
    }
  }
  return links;
}

void expectEqual(const Json& theirs, const Json& ours) {
  EXPECT_EQ(linksOf(theirs["system"]["nodes"]), linksOf(ours["system"]["nodes"]));
  for (const char* kind : {"gpuGpu", "gpuNet"})
    EXPECT_EQ(theirs["paths"][kind]["type"], ours["paths"][kind]["type"]) << kind;
  for (const char* graph : {"ring", "tree"}) {
    for (const char* key : {"nChannels", "bwIntra", "bwInter", "typeIntra", "typeInter",
                            "sameChannels", "crossNic", "intra", "inter"}) {
      EXPECT_EQ(theirs["graphs"][graph][key], ours["graphs"][graph][key]) << graph << ' ' << key;
    }
  }
}

/// One of kind of machine, in the modes that differ most.
TEST(Corpus, TheNcclSearchGivesNcclsAnswers) {
  if (!fs::exists(corpus() / "golden")) {
    GTEST_SKIP() << "no corpus of topologies in " << corpus();
  }
  for (const char* name : {"dgx1v_quanta_8v100.d1", "dgx1v_quanta_8v100.p2",
                           "azure_ndv4_8a100_a.p1", "gb200_tray_4gpu.m2", "rccl_8p_4nics.p2",
                           "vr200_mlopart.p1", "a6000_2gpu_vnic.p2", "b200_8gpu_vm_flat.g3n2"}) {
    SCOPED_TRACE(name);
    const Json theirs = Json::parse(readText(corpus() / "golden" / (std::string(name) + ".json")));
    const fs::path stem = name;
    TopoSource source;
    source.file = corpus() / "xml" / (stem.stem().string() + ".xml");
    ASSERT_OK(mode, parseMode(stem.extension().string().substr(1)));
    TopoChoice choice;
    choice.search = ncclTopoSearch::Nccl;
    ASSERT_OK(answer, runTopo(source, mode, choice));
    const Json ours = answerJson(answer);
    if (!theirs.contains("domains")) {
      expectEqual(theirs, ours);
      continue;
    }
    ASSERT_EQ(theirs["domains"].size(), ours["domains"].size());
    for (size_t d = 0; d < theirs["domains"].size(); d++)
      expectEqual(theirs["domains"][d], ours["domains"][d]);
    EXPECT_EQ(theirs["global"]["rings"], ours["global"]["rings"]);
    EXPECT_EQ(theirs["global"]["trees"], ours["global"]["trees"]);
  }
}

}  // namespace
}  // namespace nccom
