// The fuzz targets on their seeds, and on mutations of these that are the same every time.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "test/fuzz/fuzz.h"

namespace nccom {
namespace {

using Bytes = std::vector<uint8_t>;

std::vector<Bytes> corpusOf(const std::string& target) {
  const std::filesystem::path folder = "test/fuzz/corpus/" + target;
  std::vector<std::filesystem::path> files;
  if (std::filesystem::is_directory(folder)) {
    for (const auto& entry : std::filesystem::directory_iterator(folder))
      files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());  // the order of a directory is not the same everywhere
  std::vector<Bytes> seeds;
  for (const auto& path : files) {
    std::ifstream file(path, std::ios::binary);
    seeds.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  return seeds;
}

/// One to four random changes, of the kinds that parsers stumble over.
class Mutator {
 public:
  explicit Mutator(const std::vector<Bytes>& seeds) : seeds_(seeds) {}

  Bytes next() {
    Bytes bytes = seeds_[below(seeds_.size())];
    for (size_t i = 0; i <= below(4); i++)
      change(bytes);
    return bytes;
  }

 private:
  size_t below(size_t n) { return n == 0 ? 0 : random_() % n; }
  static Bytes::iterator at(Bytes& bytes, size_t offset) {
    return bytes.begin() + static_cast<std::ptrdiff_t>(offset);
  }

  void change(Bytes& bytes) {
    static const std::vector<std::string> kTokens = {"-1",
                                                     "0x",
                                                     "99999999999999999999",
                                                     "2147483648",
                                                     "\"",
                                                     "<",
                                                     ">",
                                                     "/>",
                                                     "&amp;",
                                                     "\xff\xff\xff\xff",
                                                     std::string(8, '\0'),
                                                     "x",
                                                     ",",
                                                     ":",
                                                     "]",
                                                     "%",
                                                     "\n",
                                                     "<!--",
                                                     "<pci busid=\"1\">",
                                                     " rank=\"0\""};
    const size_t place = below(bytes.size() + 1);
    const size_t left = bytes.size() - place;
    const size_t length = std::min(left, 1 + below(24));
    switch (below(7)) {
      case 0:  // a bit
        if (left > 0) bytes[place] = static_cast<uint8_t>(bytes[place] ^ (1U << below(8)));
        break;
      case 1:  // a byte
        if (left > 0) bytes[place] = static_cast<uint8_t>(random_());
        break;
      case 2:  // something lost
        bytes.erase(at(bytes, place), at(bytes, place + length));
        break;
      case 3: {  // something twice
        const Bytes copy(at(bytes, place), at(bytes, place + length));
        bytes.insert(at(bytes, below(bytes.size() + 1)), copy.begin(), copy.end());
        break;
      }
      case 4: {  // a token instead of what is there
        const std::string& token = kTokens[below(kTokens.size())];
        bytes.erase(at(bytes, place), at(bytes, place + below(length + 1)));
        bytes.insert(at(bytes, place), token.begin(), token.end());
        break;
      }
      case 5:  // the end cut off
        bytes.resize(place);
        break;
      default: {  // the rest from another seed
        const Bytes& other = seeds_[below(seeds_.size())];
        const size_t from = below(other.size() + 1);
        bytes.resize(place);
        bytes.insert(bytes.end(), other.begin() + static_cast<std::ptrdiff_t>(from), other.end());
      }
    }
  }

  const std::vector<Bytes>& seeds_;
  std::mt19937 random_{1};  // the standard fixes its numbers
};

/// LIBNCCOM_FUZZ_FACTOR multiplies the number of mutations, for a longer search by hand.
int factor() {
  const char* text = std::getenv("LIBNCCOM_FUZZ_FACTOR");
  return text == nullptr ? 1 : std::max(1, std::atoi(text));
}

void replay(const std::string& name, void (*target)(FuzzInput), int nMutations) {
  const std::vector<Bytes> seeds = corpusOf(name);
  ASSERT_FALSE(seeds.empty()) << "no seeds in test/fuzz/corpus/" << name
                              << "; run this in the root of the project";
  target({});
  for (const Bytes& seed : seeds)
    target(seed);
  Mutator mutator(seeds);
  for (int i = 0; i < nMutations * factor(); i++) {
    const Bytes bytes = mutator.next();
    target(bytes);
  }
}

TEST(Fuzz, TopoSystem) {
  replay("topo_system", fuzzTopoSystem, 5000);
}
TEST(Fuzz, TopoGraph) {
  replay("topo_graph", fuzzTopoGraph, 5000);
}
TEST(Fuzz, Bootstrap) {
  replay("bootstrap", fuzzBootstrap, 300);
}
TEST(Fuzz, Monitor) {
  replay("monitor", fuzzMonitor, 500);
}
TEST(Fuzz, NetSocket) {
  replay("net_socket", fuzzNetSocket, 2000);
}
TEST(Fuzz, UniqueId) {
  replay("unique_id", fuzzUniqueId, 10000);
}
TEST(Fuzz, Parameters) {
  replay("parameters", fuzzParameters, 2000);
}

}  // namespace
}  // namespace nccom
