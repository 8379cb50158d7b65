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
             (trial.link == -1
                  ? ""
                  : "; too narrow, perhaps with others: " + nameOfLink(system_, trial.link));
    case Verdict::Tried:
      return "rejected: " + channels(trial.nLaid) + " at most, all ways tried" + link;
    case Verdict::Spent:
      return "rejected: " + channels(trial.nLaid) + " at most when the steps were spent" + link;
  }
  return "";
}

/// One line for attempts that differ in types only.
std::string SearchLadder::explain(const std::vector<size_t>& rungs) const {
  const Rung& first = rungs_[rungs.front()];
  const Rung& last = rungs_[rungs.back()];
  const auto types = [&](const Rung& rung) {
    const std::string text = nccom::toText(rung.typeIntra);
    return system_.inter ? text + "/" + nccom::toText(rung.typeInter) : text;
  };
  std::string line = toText(first.pattern);
  line += " of " + fail(ncclSuccess, "%g", static_cast<double>(first.bwIntra)).message;
  if (system_.inter) {
    line += fail(ncclSuccess, "/%g", static_cast<double>(first.bwInter)).message;
  }
  line += " GB/s, paths to " + types(first);
  if (types(last) != types(first)) line += " .. " + types(last);
  if (rungs.size() == 1) {
    line += first.sameChannels ? ", equal channels" : ", any channels";
    if (first.crossNic != 0) line += ", across NICs";
  } else {
    line += " (" + std::to_string(rungs.size()) + " attempts)";
  }
  return line + ": " + explainTrial(first.trial);
}

/// Attempts of one bandwidth with one outcome make one line; what was found has its own.
void SearchLadder::explain() {
  const auto key = [](const Rung& rung) {
    const SearchTrial& trial = rung.trial;
    return std::tuple(rung.bwIntra, rung.bwInter, rung.pattern, trial.verdict, trial.nLaid,
                      trial.nNeeded, trial.link);
  };
  std::vector<std::vector<size_t>> lines;
  size_t begin = 0;  // first line that may still grow
  for (size_t i = 0; i < rungs_.size(); i++) {
    const bool isFound = rungs_[i].trial.verdict == Verdict::Found;
    if (isFound || i == nFirstRungs_) begin = lines.size();
    while (begin < lines.size() && rungs_[lines[begin][0]].bwIntra != rungs_[i].bwIntra)
      begin++;
    size_t line = begin;
    while (line < lines.size() && key(rungs_[lines[line][0]]) != key(rungs_[i]))
      line++;
    if (line == lines.size()) lines.emplace_back();
    lines[line].push_back(i);
    if (isFound) begin = lines.size();
  }
  bool isDuplicated = duplicated_.empty();
  for (const std::vector<size_t>& line : lines) {
    if (!isDuplicated && line[0] >= nFirstRungs_) best_.why.push_back(duplicated_);
    isDuplicated = isDuplicated || line[0] >= nFirstRungs_;
    best_.why.push_back(explain(line));
  }
  if (!isDuplicated) best_.why.push_back(duplicated_);
  const auto nSpent = std::count_if(rungs_.begin(), rungs_.end(),
                                    [](const Rung& rung) { return rung.trial.timeLeft == 0; });
  best_.why.push_back(std::to_string(rungs_.size()) + " attempts, " + std::to_string(nSpent) +
                      " spent their steps" + (globalBudget_ < 0 ? ", as did all together" : ""));
  if (best_.nChannels == 0) {
    best_.why.emplace_back("found nothing: one channel in the order of the system");
  }
}

}  // namespace nccom
