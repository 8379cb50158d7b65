/* nccl.h - the collectives API of libnccom.
 *
 * Names, enum values and structure layouts are those of NCCL 2.30's C API: an application written
 * for NCCL compiles against this header and links with libnccom. Differences:
 *  - no CUDA. A stream is the opaque ncclStream_t; see there for sources that name cudaStream_t.
 *  - "device" is a logical NeuronCore of the platform in use; nccom.h selects one and makes
 * streams.
 *  - all device memory is host-addressable, and plain host memory is accepted wherever a device
 *    buffer is.
 *
 * Unless a function says otherwise:
 *  - it returns ncclSuccess, or a code whose explanation ncclGetLastError() gives;
 *  - it may be called from any thread. One communicator is used by one thread at a time, except
 *    that ncclCommAbort, ncclCommRevoke and ncclCommGetAsyncError may be called while another
 *    thread is inside a call on it;
 *  - operations return when they are queued on their stream; buffers belong to the library until
 *    the stream has completed them;
 *  - operations of one communicator must be issued in the same order by all its ranks.
 *
 * C99 and C++. Nothing here is renumbered or reordered once released; structures grow at the end.
 */
#ifndef NCCL_H_
#define NCCL_H_

#include <limits.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- version ------------------------------------------------------------------------------- */

#define NCCL_MAJOR 2
#define NCCL_MINOR 30
#define NCCL_PATCH 7
#define NCCL_SUFFIX ""

/* One comparable number of a version; releases up to 2.8 used a thousands scheme. */
#define NCCL_VERSION(X, Y, Z)                                  \
  (((X) <= 2 && (Y) <= 8) ? (X)*1000 + (Y)*100 + (Z) /* old */ \
                          : (X)*10000 + (Y)*100 + (Z))
/* The version of this header; a literal, so that the preprocessor of any client can compare it. */
#define NCCL_VERSION_CODE 23007

/* ---- handles and plain types --------------------------------------------------------------- */

/* A communicator as one rank holds it. */
typedef struct ncclComm* ncclComm_t;
#define NCCL_COMM_NULL NULL

/* Memory registered with a communicator, at the same place in every rank's view. */
typedef struct ncclWindow_vidmem* ncclWindow_t;

/* A run-time parameter looked up by name; owned by the library. */
typedef struct ncclParamHandle* ncclParamHandle_t;

/* An ordered queue of operations (nccomStreamCreate). NULL is the default stream of the calling
 * thread's device. A source that names another opaque stream type compiles when that type is
 * given: -DNCCL_STREAM_T='struct CUstream_st*', or any typedef visible before this header. The
 * value passed must still be a stream of nccom.h, or NULL. */
#ifdef NCCL_STREAM_T
typedef NCCL_STREAM_T ncclStream_t;
#else
typedef struct nccomStream* ncclStream_t;
#endif

/* The rendezvous of a new communicator: made by one rank, carried to the others by the
 * application, by whatever means it has. Copyable bytes, no pointers. */
#define NCCL_UNIQUE_ID_BYTES 128
typedef struct {
  char internal[NCCL_UNIQUE_ID_BYTES];
} ncclUniqueId;

typedef enum {
  ncclSuccess = 0,
  ncclUnhandledCudaError = 1, /* the device runtime failed; the name is NCCL's */
  ncclSystemError = 2,        /* the operating system, or the network, refused */
  ncclInternalError = 3,      /* a bug in this library */
  ncclInvalidArgument = 4,    /* an argument is wrong by itself */
  ncclInvalidUsage = 5,       /* the arguments are right, the situation is not */
  ncclRemoteError = 6,        /* a peer failed or left */
  ncclInProgress = 7,         /* not an error: not finished yet, ask again */
  ncclTimeout = 8,            /* a wait passed its deadline */
  ncclNumResults = 9
} ncclResult_t;

