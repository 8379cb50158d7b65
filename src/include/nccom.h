/* nccom.h - devices, streams and events: the small run time that NCCL leaves to CUDA.
 *
 * A device is a logical NeuronCore of the platform in use (NCCOM_PLATFORM), numbered from 0 within
 * the host. All device memory is host-addressable: what ncclMemAlloc returns is read and written
 * with plain loads and stores by the process that allocated it, before an operation is queued and
 * after its stream has completed it. There is no copy function, because memcpy is one.
 *
 * Every function returns ncclSuccess, or a code whose explanation ncclGetLastError(NULL) gives;
 * the Query functions return ncclInProgress while there is work left, which is not an error. All
 * may be called from any thread.
 *
 * NULL as a stream is the default stream of the calling thread's device; for an operation of a
 * communicator it is that of the communicator's device. Synchronising NULL waits for the default
 * stream of the calling thread's device, and for those of the communicators' devices that this
 * thread has given NULL for. Each device has one default stream, whichever threads use it; it is a
 * stream like any other and is not ordered against the others. Threads that share a device, and
 * wait for their own work only, have streams of their own.
 *
 * C99 and C++.
 */
#ifndef NCCOM_H_
#define NCCOM_H_

#include "nccl.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A point in a stream. */
typedef struct nccomEvent* nccomEvent_t;

#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

/* ---- devices ------------------------------------------------------------------------------- */

/* @param count  receives the number of devices of this host's platform */
ncclResult_t nccomGetDeviceCount(int* count);

/* Makes `device` the calling thread's: memory, streams and communicators that the thread makes
 * from now on belong to it. A thread begins with device 0.
 * @error ncclInvalidArgument  not in 0..count-1 */
ncclResult_t nccomSetDevice(int device);
ncclResult_t nccomGetDevice(int* device);

/* Waits for all streams of the calling thread's device, the default one included; returns the
 * first failure among their operations. */
ncclResult_t nccomDeviceSynchronize(void);

/* ---- streams ------------------------------------------------------------------------------- */

/* Makes a stream on the calling thread's device: its operations run in the order they were queued;
 * operations of different streams run independently. */
ncclResult_t nccomStreamCreate(ncclStream_t* stream);

/* Frees a stream once its queued operations have completed; does not wait for them. The default
 * stream cannot be destroyed. */
ncclResult_t nccomStreamDestroy(ncclStream_t stream);

/* Waits until all that was queued has completed, lending the calling thread to the work. Returns
 * the first failure among the operations since the last time one was returned. */
ncclResult_t nccomStreamSynchronize(ncclStream_t stream);

/* As StreamSynchronize, but returns ncclInProgress instead of waiting. Calling it repeatedly is
 * enough to make the work progress. */
ncclResult_t nccomStreamQuery(ncclStream_t stream);

/* ---- events -------------------------------------------------------------------------------- */

ncclResult_t nccomEventCreate(nccomEvent_t* event);

/* Frees the event; a record of it still in a stream becomes without effect. NULL is nothing. */
ncclResult_t nccomEventDestroy(nccomEvent_t event);

/* Queues the event: it happens when all that was queued on the stream before it has completed.
 * Recording again moves the event. */
ncclResult_t nccomEventRecord(nccomEvent_t event, ncclStream_t stream);

/* Waits for the last record; at once if there is none. */
ncclResult_t nccomEventSynchronize(nccomEvent_t event);

/* ncclSuccess if the last record has happened or there is none, else ncclInProgress. */
ncclResult_t nccomEventQuery(nccomEvent_t event);

/* The time between two events that have happened, in milliseconds; negative if end came first.
 * ncclInProgress, and *ms untouched, while one of them has not happened.
 * @error ncclInvalidUsage  one was never recorded */
ncclResult_t nccomEventElapsedTime(float* ms, nccomEvent_t start, nccomEvent_t end);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif
