// The tables of platforms against recorded ones, and against a folder of published facts where
// there is one.
#include <algorithm>
#include <map>

#include "graph/fabric.h"
#include "graph_test_util.h"

namespace nccom {
namespace {

std::string spaced(const std::vector<int>& numbers) {
  std::string out;
  for (const int number : numbers)
    out += (out.empty() ? "" : " ") + std::to_string(number);
  return out;
}

std::string_view cpusOf(const NeuronPlatform& platform, const NeuronDevice& device) {
  for (const NeuronNuma& numa : platform.numas) {
    if (numa.id == device.numa) return numa.cpus;
  }
  return platform.numas[0].cpus;
}

std::vector<int> coresOf(const NeuronPlatform& platform, int device) {
  const auto& cores = platform.devices[device].physicalCores;
  return {cores.begin(), cores.begin() + platform.coresPerDevice};
}

/// One line a device: all that the tables say of it.
std::string described(const NeuronPlatform& platform) {
  std::string out = std::string(platform.name) + "\n";
  for (int d = 0; d < platform.deviceCount(); d++) {
    const NeuronDevice& device = platform.devices[d];
    out += "  " + std::to_string(d) + ": rid " + std::to_string(device.routingId) + " cell " +
           std::to_string(device.row) + "," + std::to_string(device.col) + " bus " +
           std::string(device.busId) + " numa " + std::to_string(device.numa) + " cpus " +
           std::string(cpusOf(platform, device)) + " efa " +
           (device.efaBusId.empty() ? "-" : std::string(device.efaBusId)) + " cores " +
           spaced(coresOf(platform, d)) + " neighbours " + spaced(printedNeighbours(platform, d)) +
           "\n";
  }
  return out;
}

TEST(PlatformFacts, TablesAreAsRecorded) {
  std::string text;
  for (const NeuronPlatform* platform : neuronPlatforms())
    text += described(*platform);
  const std::filesystem::path path = "test/golden/platform/devices.txt";
  if (std::getenv("LIBNCCOM_GOLDEN_WRITE") != nullptr) std::ofstream(path) << text;
  if (!std::filesystem::exists(path)) {
    GTEST_SKIP() << path << " not found; run from the root of the repository";
  }
  EXPECT_EQ(readText(path), text) << "differs from " << path;
}

// ---- published facts ---------------------------------------------------------------------------

using Row = std::map<std::string, std::string>;

std::vector<std::string> cellsOf(const std::string& line) {
  std::vector<std::string> cells(1);
  bool isQuoted = false;
  for (const char c : line) {
    if (c == '"') {
      isQuoted = !isQuoted;
    } else if (c == ',' && !isQuoted) {
      cells.emplace_back();
    } else if (c != '\r') {
      cells.back() += c;
    }
  }
  return cells;
}

class PublishedFacts : public testing::Test {
 protected:
  void SetUp() override {
    const char* configured = std::getenv("LIBNCCOM_PLATFORM_FACTS");
    folder_ = configured != nullptr ? configured : "../shared/spec/platform";
    if (!std::filesystem::is_directory(folder_)) {
      GTEST_SKIP() << "no folder of published facts; set LIBNCCOM_PLATFORM_FACTS";
    }
  }

  std::vector<Row> rows(const char* name) const {
    std::ifstream file(folder_ / name);
    std::string line;
    std::getline(file, line);
    const std::vector<std::string> columns = cellsOf(line);
    std::vector<Row> out;
    while (std::getline(file, line)) {
      const std::vector<std::string> cells = cellsOf(line);
      Row row;
      for (size_t c = 0; c < columns.size() && c < cells.size(); c++)
        row[columns[c]] = cells[c];
      out.push_back(std::move(row));
    }
    EXPECT_FALSE(out.empty()) << name;
    return out;
  }

