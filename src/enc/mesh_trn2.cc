// The mesh of Trainium2 and 3 devices that links join: a team is a chip.
//
//   all-gather       the chips that a chip has data for are dealt to its ranks. Each reads the
//                    chunks of its chip and writes them to the rank, on each chip of its share,
//                    that is next to where the route comes in; so each chunk crosses each link of
//                    its way once. Then each rank hands on what it got to the others of its chip.
//   reduce-scatter   a rank serves those in its place on all other chips: folds the chunks that
//                    its chip has for them, and writes the sum to their work area. Then each folds
//                    the sums, one a chip, into its OUTPUT.
//   all-reduce       both, one after the other.
//   single-step      each gives all it has to all; each folds.
//
// The events of the runtime's builder were never published; these follow the public description of
// what they do. As there, subtypes are built in two passes with slots of their own, for small and
// for large messages.
#include <string>

#include "enc/mesh_build.h"

namespace nccom {
namespace {

using Event = enc_mesh_event_type;

constexpr encOpMask kAllReduce = opMask(enc_op_type::AllReduce);
constexpr encOpMask kReduceScatter = opMask(enc_op_type::ReduceScatter);
constexpr encOpMask kAllGather = opMask(enc_op_type::AllGather);

void route(const encMeshGeometry& g, encMeshTeams& teams) {
  teams.handsOn = teams.count() > 1 && teams.size() > 1;
  for (int from = 0; from < teams.count(); from++) {
    for (int k = 1; k < teams.count(); k++) {
      const int to = (from + k) % teams.count();
      teams.server[from][to] = (k - 1) % teams.size();
      teams.root[from][to] = g.entry[from][to];
    }
  }
}

/// One pass of __build_cc_ops: a slot of its own for each operation.
Status buildPass(encMeshBuilder& b, bool increaseDma) {
  const std::string window = increaseDma ? "large" : "small";
  const std::pair<const char*, encOpMask> ops[] = {{" all-reduce", kAllReduce},
                                                   {" reduce-scatter", kReduceScatter},
                                                   {" all-gather", kAllGather}};
  for (const auto& [name, op] : ops) {
    b.begin(window + name, window, op);
    b.subtype().increase_dma = increaseDma;
    TRY(b.byTeams(op).end());
  }
  return Ok{};
}

}  // namespace

Result<encMeshPlan> encBuildTrn2Mesh(const encMeshGeometry& g, const encMeshUse& use) {
  encMeshPlan plan;
  plan.teams = TRY(encTeamsOfChips(g));
  route(g, plan.teams);
  plan.mesh = encEmptyMesh(g, use, enc_alg_mesh_type::MeshTrn2, plan.teams.count());
  plan.mesh.src_devs = g.n();
  encMeshBuilder b(g, use, plan);
  if (g.situation.node_n == 1) {
    b.begin("single-step", "single-step", kAllReduce);
    TRY(g.n() == 2 && use.writesOthers ? b.byHalves().end() : b.inOneStep().end());
    TRY(buildPass(b, false));
    TRY(buildPass(b, true));
  }
  TRY(b.begin("all-to-all", "all-to-all", kAlltoAllOps)
          .handshakes(Event::EVT_LOCAL_HNDSHK_1, Event::EVT_GLOBAL_HNDSHK_1, {})
          .data(Event::EVT_INTER_GRP_BRDCST_1, {}, {})
          .data(Event::EVT_INTRA_GRP_BRDCST_1, {}, {})
          .sync()
          .end());
  TRY(encAppendFnBarriers(plan.mesh, b.others()));
  return plan;
}

}  // namespace nccom
