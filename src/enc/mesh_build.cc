#include "enc/mesh_build.h"

#include <algorithm>
#include <utility>

namespace nccom {

using Event = enc_mesh_event_type;
using Trigger = encMeshTrigger;

namespace {

constexpr int kProxyArrivals = 2;  // of an event that goes over the network, at its proxy

std::vector<int> only(const std::vector<int>& members, auto&& keeps) {
  std::vector<int> kept;
  for (const int member : members) {
    if (keeps(member)) kept.push_back(member);
  }
  return kept;
}

void addOnce(std::vector<int>& list, int member) {
  if (std::find(list.begin(), list.end(), member) == list.end()) list.push_back(member);
}

}  // namespace

int encMeshTeams::serverOf(int member, int to) const {
  const int from = team[member];
  return server[from][to] < 0 ? member : members[from][server[from][to]];
}

int encMeshTeams::rootOf(int member, int to) const {
  const int from = team[member];
  return members[to][root[from][to] < 0 ? place[member] : root[from][to]];
}

std::vector<int> encMeshTeams::serversTo(int self) const {
  std::vector<int> servers;
  for (int from = 0; from < count(); from++) {
    for (const int member : members[from]) {
      if (from == team[self] || rootOf(member, team[self]) != self) continue;
      addOnce(servers, serverOf(member, team[self]));
    }
  }
  return servers;
}

std::vector<int> encMeshTeams::rootsOf(int self) const {
  std::vector<int> roots;
  for (int k = 1; k < count(); k++) {
    const int to = (team[self] + k) % count();
    for (const int member : members[team[self]]) {
      if (serverOf(member, to) == self) addOnce(roots, rootOf(member, to));
    }
  }
  return roots;
}

Result<encMeshTeams> encTeamsOfChips(const encMeshGeometry& g) {
  if (g.perChip() == 0) {
    return fail(ncclInvalidArgument,
                "mesh of %d ranks: device %d has %zu of them, others have other numbers: want the "
                "same on all",
                g.n(), g.chips.front().device, g.chips.front().members.size());
  }
  encMeshTeams teams;
  teams.team = g.chip;
  teams.place = g.place;
  for (const encMeshChip& chip : g.chips)
    teams.members.push_back(chip.members);
  teams.server.assign(teams.members.size(), std::vector<int>(teams.members.size(), -1));
  teams.root = teams.server;
  return teams;
}

enc_alg_mesh encEmptyMesh(const encMeshGeometry& g, const encMeshUse& use, enc_alg_mesh_type type,
                          int groups) {
  enc_alg_mesh mesh;
  mesh.mesh_type = type;
  mesh.group_id = g.chip[g.self];
  mesh.num_groups = groups;
  mesh.use_net = g.usesNet();
  mesh.double_buffer = use.doubleBuffer;
  mesh.buffer_max = std::min(g.options.meshBufferBytes, use.workBytes);
  mesh.max_chbuf_space_per_group = mesh.buffer_max / static_cast<uint64_t>(std::max(groups, 1));
  mesh.max_chbuf_space_per_rank = mesh.buffer_max / static_cast<uint64_t>(g.n());
  return mesh;
}

encMeshBuilder::encMeshBuilder(const encMeshGeometry& geometry, const encMeshUse& use,
                               encMeshPlan& plan)
    : geometry_(geometry), use_(use), plan_(plan) {
  for (int k = 1; k < geometry.n(); k++) {
    const int member = (geometry.self + k) % geometry.n();
    (geometry.peers[member].shares ? others_ : net_).push_back(member);
  }
}

std::vector<int> encMeshBuilder::mates() const {
  const encMeshTeams& teams = plan_.teams;
  return only(others_, [&](int m) { return teams.team[m] == teams.team[geometry_.self]; });
}

std::vector<int> encMeshBuilder::strangers() const {
  const encMeshTeams& teams = plan_.teams;
  return only(others_, [&](int m) { return teams.team[m] != teams.team[geometry_.self]; });
}

std::vector<int> encMeshBuilder::counterparts() const {
  const encMeshTeams& teams = plan_.teams;
  return only(strangers(), [&](int m) { return teams.place[m] == teams.place[geometry_.self]; });
}

encMeshBuilder& encMeshBuilder::begin(const std::string& name, const std::string& window,
                                      encOpMask ops) {
  subtype_ = {};
  subtype_.name = name;
  for (const encWindow& w : encWindows({geometry_.situation, geometry_.options})) {
    if (w.law->name == window && w.law->mesh == plan_.mesh.mesh_type) subtype_.limit(w, ops);
  }
  return *this;
}

encMeshBuilder& encMeshBuilder::add(enc_mesh_event event) {
  if (event.evt_type == Event::EVT_INTER_GRP_BRDCST && !net_.empty()) {
    event.net_neighbor_grp = net_;
    event.wait_val += static_cast<int>(net_.size());
    event.proxy_wait_val = kProxyArrivals;
  }
  if (status_.ok()) status_ = encAddMeshEvent(subtype_, std::move(event));
  return *this;
}

encMeshBuilder& encMeshBuilder::handshakes(enc_mesh_event_type local, enc_mesh_event_type global,
                                           const std::vector<int>& needed) {
  const std::vector<int>& with = use_.meets() ? others_ : needed;
  const auto near = [&](int m) { return geometry_.peers[m].isNeighbor; };
  const std::vector<int> neighbors = only(with, near);
  const std::vector<int> rest = only(with, [&](int m) { return !near(m); });
  add(encMeshEvent(local, Trigger::Direct, neighbors, neighbors));
  return add(encMeshEvent(global, Trigger::Direct, rest, rest));
}

encMeshBuilder& encMeshBuilder::data(enc_mesh_event_type type, std::vector<int> sources,
                                     std::vector<int> destinations, int folds) {
  enc_mesh_event event =
      encMeshEvent(type, Trigger::Dma, std::move(sources), std::move(destinations));
  event.num_fold = folds;
  return add(std::move(event));
}

encMeshBuilder& encMeshBuilder::signals(enc_mesh_event_type type, const std::vector<int>& peers) {
  return add(encMeshEvent(type, Trigger::Direct, peers, peers));
}

encMeshBuilder& encMeshBuilder::nothing(enc_mesh_event_type type) {
  return add(encMeshEvent(type, Trigger::Empty, {}, {}));
}

encMeshBuilder& encMeshBuilder::sync() {
  return signals(Event::EVT_SYNC, others_);
}

encMeshBuilder& encMeshBuilder::byTeams(encOpMask ops) {
  const encMeshTeams& teams = plan_.teams;
  const bool reduces = ops != opMask(enc_op_type::AllGather);
  const bool gathers = ops != opMask(enc_op_type::ReduceScatter);
  const bool combines = reduces && teams.count() > 1 && teams.size() > 1;
  subtype_.is_use_chnl_buffer = combines;
  handshakes(Event::EVT_LOCAL_HNDSHK, Event::EVT_GLOBAL_HNDSHK,
             combines ? counterparts() : std::vector<int>{});
  if (reduces && combines) {
    data(Event::EVT_REDUCE_COPY, counterparts(), counterparts());
  } else if (reduces) {
    nothing(Event::EVT_REDUCE_COPY);
  }
  if (reduces) data(Event::EVT_REDUCE_WRITE, {}, {});
  if (!gathers) return sync();
  if (!use_.writesOthers) {
    signals(Event::EVT_REDUCE_LOCAL_HNDSHK, others_);
    return data(Event::EVT_INTER_GRP_BRDCST, {}, {}).nothing(Event::EVT_INTRA_GRP_BRDCST).sync();
  }
  // Who sends for its team mates must know that their data is in its OUTPUT; their INPUT is
  // readable in the first stage.
  const bool sendsForMates = teams.handsOn && teams.server[0][1] >= 0;
  signals(Event::EVT_REDUCE_LOCAL_HNDSHK,
          sendsForMates && (reduces || !use_.first) ? mates() : std::vector<int>{});
  if (!teams.handsOn) {
    return data(Event::EVT_INTER_GRP_BRDCST, {}, {}).nothing(Event::EVT_INTRA_GRP_BRDCST).sync();
  }
  return data(Event::EVT_INTER_GRP_BRDCST, teams.serversTo(geometry_.self),
              teams.rootsOf(geometry_.self))
      .data(Event::EVT_INTRA_GRP_BRDCST, {}, {})
      .sync();
}

encMeshBuilder& encMeshBuilder::inOneStep() {
  subtype_.is_single_step_mesh = true;
  subtype_.is_use_chnl_buffer = true;
  return handshakes(Event::EVT_LOCAL_HNDSHK, Event::EVT_GLOBAL_HNDSHK, others_)
      .data(Event::EVT_INTRA_GRP_BRDCST, mates(), mates())
      .data(Event::EVT_INTER_GRP_BRDCST, strangers(), strangers())
      .data(Event::EVT_REDUCE_WRITE, {}, {})
      .sync();
}

encMeshBuilder& encMeshBuilder::byHalves() {
  subtype_.is_single_step_mesh = true;
  return signals(Event::EVT_LOCAL_HNDSHK, use_.meets() ? others_ : std::vector<int>{})
      .data(Event::EVT_REDUCE_COPY, {}, {})
      .sync();
}

Status encMeshBuilder::end() {
  TRY(status_);
  return encAddMeshSubtype(plan_.mesh, std::move(subtype_));
}

Result<encMeshPlan> encBuildMesh(const encMeshGeometry& g, const encMeshUse& use) {
  if (g.n() < 2) return fail(ncclInvalidArgument, "a mesh of one rank: want at least two");
  if (g.situation.local_rank_n > kMaxMeshDevices) {
    return fail(ncclInvalidArgument, "a mesh of %d ranks on a node: want at most %d",
                g.situation.local_rank_n, kMaxMeshDevices);
  }
  switch (g.type) {
    case enc_alg_mesh_type::FullMesh:
      return encBuildFullMesh(g, use);
    case enc_alg_mesh_type::GroupedMesh:
      return encBuildGroupedMesh(g, use);
    case enc_alg_mesh_type::MeshTrn2:
      return encBuildTrn2Mesh(g, use);
    case enc_alg_mesh_type::MeshSwitch:
      return fail(ncclInvalidArgument,
                  "mesh of %d ranks: switches join them, which have a mesh of "
                  "their own",
                  g.n());
    case enc_alg_mesh_type::Invalid:
      break;
  }
  return fail(ncclInvalidArgument, "Mesh algo untested with %d ranks on this instance type (%s)",
              g.n(), encSituationText(g.situation).c_str());
}

}  // namespace nccom
