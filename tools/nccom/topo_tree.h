// A system as a tree for people: CPUs, what hangs off them by PCI, and the fabric beside it.
#pragma once

#include <string>
#include <vector>

#include "graph/topo.h"

namespace nccom {

/// A box of the tree. A device and the one GPU on it are one box, a NIC and its ports another.
struct TopoBox {
  ncclTopoNodeRef node;
  std::string title;                // "GPU 3", "PCI 0000:03:00.0"
  std::string facts;                // "rank 3, sm 70, GDR"; may be empty
  float upGBps = 0;                 // of the link to the box above; 0: none
  std::vector<std::string> fabric;  // links to other devices: "2 x NVL 40 GB/s to GPU 3"
  std::vector<int> ranks;           // of the GPUs in this box
  std::vector<TopoBox> children;
};

/// One tree a CPU, in their order.
std::vector<TopoBox> topoTree(const ncclTopoSystem& system);

/// "40", "1.25", "0.125": as many digits as it takes, at most three.
std::string rateText(float gbps);

}  // namespace nccom
