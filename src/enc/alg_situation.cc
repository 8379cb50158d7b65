#include "enc/alg_situation.h"

namespace nccom {
namespace {

const char* machineName(const encSituation& s) {
  if (s.isHost()) return "host";
  switch (s.family) {
    case NeuronFamily::Sunda:
      return s.isInf2() ? "inf2" : "trn1";
    case NeuronFamily::Cayman:
      return "trn2";
    case NeuronFamily::Mariana:
      return "trn3";
    case NeuronFamily::SwitchV1:
      return "trn3 switched";
  }
  return "?";
}

std::string counted(int count, const char* what) {
  if (count == 0) return std::string("differing numbers of ") + what + "s";
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

}  // namespace

encSharedWay encSharedWayOf(const std::string& name) {
  if (name == "direct") return encSharedWay::Direct;
  return name == "staged" ? encSharedWay::Staged : encSharedWay::None;
}

Status encCheckSituation(const encSituation& s) {
  const auto wrong = [](const char* what, int found, const char* wanted) {
    return fail(ncclInvalidArgument, "%s is %d; %s is wanted", what, found, wanted);
  };
  if (s.rank_n < 1) return wrong("rank_n", s.rank_n, "a rank or more");
  if (s.node_n < 1 || s.node_n > s.rank_n) {
    return wrong("node_n", s.node_n, "a node or more, each with a rank");
  }
  if (s.local_rank_n < 0 ||
      (s.local_rank_n > 0 && s.local_rank_n * int64_t{s.node_n} != s.rank_n)) {
    return wrong("local_rank_n", s.local_rank_n, "rank_n / node_n, or 0 where nodes differ");
  }
  if (s.devices < 0 || (s.devices > 0 && s.ranksPerDevice > 0 && s.local_rank_n > 0 &&
                        s.devices * int64_t{s.ranksPerDevice} != s.local_rank_n)) {
    return wrong("devices", s.devices, "local_rank_n / ranksPerDevice, or 0 where nodes differ");
  }
  if (s.lnc != 1 && s.lnc != 2) return wrong("lnc", s.lnc, "1 or 2");
  if (s.ranksPerDevice < 0 || (!s.isHost() && s.ranksPerDevice > s.coresPerDevice)) {
    return wrong("ranksPerDevice", s.ranksPerDevice, "at most the device's logical cores");
  }
  if (s.local_rack_rank_n < 0 || s.local_rack_rank_n > s.rank_n) {
    return wrong("local_rack_rank_n", s.local_rack_rank_n, "at most rank_n");
  }
  if (s.enable_pod && s.podType == NeuronPodType::None) {
    return wrong("podType", 0, "the type of the pod that enable_pod speaks of");
  }
  if (s.streams < 1) return wrong("streams", s.streams, "a stream or more");
  if (s.op == enc_op_type::Invalid) {
    return wrong("op", static_cast<int>(s.op), "an operation, 0 to 12");
  }
  return Ok{};
}

std::string encSituationText(const encSituation& s) {
  std::string text = machineName(s);
  if (!s.isHost()) text += " LNC " + std::to_string(s.lnc);
  text += ", " + counted(s.rank_n, "rank") + ": " + counted(s.node_n, "node") + " x " +
          counted(s.devices, "device") + " x " + counted(s.ranksPerDevice, "rank");
  if (s.enable_pod) {
    text += s.podType == NeuronPodType::Switch ? ", in a switched pod" : ", in a pod";
  }
  return text;
}

}  // namespace nccom
