#include "comm/bootstrap.h"

#include <poll.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "misc/ifaces.h"
#include "misc/log.h"

namespace nccom {
namespace {

// An id that ncclGetUniqueId made has a root already, so one that cannot be reached has ended.
constexpr std::chrono::milliseconds kDeadRootTime{5000};
// The root counts from the first check-in and should be the one that says who is missing.
constexpr std::chrono::milliseconds kRootGrace{5000};

std::string rankText(int rank, const ProcessName& name, const SocketAddress& address) {
  std::string text = describeRank(rank, name);
  text.back() = ',';  // the closing parenthesis
  return text + " " + address.text() + ")";
}

/// A link-local address means something only on an interface of ours: the one that leads there.
SocketAddress reachable(SocketAddress address, uint32_t interfaceIndex) {
  if (address.isLinkLocal()) address.setScope(interfaceIndex);
  return address;
}

Error inStage(const char* call, const char* stage, const std::string& what, const Error& error) {
  return fail(error.code, "%s '%s': %s: %s", call, stage, what.c_str(), error.message.c_str());
}

}  // namespace

/// An all-gather is one stream around the ring: a header, the own part, and then what came from the
/// previous rank, as it comes. So part k on its way out is that of rank - k, and on its way in that
/// of rank - 1 - k.
struct Bootstrap::Transfer {
  char* all = nullptr;
  size_t bytes = 0;  // of a part
  size_t total = 0;  // of the parts that go each way
  GatherHeader headerOut, headerIn;
  size_t headerSent = 0, headerReceived = 0;
  size_t sent = 0, received = 0;  // of the parts

