/* nccom_device.h - the device plugin ABI, version 1.
 *
 * A device plugin owns the memory of the (emulated or real) devices of this process, its streams
 * and events, and executes programs: one rank's part of one collective, composed by libnccom. Plain
 * C, frozen once released; a new version is a new struct and a new symbol.
 *
 * Symbol: `nccomDevicePlugin_v1`, a nccomDevice_v1 (data, not a function).
 * Results are NCCL's. A function that fails has said why through the logger's WARN level or through
 * lastError(). Pointers that a call takes are read during the call only, unless said otherwise.
 */
#ifndef NCCOM_DEVICE_H_
#define NCCOM_DEVICE_H_

#include <stddef.h>
#include <stdint.h>

#include "../nccl.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- the program: fixed layout, one contiguous block, offsets from its start ------------------
 */

#define NCCOM_PROGRAM_MAGIC 0x4d474f5250434e43ULL /* "CNCPROGM" */
#define NCCOM_PROGRAM_VERSION 3
#define NCCOM_VALUE_BYTES 512 /* of an input or a message that is given by value */
/* Messages from one rank to another that have not been read: a post waits for room. */
#define NCCOM_POSTED 64
#define NCCOM_POSTED_VALUES 8 /* by value */
#define NCCOM_MAX_QUEUES 64   /* 32 channels, each with a second queue that posts its receives */

typedef enum {
  nccomBufferInput = 0,   /* a rank's inputs[index] of this launch */
  nccomBufferOutput = 1,  /* a rank's outputs[index] of this launch */
  nccomBufferScratch = 2, /* a rank's scratch, allocated with its communicator */
  nccomBufferPosted = 3 /* message `index` that `rank` posts to this rank in this launch. A transfer
                           from it waits for the post. One queue reads the messages of a rank, in
                           the order of their numbers */
} nccomBuffer_t;

typedef struct {
  int32_t rank;
  uint16_t buffer; /* nccomBuffer_t */
  uint16_t index;
  int64_t offset; /* bytes, in iteration 0 of its block */
  int64_t stride; /* bytes added with each iteration */
} nccomAddress_v1;

typedef enum {
  nccomDescTransfer = 0, /* dst[j] = post(fold of pre(src[k])), nSources -> nDestinations */
  nccomDescWait = 1,     /* until own semaphore >= base + value */
  nccomDescInc = 2,      /* semaphore of `rank` += value; releases all that this queue did before */
  nccomDescPost = 3,    /* tell `rank` where inputs[index] is: its message number `value` from us in
                           this launch (0-based). Waits until message number - NCCOM_POSTED (by
                           value: - NCCOM_POSTED_VALUES) has been read */
  nccomDescNetSend = 4, /* host index of `connection` += 1: its next entry may be sent */
  nccomDescNetRecv = 5  /* host index of `connection` += 1: its next entry may be received into */
} nccomDescType_t;

#define NCCOM_TRANSFER_SCALE                                                                      \
  1u                             /* sources in scaledSources are multiplied by the launch's scale \
                                  */
#define NCCOM_TRANSFER_DIVIDE 2u /* the result is divided by the launch's divisor */
#define NCCOM_POST_VALUE                                                                         \
  4u /* the message is a copy, of at most NCCOM_VALUE_BYTES, that is made when it is posted: the \
        program may end, and the buffer change, before it is read */

typedef struct {
  uint16_t type;  /* nccomDescType_t */
  uint16_t flags; /* NCCOM_TRANSFER_*, NCCOM_POST_VALUE */
  uint16_t step;  /* enc step or event that it came from, for reports: index into the program's step
                     names */
  uint16_t nSources, nDestinations; /* transfer */
  uint16_t index;                   /* post: which input */
  uint32_t firstAddress;            /* transfer: sources, then destinations, in the address table */
  uint64_t scaledSources;           /* transfer: bit k: source k */
  uint64_t bytes;                   /* transfer, post: payload of each source */
  int32_t rank; /* inc: whose semaphore; post: to whom; wait, for reports: the rank that raises it;
                   -1: the proxy; -2 - r: the proxy, for a message to or from rank r */
  uint32_t semaphore; /* wait, inc */
  int64_t
      value; /* wait: signed, relative to the base at launch; inc: amount; post: message number */
  int64_t stride;      /* wait: added to value with each iteration */
  uint32_t connection; /* net: index of the connection */
  uint32_t reserved;
} nccomDesc_v1;

typedef struct {
  uint32_t firstDesc, nDescs;
  uint64_t repeat; /* iterations, at least 1 */
} nccomBlock_v1;

typedef struct {
  uint32_t firstBlock, nBlocks;
  uint32_t channel;
  uint32_t reserved;
} nccomQueue_v1;