typedef enum {
  ncclInt8 = 0,
  ncclChar = 0,
  ncclUint8 = 1,
  ncclInt32 = 2,
  ncclInt = 2,
  ncclUint32 = 3,
  ncclInt64 = 4,
  ncclUint64 = 5,
  ncclFloat16 = 6,
  ncclHalf = 6,
  ncclFloat32 = 7,
  ncclFloat = 7,
  ncclFloat64 = 8,
  ncclDouble = 8,
  ncclBfloat16 = 9,
  ncclFloat8e4m3 = 10,
  ncclFloat8e5m2 = 11,
  ncclNumTypes = 12
} ncclDataType_t;

/* Kept because NCCL's header has the name. */
typedef enum { ncclNumOps_dummy = 5 } ncclRedOp_dummy_t;

typedef enum {
  ncclSum = 0,
  ncclProd = 1,
  ncclMax = 2,
  ncclMin = 3,
  ncclAvg = 4,              /* the sum divided by the number of ranks */
  ncclNumOps = 5,           /* operators of ncclRedOpCreate... have values from here ... */
  ncclMaxRedOp = 0x7fffffff /* ... to here */
} ncclRedOp_t;

/* Where the scalar of a custom operator is, and when it is read. */
typedef enum {
  ncclScalarDevice = 0,       /* device memory, read while the collective runs */
  ncclScalarHostImmediate = 1 /* host memory, read before the creating call returns */
} ncclScalarResidence_t;

/* What ncclCommMemStats is asked for; bytes, except ncclStatGpuMemSuspended. */
typedef enum {
  ncclStatGpuMemSuspend = 0,   /* device memory that ncclCommSuspend would release */
  ncclStatGpuMemSuspended = 1, /* 1 while suspended, else 0 */
  ncclStatGpuMemPersist = 2,   /* device memory that stays until the communicator is destroyed */
  ncclStatGpuMemTotal = 3      /* all device memory of the communicator */
} ncclCommMemStat_t;

/* Signals that ncclWaitSignal waits for: opCnt of them, from one peer, index and context. */
typedef struct {
  int opCnt;
  int peer;
  int sigIdx;
  int ctx;
} ncclWaitSignalDesc_t;

/* ---- flags and "not set" values ------------------------------------------------------------ */

#define NCCL_CONFIG_UNDEF_INT INT_MIN
#define NCCL_CONFIG_UNDEF_PTR NULL
#define NCCL_UNDEF_FLOAT -1.0f

#define NCCL_API_MAGIC 0xcafebeef /* ncclConfig_t.magic; set by the initializer */

#define NCCL_SPLIT_NOCOLOR -1 /* ncclCommSplit: this rank joins no new communicator */

#define NCCL_SHRINK_DEFAULT 0x00 /* ncclCommShrink: the parent is idle and healthy */
#define NCCL_SHRINK_ABORT 0x01   /* ncclCommShrink: stop the parent's operations first */

#define NCCL_REVOKE_DEFAULT 0x00 /* ncclCommRevoke: the only value */

#define NCCL_SUSPEND_MEM 0x01 /* ncclCommSuspend: release device memory */

#define NCCL_WIN_DEFAULT 0x00
#define NCCL_WIN_COLL_SYMMETRIC 0x01  /* all ranks register, in the same order and size */
#define NCCL_WIN_STRICT_ORDERING 0x02 /* writes become visible in the order they were issued */
#define NCCL_WIN_REQUIRED_ALIGNMENT 4096

#define NCCL_CTA_POLICY_DEFAULT 0x00
#define NCCL_CTA_POLICY_EFFICIENCY 0x01
#define NCCL_CTA_POLICY_ZERO 0x02

/* ---- structures with an initializer -------------------------------------------------------- */

/* How a communicator is to behave. Start from NCCL_CONFIG_INITIALIZER and set fields; a field left
 * undefined takes its default or the value of its environment variable. `size` tells the library
 * which release's layout the application was compiled with. */
