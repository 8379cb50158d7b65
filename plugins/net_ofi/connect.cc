#include "plugins/net_ofi/connect.h"

#include <sys/random.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "plugins/net_ofi/log.h"

namespace nccom::ofi {
namespace {

constexpr uint64_t kHandleMagic = 0x3149464f4d43434eULL;    // "NCCMOFI1"
constexpr uint64_t kGreetingMagic = 0x4749464f4d43434eULL;  // "NCCMOFIG"
constexpr size_t kMaxStrangers = 64;
constexpr std::chrono::seconds kStrangerPatience(30);
constexpr int kMinTagBits = 44;  // 32 of the caller's tag, and 12 that tell connections apart

Greeting greetingOf(const Endpoint& endpoint, const Cookie& cookie) {
  Greeting greeting{};
  greeting.magic = kGreetingMagic;
  greeting.cookie = cookie;
  greeting.protocol = static_cast<uint32_t>(endpoint.device().protocol);
  strncpy(greeting.provider, endpoint.device().provider(), sizeof greeting.provider - 1);
  const std::vector<std::byte>& address = endpoint.address();
  greeting.addressBytes = static_cast<uint32_t>(address.size());
  memcpy(greeting.address.data(), address.data(),
         std::min(address.size(), greeting.address.size()));
  return greeting;
}

std::vector<std::byte> addressOf(const Greeting& greeting) {
  const size_t bytes = std::min<size_t>(greeting.addressBytes, greeting.address.size());
  return {greeting.address.begin(), greeting.address.begin() + static_cast<std::ptrdiff_t>(bytes)};
}

const char* protocolName(uint32_t protocol) {
  return protocol == static_cast<uint32_t>(Protocol::Tagged) ? "tagged" : "message";
}

}  // namespace

ncclResult_t Endpoints::get(const std::shared_ptr<const Device>& device,
                            std::shared_ptr<Endpoint>& out) {
  const std::lock_guard lock(mutex_);
  const bool share = device->protocol == Protocol::Tagged;
  if (share && (out = shared_[device.get()].lock())) return ncclSuccess;
  std::shared_ptr<Domain> domain = domains_[device.get()].lock();
  if (!domain) TRY(Domain::open(device, domain));
  domains_[device.get()] = domain;
  TRY(Endpoint::open(domain, out));
  if (share && out->tagBits() < kMinTagBits) {
    return failed(ncclSystemError,
                  "provider %s matches %d bits of a tag, %d are needed; set "
                  "NET_OFI_PROTOCOL=message",
                  device->provider(), out->tagBits(), kMinTagBits);
  }
  if (share) shared_[device.get()] = out;
  return ncclSuccess;
}

ncclResult_t ListenComm::open(const std::shared_ptr<const Device>& device, Endpoints& endpoints,
                              void* handle, std::unique_ptr<ListenComm>& out) {
  std::unique_ptr<ListenComm> comm(new ListenComm(device, endpoints));  // NOLINT: private
  TRY(comm->listener_.open(device->controlAddress));
  if (getrandom(comm->cookie_.data(), sizeof(Cookie), 0) != sizeof(Cookie)) {
    return failed(ncclSystemError, "getrandom: %s", strerror(errno));
  }
  const Handle filled{kHandleMagic, comm->cookie_, comm->listener_.address(), 0, 0};
  memset(handle, 0, NCCL_NET_HANDLE_MAXSIZE);
  memcpy(handle, &filled, sizeof filled);
  out = std::move(comm);
  return ncclSuccess;
}

ncclResult_t ListenComm::accept(std::unique_ptr<RecvComm>& out) {
  const auto now = std::chrono::steady_clock::now();
  for (Control control; listener_.accept(control); control = Control()) {
    if (strangers_.size() == kMaxStrangers) strangers_.erase(strangers_.begin());
    strangers_.push_back({std::move(control), now});
  }
  for (auto stranger = strangers_.begin(); stranger != strangers_.end();) {
    Greeting greeting;
    const bool greeted = stranger->control.take(&greeting, sizeof greeting);
    const bool peer = greeted && greeting.magic == kGreetingMagic && greeting.cookie == cookie_;
    const bool lost = stranger->control.gone() || now - stranger->since > kStrangerPatience;
    if (!greeted && !lost) {
      ++stranger;
      continue;
    }
    Control control = std::move(stranger->control);
    stranger = strangers_.erase(stranger);
    if (peer) return welcome(std::move(control), greeting, out);
    inform("dropped a connection that did not greet as a peer");
  }
  return ncclSuccess;
}

ncclResult_t ListenComm::welcome(Control control, const Greeting& greeting,
                                 std::unique_ptr<RecvComm>& out) {
  std::shared_ptr<Endpoint> endpoint;
  TRY(endpoints_.get(device_, endpoint));
  Greeting reply = greetingOf(*endpoint, cookie_);
  if (reply.protocol != greeting.protocol ||
      strncmp(reply.provider, greeting.provider, sizeof reply.provider) != 0) {
    reply.refused = 1;
    snprintf(reply.text, sizeof reply.text, "it uses provider %.40s with %s messages",
             reply.provider, protocolName(reply.protocol));
    control.send(&reply, sizeof reply);
    control.finish();
    return failed(
        ncclInvalidUsage,
        "a peer with provider %.64s and %s messages connects to this process, which uses %s "
        "and %s messages; set FI_PROVIDER alike",
        greeting.provider, protocolName(greeting.protocol), reply.provider,
        protocolName(reply.protocol));
  }
  reply.connection = endpoint->nextConnection();
  control.send(&reply, sizeof reply);
  out = std::make_unique<RecvComm>(std::move(endpoint), std::move(control),
                                   Comm::Peer{addressOf(greeting), reply.connection});
  return ncclSuccess;
}

ncclResult_t Connector::begin(const std::shared_ptr<const Device>& device, Endpoints& endpoints,
                              const Handle& handle, Attempt& attempt) {
  if (handle.magic != kHandleMagic) {
    return failed(ncclInvalidArgument,
                  "connect: the peer's handle is not of this plugin: 0x%016llx",
                  static_cast<unsigned long long>(handle.magic));
  }
  attempt.to = handle.address;
  if (attempt.to.sin6_family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&attempt.to.sin6_addr)) {
    attempt.to.sin6_scope_id =
        device->controlAddress.sin6_scope_id;  // the peer's means nothing here
  }
  TRY(endpoints.get(device, attempt.endpoint));
  TRY(Control::startConnect(attempt.to, attempt.control));
  const Greeting greeting = greetingOf(*attempt.endpoint, handle.cookie);
  attempt.control.send(&greeting, sizeof greeting);
  return ncclSuccess;
}

