/* Control interface of the fake CUDA runtime: what a test may ask or force.
 *
 * All functions are exported by the fake driver library.  Look them up with
 * dlsym(RTLD_DEFAULT, ...) or ctypes.CDLL(None), so that the same test can
 * notice that it runs on a real GPU. */
#ifndef FAKECUDA_H
#define FAKECUDA_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define FAKECUDA_API __attribute__((visibility("default")))

/* Always 1; its presence says that the fake is loaded. */
FAKECUDA_API int fakecuda_is_active(void);

/* --- Memory --------------------------------------------------------------- */

/* Bytes the device has given out: cudaMalloc, cudaMallocAsync, cuMemCreate. */
FAKECUDA_API size_t fakecuda_used_bytes(int device);
/* Pinned host bytes from cudaHostAlloc (registered pages not counted). */
FAKECUDA_API size_t fakecuda_pinned_bytes(void);
/* Pretends that other processes hold this much of the device. */
FAKECUDA_API void fakecuda_set_foreign_bytes(int device, size_t bytes);
/* Lets `skip` more device allocations succeed, then fails `count` of them
 * with "out of memory".  (0, 0) cancels. */
FAKECUDA_API void fakecuda_fail_allocations(long skip, long count);

/* --- Time on streams ------------------------------------------------------ */

/* Work is complete as soon as it is submitted, unless its stream is stalled.
 * A stalled stream completes nothing until drained, resumed or synchronised.
 * NULL names the default stream of the current device. */
FAKECUDA_API void fakecuda_stall(void* stream);
FAKECUDA_API void fakecuda_drain(void* stream); /* complete, stay stalled */
FAKECUDA_API void fakecuda_resume(void* stream); /* complete, lift the stall */

/* --- Observation ---------------------------------------------------------- */

/* How often an API was called: malloc free launch copy memset event_record
 * event_query event_sync stream_sync device_sync host_alloc host_free vmm_map
 * vmm_unmap graph_launch unimplemented.  UINT64_MAX: no such counter. */
FAKECUDA_API uint64_t fakecuda_counter(const char* name);
/* Name of the last API that was called but does not exist here, or "". */
FAKECUDA_API const char* fakecuda_last_unimplemented(void);

#ifdef __cplusplus
}
#endif
#endif