typedef struct ncclConfig_v23000 {
  size_t size;          /* set by the initializer */
  unsigned int magic;   /* set by the initializer */
  unsigned int version; /* set by the initializer */
  int blocking;         /* 1: calls return when done; 0: they may return ncclInProgress (in this
                           release they return when done, too) */
  int cgaClusterSize;   /* accepted for compatibility: 0..8 */
  int minCTAs;          /* least number of channels, from 1 */
  int maxCTAs;          /* most channels, at least minCTAs */
  const char* netName;  /* the NET plugin's network to use; absent is an error */
  int splitShare;       /* 1: children of ncclCommSplit share this communicator's resources */
  int trafficClass;     /* class of network traffic, as the NET plugin understands it */
  const char* commName; /* appears in logs and reports */
  int collnetEnable;
  int CTAPolicy; /* NCCL_CTA_POLICY_...; NOLINT(readability-identifier-naming): NCCL's name */
  int shrinkShare;
  int nvlsCTAs;
  int nChannelsPerNetPeer; /* channels of one point-to-point network connection */
  int nvlinkCentricSched;
  int graphUsageMode;
  int numRmaCtx;
  int maxP2pPeers;
  int graphStreamOrdering;
} ncclConfig_t;

#define NCCL_CONFIG_INITIALIZER                          \
  {                                                      \
    sizeof(ncclConfig_t),      /* size */                \
        NCCL_API_MAGIC,        /* magic */               \
        NCCL_VERSION_CODE,     /* version */             \
        NCCL_CONFIG_UNDEF_INT, /* blocking */            \
        NCCL_CONFIG_UNDEF_INT, /* cgaClusterSize */      \
        NCCL_CONFIG_UNDEF_INT, /* minCTAs */             \
        NCCL_CONFIG_UNDEF_INT, /* maxCTAs */             \
        NCCL_CONFIG_UNDEF_PTR, /* netName */             \
        NCCL_CONFIG_UNDEF_INT, /* splitShare */          \
        NCCL_CONFIG_UNDEF_INT, /* trafficClass */        \
        NCCL_CONFIG_UNDEF_PTR, /* commName */            \
        NCCL_CONFIG_UNDEF_INT, /* collnetEnable */       \
        NCCL_CONFIG_UNDEF_INT, /* CTAPolicy */           \
        NCCL_CONFIG_UNDEF_INT, /* shrinkShare */         \
        NCCL_CONFIG_UNDEF_INT, /* nvlsCTAs */            \
        NCCL_CONFIG_UNDEF_INT, /* nChannelsPerNetPeer */ \
        NCCL_CONFIG_UNDEF_INT, /* nvlinkCentricSched */  \
        NCCL_CONFIG_UNDEF_INT, /* graphUsageMode */      \
        NCCL_CONFIG_UNDEF_INT, /* numRmaCtx */           \
        NCCL_CONFIG_UNDEF_INT, /* maxP2pPeers */         \
        NCCL_CONFIG_UNDEF_INT, /* graphStreamOrdering */ \
  }

/* The answer of ncclGroupSimulateEnd. Start from NCCL_SIM_INFO_INITIALIZER. */
typedef struct ncclSimInfo_v22200 {
  size_t size;          /* set by the initializer */
  unsigned int magic;   /* set by the initializer */
  unsigned int version; /* set by the initializer */
  float estimatedTime;  /* microseconds */
} ncclSimInfo_t;

#define NCCL_SIM_INFO_INITIALIZER         \
  {                                       \
    sizeof(ncclSimInfo_t), /* size */     \
        0x74685283,        /* magic */    \
        NCCL_VERSION_CODE, /* version */  \
        NCCL_UNDEF_FLOAT,  /* estimate */ \
  }

#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

/* ---- library, errors ----------------------------------------------------------------------- */

/* @param version  receives the library's NCCL_VERSION_CODE */
ncclResult_t ncclGetVersion(int* version);

/* A fixed text for a code; never NULL. */
const char* ncclGetErrorString(ncclResult_t result);

/* What the last failed call of the calling thread found and what it expected: names the object,
 * rank or peer. `comm` may be NULL. Never NULL; valid until the thread's next failing call. */
const char* ncclGetLastError(ncclComm_t comm);

/* ---- memory -------------------------------------------------------------------------------- */

/* Allocates on the calling thread's device: shared with all ranks of the host, so that collectives
 * on it need no intermediate copy. Host-addressable; zeroed; at least page-aligned. */
