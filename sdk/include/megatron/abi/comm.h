/* Plugin kind `comm`: collectives and point-to-point on buffers, with deadlines. C11 and C++20.
 * Every operation carries a name (which collective of which step), so that the report of a missing
 * rank can say what it missed. */
#ifndef MEGATRON_ABI_COMM_H
#define MEGATRON_ABI_COMM_H

#include "base.h"
#include "host.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef uint32_t mgt_collective_kind;
#define MGT_ALL_REDUCE 1u     /* send[count] -> recv[count] */
#define MGT_REDUCE_SCATTER 2u /* send[ranks * count] -> recv[count], block r to rank r */
#define MGT_ALL_GATHER 3u     /* send[count] -> recv[ranks * count], block r from rank r */
#define MGT_ALL_TO_ALL 4u     /* send[ranks * count] -> recv[ranks * count], block r with rank r */
#define MGT_ALL_TO_ALL_V 5u   /* the same with send_counts and recv_counts, blocks side by side */
#define MGT_BROADCAST 6u      /* recv[count] of rank `peer` -> recv[count] of all */
#define MGT_SEND 7u           /* send[count] to rank `peer` */
#define MGT_RECV 8u /* recv[count] from rank `peer`, in the order of its sends of the same tag */
#define MGT_BARRIER 9u

typedef uint32_t mgt_reduce_op;
#define MGT_REDUCE_SUM 1u
#define MGT_REDUCE_MAX 2u

/* The sum does not depend on the number of ranks (a power of two): a balanced tree over rank order.
 */
#define MGT_COLLECTIVE_ORDERED (1u << 0)

/* One operation. Ranks are those of the group. 16-bit types are added up in float32. Buffers belong
 * to the operation from `start` until `wait` returns. In place: all_reduce and broadcast with send
 * == recv, all_gather with send == recv + rank * count, reduce_scatter with recv == send + rank *
 * count. */
typedef struct mgt_collective {
  uint32_t struct_size;
  uint32_t flags;
  mgt_collective_kind kind;
  mgt_dtype dtype;
  mgt_reduce_op reduce;
  uint32_t peer;
  mgt_str name;
  uint64_t tag;        /* of MGT_SEND and MGT_RECV */
  uint64_t timeout_ms; /* from `start`; 0 = the plugin's default */
  const void* send;
  void* recv;
  uint64_t count; /* elements */
  const uint64_t* send_counts;
  const uint64_t* recv_counts;
} mgt_collective;

/* Rendezvous store of the launch: small values by key, shared by all ranks. Thread-safe. */
typedef struct mgt_store {
  uint32_t struct_size;
  uint32_t flags;
  void* context;
  mgt_status* (*set)(void* context, mgt_str key, const void* value, uint64_t size);
  /* Waits for the key; DEADLINE_EXCEEDED names it. Up to `capacity` bytes are copied. */
  mgt_status* (*get)(void* context, mgt_str key, uint64_t timeout_ms, void* value,
                     uint64_t capacity, uint64_t* size);
} mgt_store;

typedef struct mgt_comm_context {
  uint32_t struct_size;
  uint32_t flags;
  uint32_t rank;
  uint32_t world_size;
  uint32_t local_rank; /* among the ranks of this host */
  uint32_t local_size;
  const mgt_store* store; /* NULL when world_size is 1 */
} mgt_comm_context;

typedef struct mgt_comm {
  uint32_t struct_size;
  uint32_t flags;
  /* [main-thread] Called by every rank of the world. */
  mgt_status* (*create)(const mgt_host* host, const mgt_config* config,
                        const mgt_comm_context* context, void** self);
  void (*destroy)(void* self);
  /* [main-thread] A sub-communicator over `ranks` (of the world, ascending, this one among them);
   * every rank of the world calls it for its own group, in the same order. */
  mgt_status* (*group)(void* self, mgt_str name, const uint32_t* ranks, uint32_t count,
                       void** group);
  void (*release_group)(void* self, void* group);
  /* [main-thread] Memory in which collectives need no staging; called by every rank of the world in
   * the same order with the same size. Aligned to at least 4096 bytes, zeroed. */
  mgt_status* (*allocate)(void* self, uint64_t bytes, void** out);
  void (*free)(void* self, void* memory);
  /* Starts `count` operations as one unit and returns at once. Every rank of a group starts the
   * same collectives in the same order. One thread at a time per group. */
  mgt_status* (*start)(void* group, const mgt_collective* operations, uint64_t count,
                       void** request);
  /* Completes the unit and frees the request, also when it fails. DEADLINE_EXCEEDED and UNAVAILABLE
   * name the operation, the group, who arrived and who did not; the group is unusable afterwards.
   */
  mgt_status* (*wait)(void* group, void* request);
  /* Ends every operation under way with ABORTED and this reason; from any thread. */
  void (*abort)(void* self, mgt_str reason);
} mgt_comm;

#ifdef __cplusplus
}
#endif
#endif
