#include "enc/alg_select.h"

#include <algorithm>
#include <cinttypes>
#include <limits>

#include "enc/alg_table.h"

namespace nccom {
namespace {

using Alg = enc_alg_type;

/// What came of looking at one algorithm.
struct Look {
  std::optional<std::string> excluded;  // by admission
  std::optional<std::string> unable;    // by operation or size
  const encWindow* window = nullptr;    // that takes the size
  bool isPossible() const { return !excluded && !unable; }
};

std::string windowText(const encWindow& window, enc_op_type op) {
  const auto index = static_cast<size_t>(op);
  const uint64_t min = window.op_min_limit[index], max = window.op_max_limit[index];
  std::string text = std::string(window.law->name) + " takes ";
  if (min > 0) text += "more than " + std::to_string(min) + " (" + window.law->minSays + ") and ";
  if (max == std::numeric_limits<uint64_t>::max()) return text + window.law->maxSays;
  return text + "up to " + std::to_string(max) + " (" + window.law->maxSays + ")";
}

/// Whether the algorithm composes the operation at all.
std::optional<std::string> cannotCompose(Alg alg, const encAlgCase& c,
                                         std::span<const encWindow> windows) {
  const encAlgRow& row = encAlgRowOf(alg);
  if ((row.ops & opMask(c.s.op)) == 0) {
    return std::string("composes ") + opMaskText(row.ops) + ", not " + toText(c.s.op);
  }
  if (!encIsMesh(alg) && alg != Alg::IntraRdh && alg != Alg::InterRdh) return std::nullopt;
  const bool hasWindow = std::any_of(windows.begin(), windows.end(), [&](const encWindow& window) {
    return window.law->alg == alg && window.composes(c.s.op);
  });
  if (hasWindow) return std::nullopt;
  return std::string("has no subtype for ") + toText(c.s.op) + " on a " + toText(encMeshType(c.s)) +
         " of " + encSituationText(c.s);
}

Look lookAt(Alg alg, const encAlgCase& c, std::span<const encWindow> windows) {
  Look look;
  look.excluded = encExcludedBy(alg, c);
  if (look.excluded) return look;
  look.unable = cannotCompose(alg, c, windows);
  if (look.unable) return look;
  std::string limits;
  for (const encWindow& window : windows) {
    if (window.law->alg != alg || !window.composes(c.s.op)) continue;
    if (window.takes(c.s)) {
      look.window = &window;
      return look;
    }
    limits += "; " + windowText(window, c.s.op);
  }
  if (!limits.empty()) look.unable = "is not for " + std::to_string(c.s.bytes) + " bytes" + limits;
  return look;
}

using Looks = std::array<Look, kEncAlgs>;

encPredicates predicatesOf(const Looks& looks) {
  const auto possible = [&](Alg alg) { return looks[static_cast<size_t>(alg)].isPossible(); };
  encPredicates predicates;
  for (int i = 0; i < kEncAlgs; i++) {
    const auto alg = static_cast<Alg>(i);
    predicates.mesh |= encIsMesh(alg) && possible(alg);
  }
  predicates.kangaring = possible(Alg::Kangaring);
  predicates.singleCycle = possible(Alg::SingleCycleRing);
  predicates.intraRdh = possible(Alg::IntraRdh);
  predicates.interRdh = possible(Alg::InterRdh);
  predicates.hierarchical = possible(Alg::Hier);
  return predicates;
}

constexpr encPrecedence kPrecedence[] = {
    {Alg::Hier,
     "hierarchical is possible, kangaring, mesh and single-cycle ring are not, and no device "
     "object of a flat ring was built",
     [](const encPredicates& p, const encSituation& s) {
       return p.hierarchical && !p.kangaring && !p.mesh && !p.singleCycle && !s.ringBuilt;
     }},
    {Alg::IntraRdh, "intra-node RDH is possible",
     [](const encPredicates& p, const encSituation&) { return p.intraRdh; }},
    {Alg::Mesh, "a mesh is possible: the first subtype that takes the size",
     [](const encPredicates& p, const encSituation&) { return p.mesh; }},
    {Alg::Kangaring, "kangaring is possible",
     [](const encPredicates& p, const encSituation&) { return p.kangaring; }},
    {Alg::SingleCycleRing, "single-cycle ring is possible",
     [](const encPredicates& p, const encSituation&) { return p.singleCycle; }},
    {Alg::InterRdh, "inter-node RDH is possible",
     [](const encPredicates& p, const encSituation&) { return p.interRdh; }},
    {Alg::Ring, "otherwise", [](const encPredicates&, const encSituation&) { return true; }},
};

/// Of the mesh family the one whose subtype comes first.
Alg firstMesh(const Looks& looks, std::span<const encWindow> windows) {
  for (const encWindow& window : windows) {
    const Alg alg = window.law->alg;
    if (encIsMesh(alg) && looks[static_cast<size_t>(alg)].window == &window) return alg;
  }
  return Alg::Invalid;
}

/// Why a possible algorithm was not taken.
std::string outrankedBy(Alg loser, const encPrecedence& winner, Alg chosen, const encSituation& s) {
  if (loser == Alg::Hier) {
    if (s.ringBuilt) return "a device object of a flat ring was built already";
    return std::string(
               "kangaring, mesh and single-cycle ring come before it where one of them is "
               "possible: ") +
           encAlgName(chosen) + " is";
  }
  if (encIsMesh(loser) && encIsMesh(chosen)) {
    return std::string("the subtypes of ") + encAlgName(chosen) + " come before its own";
  }
  return std::string(encAlgName(chosen)) + " comes before it: " + winner.says;
}

/// Its own ops, and the ones of each mesh: AlltoAll has nothing to fall back to.
Status checkOp(const encSituation& s, const Looks& looks) {
  const auto op = static_cast<int>(s.op);
  if ((kAlltoAllOps & opMask(s.op)) != 0) {
    const Look& mesh = looks[static_cast<size_t>(Alg::Mesh)];
    if (mesh.isPossible()) return Ok{};
    return fail(ncclInvalidArgument,
                "alltoall cannot be supported without Mesh algorithm, rank_n(%d): mesh %s",
                s.rank_n, mesh.excluded ? mesh.excluded->c_str() : mesh.unable->c_str());
  }
  if ((encAlgRowOf(Alg::Ring).ops & opMask(s.op)) == 0) {
    return fail(ncclInvalidArgument, "not supported operation (op_type %d, %s)", op, toText(s.op));
  }
  return Ok{};
}

void addVerdicts(encAlgSelection& selection, const Looks& looks, const encPrecedence& winner,
                 const encSituation& s) {
  for (int i = 0; i < kEncAlgs; i++) {
    encVerdict& verdict = selection.verdicts[i];
    verdict.alg = static_cast<Alg>(i);
    if (looks[i].excluded) {
      verdict.why = *looks[i].excluded;
    } else if (verdict.alg == selection.alg) {
      verdict.kind = encVerdictKind::Chosen;
      verdict.why = selection.why;
    } else if (looks[i].unable) {
      verdict.kind = encVerdictKind::CannotPost;
      verdict.why = *looks[i].unable;
    } else {
      verdict.kind = encVerdictKind::Outranked;
      verdict.why = outrankedBy(verdict.alg, winner, selection.alg, s);
    }
  }
}

/// The forced algorithm's nearest subtype: the first that does not end below the size.
std::string nearestSubtype(Alg alg, const encSituation& s, std::span<const encWindow> windows) {
  std::string name;
  for (const encWindow& window : windows) {
    if (window.law->alg != alg || !window.composes(s.op)) continue;
    name = window.law->name;
    if (s.bytes <= window.op_max_limit[static_cast<size_t>(s.op)]) break;
  }
  return name;
}

Result<encAlgSelection> selectForced(encAlgSelection selection, const encAlgCase& c,
                                     const Looks& looks, std::span<const encWindow> windows) {
  const Alg forced = *c.o.forced;
  if (forced == Alg::Invalid) return fail(ncclInvalidArgument, "NCCOM_ALG is no algorithm");
  const char* name = encAlgName(forced);
  if (const auto& excluded = looks[static_cast<size_t>(forced)].excluded) {
    return fail(ncclInvalidArgument, "NCCOM_ALG names %s, which is not admitted for %s: it %s",
                name, encSituationText(c.s).c_str(), excluded->c_str());
  }
  if (const auto unable = cannotCompose(forced, c, windows)) {
    return fail(ncclInvalidArgument, "NCCOM_ALG names %s, which %s", name, unable->c_str());
  }
  selection.alg = forced;
  selection.subtype = nearestSubtype(forced, c.s, windows);
  selection.why = "NCCOM_ALG names it";
  for (int i = 0; i < kEncAlgs; i++) {
    encVerdict& verdict = selection.verdicts[i];
    verdict.alg = static_cast<Alg>(i);
    if (looks[i].excluded) {
      verdict.why = *looks[i].excluded;
    } else {
      verdict.kind =
          i == static_cast<int>(forced) ? encVerdictKind::Chosen : encVerdictKind::NotForced;
      verdict.why =
          i == static_cast<int>(forced) ? selection.why : std::string("NCCOM_ALG names ") + name;
    }
  }
  return selection;
}

}  // namespace

const char* toText(encVerdictKind kind) {
  switch (kind) {
    case encVerdictKind::NotAdmitted:
      return "not admitted";
    case encVerdictKind::CannotPost:
      return "admitted, cannot post";
    case encVerdictKind::Outranked:
      return "possible, outranked";
    case encVerdictKind::NotForced:
      return "admitted, not forced";
    case encVerdictKind::Chosen:
      return "chosen";
  }
  return "?";
}

std::span<const encPrecedence> encPrecedenceTable() {
  return kPrecedence;
}

Result<encAlgSelection> encSelectAlg(const encSituation& situation, const encAlgOptions& options) {
  TRY(encCheckSituation(situation));
  const encAlgCase c{situation, options};
  const std::vector<encWindow> windows = encWindows(c);
  Looks looks;
  for (int i = 0; i < kEncAlgs; i++)
    looks[i] = lookAt(static_cast<Alg>(i), c, windows);

  encAlgSelection selection;
  selection.possible = predicatesOf(looks);
  selection.scope = situation.scope();
  if (!looks[static_cast<size_t>(Alg::Mesh)].excluded) selection.mesh = encMeshType(situation);
  if (options.forced) {
    selection = TRY(selectForced(selection, c, looks, windows));
  } else {
    TRY(checkOp(situation, looks));
    const auto winner = std::find_if(
        std::begin(kPrecedence), std::end(kPrecedence),
        [&](const encPrecedence& step) { return step.holds(selection.possible, situation); });
    selection.alg = winner->alg == Alg::Mesh ? firstMesh(looks, windows) : winner->alg;
    selection.why = winner->says;
    if (const auto& excluded = looks[static_cast<size_t>(selection.alg)].excluded) {
      return fail(ncclInvalidArgument,
                  "no algorithm is possible for %s of %" PRIu64 " bytes on %s, and %s %s",
                  toText(situation.op), situation.bytes, encSituationText(situation).c_str(),
                  encAlgName(selection.alg), excluded->c_str());
    }
    if (const encWindow* window = looks[static_cast<size_t>(selection.alg)].window) {
      selection.subtype = window->law->name;
      selection.why += "; " + windowText(*window, situation.op);
    }
    addVerdicts(selection, looks, *winner, situation);
  }
  selection.hybridRing =
      selection.alg == Alg::Ring && options.hybridRing && situation.isHybridRing();
  return selection;
}

std::array<std::optional<std::string>, kEncAlgs> encAdmission(const encSituation& situation,
                                                              const encAlgOptions& options) {
  const encAlgCase c{situation, options};
  std::array<std::optional<std::string>, kEncAlgs> excluded;
  for (int i = 0; i < kEncAlgs; i++)
    excluded[i] = encExcludedBy(static_cast<Alg>(i), c);
  return excluded;
}

std::string encSelectionText(const encSituation& situation, const encAlgSelection& selection) {
  std::string text = std::string(toText(situation.op)) + ", " + std::to_string(situation.bytes) +
                     " bytes, on " + encSituationText(situation) + " (" + toText(selection.scope) +
                     ")\n";
  for (const encVerdict& verdict : selection.verdicts) {
    const std::string name = encAlgName(verdict.alg);
    text += verdict.kind == encVerdictKind::Chosen ? "* " : "  ";
    text += name + std::string(name.size() < 18 ? 18 - name.size() : 1, ' ') +
            toText(verdict.kind) + ": " + verdict.why + "\n";
  }
  return text;
}

}  // namespace nccom