ncclResult_t ncclMemAlloc(void** ptr, size_t size);

/* Frees memory of ncclMemAlloc; NULL is nothing. */
ncclResult_t ncclMemFree(void* ptr);

/* ---- communicators: made ------------------------------------------------------------------- */

/* Starts a rendezvous. Called by one rank; the id serves one communicator. */
ncclResult_t ncclGetUniqueId(ncclUniqueId* uniqueId);

/* Joins a communicator of `nranks` ranks as `rank` (0..nranks-1) with the calling thread's device.
 * Returns when all ranks have joined: one thread that joins several ranks does so in a group. */
ncclResult_t ncclCommInitRank(ncclComm_t* comm, int nranks, ncclUniqueId commId, int rank);

/* The same with a configuration; NULL is the default one. */
ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int nranks, ncclUniqueId commId, int rank,
                                    ncclConfig_t* config);

/* The same with a rendezvous spread over `nId` ids (1..nranks), equal on all ranks. */
ncclResult_t ncclCommInitRankScalable(ncclComm_t* newcomm, int nranks, int myrank, int nId,
                                      ncclUniqueId* commIds, ncclConfig_t* config);

/* Makes all ranks of a communicator inside one process: comm[i] on devlist[i].
 * @param comm     [ndev] receives the communicators
 * @param devlist  [ndev] distinct devices, or NULL: devices 0..ndev-1 */
ncclResult_t ncclCommInitAll(ncclComm_t* comm, int ndev, const int* devlist);

/* Parts a communicator: ranks of one `color` form a new one, ordered by `key`, ties by old rank.
 * All ranks call. `color` is from 0, or NCCL_SPLIT_NOCOLOR: *newcomm is then NULL. A NULL config
 * inherits the parent's. */
ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* newcomm,
                           ncclConfig_t* config);

/* Makes a communicator of the ranks that are not excluded; only they call. Ranks keep their order.
 * @param shrinkFlags  NCCL_SHRINK_... */
ncclResult_t ncclCommShrink(ncclComm_t comm, int* excludeRanksList, int excludeRanksCount,
                            ncclComm_t* newcomm, ncclConfig_t* config, int shrinkFlags);

/* Makes the id by which new ranks join at the next ncclCommGrow of `comm`; used once. */
ncclResult_t ncclCommGetUniqueId(ncclComm_t comm, ncclUniqueId* uniqueId);

/* Makes a communicator of `nRanks` ranks from an existing one and new ranks. Present ranks pass
 * comm and rank -1, and the one that made the id passes it too; new ranks pass comm NULL, the id
 * and their rank. */
ncclResult_t ncclCommGrow(ncclComm_t comm, int nRanks, const ncclUniqueId* uniqueId, int rank,
                          ncclComm_t* newcomm, ncclConfig_t* config);

/* ---- communicators: ended ------------------------------------------------------------------ */

/* Completes what was queued and begins to take the communicator down, together with the other
 * ranks. Only ncclCommGetAsyncError, Destroy and Abort may follow. */
ncclResult_t ncclCommFinalize(ncclComm_t comm);

/* Frees the communicator, after ncclCommFinalize if that was not called. NULL is nothing. */
ncclResult_t ncclCommDestroy(ncclComm_t comm);

/* Stops the communicator's operations and frees it, in bounded time and without the other ranks,
 * whatever state they are in. */
ncclResult_t ncclCommAbort(ncclComm_t comm);

/* Stops the communicator's operations and leaves it fit to be split, shrunk or destroyed.
 * @param revokeFlags  NCCL_REVOKE_DEFAULT */
ncclResult_t ncclCommRevoke(ncclComm_t comm, int revokeFlags);

/* Releases what `flags` (NCCL_SUSPEND_MEM) names until ncclCommResume; no operation meanwhile. */
ncclResult_t ncclCommSuspend(ncclComm_t comm, int flags);
ncclResult_t ncclCommResume(ncclComm_t comm);

/* ---- communicators: asked ------------------------------------------------------------------ */