typedef struct {
  uint32_t semaphore;
  uint32_t reserved;
  uint64_t total; /* increments that this rank's semaphore gets in one launch */
} nccomSemaphoreTotal_v1;

typedef struct {
  uint64_t magic;
  uint32_t version;
  uint32_t bytes; /* of the whole block */
  int32_t rank, nRanks;
  int32_t dataType, redOp; /* ncclDataType_t; ncclSum, ncclProd, ncclMax or ncclMin of the fold */
  uint32_t nQueues, nBlocks, nDescs, nAddresses, nTotals, nSteps;
  uint32_t queues, blocks, descs, addresses, totals; /* offsets of the tables, 8-byte aligned */
  uint32_t steps;       /* offset of nSteps names of 32 bytes, NUL-terminated */
  uint32_t peerInputs;  /* 1: other ranks read this rank's INPUT, or what it posts by reference; 2:
                           they read a copy of inputs[0], of at most NCCOM_VALUE_BYTES, that the
                           device makes at the launch and keeps until all ranks have started a later
                           collective */
  uint32_t peerOutputs; /* 1: other ranks write this rank's OUTPUT */
} nccomProgram_v1;

/* ---- launching --------------------------------------------------------------------------------
 */

typedef struct {
  void* address; /* any host-addressable memory; NULL with bytes 0 */
  uint64_t bytes;
} nccomBufferBinding_v1;

/* What all ranks of a collective must agree on; compared between the ranks of a host. */
typedef struct {
  uint32_t kind; /* enc operation */
  uint32_t dataType, redOp, root, algorithm;
  uint32_t reserved;
  uint64_t count;
} nccomSignature_v1;

typedef struct {
  uint64_t opCount;    /* number of this operation on the communicator, from 1: for reports */
  uint64_t collective; /* number of this collective on the communicator, from 1; 0: a group of sends
                          and receives */
  const nccomBufferBinding_v1* inputs;
  const nccomBufferBinding_v1* outputs;
  uint32_t nInputs, nOutputs;
  uint64_t scale; /* bits of the scalar, in the low bytes: a float for 16-bit and 8-bit float types,
                     else an element of the program's data type */
  int64_t divisor; /* of NCCOM_TRANSFER_DIVIDE */
  nccomSignature_v1 signature;
  const char* name; /* "AllReduce count 1024 float sum", for reports; copied */
} nccomLaunch_v1;

/* ---- process and communicator set-up -----------------------------------------------------------
 */

typedef void (*nccomLogger_t)(int level, unsigned long subsys, const char* text);

typedef struct {
  uint64_t size;         /* of this struct: fields are only appended */
  int32_t nDevices;      /* of the emulated platform */
  int32_t engineThreads; /* -1: default; 0: none */
  uint64_t hbmBytes;     /* address space of device memory of this process */
  int32_t cma;           /* -1: where permitted, 0: never, 1: required */
  int32_t reserved;
  nccomLogger_t logger;
} nccomDeviceConfig_v1;

/* Called from the engine's threads, from threads that synchronise and, netPosted and failed only,
 * from threads that launch. Must not block and must not call back into the plugin, but for
 * semaphoreAdd; nothing is called after commDestroy has returned. */
typedef struct {
  void* arg;
  /* A network descriptor advanced a host index: somebody may have to wake. May be NULL. */
  void (*netPosted)(void* arg);
  /* Lets the network make progress from inside the engine; returns 1 if anything moved. May be
   * NULL. */
  int (*netProgress)(void* arg);
  /* The communicator failed by itself (deadline, mismatched call) or through a rank of this host:
   * tell the others. Once, before an operation is seen to end with the failure. May be NULL. */
  void (*failed)(void* arg, ncclResult_t code, const char* text);
  /* A collective (its launch's number and name) has made no progress for 1 s, 2 s, 4 s ...: the
   * host may ask the ranks of other hosts whether they called the same. May be NULL. */
  void (*stalled)(void* arg, uint64_t collective, const char* name);
} nccomHostCalls_v1;

typedef struct {
  uint64_t size;
  int32_t rank, nRanks, device;
  int32_t checkCalls; /* 1: compare signatures with the ranks of this host */
  uint32_t nSemaphores;
  uint32_t nConnections; /* host indices to provide */
  uint64_t scratchBytes;
  int64_t timeoutMs; /* no progress for so long fails an operation, ncclTimeout; 0: for ever */
  nccomHostCalls_v1 host;
} nccomDeviceCommConfig_v1;

#define NCCOM_DEVICE_HANDLE_BYTES 128
typedef struct {
  char bytes[NCCOM_DEVICE_HANDLE_BYTES];
} nccomDeviceHandle_v1;

