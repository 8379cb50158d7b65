// The builtin net: TCP sockets, for when no plugin is named.
#pragma once

#include <memory>

#include "misc/ifaces.h"
#include "misc/result.h"
#include "plugin/net.h"

namespace nccom {

/// A Net named "Socket", one device an interface of the choice, host memory only, no thread of its
/// own: messages move while isend and test are called.
///
/// @error  ncclInvalidUsage  no interface is as asked for; see chooseInterfaces()
Result<std::unique_ptr<Net>> openSocketNet(const InterfaceChoice& choice);

}  // namespace nccom
