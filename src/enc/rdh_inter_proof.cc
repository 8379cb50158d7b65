#include <algorithm>
#include <utility>

#include "enc/rdh_inter_plan.h"
#include "misc/check.h"

namespace nccom {
namespace {

/// Whose contributions some bytes have: a bit a member.
using Bytes = std::map<uint64_t, uint64_t>;  // by offset

/// One member, byte by byte.
struct Member {
  Bytes input, work, output;
  size_t sent = 0, received = 0;  // of its fifos
};

class Proof {
 public:
  Proof(const std::vector<encRdhTiling>& tilings, const std::vector<encInterRdhPlan>& plans)
      : tilings_(tilings), plans_(plans), members_(plans.size()) {}

  Status run();

 private:
  bool reduces() const { return tilings_[0].op != encOp::AllGather; }
  Error bad(int member, int round, const std::string& what) const;
  static uint64_t placeOf(const encRdhRun& run, encRdhPlace place) {
    return place == encRdhPlace::Work ? run.work : run.message;
  }
  Bytes& memory(int member, encRdhPlace place);

  void begin();
  Status round(int number);
  Result<std::vector<uint64_t>> sent(int member, int round);
  Status take(int member, int round, const std::vector<uint64_t>& data);
  Status finished(int member);

  const std::vector<encRdhTiling>& tilings_;
  const std::vector<encInterRdhPlan>& plans_;
  std::vector<Member> members_;
};

Error Proof::bad(int member, int round, const std::string& what) const {
  return Error{ncclInternalError, "inter_rdh: member " + std::to_string(member) + " round " +
                                      std::to_string(round) + ": " + what};
}

Bytes& Proof::memory(int member, encRdhPlace place) {
  switch (place) {
    case encRdhPlace::Input:
      return members_[member].input;
    case encRdhPlace::Work:
      return members_[member].work;
    case encRdhPlace::Output:
      break;
  }
  return members_[member].output;
}

void Proof::begin() {
  for (size_t m = 0; m < members_.size(); m++) {
    for (size_t p = 0; p < tilings_[m].parts.size(); p++) {
      if (!reduces() && p != m) continue;
      const encPart& part = tilings_[m].parts[p];
      for (uint64_t at = part.begin; at < part.begin + part.bytes; at++) {
        members_[m].input[at] = uint64_t{1} << m;
        if (!reduces()) members_[m].output[at] = uint64_t{1} << m;
      }
    }
  }
}

/// What a member gives its peer in a round, tile by tile.
Result<std::vector<uint64_t>> Proof::sent(int member, int round) {
  const encInterRdhPlan& plan = plans_[member];
  std::vector<uint64_t> data;
  const Bytes& from = memory(member, plan.rounds[round].from);
  for (size_t& i = members_[member].sent;
       i < plan.send_fifo.size() && plan.send_fifo[i].round == round; i++) {
    for (const encRdhRun& run : plan.send_fifo[i].runs) {
      for (uint64_t byte = 0; byte < run.bytes; byte++) {
        const auto found = from.find(placeOf(run, plan.rounds[round].from) + byte);
        if (found == from.end()) {
          return bad(member, round, "sends " + plan.send_fifo[i].tag + ", which it has not got");
        }
        data.push_back(found->second);
      }
    }
  }
  return data;
}

Status Proof::take(int member, int round, const std::vector<uint64_t>& data) {
  const encInterRdhPlan& plan = plans_[member];
  const encRdhRound& how = plan.rounds[round];
  const Bytes& own = memory(member, how.from);
  Bytes& to = memory(member, how.to);
  size_t next = 0;
  for (size_t& i = members_[member].received;
       i < plan.red_fifo.size() && plan.red_fifo[i].round == round; i++) {
    const inter_rdh_reduction& made = plan.red_fifo[i];
    if (plan.recv_fifo[i].tag != made.received || plan.recv_fifo[i].round != round) {
      return bad(member, round,
                 "makes " + made.tag + " of " + made.received + ", which is not next");
    }
    for (const encRdhRun& run : made.runs) {
      for (uint64_t byte = 0; byte < run.bytes; byte++) {
        if (next == data.size()) return bad(member, round, "gets too little for " + made.tag);
        uint64_t sum = data[next++];
        if (how.adds) {
          const auto found = own.find(placeOf(run, how.from) + byte);
          if (found == own.end()) return bad(member, round, "adds to nothing in " + made.tag);
          if ((found->second & sum) != 0) return bad(member, round, "adds twice in " + made.tag);
          sum |= found->second;
        }
        to[placeOf(run, how.to) + byte] = sum;
      }
    }
  }
  if (next == data.size()) return Ok{};
  return bad(member, round,
             "gets " + std::to_string(data.size()) + " bytes, takes " + std::to_string(next));
}

Status Proof::round(int number) {
  std::vector<std::vector<uint64_t>> data(plans_.size());
  for (size_t m = 0; m < plans_.size(); m++)
    data[m] = TRY(sent(static_cast<int>(m), number));
  for (size_t m = 0; m < plans_.size(); m++) {
    const int member = static_cast<int>(m);
    const encRdhRound& mine = plans_[m].rounds[number];
    if (mine.peer < 0 || mine.peer >= static_cast<int>(plans_.size()) || mine.peer == member) {
      return bad(member, number, "meets member " + std::to_string(mine.peer));
    }
    const encRdhRound& theirs = plans_[mine.peer].rounds[number];
    if (theirs.peer != member || theirs.bit != mine.bit || (member ^ 1 << mine.bit) != mine.peer) {
      return bad(member, number,
                 "meets member " + std::to_string(mine.peer) + " on bit " +
                     std::to_string(mine.bit) + ", which meets member " +
                     std::to_string(theirs.peer) + " on bit " + std::to_string(theirs.bit));
    }
    TRY(take(member, number, data[mine.peer]));
  }
  return Ok{};
}

Status Proof::finished(int member) {
  const encRdhTiling& tiling = tilings_[member];
  const uint64_t all = plans_.size() == 64 ? UINT64_MAX : (uint64_t{1} << plans_.size()) - 1;
  const int rounds = static_cast<int>(plans_[member].rounds.size());
  for (size_t p = 0; p < tiling.parts.size(); p++) {
    if (tiling.op == encOp::ReduceScatter && p != static_cast<size_t>(member)) continue;
    const uint64_t wanted = reduces() ? all : uint64_t{1} << p;
    for (uint64_t byte = 0; byte < tiling.parts[p].bytes; byte++) {
      const auto found = members_[member].output.find(tiling.parts[p].begin + byte);
      if (found == members_[member].output.end() || found->second != wanted) {
        return bad(member, rounds, "has not all of partition " + std::to_string(p) + " in the end");
      }
    }
  }
  return Ok{};
}

Status Proof::run() {
  begin();
  for (size_t m = 0; m < plans_.size(); m++) {
    if (plans_[m].rounds.size() != plans_[0].rounds.size()) {
      return bad(static_cast<int>(m), 0, "has another number of rounds than member 0");
    }
  }
  for (size_t number = 0; number < plans_[0].rounds.size(); number++)
    TRY(round(static_cast<int>(number)));
  for (size_t m = 0; m < plans_.size(); m++)
    TRY(finished(static_cast<int>(m)));
  return Ok{};
}

}  // namespace

Status encProveInterRdh(const std::vector<encRdhTiling>& tilings,
                        const std::vector<encInterRdhPlan>& plans) {
  NCCL_CHECK(plans.size() == tilings.size() && !plans.empty() && plans.size() <= 64);
  return Proof(tilings, plans).run();
}

}  // namespace nccom
