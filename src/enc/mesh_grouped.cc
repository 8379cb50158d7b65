// The grouped mesh of Inferentia2: teams of six cores, of devices that follow each other. One
// member of each team combines what its team has for a rank of another team; finished data goes to
// the member in the same place of each other team, and on from there.
//
// The builder of the runtime was never published; this one keeps what is known of it: groups of
// six, on one node, a combined chunk from each group.
#include "enc/mesh_build.h"

namespace nccom {
namespace {

using Event = enc_mesh_event_type;

constexpr size_t kMeshInf2MinGroupSize = 6;

/// By six along the chips.
encMeshTeams teamsOfSix(const encMeshGeometry& g) {
  encMeshTeams teams;
  teams.team.resize(g.n());
  teams.place.resize(g.n());
  for (const encMeshChip& chip : g.chips) {
    for (const int member : chip.members) {
      const bool isFull =
          teams.members.empty() || teams.members.back().size() == kMeshInf2MinGroupSize;
      if (isFull) teams.members.emplace_back();
      teams.team[member] = teams.count() - 1;
      teams.place[member] = static_cast<int>(teams.members.back().size());
      teams.members.back().push_back(member);
    }
  }
  teams.server.assign(teams.members.size(), std::vector<int>(teams.members.size(), -1));
  teams.root = teams.server;
  teams.handsOn = teams.count() > 1;
  return teams;
}

}  // namespace

Result<encMeshPlan> encBuildGroupedMesh(const encMeshGeometry& g, const encMeshUse& use) {
  if (static_cast<size_t>(g.n()) % kMeshInf2MinGroupSize != 0) {
    return fail(ncclInvalidArgument, "grouped mesh of %d ranks: want a multiple of %zu", g.n(),
                kMeshInf2MinGroupSize);
  }
  if (g.situation.node_n != 1) {
    return fail(ncclInvalidArgument, "grouped mesh of %d ranks on %d nodes: want one", g.n(),
                g.situation.node_n);
  }
  encMeshPlan plan;
  plan.teams = teamsOfSix(g);
  plan.mesh = encEmptyMesh(g, use, enc_alg_mesh_type::GroupedMesh, plan.teams.count());
  plan.mesh.group_id = plan.teams.team[g.self];
  plan.mesh.src_devs = g.n();
  encMeshBuilder b(g, use, plan);
  TRY(b.begin("grouped", "grouped", kGatherReduceOps).byTeams(kGatherReduceOps).end());
  TRY(b.begin("grouped all-to-all", "grouped all-to-all", kAlltoAllOps)
          .handshakes(Event::EVT_LOCAL_HNDSHK, Event::EVT_GLOBAL_HNDSHK, {})
          .data(Event::EVT_INTER_GRP_BRDCST, {}, {})
          .sync()
          .end());
  TRY(encAppendFnBarriers(plan.mesh, b.others()));
  return plan;
}

}  // namespace nccom
