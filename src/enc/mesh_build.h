// Builds the mesh of a stage: a pure function of where its members are and of how the stage is
// used. The four kinds build their subtypes each in their way; what they have in common is here.
//
// A mesh joins teams of members. A team deposits what it has for another one once, combined: on
// Trainium a team is a chip; on Inferentia2 it may be a set of six cores; where chips have one
// member each nothing can be combined, and everybody reads and writes everybody's buffers.
#pragma once

#include <string>
#include <vector>

#include "enc/alg_situation.h"
#include "enc/mesh_event.h"
#include "enc/mesh_geometry.h"
#include "enc/mesh_roles.h"
#include "enc/stage.h"
#include "misc/result.h"

namespace nccom {

/// What of a stage decides which events do something.
struct encMeshUse {
  bool first = true;         // buffers of a launched operation may be touched at once
  bool writesOthers = true;  // OUTPUT of others may be written
  uint64_t workBytes = 0;    // of work area
  bool doubleBuffer = true;  // see enc_alg_mesh
  /// Members meet before they touch each other's buffers, whichever those are.
  bool meets() const { return !first || !doubleBuffer; }
  static encMeshUse of(const encStage& stage, const encAlgOptions& options) {
    return {stage.first, stage.writesOthers(), stage.workBytes,
            options.meshDoubleBuffer && !options.enforceMeshHandshake};
  }
};

/// The teams, all of one size, and who carries finished data from one to another.
struct encMeshTeams {
  std::vector<std::vector<int>> members;  // [team][place]
  std::vector<int> team, place;           // [member]
  /// [from team][to team] place of the member that sends what its team has (reading it from its
  /// team mates), and of the one that gets it and hands it on to its own team. -1: every member
  /// sends its own, to the one in its place.
  std::vector<std::vector<int>> server, root;
  bool handsOn = false;  // finished data takes that way; else it goes to everybody directly

  int count() const { return static_cast<int>(members.size()); }
  int size() const { return static_cast<int>(members.front().size()); }
  /// Who carries the data of `member` to another team, and who gets it there.
  int serverOf(int member, int to) const;
  int rootOf(int member, int to) const;
  /// Of data that reaches `self`, who sends it; and to whom `self` sends some.
  std::vector<int> serversTo(int self) const;
  std::vector<int> rootsOf(int self) const;
};

struct encMeshPlan {
  enc_alg_mesh mesh;
  encMeshTeams teams;
  std::vector<int> order;  // of the roots of all groups: each rank starts with another
};

/// The mesh of a kind that encMeshType names, but a switch mesh.
///
/// @error ncclInvalidArgument  the kind does not join such members: names the ranks and the rule
/// @error ncclInternalError    a subtype would break the rules of mesh_event.h
Result<encMeshPlan> encBuildMesh(const encMeshGeometry& geometry, const encMeshUse& use);

// ---- by kind; encBuildMesh chooses -----------------------------------------------------------

Result<encMeshPlan> encBuildFullMesh(const encMeshGeometry& geometry, const encMeshUse& use);
Result<encMeshPlan> encBuildGroupedMesh(const encMeshGeometry& geometry, const encMeshUse& use);
Result<encMeshPlan> encBuildTrn2Mesh(const encMeshGeometry& geometry, const encMeshUse& use);

// ---- what they are made of -------------------------------------------------------------------

/// Teams that are the chips.
/// @error ncclInvalidArgument  chips differ in size
Result<encMeshTeams> encTeamsOfChips(const encMeshGeometry& geometry);

/// A mesh with its budget, and no subtypes.
enc_alg_mesh encEmptyMesh(const encMeshGeometry& geometry, const encMeshUse& use,
                          enc_alg_mesh_type type, int groups);

/// Builds subtypes of one mesh.
class encMeshBuilder {
 public:
  encMeshBuilder(const encMeshGeometry& geometry, const encMeshUse& use, encMeshPlan& plan);

  /// All others that share memory with us, the next one first; and those of them in our team, or
  /// not.
  const std::vector<int>& others() const { return others_; }
  std::vector<int> mates() const;
  std::vector<int> strangers() const;
  /// Of other teams, those in our place: what we combine is for them, and theirs is for us.
  std::vector<int> counterparts() const;

  /// A subtype with the window of this name, for some of its operations.
  encMeshBuilder& begin(const std::string& name, const std::string& window, encOpMask ops);
  enc_alg_mesh_subtype& subtype() { return subtype_; }
  /// Handshakes with `needed`, whose work areas or buffers we touch, or who touch ours: neighbours
  /// by the local one, the rest by the global one. Where members meet at any rate, with all.
  encMeshBuilder& handshakes(enc_mesh_event_type local, enc_mesh_event_type global,
                             const std::vector<int>& needed);
  /// Transfers, whose arrivals at `destinations` are awaited.
  encMeshBuilder& data(enc_mesh_event_type type, std::vector<int> sources,
                       std::vector<int> destinations, int folds = 0);
  encMeshBuilder& signals(enc_mesh_event_type type, const std::vector<int>& peers);
  encMeshBuilder& nothing(enc_mesh_event_type type);
  encMeshBuilder& sync();
  /// All events of a subtype of the operations `ops`, by teams: LOCAL_HNDSHK, GLOBAL_HNDSHK;
  /// REDUCE_COPY, REDUCE_WRITE if they reduce; REDUCE_LOCAL_HNDSHK, INTER_GRP_BRDCST,
  /// INTRA_GRP_BRDCST if they gather; SYNC.
  encMeshBuilder& byTeams(encOpMask ops);
  /// Of AllReduce, by everybody's whole buffer in everybody's work area.
  encMeshBuilder& inOneStep();
  /// Of AllReduce of two ranks: each folds a half, and gives it to both.
  encMeshBuilder& byHalves();
  /// The first thing that went wrong, if any; else the subtype takes its slot.
  Status end();
  const encMeshUse& use() const { return use_; }

 private:
  encMeshBuilder& add(enc_mesh_event event);

  const encMeshGeometry& geometry_;
  const encMeshUse use_;
  encMeshPlan& plan_;
  std::vector<int> others_, net_;  // that share memory with us, or not
  enc_alg_mesh_subtype subtype_;
  Status status_ = Ok{};
};

}  // namespace nccom