/* @param asyncError  receives ncclSuccess; ncclInProgress while a non-blocking call is under way;
 *                    or the code of a failure that happened outside of any call */
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* asyncError);

ncclResult_t ncclCommCount(const ncclComm_t comm, int* count);
ncclResult_t ncclCommUserRank(const ncclComm_t comm, int* rank);

/* The device that was the calling thread's when the rank joined. */
ncclResult_t ncclCommCuDevice(const ncclComm_t comm, int* device);

ncclResult_t ncclCommMemStats(ncclComm_t comm, ncclCommMemStat_t stat, uint64_t* value);

/* ---- registered memory --------------------------------------------------------------------- */

/* Tells the communicator that it will be given buffers inside [buff, buff+size) often. */
ncclResult_t ncclCommRegister(const ncclComm_t comm, void* buff, size_t size, void** handle);
ncclResult_t ncclCommDeregister(const ncclComm_t comm, void* handle);

/* Registers memory as a window; all ranks call, in the same order.
 * @param buff      aligned to NCCL_WIN_REQUIRED_ALIGNMENT
 * @param winFlags  NCCL_WIN_... */
ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void* buff, size_t size, ncclWindow_t* win,
                                    int winFlags);
ncclResult_t ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t win);

/* @param outUserPtr  receives the address the window was registered with */
ncclResult_t ncclWinGetUserPtr(ncclComm_t comm, ncclWindow_t win, void** outUserPtr);

/* ---- custom reduction operators ------------------------------------------------------------ */

/* Makes an operator that multiplies this rank's input by *scalar, then sums over ranks. It serves
 * `comm` and `datatype`.
 * @param scalar     one element of `datatype`
 * @param residence  when *scalar is read */
ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t* op, void* scalar, ncclDataType_t datatype,
                                      ncclScalarResidence_t residence, ncclComm_t comm);

/* May be called as soon as the last call that was given `op` has returned. */
ncclResult_t ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm);

/* ---- collectives ---------------------------------------------------------------------------
 * All ranks of `comm` call, with equal counts, types, operators and roots. Counts are in elements
 * and may be 0; buffers need only the alignment of their element. "In place" names the one overlap
 * of sendbuff and recvbuff that is allowed. */

/* recvbuff = the reduction of all sendbuffs. In place: recvbuff == sendbuff. */
ncclResult_t ncclAllReduce(const void* sendbuff, void* recvbuff, size_t count,
                           ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                           ncclStream_t stream);

/* As AllReduce, but only `root` receives; elsewhere recvbuff may be NULL. */
ncclResult_t ncclReduce(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
                        ncclRedOp_t op, int root, ncclComm_t comm, ncclStream_t stream);

/* Rank r receives block r of the reduction of all sendbuffs.
 * @param recvcount  elements of a block; sendbuff has nranks blocks
 * In place: recvbuff == sendbuff + rank * recvcount. */
ncclResult_t ncclReduceScatter(const void* sendbuff, void* recvbuff, size_t recvcount,
                               ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                               ncclStream_t stream);

/* Block r of recvbuff = rank r's sendbuff.
 * @param sendcount  elements of a block; recvbuff has nranks blocks
 * In place: sendbuff == recvbuff + rank * sendcount. */
ncclResult_t ncclAllGather(const void* sendbuff, void* recvbuff, size_t sendcount,
                           ncclDataType_t datatype, ncclComm_t comm, ncclStream_t stream);

/* recvbuff = root's sendbuff; elsewhere sendbuff is not read. In place: recvbuff == sendbuff. */
ncclResult_t ncclBroadcast(const void* sendbuff, void* recvbuff, size_t count,
                           ncclDataType_t datatype, int root, ncclComm_t comm, ncclStream_t stream);

/* The in-place Broadcast under an older name. */
ncclResult_t ncclBcast(void* buff, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm,
                       ncclStream_t stream);

/* Block s of recvbuff = block `rank` of rank s's sendbuff; both have nranks blocks of `count`.
 * In place: recvbuff == sendbuff; the library then copies the input first. */