/* Host index of a connection: written by the device only, monotonic; read by the proxy (acquire).
 */
typedef struct {
  uint64_t posted;
  char pad[120];
} nccomHostIndex_v1;

typedef struct {
  const char* name;

  /* Once a process; `context` is the first argument of all that follows. */
  ncclResult_t (*init)(const nccomDeviceConfig_v1* config, void** context);
  ncclResult_t (*finalize)(void* context);
  /* Text of the calling thread's last failure; never NULL. */
  const char* (*lastError)(void);

  /* Device memory: host-addressable, shared with the other processes of this host. 256-byte
   * aligned. */
  ncclResult_t (*memAlloc)(void* context, int device, size_t bytes, void** address);
  ncclResult_t (*memFree)(void* context, void* address);

  /* Streams are FIFO. `stream` NULL in streamX: the default stream of `device`. */
  ncclResult_t (*streamCreate)(void* context, int device, void** stream);
  ncclResult_t (*streamDestroy)(void* context, void* stream); /* drains it first */
  ncclResult_t (*streamDefault)(void* context, int device, void** stream);
  ncclResult_t (*streamSynchronize)(
      void* context, void* stream); /* the first error of its operations since the last call */
  ncclResult_t (*streamQuery)(void* context,
                              void* stream); /* ncclInProgress while anything is left */
  ncclResult_t (*deviceSynchronize)(void* context, int device);

  ncclResult_t (*eventCreate)(void* context, void** event);
  ncclResult_t (*eventDestroy)(void* context, void* event);
  ncclResult_t (*eventRecord)(void* context, void* event, void* stream);
  ncclResult_t (*eventSynchronize)(void* context, void* event);
  ncclResult_t (*eventQuery)(void* context, void* event);
  ncclResult_t (*eventElapsedTime)(void* context, float* ms, void* start, void* stop);

  /* A rank of a communicator. create, exportHandle, (ranks exchange handles), connect, launch*,
   * destroy. sameHost[r] is 1 for ranks of this host, whose handles are then attached; own entry is
   * ignored. connect may block until the peers' processes answer, `deadlineMs` at most. */
  ncclResult_t (*commCreate)(void* context, const nccomDeviceCommConfig_v1* config, void** comm);
  ncclResult_t (*commExport)(void* comm, nccomDeviceHandle_v1* handle);
  ncclResult_t (*commConnect)(void* comm, const nccomDeviceHandle_v1* handles,
                              const int32_t* sameHost, int64_t deadlineMs);
  ncclResult_t (*commScratch)(void* comm, void** base, uint64_t* bytes);
  ncclResult_t (*commHostIndex)(void* comm, uint32_t connection, nccomHostIndex_v1** index);
  /* Raises an own semaphore: what the proxy does when a network transfer is complete. Any thread.
   */
  ncclResult_t (*semaphoreAdd)(void* comm, uint32_t semaphore, uint64_t value);
  /* Fails the communicator from outside: its operations stop at the next tile. Keeps the first
   * cause. Any thread. */
  ncclResult_t (*commAbort)(void* comm, ncclResult_t code, const char* text);
  /* Sticky error: ncclSuccess if none. The text lives as long as comm. */
  ncclResult_t (*commError)(void* comm, ncclResult_t* code, const char** text);
  /* Waits until the operations launched on comm have ended. */
  ncclResult_t (*commSynchronize)(void* comm);
  /* A report of what the rank and its peers on this host are doing; NUL-terminated. */
  ncclResult_t (*commReport)(void* comm, char* text, size_t bytes);
  /* Ends comm. Operations still running are aborted. Memory that peers may still touch stays mapped
   * until the last of them has left. */
  ncclResult_t (*commDestroy)(void* comm);

  /* Programs: loaded once, launched often. A program may be unloaded while launches of it are
   * pending: it is freed when the last of them has ended. `staged`, NULL: none, is what runs in the
   * place of `program` in a collective for which any rank gives an INPUT or OUTPUT that another's
   * process cannot map: a program of the same buffers that uses no other rank's. Ranks give all or
   * none. Without it such buffers are reached in another way. */
  ncclResult_t (*programLoad)(void* comm, const nccomProgram_v1* program,
                              const nccomProgram_v1* staged, void** loaded);
  ncclResult_t (*programUnload)(void* comm, void* loaded);
  /* Appends to `stream`. Operations of one communicator run in the order of their launches. */
  ncclResult_t (*launch)(void* comm, void* loaded, const nccomLaunch_v1* launch, void* stream);
} nccomDevice_v1;

#ifdef __cplusplus
}
#endif

#endif /* NCCOM_DEVICE_H_ */
