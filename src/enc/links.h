// Links: which ways the bytes of transfers take through a machine, and what each link carries.
//
// Memory of two ranks of one device is joined by the device itself. Devices are joined by the
// links of their host, or of their pod, and bytes take the way that passes the fewest
// (shortestWay(), graph/neuron_search.h); a path through a switch is one hop, and loads the ports
// of both its devices. Servers of different pods have no link: that is what networks are for.
// Without a platform ("host") all memory is shared, and there are no links.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "enc/comm_info.h"
#include "graph/fabric.h"
#include "misc/result.h"

namespace nccom {

/// A way from memory of one rank to memory of another.
struct encRoute {
  bool joined = false;
  int hops = 0;                                 // devices that are reached: 0 within one
  std::vector<int> links;                       // of the fabric, one a hop
  EdgeLocality locality = EdgeLocality::Local;  // within a device
};

/// What links of one kind carried.
struct encLinkUse {
  std::string kind;     // "NeuronLink", "rack switch"; "D2D" ... within devices
  bool within = false;  // a device
  int links = 0;        // that carried anything, each direction by itself; of a switch: ports
  uint64_t bytes = 0;   // of all
  uint64_t most = 0;    // of one
  std::string busiest;  // that one
  bool operator==(const encLinkUse&) const = default;
};

class encLinks {
 public:
  /// nullopt: nothing is known of the machine.
  /// @error ncclInvalidArgument  the platform has no such core size, or ranks are on cores that it
  ///                             does not have
  static Result<std::optional<encLinks>> of(const enc_comm_info& info);

  /// Whether there is a way between two ranks.
  bool joined(int from, int to) const;
  const encRoute& route(int from, int to);
  /// Why there is no way between two ranks.
  std::string whyNot(int from, int to) const;

  /// Bytes go from memory of one rank to memory of another. Nothing is counted without a way.
  void carry(int from, int to, uint64_t bytes);
  /// By kind, in the order of kinds; those within devices first.
  std::vector<encLinkUse> uses() const;
  /// Of all ways that anything was carried over.
  int mostHops() const { return mostHops_; }

 private:
  struct Place {
    int pod = 0;   // server where there are no pods
    int core = 0;  // of the fabric
  };
  /// Cores of a device; devices; a device and its switch, which is -1, either way.
  struct Link {
    size_t kind = 0;
    int pod = 0, from = 0, to = 0;
    auto operator<=>(const Link&) const = default;  // NOLINT: there is no nullptr
  };

  encLinks(NeuronFabric fabric, std::vector<Place> places);
  encRoute find(int fromCore, int toCore) const;
  std::string nameOf(const Link& link) const;

  NeuronFabric fabric_;                             // of a pod
  std::vector<int> component_;                      // [device] of those that links join
  std::vector<Place> places_;                       // [rank]
  std::map<std::pair<int, int>, encRoute> routes_;  // by cores
  encRoute none_;
  int mostHops_ = 0;
  std::map<Link, uint64_t> loads_;
};

}  // namespace nccom
