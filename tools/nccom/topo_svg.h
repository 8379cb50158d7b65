// Answers as pictures.
#pragma once

#include <string>

#include "tools/nccom/svg.h"
#include "tools/nccom/topo_run.h"

namespace nccom {

/// A drawing of the first domain and its ring channels: of a Trainium host the grid of devices with
/// cores, links and NICs; of any other system CPUs, PCI switches, devices and NICs as nested boxes.
std::string answerSvg(const TopoAnswer& answer);

/// The two kinds of drawing. `y` is where the next thing may be drawn; both return it moved on.
double drawTree(Svg& svg, const TopoDomain& domain, double y);
double drawFabric(Svg& svg, const TopoDomain& domain, const PipelineHost& host, double y);

}  // namespace nccom