  bool sentAll() const { return headerSent == sizeof(GatherHeader) && sent == total; }
  bool receivedAll() const { return headerReceived == sizeof(GatherHeader) && received == total; }
  /// How far the parts can be sent: own part and what has come.
  size_t sendable() const { return std::min(total, bytes + received); }
};

Result<std::unique_ptr<Bootstrap>> Bootstrap::init(const BootstrapConfig& config,
                                                   BootstrapRoots& roots, const ncclUniqueId& id,
                                                   int rank, int nRanks,
                                                   const std::atomic<uint32_t>* abortFlag) {
  if (nRanks < 1) return fail(ncclInvalidArgument, "nranks is %d; expected at least 1", nRanks);
  if (rank < 0 || rank >= nRanks) {
    return fail(ncclInvalidArgument, "rank is %d; expected 0 to %d", rank, nRanks - 1);
  }
  const BootstrapId content = TRY(unpackUniqueId(id));
  std::unique_ptr<Bootstrap> self(new Bootstrap(config, rank, nRanks, abortFlag));
  if (nRanks == 1) {
    self->places_.push_back({SocketAddress(), ownName()});
    self->clusterId_ = TRY(randomBits());
    self->epoch_ = static_cast<uint64_t>(time(nullptr));
    return self;
  }
  if (content.fromCommId && rank == 0) TRY(roots.serve(content, nRanks, config));
  TRY(self->meet(content));
  return self;
}

Status Bootstrap::meet(const BootstrapId& id) {
  const Interface interface = TRY(findInterfaceToward(id.root, {config_.ifname, config_.family}));
  port_ = std::make_unique<BootstrapPort>(
      TRY(BootstrapPort::open(interface.address, id.secret, rank_, nRanks_, abortFlag_)));
  places_.resize(static_cast<size_t>(nRanks_));
  places_[rank_] = {port_->address(), ownName()};
  BootstrapId root = id;
  root.root = reachable(id.root, interface.index);
  Verdict verdict = TRY(checkIn(root));
  verdict.next = reachable(verdict.next, interface.index);
  clusterId_ = verdict.clusterId;
  epoch_ = verdict.epoch;
  TRY(connectRing(verdict));
  TRY(gatherPlaces());
  for (Place& place : places_)
    place.listen = reachable(place.listen, interface.index);
  INFO(kLogBootstrap, "bootstrap of rank %d of %d: at %s (%s), next %s", rank_, nRanks_,
       port_->address().text().c_str(), interface.name.c_str(), describe(next()).c_str());
  return Ok{};
}

Deadline Bootstrap::deadline() const {
  return Deadline::after(config_.timeout(), abortFlag_);
}

Result<Verdict> Bootstrap::checkIn(const BootstrapId& id) {
  const std::string where = "bootstrap root " + id.root.text();
  const auto patience =
      id.fromCommId ? config_.timeout() : std::min(config_.timeout(), kDeadRootTime);
  auto connected = Socket::connect(id.root, Deadline::after(patience, abortFlag_));
  if (!connected.ok()) {
    return fail(connected.error().code, "%s of rank %d: %s%s", where.c_str(), rank_,
                connected.error().message.c_str(),
                id.fromCommId ? "" : " (has the process that made the unique id ended?)");
  }
  Socket& socket = connected.value();
  CheckIn in;
  in.secret = id.secret;
  in.rank = rank_;
  in.nRanks = nRanks_;
  in.listen = port_->address();
  in.name = ownName();
  const Deadline deadline = Deadline::after(config_.timeout() + kRootGrace, abortFlag_);
  Verdict verdict;
  Status done = socket.send(&in, sizeof in, deadline);
  if (done.ok()) done = socket.recv(&verdict, sizeof verdict, deadline);
  std::string text;
  if (done.ok() && verdict.magic == kBootstrapMagic && verdict.textBytes <= kMaxVerdictText) {
    text.resize(verdict.textBytes);
    done = socket.recv(text.data(), text.size(), deadline);
  }
  if (!done.ok()) {
    return fail(done.error().code, "%s: rank %d of %d waited for the other ranks: %s",
                where.c_str(), rank_, nRanks_, done.error().message.c_str());
  }
  if (verdict.magic != kBootstrapMagic) {
    return fail(ncclRemoteError, "%s does not speak the bootstrap protocol", where.c_str());
  }
  if (verdict.code != ncclSuccess) {
    return fail(static_cast<ncclResult_t>(verdict.code), "%s: %s", where.c_str(), text.c_str());
  }
  return verdict;
}

Status Bootstrap::connectRing(const Verdict& verdict) {
  places_[next()] = {verdict.next, verdict.nextName};
  const Deadline limit = deadline();
  for (const HelloKind kind : {HelloKind::Ring, HelloKind::Control}) {
    auto made = port_->connectTo(next(), verdict.next, kind, limit);
    if (!made.ok()) return at("bootstrap", "ring", next(), made.error());
    (kind == HelloKind::Ring ? ringNext_ : control_.next) = std::move(made).value();
  }
  control_.rank = rank_;
  control_.nRanks = nRanks_;
  control_.nextName = verdict.nextName;
  return awaitPrev();
}

Status Bootstrap::awaitPrev() {
  const Deadline limit = deadline();
  while (!ringPrev_ || !control_.prev) {
    if (auto caller = port_->takeCaller(HelloKind::Ring, prev())) {
      ringPrev_ = std::move(caller->socket);
      if (prev() != next()) places_[prev()] = {ringPrev_.peer(), caller->name};
    } else if (auto control = port_->takeCaller(HelloKind::Control, prev())) {
      control_.prev = std::move(control->socket);
      control_.prevName = control->name;
    } else {
      // Nothing is ever sent this way, so what there is to read is the end of the next rank. It
      // fails when its own neighbour does, so the news goes all the way round.
      pollfd fds[] = {{ringNext_.fd(), POLLIN, 0}};
      const Status waited = port_->wait(fds, limit);
      if (!waited.ok()) {
        return inStage("bootstrap", "ring", "rank " + std::to_string(prev()) + " has not connected",
                       waited.error());
      }
      if (fds[0].revents != 0) {
        return at("bootstrap", "ring", next(), fail(ncclRemoteError, "closed its connection"));
      }
    }
  }
  return Ok{};
}

Status Bootstrap::gatherPlaces() {
  std::vector<Place> places(static_cast<size_t>(nRanks_));
  places[rank_] = places_[rank_];
  TRY(allGather(std::span<Place>(places), "addresses"));
  for (int rank = 0; rank < nRanks_; rank++) {
    if (!places[rank].listen.valid()) {
      return fail(ncclInternalError, "allGather 'addresses': rank %d gave an address of family %d",
                  rank, places[rank].listen.family());
    }
  }
  places_ = std::move(places);
  return Ok{};
}

std::string Bootstrap::describe(int rank) const {
  const Place& place = places_[rank];
  return place.listen.valid() ? rankText(rank, place.name, place.listen)
                              : describeRank(rank, place.name);
}

Error Bootstrap::at(const char* call, const char* stage, int peer, const Error& error) const {
  return inStage(call, stage, describe(peer), error);
}

Status Bootstrap::allGather(void* all, size_t bytes, const char* stage) {
  if (nRanks_ == 1) return Ok{};
  const Deadline limit = deadline();
  Transfer transfer;
  transfer.all = static_cast<char*>(all);
  transfer.bytes = bytes;
  transfer.total = bytes * static_cast<size_t>(nRanks_ - 1);
  transfer.headerOut.sequence = gathers_++;
  transfer.headerOut.bytes = bytes;
  strncpy(transfer.headerOut.stage, stage, sizeof transfer.headerOut.stage - 1);
  while (!transfer.sentAll() || !transfer.receivedAll()) {
    const auto pushed = push(transfer);
    if (!pushed.ok()) return at("allGather", stage, next(), pushed.error());
    const auto pulled = pull(transfer);
    if (!pulled.ok()) return at("allGather", stage, prev(), pulled.error());
    if (pushed.value() || pulled.value()) continue;
    const bool unsent =
        transfer.headerSent < sizeof(GatherHeader) || transfer.sent < transfer.sendable();
    pollfd fds[] = {{transfer.receivedAll() ? -1 : ringPrev_.fd(), POLLIN, 0},
                    {unsent ? ringNext_.fd() : -1, POLLOUT, 0}};
    const Status waited = port_->wait(fds, limit);
    if (waited.ok()) continue;
    if (transfer.receivedAll()) return at("allGather", stage, next(), waited.error());
    const size_t part = bytes == 0 ? 0 : transfer.received / bytes;
    const int missing = (prev() + nRanks_ - static_cast<int>(part)) % nRanks_;
    return inStage(
        "allGather", stage,
        "the part of " + describe(missing) + " has not come from rank " + std::to_string(prev()),
        waited.error());
  }
  return Ok{};
}

/// Sends what can be sent now. False: nothing.
Result<bool> Bootstrap::push(Transfer& transfer) {
  bool moved = false;
  if (transfer.headerSent < sizeof(GatherHeader)) {
    const char* header = reinterpret_cast<const char*>(&transfer.headerOut);
    const size_t sent = TRY(ringNext_.trySend(header + transfer.headerSent,
                                              sizeof(GatherHeader) - transfer.headerSent));
    transfer.headerSent += sent;
    if (transfer.headerSent < sizeof(GatherHeader)) return sent > 0;
    moved = true;
  }
  while (transfer.sent < transfer.sendable()) {
    const size_t part = transfer.sent / transfer.bytes;
    const size_t offset = transfer.sent % transfer.bytes;
    const size_t owner =
        (static_cast<size_t>(rank_ + nRanks_) - part) % static_cast<size_t>(nRanks_);
    const size_t chunk = std::min(transfer.bytes - offset, transfer.sendable() - transfer.sent);
    const size_t sent =
        TRY(ringNext_.trySend(transfer.all + owner * transfer.bytes + offset, chunk));
    transfer.sent += sent;
    if (sent == 0) return moved;
    moved = true;
  }
  return moved;
}

/// Receives what has come. False: nothing.
Result<bool> Bootstrap::pull(Transfer& transfer) {
  bool moved = false;
  if (transfer.headerReceived < sizeof(GatherHeader)) {
    char* header = reinterpret_cast<char*>(&transfer.headerIn);
    const size_t got = TRY(ringPrev_.tryRecv(header + transfer.headerReceived,
                                             sizeof(GatherHeader) - transfer.headerReceived));
    transfer.headerReceived += got;
    if (transfer.headerReceived < sizeof(GatherHeader)) return got > 0;
    TRY(checkHeader(transfer));
    moved = true;
  }
  while (transfer.received < transfer.total) {
    const size_t part = transfer.received / transfer.bytes;
    const size_t offset = transfer.received % transfer.bytes;
    const size_t owner =
        (static_cast<size_t>(prev() + nRanks_) - part) % static_cast<size_t>(nRanks_);
    const size_t got = TRY(
        ringPrev_.tryRecv(transfer.all + owner * transfer.bytes + offset, transfer.bytes - offset));
    transfer.received += got;
    if (got == 0) return moved;
    moved = true;
  }
  return moved;
}

Status Bootstrap::checkHeader(const Transfer& transfer) const {
  const GatherHeader& ours = transfer.headerOut;
  const GatherHeader& theirs = transfer.headerIn;
  if (memcmp(&ours, &theirs, sizeof ours) == 0) return Ok{};
  const size_t length = strnlen(theirs.stage, sizeof theirs.stage);
  return fail(ncclInvalidUsage,
              "gathers %llu bytes for '%.*s' as its number %llu; here it is %llu bytes for '%s' as "
              "number %llu",
              static_cast<unsigned long long>(theirs.bytes), static_cast<int>(length), theirs.stage,
              static_cast<unsigned long long>(theirs.sequence),
              static_cast<unsigned long long>(ours.bytes), ours.stage,
              static_cast<unsigned long long>(ours.sequence));
}

Status Bootstrap::barrier(const char* stage) {
  // A part of each rank has to come round, so nobody is through before all have begun.
  std::vector<char> parts(static_cast<size_t>(nRanks_));
  return allGather(parts.data(), 1, stage);
}

Status Bootstrap::sendAll(Socket& socket, const void* data, size_t bytes,
                          const Deadline& deadline) {
  const char* from = static_cast<const char*>(data);
  while (bytes > 0) {
    const size_t sent = TRY(socket.trySend(from, bytes));
    from += sent;
    bytes -= sent;
    if (sent > 0) continue;
    pollfd fds[] = {{socket.fd(), POLLOUT, 0}};
    TRY(port_->wait(fds, deadline));
  }
  return Ok{};
}

Status Bootstrap::send(int peer, uint32_t tag, const void* data, size_t bytes, const char* stage) {
  NCCL_CHECK(peer >= 0 && peer < nRanks_);
  if (bytes > kMaxMessageBytes) {
    return fail(ncclInvalidArgument, "send '%s': %zu bytes; at most %llu go in a message", stage,
                bytes, static_cast<unsigned long long>(kMaxMessageBytes));
  }
  if (peer == rank_) {
    toSelf_.keep(peer, tag, std::string(static_cast<const char*>(data), bytes));
    return Ok{};
  }
  const Deadline limit = deadline();
  Socket& socket = outgoing_[peer];
  if (!socket) {
    auto made = port_->connectTo(peer, places_[peer].listen, HelloKind::Messages, limit);
    if (!made.ok()) return at("send", stage, peer, made.error());
    socket = std::move(made).value();
  }
  MessageHeader header;
  header.tag = tag;
  header.bytes = bytes;
  Status sent = sendAll(socket, &header, sizeof header, limit);
  if (sent.ok()) sent = sendAll(socket, data, bytes, limit);
  if (!sent.ok()) return at("send", stage, peer, sent.error());
  return Ok{};
}

Status Bootstrap::recv(int peer, uint32_t tag, void* data, size_t bytes, const char* stage) {
  NCCL_CHECK(peer >= 0 && peer < nRanks_);
  const Deadline limit = deadline();
  while (true) {
    const auto message = peer == rank_ ? toSelf_.take(peer, tag) : port_->takeMessage(peer, tag);
    if (message && message->size() == bytes) {
      std::copy_n(message->data(), bytes, static_cast<char*>(data));
      return Ok{};
    }
    if (message) {
      return at("recv", stage, peer,
                fail(ncclInvalidUsage, "a message of %zu bytes came; expected %zu", message->size(),
                     bytes));
    }
    if (peer == rank_) {
      return at("recv", stage, peer, fail(ncclInvalidUsage, "a rank has sent itself nothing"));
    }
    if (const auto ended = port_->messagesEnded(peer)) {
      return at("recv", stage, peer, fail(ncclRemoteError, "%s", ended->c_str()));
    }
    const Status waited = port_->wait({}, limit);
    if (!waited.ok()) return at("recv", stage, peer, waited.error());
  }
}

ControlRing Bootstrap::takeControlRing() {
  return std::move(control_);
}

}  // namespace nccom
