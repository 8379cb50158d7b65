// The ladder in words: what was tried, what became of it, and what stood in the way.
#include <algorithm>
#include <tuple>

#include "graph/search_ladder.h"

namespace nccom {
namespace {

using Verdict = SearchTrial::Verdict;

std::string nameOf(const ncclTopoSystem& system, ncclTopoNodeRef ref) {
  const ncclTopoNode& node = system.at(ref);
  if (ref.type == ncclTopoNodeType::Gpu) return "GPU rank " + std::to_string(node.gpu.rank);
  if (ref.type == ncclTopoNodeType::Net) return "NET " + node.net.name;
  const bool hasBusId = !node.pci.busId.empty();
  const Error id = fail(ncclSuccess, "%llx", static_cast<unsigned long long>(localIdOf(node.id)));
  return std::string(toText(ref.type)) + " " + (hasBusId ? node.pci.busId : id.message);
}

/// Links are numbered over node types, nodes and links, in order.
std::string nameOfLink(const ncclTopoSystem& system, int link) {
  for (const std::vector<ncclTopoNode>& nodes : system.nodesOfType) {
    for (int i = 0; i < static_cast<int>(nodes.size()); i++) {
      const auto nLinks = static_cast<int>(nodes[i].links.size());
      if (link >= nLinks) {
        link -= nLinks;
        continue;
      }
      const ncclTopoLink& found = nodes[i].links[link];
      const Error text =
          fail(ncclSuccess, "%s link %s to %s of %g GB/s", toText(found.type),
               nameOf(system, {nodes[i].type, i}).c_str(), nameOf(system, found.remote).c_str(),
               static_cast<double>(found.bwGBps));
      return text.message;
    }
  }
  return "?";
}

std::string channels(int n) {
  return n == 0 ? "no channel" : n == 1 ? "1 channel" : std::to_string(n) + " channels";
}

const char* toText(ncclTopoPattern pattern) {
  switch (pattern) {
    case ncclTopoPattern::BalancedTree:
      return "balanced tree";
    case ncclTopoPattern::SplitTree:
      return "split tree";
    case ncclTopoPattern::Tree:
      return "tree";
    case ncclTopoPattern::Ring:
      return "ring";
    case ncclTopoPattern::Nvls:
      return "nvls";
    case ncclTopoPattern::CollnetDirect:
      return "collnet";
  }
  return "?";
}

}  // namespace

std::string SearchLadder::explainTrial(const SearchTrial& trial) const {
  const std::string link =
      trial.link == -1 ? "" : "; most often full: " + nameOfLink(system_, trial.link);
  switch (trial.verdict) {
    case Verdict::Found:
      return channels(trial.nLaid) + " found";
    case Verdict::Repeats:
      return "allows no link that was not tried before";
    case Verdict::CannotFit:
      return "rejected untried: at most " + channels(trial.nLaid) + " can fit, " +
             std::to_string(trial.nNeeded) + " needed to be better" +
             (trial.link == -1 ? "" : "; bounded by: " + nameOfLink(system_, trial.link));
    case Verdict::Tried:
      return "rejected: " + channels(trial.nLaid) + " at most, all ways tried" + link;
    case Verdict::Spent:
      return "rejected: " + channels(trial.nLaid) + " at most when the steps were spent" + link;
  }
  return "";
}

/// One line for attempts that differ in types only.
std::string SearchLadder::explain(size_t begin, size_t end) const {
  const Rung& first = rungs_[begin];
  const Rung& last = rungs_[end - 1];
  const auto types = [&](const Rung& rung) {
    std::string text = nccom::toText(rung.typeIntra);
    return system_.inter ? text + "/" + nccom::toText(rung.typeInter) : text;
  };
  std::string line = toText(first.pattern);
  line += " of " + std::string(fail(ncclSuccess, "%g", static_cast<double>(first.bwIntra)).message);
  if (system_.inter) {
    line += fail(ncclSuccess, "/%g", static_cast<double>(first.bwInter)).message;
  }
  line += " GB/s, paths to " + types(first);
  if (types(last) != types(first)) line += " .. " + types(last);
  if (end == begin + 1) line += first.sameChannels ? ", equal channels" : ", any channels";
  if (end == begin + 1 && first.crossNic != 0) line += ", across NICs";
  if (end > begin + 1) line += " (" + std::to_string(end - begin) + " attempts)";
  return line + ": " + explainTrial(first.trial);
}

void SearchLadder::explain() {
  const auto key = [](const Rung& rung) {
    const SearchTrial& trial = rung.trial;
    return std::tuple(rung.bwIntra, rung.bwInter, rung.pattern, trial.verdict, trial.nLaid,
                      trial.nNeeded, trial.link);
  };
  size_t begin = 0;
  while (begin < rungs_.size()) {
    size_t end = begin + 1;
    const size_t limit = begin < nFirstRungs_ ? nFirstRungs_ : rungs_.size();
    if (begin == nFirstRungs_ && !duplicated_.empty()) best_.why.push_back(duplicated_);
    const bool isFound = rungs_[begin].trial.verdict == Verdict::Found;
    while (!isFound && end < limit && key(rungs_[end]) == key(rungs_[begin]))
      end++;
    best_.why.push_back(explain(begin, end));
    begin = end;
  }
  if (nFirstRungs_ == rungs_.size() && !duplicated_.empty()) best_.why.push_back(duplicated_);
  const auto nSpent = std::count_if(rungs_.begin(), rungs_.end(),
                                    [](const Rung& rung) { return rung.trial.timeLeft == 0; });
  best_.why.push_back(std::to_string(rungs_.size()) + " attempts, " + std::to_string(nSpent) +
                      " spent their steps" + (globalBudget_ < 0 ? ", as did all together" : ""));
  if (best_.nChannels == 0) {
    best_.why.emplace_back("found nothing: one channel in the order of the system");
  }
}

}  // namespace nccom
