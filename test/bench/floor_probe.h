// How far apart this machine's cores are at the moment.
#pragma once

namespace nccom::bench {

/// Takes some milliseconds; prints a line of four figures, of which one that cannot be had here is
/// 0. Returns the program's exit status.
int printProbe();

}  // namespace nccom::bench