  std::filesystem::path folder_;
};

NeuronFabric fabricOf(const NeuronPlatform& platform, const char* pod) {
  return neuronFabric(platform, findPodShape(platform, pod).value(), 0).value();
}

/// Direct neighbours in the order of ports; those in other hosts of a torus as previous and next.
std::vector<int> wiredNeighbours(const NeuronFabric& fabric, int device) {
  std::vector<int> out;
  for (int port = 0; port < kPortCount; port++) {
    const int peer = fabric.peer(device, port);
    if (peer >= 0 && port != kPortZLeft && port != kPortZRight) out.push_back(peer);
  }
  if (fabric.peer(device, kPortZLeft) < 0) return out;
  std::vector<int> ends = {fabric.peer(device, kPortZLeft), fabric.peer(device, kPortZRight)};
  const int previous =
      (device - fabric.devicesPerHost + fabric.deviceCount()) % fabric.deviceCount();
  if (ends[0] != previous) std::swap(ends[0], ends[1]);
  out.insert(out.end(), ends.begin(), ends.end());
  return out;
}

TEST_F(PublishedFacts, NeighboursAreTheSame) {
  const std::map<std::string, NeuronFabric> pods = {
      {"trn2-ultraserver", fabricOf(kTrn2ux48xlarge, "X4")},
      {"trn3-gen1-ultraserver/direct", fabricOf(kTrn3x48xlarge, "X4")},
      {"trn3-gen1-ultraserver/direct+pair", fabricOf(kTrn3Pairsx48xlarge, "X4")},
      {"trn3-gen2-ultraserver/direct", fabricOf(kTrn3ex24xlarge, "X36")}};
  std::map<std::string, int> nDevices;
  for (const Row& row : rows("peers-table.csv")) {
    const std::string& name = row.at("platform");
    const int device = std::stoi(row.at("device"));
    SCOPED_TRACE(name + " " + row.at("device"));
    nDevices[name]++;
    const auto pod = pods.find(name);
    if (pod != pods.end()) {
      EXPECT_EQ(spaced(wiredNeighbours(pod->second, device)), row.at("neighbours"));
      continue;
    }
    const std::string reported = "/driver-reported";
    const bool isReported = name.ends_with(reported);
    ASSERT_OK(platform,
              findPlatform(isReported ? name.substr(0, name.size() - reported.size()) : name));
    EXPECT_EQ(spaced(printedNeighbours(*platform, device)), row.at("neighbours"));
  }
  for (const auto& [name, count] : nDevices) {
    const auto pod = pods.find(name);
    if (pod != pods.end()) {
      EXPECT_EQ(count, pod->second.deviceCount()) << name;
    }
  }
}

/// Expects a cell to be what the table says, unless nothing is published.
void expectCell(const Row& row, const char* column, const std::string& value) {
  if (!row.at(column).empty()) {
    EXPECT_EQ(value, row.at(column)) << column;
  }
}

TEST_F(PublishedFacts, DevicesArePlacedTheSame) {
  const std::map<std::string, std::vector<const NeuronPlatform*>> aliases = {
      {"trn3/trn3p/trn3s (map trn3)", {&kTrn3px48xlarge, &kTrn3x48xlarge, &kTrn3Pairsx48xlarge}},
      {"trn3-dev0/trn3-dev1 (map trn3pds)", {&kTrn3Dev0x48xlarge}}};
  for (const Row& row : rows("device-table.csv")) {
    const std::string& name = row.at("platform");
    SCOPED_TRACE(name + " " + row.at("device"));
    std::vector<const NeuronPlatform*> platforms;
    if (const auto alias = aliases.find(name); alias != aliases.end()) {
      platforms = alias->second;
    } else {
      ASSERT_OK(found, findPlatform(name));
      platforms = {found};
    }
    for (const NeuronPlatform* platform : platforms) {
      const NeuronDevice& device = platform->devices[std::stoi(row.at("device"))];
      expectCell(row, "routing_id", std::to_string(device.routingId));
      expectCell(row, "row", std::to_string(device.row));
      expectCell(row, "col", std::to_string(device.col));
      expectCell(row, "bdf", std::string(device.busId));
      expectCell(row, "numa_node", std::to_string(device.numa));
      expectCell(row, "cpu_affinity", std::string(cpusOf(*platform, device)));
      expectCell(row, "efa_bdf", std::string(device.efaBusId));
    }
  }
}

TEST_F(PublishedFacts, CoresAreOrderedTheSame) {
  for (const Row& row : rows("nc-map.csv")) {
    const bool isTrn2 = row.at("platform").starts_with("trn2");
    ASSERT_TRUE(isTrn2 || row.at("platform") == "trn3 PDS") << row.at("platform");
    for (const NeuronPlatform* platform : isTrn2
                                              ? std::vector{&kTrn2x48xlarge, &kTrn2ux48xlarge}
                                              : std::vector{&kTrn3x48xlarge, &kTrn3Dev0x48xlarge}) {
      EXPECT_EQ(spaced(coresOf(*platform, std::stoi(row.at("device")))),
                row.at("physical_nc_by_logical_index"))
          << platform->name;
    }
  }
}

TEST_F(PublishedFacts, SwitchGroupsAreTheSame) {
  const std::map<std::string, NeuronFabric> pods = {
      {"trn3-gen1-ultraserver", fabricOf(kTrn3x48xlarge, "X4")},
      {"trn3-gen2-ultraserver", fabricOf(kTrn3ex24xlarge, "X36")}};
  std::map<std::string, size_t> nGroups;
  for (const Row& row : rows("switch-groups.csv")) {
    const NeuronFabric& fabric = pods.at(row.at("platform"));
    std::string name = row.at("group");
    if (name.starts_with("switch-")) name = "rack-" + name;  // the only level of gen1
    SCOPED_TRACE(name);
    const auto group = std::find_if(fabric.groups.begin(), fabric.groups.end(),
                                    [&](const SwitchGroup& g) { return g.name == name; });
    ASSERT_NE(group, fabric.groups.end());
    EXPECT_EQ(std::to_string(group->firstDevice), row.at("first_device"));
    EXPECT_EQ(std::to_string(group->lastDevice), row.at("last_device"));
    if (!row.at("GBps_per_chip").empty()) {  // both directions
      EXPECT_EQ(2 * group->bwGBps, std::stof(row.at("GBps_per_chip")));
    }
    nGroups[row.at("platform")]++;
  }
  for (const auto& [name, fabric] : pods)
    EXPECT_EQ(nGroups[name], fabric.groups.size());
}

}  // namespace
}  // namespace nccom
