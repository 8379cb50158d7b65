#include "enc/alg_docs.h"

#include "enc/alg_limits.h"
#include "enc/alg_select.h"
#include "enc/alg_stages.h"
#include "enc/alg_table.h"

namespace nccom {
namespace {

std::string algorithmRows() {
  std::string text =
      "| value | name | in logs | on the device | what it does | composes "
      "|\n|---|---|---|---|---|---|\n";
  for (const encAlgRow& row : encAlgTable()) {
    const enc_pattern_t pattern = encPattern(row.alg);
    text += "| " + std::to_string(static_cast<int>(row.alg)) + " | `" + row.name + "` | " +
            encAlgLogName(row.alg) + " | " +
            (pattern == enc_pattern_t::Ring   ? "ring"
             : pattern == enc_pattern_t::Mesh ? "mesh"
                                              : "made of others") +
            " | " + row.what + " | " + opMaskText(row.ops) + " |\n";
  }
  return text;
}

std::string gateLists() {
  std::string text;
  for (const encAlgRow& row : encAlgTable()) {
    text += "\n`" + std::string(row.name) + "`";
    if (row.gate.empty())
      text += ": always.\n";
    else
      text += " is admitted if\n";
    for (const encRule* rule : row.gate)
      text += std::string("- ") + rule->says + "\n";
  }
  return text;
}

std::string armRows() {
  std::string text = "| machine | a mesh takes |\n|---|---|\n";
  for (const encMeshArm& arm : encMeshArms()) {
    text += std::string("| ") + arm.machine + " | " + arm.says + " |\n";
  }
  return text;
}

std::string windowRows() {
  std::string text =
      "| algorithm | subtype | mesh | operations | where | more than | up to |\n"
      "|---|---|---|---|---|---|---|\n";
  for (const encWindowLaw& law : encWindowLaws()) {
    text += std::string("| `") + encAlgName(law.alg) + "` | " + law.name + " | " +
            (law.mesh == enc_alg_mesh_type::Invalid ? "-" : toText(law.mesh)) + " | " +
            opMaskText(law.ops) + " | " + law.where + " | " + law.minSays + " | " + law.maxSays +
            " |\n";
  }
  return text;
}

std::string precedenceList() {
  std::string text;
  int place = 1;
  for (const encPrecedence& step : encPrecedenceTable()) {
    text += std::to_string(place++) + ". `" + encAlgName(step.alg) + "`: " + step.says + "\n";
  }
  return text;
}

std::string slotRows() {
  std::string text = "| slot | candidates in order |\n|---|---|\n";
  for (int i = 0; i < kHierSlots; i++) {
    const auto slot = static_cast<encHierSlot>(i);
    text += std::string("| `") + toText(slot) + "` | ";
    for (const enc_alg_type alg : encHierCandidates(slot)) {
      text += std::string("`") + encAlgName(alg) + "`, ";
    }
    text += "`ring` |\n";
  }
  return text;
}

}  // namespace

std::string encAlgorithmsMarkdown() {
  return "# Algorithms and how one is chosen\n\n"
         "Made from the tables of `src/enc/alg_*.cc`, which selection itself walks; a test "
         "compares "
         "them.\n\n## Algorithms\n\n" +
         algorithmRows() +
         "\nThe Neuron runtime composes neither Broadcast nor Reduce; here the ring does.\n"
         "PermuteReduce is rejected, as there; only its implicit form exists.\n"
         "\n## Direct\n\n"
         "On hosts without devices, ranks that share memory are no farther from each other than "
         "memory is. There `direct` comes before all algorithms of the table, unless `NCCOM_ALG` "
         "or "
         "`NEURON_RT_CC_ALG_TYPES` says otherwise: every input is read once and every output "
         "written "
         "once. It composes AllReduce, Reduce, Broadcast, ReduceScatter, AllGather and AlltoAll, "
         "but "
         "no PreMulSum. On emulated devices `NCCOM_ALG=direct` takes it.\n\n"
         "Where a buffer is plain memory, and ranks of other processes take part, they cannot "
         "reach "
         "it: `staged` then runs in the place of `direct`. Each rank copies what others are to "
         "read to memory that all share, in windows that stay in its caches; results are the "
         "same, bit for bit. `NCCOM_ALG=staged` takes it always.\n"
         "\n## Admission\n\n"
         "Of AllGather, AllReduce, ReduceScatter and AlltoAll; the other operations have one way "
         "each: "
         "Broadcast and Reduce rings, Gather, Scatter, Send and Recv point to point (`p2p`), "
         "Permute "
         "along its pairs (`permute`), everything in a group of one rank a copy (`copy`). A "
         "PreMulSum "
         "goes by rings, too, as ranks multiply their own inputs there, unless an algorithm that "
         "does the same is named. "
         "Rules about the machine, the group and the switches that users set. Before all others: "
         "bit `value + 11 * scope` of `NEURON_RT_CC_ALG_TYPES` is set, scope 0 within a node, 1 "
         "between nodes.\n" +
         gateLists() + "\n### Meshes\n\n" + armRows() +
         "\n## Size windows\n\n"
         "An algorithm with windows is chosen for an operation only if a window takes the size: "
         "bytes of the longer side, all parts together. Windows are preferences: `NCCOM_ALG` "
         "overrides them. Mesh buffer is `NEURON_RT_DBG_MESH_CHANNEL_BUFFER_SIZE`, RDH buffer "
         "`NEURON_RT_DBG_INTRA_RDH_CHANNEL_BUFFER_SIZE`, inter-node RDH buffer "
         "`NEURON_RT_DBG_INTER_RDH_CHANNEL_BUFFER_SIZE`.\n\n" +
         windowRows() +
         "\n## Precedence\n\nAll are evaluated, then the first that holds is taken.\n\n" +
         precedenceList() +
         "\n`NCCOM_ALG=<name>` (`rdh`: that of the scope) takes one of them whatever its place and "
         "window, and fails with the rule if it is not admitted or does not compose the "
         "operation.\n"
         "\n## Stages of a hierarchy\n\n"
         "Each slot takes the first candidate that is possible for the stage's own group and "
         "size.\n\n" +
         slotRows();
}

}  // namespace nccom
