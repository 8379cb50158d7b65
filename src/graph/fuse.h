// Several documents of one system made one, as the ranks of a host (or of several hosts with one
// device fabric) do with what each of them has seen.
#pragma once

#include "graph/xml.h"
#include "misc/result.h"

namespace nccom {

/// Adds what `from` has and `into` lacks. Two elements are one if their names are equal, and their
/// attributes, in any order; then what is below them is fused in turn. All else is appended in the
/// order of `from`: an attribute that only one document has duplicates a subtree.
///
/// @error ncclInvalidArgument  the roots differ in name or attributes
Status ncclTopoFuseXml(const ncclXml& into, const ncclXml& from);

}  // namespace nccom