ncclResult_t ncclAlltoAll(const void* sendbuff, void* recvbuff, size_t count,
                          ncclDataType_t datatype, ncclComm_t comm, ncclStream_t stream);

/* On root, block r of recvbuff = rank r's sendbuff; elsewhere recvbuff is not written.
 * In place on root: sendbuff == recvbuff + root * count. */
ncclResult_t ncclGather(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
                        int root, ncclComm_t comm, ncclStream_t stream);

/* recvbuff = block `rank` of root's sendbuff; elsewhere sendbuff is not read.
 * In place on root: recvbuff == sendbuff + root * count. */
ncclResult_t ncclScatter(const void* sendbuff, void* recvbuff, size_t count,
                         ncclDataType_t datatype, int root, ncclComm_t comm, ncclStream_t stream);

/* ---- point to point ------------------------------------------------------------------------ */

/* Sends to `peer`, which must receive the same count and type. The nth send to a peer meets its
 * nth receive. Sends and receives that depend on each other go into one group. */
ncclResult_t ncclSend(const void* sendbuff, size_t count, ncclDataType_t datatype, int peer,
                      ncclComm_t comm, ncclStream_t stream);
ncclResult_t ncclRecv(void* recvbuff, size_t count, ncclDataType_t datatype, int peer,
                      ncclComm_t comm, ncclStream_t stream);

/* Writes to peer's window, peerWinOffset bytes from its start, then raises peer's signal.
 * @param sigIdx, ctx  which signal
 * @param flags        0 */
ncclResult_t ncclPutSignal(const void* localbuff, size_t count, ncclDataType_t datatype, int peer,
                           ncclWindow_t peerWin, size_t peerWinOffset, int sigIdx, int ctx,
                           unsigned int flags, ncclComm_t comm, ncclStream_t stream);

/* Raises peer's signal without data. */
ncclResult_t ncclSignal(int peer, int sigIdx, int ctx, unsigned int flags, ncclComm_t comm,
                        ncclStream_t stream);

/* Holds the stream until all of signalDescs[nDesc] have arrived. */
ncclResult_t ncclWaitSignal(int nDesc, ncclWaitSignalDesc_t* signalDescs, ncclComm_t comm,
                            ncclStream_t stream);

/* ---- groups -------------------------------------------------------------------------------- */

/* Calls between Start and the matching End, by the same thread, are collected and take effect
 * together at the outermost End. Needed by a thread that drives several ranks, and for sends and
 * receives that must progress together. */
ncclResult_t ncclGroupStart(void);

/* Returns the first failure of the collected calls, if any. */
ncclResult_t ncclGroupEnd(void);

/* Ends the group without running it; *simInfo receives the estimate. */
ncclResult_t ncclGroupSimulateEnd(ncclSimInfo_t* simInfo);

/* ---- run-time parameters -------------------------------------------------------------------
 * The NCCL_... variables as the library read them. Pointers handed out belong to the library;
 * those to values last until the same function is called again by the same thread. */

ncclResult_t ncclParamBind(ncclParamHandle_t* out, const char* key);
ncclResult_t ncclParamGetI8(ncclParamHandle_t h, int8_t* out);
ncclResult_t ncclParamGetI16(ncclParamHandle_t h, int16_t* out);
ncclResult_t ncclParamGetI32(ncclParamHandle_t h, int32_t* out);
ncclResult_t ncclParamGetI64(ncclParamHandle_t h, int64_t* out);
ncclResult_t ncclParamGetU8(ncclParamHandle_t h, uint8_t* out);
ncclResult_t ncclParamGetU16(ncclParamHandle_t h, uint16_t* out);
ncclResult_t ncclParamGetU32(ncclParamHandle_t h, uint32_t* out);
ncclResult_t ncclParamGetU64(ncclParamHandle_t h, uint64_t* out);
ncclResult_t ncclParamGetStr(ncclParamHandle_t h, const char** out);

/* Copies the value as bytes. @param maxLen  bytes at out; @param len  receives the bytes copied */
ncclResult_t ncclParamGet(ncclParamHandle_t h, void* out, int maxLen, int* len);

