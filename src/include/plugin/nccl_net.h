/* nccl_net.h - the network plugin ABI.
 *
 * A network plugin moves messages between two processes, usually of two hosts. It is a shared
 * library that exports one table of functions for each version of the ABI that it knows. The tables
 * are data, not functions: `ncclNetPlugin_v8` is an ncclNet_v8_t. Names and layouts are those that
 * NCCL 2.20 to 2.30 look for, so one plugin serves both libraries. A released table never changes;
 * a new version is a new struct and a new symbol.
 *
 * Contract of every version:
 *  - Results are NCCL's. A function that fails has said why through the logger, at level WARN.
 *  - `init` is called once in the life of the process, before all else but reading `name`. A table
 *    may be completed by its own init: the other pointers are read after init has returned.
 *  - One communicator object (send, receive or listen) is used by one thread at a time; different
 *    ones are used at the same time by different threads.
 *  - Nothing blocks. `connect` and `accept` return success with *comm = NULL for "not yet, call
 *    again", and connect is called again with the very same handle buffer: the plugin may keep its
 *    state in it. `isend` and `irecv` return success with *request = NULL for "no room, try later".
 *  - A request is dead once `test` has said done, or has failed.
 *  - Messages of one tag on one connection arrive in the order sent. A receive may be larger than
 *    its message, and test says how much came; a receive that is smaller is an error.
 *  - Buffers belong to the plugin until their request is done. They are registered first, with the
 *    comm that uses them.
 * C99 and C++.
 */
#ifndef NCCL_NET_H_
#define NCCL_NET_H_

#include <stddef.h>
#include <stdint.h>

#include "../nccl.h"

