// The two ends of a connection: requests on the fabric, notes on the control connection.
//
// A message is one message of the provider, in place and without a header, with a word of the
// provider's beside it.
//  * Protocol::Tagged: the tag holds the connection and the caller's tag, the word the size. A
//  message
//    of more than Device::wholeBytes is announced first: by an empty message of its tag with its
//    size as the word. The receiver then knows the size before it posts the receive of the bytes
//    themselves, so that no provider ever has to cut a large message that does not fit.
//  * Protocol::Message: the endpoint is the connection's own; the word is the caller's tag.
// The receiver tells how many messages it has received, so that a sender is never more than a
// window ahead and what the provider must set aside is bounded; the sender tells at the end how
// many it has sent.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "include/plugin/nccl_net.h"
#include "plugins/net_ofi/control.h"
#include "plugins/net_ofi/endpoint.h"

namespace nccom::ofi {

inline constexpr int kMaxRecvs = 8;  // of one group, with Protocol::Tagged
inline constexpr int kMaxRequests = NCCL_NET_MAX_REQUESTS;

int maxRecvs(Protocol protocol);

/// What both ends have. Used by one thread at a time.
class Comm {
 public:
  struct Peer {
    std::vector<std::byte> address;  // of its endpoint
    uint32_t connection;             // what tells this connection from others, in both processes
  };
  Comm(std::shared_ptr<Endpoint> endpoint, Control control, Peer peer);

  ncclResult_t registerMemory(void* data, size_t bytes, int type, Memory** out);
  ncclResult_t deregister(Memory* memory);

 protected:
  /// What is said on the control connection after the greetings.
  struct Note {
    enum Kind : uint64_t { Received = 1, Bye = 2 };
    uint64_t kind;
    uint64_t count;  // messages received so far; at the end of a sender, messages sent
  };

  enum class Kind : uint8_t { Message, AnnouncedBytes };

  /// The provider's tag of a message.
  uint64_t wireTag(int tag, Kind kind = Kind::Message) const;
  /// Looks after the peer, now and then while nothing moves.
  ncclResult_t idle(const char* what);
  /// As idle(), at once. `what` waits: for the message.
  ncclResult_t checkPeer(const char* what);
  ncclResult_t operationFailed(const char* what, const Operation& operation, int tag, size_t bytes);
  void moved();
  /// Ends the operations, in bounded time; the endpoint keeps what does not end.
  void settle(std::unique_ptr<Operation[]> operations, size_t count, bool cancel);

  /// Whether the peer, which is gone, has left all that it will ever send: nothing is to be waited
  /// for.
  virtual bool drained() const { return false; }
  virtual void noted(const Note& note) = 0;
  /// Says that this end closes on purpose.
  void sayBye(uint64_t count);
  ~Comm() = default;

  std::shared_ptr<Endpoint> endpoint_;
  Control control_;

 private:
  const Peer peer_;
  uint32_t idlePolls_ = 0;
  bool peerSaidBye_ = false;
  bool peerGone_ = false;
  std::chrono::steady_clock::time_point lastMove_;  // or when the peer was found gone, if later
};

/// A request as the caller holds it.
struct Request {
  virtual ncclResult_t test(int* done, int* sizes) = 0;

 protected:
  ~Request() = default;
};

class SendComm final : public Comm {
 public:
  SendComm(std::shared_ptr<Endpoint> endpoint, Control control, Peer peer, fi_addr_t to);
  ~SendComm();
  ncclResult_t isend(void* data, size_t bytes, int tag, const Memory* memory, Request** out);

 private:
  static constexpr size_t kMaxSends = static_cast<size_t>(kMaxRequests) * kMaxRecvs;
  static constexpr uint64_t kWindow = 512;  // messages sent and not yet known to be received

  struct Send : Request {
    ncclResult_t test(int* done, int* sizes) override { return comm->test(*this, done, sizes); }
    SendComm* comm = nullptr;
    Operation* operation = nullptr;
    Endpoint::Post post;
    int tag = 0;
    bool inUse = false;
  };

  ncclResult_t test(Send& send, int* done, int* sizes);
  ncclResult_t postRest();
  void noted(const Note& note) override;

  const fi_addr_t to_;
  std::unique_ptr<Operation[]> operations_;  // [kMaxSends]
  std::vector<Send> sends_;                  // [kMaxSends]
  std::vector<Send*> unused_;
  Send* partly_ = nullptr;  // the one that is announced, and whose bytes the provider did not take
  uint64_t sent_ = 0;
  uint64_t received_ = 0;  // as the peer has told
};

class RecvComm final : public Comm {
 public:
  RecvComm(std::shared_ptr<Endpoint> endpoint, Control control, Peer peer);
  ~RecvComm();

  struct Buffers {  // [n] each, as in the ABI
    int n;
    void** data;
    const int* sizes;
    const int* tags;
    void** memories;
  };
  ncclResult_t irecv(const Buffers& buffers, Request** out);

 private:
  static constexpr uint64_t kTellEvery = 128;  // received messages; a part of SendComm::kWindow

  enum class Stage : uint8_t { Unposted, Posted, Announced, BytesPosted, Done };
  struct Slot {
    Endpoint::Post post;  // of the whole buffer
    int tag = 0;
    Operation* operation = nullptr;
    Stage stage = Stage::Unposted;
    size_t received = 0;
  };
  struct Recv : Request {
    ncclResult_t test(int* done, int* sizes) override { return comm->test(*this, done, sizes); }
    RecvComm* comm = nullptr;
    std::array<Slot, kMaxRecvs> slots;
    size_t count = 0;
    bool inUse = false;

    bool done() const;
  };

  ncclResult_t test(Recv& recv, int* done, int* sizes);
  ncclResult_t advance();
  ncclResult_t advance(Slot& slot, bool* stuck);
  ncclResult_t arrived(Slot& slot);
  bool mayPostBytes(const Slot& slot) const;
  void tell();
  void noted(const Note& note) override;
  bool drained() const override { return knowsSent_ && received_ >= sent_; }

  std::unique_ptr<Operation[]> operations_;  // [kMaxRequests * kMaxRecvs]
  std::vector<Recv> recvs_;                  // [kMaxRequests]
  std::vector<Recv*> unused_;
  std::vector<Recv*> posted_;  // not yet tested as done, in order
  uint64_t received_ = 0;
  uint64_t told_ = 0;
  uint64_t sent_ = 0;  // as the peer has told, at its end
  bool knowsSent_ = false;
};

}  // namespace nccom::ofi