ncclResult_t Connector::finish(Attempt attempt, const Greeting& reply,
                               std::unique_ptr<SendComm>& out) {
  if (reply.magic != kGreetingMagic) {
    return failed(ncclRemoteError, "connect to %s: the peer does not answer as this plugin does",
                  addressText(attempt.to).c_str());
  }
  if (reply.refused != 0) {
    return failed(ncclInvalidUsage, "connect to %s: refused: %.128s; this process uses %s",
                  addressText(attempt.to).c_str(), reply.text,
                  attempt.endpoint->device().provider());
  }
  Comm::Peer peer{addressOf(reply), reply.connection};
  fi_addr_t to = FI_ADDR_UNSPEC;
  TRY(attempt.endpoint->peer(peer.address, to));
  out = std::make_unique<SendComm>(std::move(attempt.endpoint), std::move(attempt.control),
                                   std::move(peer), to);
  return ncclSuccess;
}

ncclResult_t Connector::connect(const std::shared_ptr<const Device>& device, Endpoints& endpoints,
                                void* raw, std::unique_ptr<SendComm>& out) {
  Handle handle;
  memcpy(&handle, raw, sizeof handle);
  std::unique_ptr<Attempt> attempt;
  {
    const std::lock_guard lock(mutex_);
    const auto known = attempts_.find(handle.connecting);
    if (known != attempts_.end()) {
      attempt = std::move(known->second);
      attempts_.erase(known);
    }
  }
  if (!attempt) {
    attempt = std::make_unique<Attempt>();
    TRY(begin(device, endpoints, handle, *attempt));
  }
  Greeting reply;
  if (attempt->control.take(&reply, sizeof reply)) return finish(std::move(*attempt), reply, out);
  if (attempt->control.gone()) {
    return failed(ncclRemoteError, "connect to %s: %s", addressText(attempt->to).c_str(),
                  attempt->control.why().c_str());
  }
  attempt->endpoint->progress();
  const std::lock_guard lock(mutex_);
  if (handle.connecting == 0) handle.connecting = ++last_;
  attempts_[handle.connecting] = std::move(attempt);
  memcpy(raw, &handle, sizeof handle);
  return ncclSuccess;
}

}  // namespace nccom::ofi