#ifdef __cplusplus
extern "C" {
#endif

#define NCCL_NET_HANDLE_MAXSIZE 128 /* bytes of the opaque address that listen fills in */
#define NCCL_NET_MAX_REQUESTS 32    /* receives, and sends of one tag, outstanding on one comm */

/* Kinds of memory: bits of ptrSupport, and the `type` of a registration. Host always works. */
#define NCCL_PTR_HOST 0x1
#define NCCL_PTR_CUDA 0x2
#define NCCL_PTR_DMABUF 0x4

/* ---- the log --------------------------------------------------------------------------------- */

typedef enum {
  NCCL_LOG_NONE = 0,
  NCCL_LOG_VERSION = 1,
  NCCL_LOG_WARN = 2,
  NCCL_LOG_INFO = 3,
  NCCL_LOG_ABORT = 4,
  NCCL_LOG_TRACE = 5
} ncclDebugLogLevel;

typedef enum { /* bits: one line may belong to several */
               NCCL_INIT = 0x1,
               NCCL_COLL = 0x2,
               NCCL_P2P = 0x4,
               NCCL_SHM = 0x8,
               NCCL_NET = 0x10,
               NCCL_GRAPH = 0x20,
               NCCL_TUNING = 0x40,
               NCCL_ENV = 0x80,
               NCCL_ALLOC = 0x100,
               NCCL_CALL = 0x200,
               NCCL_PROXY = 0x400,
               NCCL_NVLS = 0x800,
               NCCL_BOOTSTRAP = 0x1000,
               NCCL_REG = 0x2000,
               NCCL_PROFILE = 0x4000,
               NCCL_RAS = 0x8000,
               NCCL_DESTROY = 0x10000,
               NCCL_ALL = ~0
} ncclDebugLogSubSys;

/* `format` is printf's; `file` and `line`, or a function's name, say where. Callable from any
 * thread, during and after init. */
typedef void (*ncclDebugLogger_t)(ncclDebugLogLevel level, unsigned long subsystems,
                                  const char* file, int line, const char* format, ...);

/* ---- what a network offers to a device directly ------------------------------------------------
 */

typedef enum {
  NCCL_NET_DEVICE_HOST = 0,  /* the host drives the network: no device handle */
  NCCL_NET_DEVICE_UNPACK = 1 /* the device unpacks what arrives */
} ncclNetDeviceType;

typedef struct {
  ncclNetDeviceType netDeviceType;
  int netDeviceVersion;
  void* handle;
  size_t size;
  int needsProxyProgress;
} ncclNetDeviceHandle_v8_t;

/* ---- version 8: NCCL 2.20 and later
 * -------------------------------------------------------------- */

typedef struct {
  char* name;                      /* of the NIC; the plugin's memory, as long as it is loaded */
  char* pciPath;                   /* its folder in sysfs, or NULL: not a PCI device */
  uint64_t guid;                   /* equal for the devices that are one physical NIC */
  int ptrSupport;                  /* NCCL_PTR_* bits */
  int regIsGlobal;                 /* 1: one registration serves all comms of the device */
  int speed;                       /* Mbit/s of the port, 0: unknown */
  int port;                        /* port of the NIC */
  float latency;                   /* us, 0: unknown */
  int maxComms;                    /* how many comms the device supports */
  int maxRecvs;                    /* largest n of irecv, 1 or more */
  ncclNetDeviceType netDeviceType; /* NCCL_NET_DEVICE_HOST, unless it offers more */
  int netDeviceVersion;
} ncclNetProperties_v8_t;

typedef struct {
  /* Of the network, for the log and for NCCL_NET. */
  const char* name;
  ncclResult_t (*init)(ncclDebugLogger_t logger);
  /* How many devices there are; 0: this plugin cannot be used here. */
  ncclResult_t (*devices)(int* nDevices);
  ncclResult_t (*getProperties)(int dev, ncclNetProperties_v8_t* properties);

  /* Fills `handle` (NCCL_NET_HANDLE_MAXSIZE bytes), which the caller carries to the peer. */
  ncclResult_t (*listen)(int dev, void* handle, void** listenComm);
  /* The two ends of one connection, on which messages go from sendComm to recvComm. `deviceHandle`
   * may be left alone when netDeviceType is NCCL_NET_DEVICE_HOST. */
  ncclResult_t (*connect)(int dev, void* handle, void** sendComm,
                          ncclNetDeviceHandle_v8_t** deviceHandle);
  ncclResult_t (*accept)(void* listenComm, void** recvComm,
                         ncclNetDeviceHandle_v8_t** deviceHandle);

  /* Registers memory of one NCCL_PTR_* kind with a send or receive comm. regMrDmaBuf may be NULL.
   */
  ncclResult_t (*regMr)(void* comm, void* data, size_t size, int type, void** mhandle);
  ncclResult_t (*regMrDmaBuf)(void* comm, void* data, size_t size, int type, uint64_t offset,
                              int fd, void** mhandle);
  ncclResult_t (*deregMr)(void* comm, void* mhandle);

  ncclResult_t (*isend)(void* sendComm, void* data, int size, int tag, void* mhandle,
                        void** request);
  /* Receives n messages, 1 to maxRecvs, with n different tags, as one request. */
  ncclResult_t (*irecv)(void* recvComm, int n, void** data, int* sizes, int* tags, void** mhandles,
                        void** request);
  /* Makes what was received into device memory visible to the device. *request may stay NULL:
   * nothing to wait for. Not called for host memory. */
  ncclResult_t (*iflush)(void* recvComm, int n, void** data, int* sizes, void** mhandles,
                         void** request);
  /* *done is 0 or 1; `sizes`, which may be NULL, takes the n sizes that were received or the one
   * that was sent. */
  ncclResult_t (*test)(void* request, int* done, int* sizes);

  ncclResult_t (*closeSend)(void* sendComm);
  ncclResult_t (*closeRecv)(void* recvComm);
  ncclResult_t (*closeListen)(void* listenComm);

  /* For a device that drives the network itself; both may be NULL. */
  ncclResult_t (*getDeviceMr)(void* comm, void* mhandle, void** deviceMhandle);
  ncclResult_t (*irecvConsumed)(void* recvComm, int n, void* request);
} ncclNet_v8_t; /* exported as ncclNetPlugin_v8 */

#ifdef __cplusplus
}
#endif

#endif