ncclResult_t ncclParamGetParameter(const char* key, const char** value, int* valueLen);
ncclResult_t ncclParamGetAllParameterKeys(const char*** table, int* tableLen);

/* Writes all parameters to the log. */
void ncclParamDumpAll(void);

/* ---- deprecated ---------------------------------------------------------------------------- */

/* Reads the NCCL_DEBUG... variables again. */
#if defined(__GNUC__)
#define NCCL_DEPRECATED_ __attribute__((deprecated))
#else
#define NCCL_DEPRECATED_
#endif
NCCL_DEPRECATED_ void ncclResetDebugInit(void);

/* ---- profiling twins -----------------------------------------------------------------------
 * Each function again, with a p before its name. A tool that interposes the plain name calls the
 * twin to reach the library. */

ncclResult_t pncclGetVersion(int* version);
const char* pncclGetErrorString(ncclResult_t result);
const char* pncclGetLastError(ncclComm_t comm);
ncclResult_t pncclMemAlloc(void** ptr, size_t size);
ncclResult_t pncclMemFree(void* ptr);
ncclResult_t pncclGetUniqueId(ncclUniqueId* uniqueId);
ncclResult_t pncclCommInitRank(ncclComm_t* comm, int nranks, ncclUniqueId commId, int rank);
ncclResult_t pncclCommInitRankConfig(ncclComm_t* comm, int nranks, ncclUniqueId commId, int rank,
                                     ncclConfig_t* config);
ncclResult_t pncclCommInitRankScalable(ncclComm_t* newcomm, int nranks, int myrank, int nId,
                                       ncclUniqueId* commIds, ncclConfig_t* config);
ncclResult_t pncclCommInitAll(ncclComm_t* comm, int ndev, const int* devlist);
ncclResult_t pncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* newcomm,
                            ncclConfig_t* config);
ncclResult_t pncclCommShrink(ncclComm_t comm, int* excludeRanksList, int excludeRanksCount,
                             ncclComm_t* newcomm, ncclConfig_t* config, int shrinkFlags);
ncclResult_t pncclCommGetUniqueId(ncclComm_t comm, ncclUniqueId* uniqueId);
ncclResult_t pncclCommGrow(ncclComm_t comm, int nRanks, const ncclUniqueId* uniqueId, int rank,
                           ncclComm_t* newcomm, ncclConfig_t* config);
ncclResult_t pncclCommFinalize(ncclComm_t comm);
ncclResult_t pncclCommDestroy(ncclComm_t comm);
ncclResult_t pncclCommAbort(ncclComm_t comm);
ncclResult_t pncclCommRevoke(ncclComm_t comm, int revokeFlags);
ncclResult_t pncclCommSuspend(ncclComm_t comm, int flags);
ncclResult_t pncclCommResume(ncclComm_t comm);
ncclResult_t pncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* asyncError);
ncclResult_t pncclCommCount(const ncclComm_t comm, int* count);
ncclResult_t pncclCommUserRank(const ncclComm_t comm, int* rank);
ncclResult_t pncclCommCuDevice(const ncclComm_t comm, int* device);
ncclResult_t pncclCommMemStats(ncclComm_t comm, ncclCommMemStat_t stat, uint64_t* value);
ncclResult_t pncclCommRegister(const ncclComm_t comm, void* buff, size_t size, void** handle);
ncclResult_t pncclCommDeregister(const ncclComm_t comm, void* handle);
ncclResult_t pncclCommWindowRegister(ncclComm_t comm, void* buff, size_t size, ncclWindow_t* win,
                                     int winFlags);
ncclResult_t pncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t win);
ncclResult_t pncclWinGetUserPtr(ncclComm_t comm, ncclWindow_t win, void** outUserPtr);
ncclResult_t pncclRedOpCreatePreMulSum(ncclRedOp_t* op, void* scalar, ncclDataType_t datatype,
                                       ncclScalarResidence_t residence, ncclComm_t comm);
ncclResult_t pncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm);
ncclResult_t pncclAllReduce(const void* sendbuff, void* recvbuff, size_t count,
                            ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                            ncclStream_t stream);
