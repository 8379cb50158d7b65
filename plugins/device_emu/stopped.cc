#include "plugins/device_emu/stopped.h"

#include <fstream>
#include <iterator>
#include <map>
#include <vector>

namespace nccom::emu {
namespace {

using std::to_string;

/// "rank 3", "ranks 8 to 15", "ranks 1, 3 and 5 more"
std::string rankList(const std::vector<int32_t>& ranks) {
  constexpr size_t kMost = 4;
  const size_t n = ranks.size();
  if (n == 1) return "rank " + to_string(ranks[0]);
  if (static_cast<size_t>(ranks.back() - ranks.front()) + 1 == n) {
    return "ranks " + to_string(ranks.front()) + " to " + to_string(ranks.back());
  }
  std::string text = "ranks ";
  for (size_t i = 0; i < std::min(n, kMost); i++)
    text += (i == 0 ? "" : ", ") + to_string(ranks[i]);
  return n > kMost ? text + " and " + to_string(n - kMost) + " more" : text;
}

}  // namespace

bool isStopped(pid_t pid) {
  std::ifstream file("/proc/" + to_string(pid) + "/stat");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const size_t name = text.rfind(')');  // the name before it may hold anything
  if (name == std::string::npos || name + 2 >= text.size()) return false;
  return text[name + 2] == 'T' || text[name + 2] == 't';
}

std::string stoppedProcesses(const Comm& comm) {
  std::map<pid_t, std::vector<int32_t>> ranksOf;
  for (const Peer& peer : comm.peers()) {
    if (!peer.sameProcess()) ranksOf[peer.process->pid()].push_back(peer.rank);
  }
  std::string text;
  for (const auto& [pid, ranks] : ranksOf) {
    if (isStopped(pid)) text += "; pid " + to_string(pid) + " (" + rankList(ranks) + ") is stopped";
  }
  return text;
}

}  // namespace nccom::emu
