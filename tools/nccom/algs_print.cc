// The answers of nccom algs, as text and as JSON.
#include <algorithm>
#include <cstdio>

#include "enc/alg_table.h"
#include "tools/nccom/algs_answer.h"
#include "tools/nccom/schedule_json.h"

namespace nccom {
namespace {

std::string padded(const std::string& text, size_t width) {
  return text + std::string(text.size() < width ? width - text.size() : 0, ' ');
}

std::string withSubtype(const std::string& algorithm, const std::string& subtype) {
  return subtype.empty() ? algorithm : algorithm + " (" + subtype + ")";
}

std::string withSubtype(const encHierChoice& choice) {
  return withSubtype(encAlgName(choice.alg), choice.subtype);
}

std::string winnerText(const AlgsAnswer& answer) {
  std::string text = withSubtype(answer.algorithm, answer.subtype);
  if (answer.hierarchy) text += ": " + stagesText(answer.situation.op, *answer.hierarchy);
  if (answer.hybridRing) text += ", on devices";
  return text;
}

std::string headText(const ScheduleCase& asked) {
  std::string text = asked.text() + "\n";
  if (!asked.switches.empty()) text += "set: " + asked.switches + "\n";
  return text;
}

std::string hierarchyText(const AlgsAnswer& answer) {
  std::string text = "\nStages, in order:\n";
  for (const encHierSlot slot : encHierStages(answer.situation.op)) {
    const encHierChoice& choice = (*answer.hierarchy)[static_cast<size_t>(slot)];
    const encSituation stage = encHierStage(answer.situation, slot);
    text += "  " + padded(toText(slot), 18) + withSubtype(choice) + ", " +
            std::to_string(stage.rank_n) + " ranks, " + bytesText(stage.bytes) + "\n";
    for (const std::string& loser : choice.losers)
      text += "      passed over: " + loser + "\n";
  }
  return text + "  " + encHierText(*answer.hierarchy) + "\n";
}

Json situationJson(const encSituation& s) {
  return {{"machine", encSituationText(s)},
          {"lnc", s.lnc},
          {"rank_n", s.rank_n},
          {"node_n", s.node_n},
          {"local_rank_n", s.local_rank_n},
          {"local_rack_rank_n", s.local_rack_rank_n},
          {"pod_n", s.pod_n},
          {"enable_pod", s.enable_pod},
          {"src_target_pairs_id", s.src_target_pairs_id},
          {"devices", s.devices},
          {"ranksPerDevice", s.ranksPerDevice},
          {"sameLocals", s.sameLocals},
          {"sameSlot", s.sameSlot},
          {"devicesFormCube", s.devicesFormCube},
          {"kangaringPaths", s.kangaringPaths},
          {"mlaCycles", s.mlaCycles},
          {"scope", toText(s.scope())}};
}

Json hierarchyJson(const AlgsAnswer& answer) {
  const std::vector<encHierSlot> stages = encHierStages(answer.situation.op);
  Json json = Json::array();
  for (int i = 0; i < kHierSlots; i++) {
    const auto slot = static_cast<encHierSlot>(i);
    const encHierChoice& choice = (*answer.hierarchy)[static_cast<size_t>(i)];
    const auto stage = std::find(stages.begin(), stages.end(), slot);
    json.push_back({{"slot", toText(slot)},
                    {"stage", stage == stages.end() ? -1 : stage - stages.begin()},
                    {"algorithm", encAlgName(choice.alg)},
                    {"value", static_cast<int>(choice.alg)},
                    {"subtype", choice.subtype},
                    {"ranks", encHierStage(answer.situation, slot).rank_n},
                    {"bytes", encHierStage(answer.situation, slot).bytes},
                    {"losers", choice.losers}});
  }
  return json;
}

Json winnerJson(const AlgsAnswer& answer) {
  Json json = {{"algorithm", answer.algorithm}, {"value", answer.value}};
  if (!answer.subtype.empty()) json["subtype"] = answer.subtype;
  json["why"] = answer.why;
  if (answer.hybridRing) json["hybridRing"] = true;
  if (answer.hierarchy) json["hierarchy"] = hierarchyJson(answer);
  return json;
}

}  // namespace

std::string stagesText(enc_op_type op, const encHierChoices& choices) {
  std::string text;
  for (const encHierSlot slot : encHierStages(op)) {
    if (!text.empty()) text += ", ";
    text += withSubtype(choices[static_cast<size_t>(slot)]);
  }
  return text;
}

std::string algsText(const ScheduleCase& asked, const AlgsAnswer& answer) {
  std::string text = headText(asked) + asked.op.name + " of " + bytesText(answer.situation.bytes) +
                     ": " + winnerText(answer) + "\n";
  if (answer.verdicts.empty()) return text + "  " + answer.why + "\n";
  text += "seen as " + encSituationText(answer.situation) + " (" +
          toText(answer.situation.scope()) + ")\n\n";
  if (std::none_of(answer.verdicts.begin(), answer.verdicts.end(),
                   [](const auto& verdict) { return verdict.kind == encVerdictKind::Chosen; })) {
    text += "* " + padded(answer.algorithm, 18) + "chosen: " + answer.why + "\n";
  }
  for (const encVerdict& verdict : answer.verdicts) {
    const bool isWinner = verdict.kind == encVerdictKind::Chosen;
    text += (isWinner ? "* " : "  ") + padded(encAlgName(verdict.alg), 18) + toText(verdict.kind) +
            ": " + verdict.why + "\n";
  }
  if (answer.hierarchy) text += hierarchyText(answer);
  return text;
}

Json algsJson(const ScheduleCase& asked, const AlgsAnswer& answer) {
  Json json = {{"machine", caseJson(asked)},
               {"op", asked.op.name},
               {"bytes", answer.situation.bytes},
               {"situation", situationJson(answer.situation)},
               {"winner", winnerJson(answer)}};
  if (answer.possible) {
    const encPredicates& possible = *answer.possible;
    json["possible"] = {{"mesh", possible.mesh},
                        {"kangaring", possible.kangaring},
                        {"single_cycle", possible.singleCycle},
                        {"intra_rdh", possible.intraRdh},
                        {"inter_rdh", possible.interRdh},
                        {"hierarchical", possible.hierarchical}};
  }
  json["verdicts"] = Json::array();
  for (const encVerdict& verdict : answer.verdicts) {
    json["verdicts"].push_back({{"algorithm", encAlgName(verdict.alg)},
                                {"value", static_cast<int>(verdict.alg)},
                                {"admitted", verdict.isAdmitted()},
                                {"verdict", toText(verdict.kind)},
                                {"why", verdict.why}});
  }
  return json;
}

std::string sweepText(const ScheduleCase& asked, const AlgsSweep& sweep) {
  std::string text = headText(asked) + asked.op.name + " by size:\n";
  for (const AlgsAnswer& answer : sweep.sizes)
    text += "  " + padded(bytesText(answer.situation.bytes), 12) + winnerText(answer) + "\n";
  text += "\nRegimes:\n";
  for (size_t i = 0; i < sweep.regimes.size(); i++) {
    const AlgsRegime& regime = sweep.regimes[i];
    const bool isLast = i + 1 == sweep.regimes.size();
    const std::string range = isLast ? (i == 0 ? "all sizes" : "larger ones")
                                     : "up to " + bytesText(sweep.regimes[i + 1].first - 1);
    text += "  " + padded(range, 20) + winnerText(regime.answer) + ": " + regime.answer.why + "\n";
  }
  return text;
}

Json sweepJson(const ScheduleCase& asked, const AlgsSweep& sweep) {
  Json json = {{"machine", caseJson(asked)}, {"op", asked.op.name}};
  json["sizes"] = Json::array();
  for (const AlgsAnswer& answer : sweep.sizes) {
    json["sizes"].push_back({{"bytes", answer.situation.bytes}, {"winner", winnerJson(answer)}});
  }
  json["regimes"] = Json::array();
  for (const AlgsRegime& regime : sweep.regimes)
    json["regimes"].push_back({{"first", regime.first}, {"winner", winnerJson(regime.answer)}});
  return json;
}

}  // namespace nccom