ncclResult_t pncclReduce(const void* sendbuff, void* recvbuff, size_t count,
                         ncclDataType_t datatype, ncclRedOp_t op, int root, ncclComm_t comm,
                         ncclStream_t stream);
ncclResult_t pncclReduceScatter(const void* sendbuff, void* recvbuff, size_t recvcount,
                                ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                                ncclStream_t stream);
ncclResult_t pncclAllGather(const void* sendbuff, void* recvbuff, size_t sendcount,
                            ncclDataType_t datatype, ncclComm_t comm, ncclStream_t stream);
ncclResult_t pncclBroadcast(const void* sendbuff, void* recvbuff, size_t count,
                            ncclDataType_t datatype, int root, ncclComm_t comm,
                            ncclStream_t stream);
ncclResult_t pncclBcast(void* buff, size_t count, ncclDataType_t datatype, int root,
                        ncclComm_t comm, ncclStream_t stream);
ncclResult_t pncclAlltoAll(const void* sendbuff, void* recvbuff, size_t count,
                           ncclDataType_t datatype, ncclComm_t comm, ncclStream_t stream);
ncclResult_t pncclGather(const void* sendbuff, void* recvbuff, size_t count,
                         ncclDataType_t datatype, int root, ncclComm_t comm, ncclStream_t stream);
ncclResult_t pncclScatter(const void* sendbuff, void* recvbuff, size_t count,
                          ncclDataType_t datatype, int root, ncclComm_t comm, ncclStream_t stream);
ncclResult_t pncclSend(const void* sendbuff, size_t count, ncclDataType_t datatype, int peer,
                       ncclComm_t comm, ncclStream_t stream);
ncclResult_t pncclRecv(void* recvbuff, size_t count, ncclDataType_t datatype, int peer,
                       ncclComm_t comm, ncclStream_t stream);
ncclResult_t pncclPutSignal(const void* localbuff, size_t count, ncclDataType_t datatype, int peer,
                            ncclWindow_t peerWin, size_t peerWinOffset, int sigIdx, int ctx,
                            unsigned int flags, ncclComm_t comm, ncclStream_t stream);
ncclResult_t pncclSignal(int peer, int sigIdx, int ctx, unsigned int flags, ncclComm_t comm,
                         ncclStream_t stream);
ncclResult_t pncclWaitSignal(int nDesc, ncclWaitSignalDesc_t* signalDescs, ncclComm_t comm,
                             ncclStream_t stream);
ncclResult_t pncclGroupStart(void);
ncclResult_t pncclGroupEnd(void);
ncclResult_t pncclGroupSimulateEnd(ncclSimInfo_t* simInfo);
ncclResult_t pncclParamBind(ncclParamHandle_t* out, const char* key);
ncclResult_t pncclParamGetI8(ncclParamHandle_t h, int8_t* out);
ncclResult_t pncclParamGetI16(ncclParamHandle_t h, int16_t* out);
ncclResult_t pncclParamGetI32(ncclParamHandle_t h, int32_t* out);
ncclResult_t pncclParamGetI64(ncclParamHandle_t h, int64_t* out);
ncclResult_t pncclParamGetU8(ncclParamHandle_t h, uint8_t* out);
ncclResult_t pncclParamGetU16(ncclParamHandle_t h, uint16_t* out);
ncclResult_t pncclParamGetU32(ncclParamHandle_t h, uint32_t* out);
ncclResult_t pncclParamGetU64(ncclParamHandle_t h, uint64_t* out);
ncclResult_t pncclParamGetStr(ncclParamHandle_t h, const char** out);
ncclResult_t pncclParamGet(ncclParamHandle_t h, void* out, int maxLen, int* len);
ncclResult_t pncclParamGetParameter(const char* key, const char** value, int* valueLen);
ncclResult_t pncclParamGetAllParameterKeys(const char*** table, int* tableLen);
void pncclParamDumpAll(void);
NCCL_DEPRECATED_ void pncclResetDebugInit(void);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

#undef NCCL_DEPRECATED_

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif
