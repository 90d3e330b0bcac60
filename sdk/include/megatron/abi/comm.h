/* Plugin kind `comm`: collectives and point-to-point on buffers, with deadlines. C11 and C++20.
 * Every call carries a name (which collective of which step) for the report when a rank is missing.
 */
#ifndef MEGATRON_ABI_COMM_H
#define MEGATRON_ABI_COMM_H

#include "base.h"
#include "host.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef uint32_t mgt_reduce_op;
#define MGT_REDUCE_SUM 1u
#define MGT_REDUCE_MAX 2u
#define MGT_REDUCE_LOGSUMEXP 3u
/* The sum is taken in an order that does not depend on the number of ranks (a power of two). */
#define MGT_COMM_ORDERED (1u << 0)

/* Rendezvous store of the launch: small values by key, shared by all ranks. */
typedef struct mgt_store {
  uint32_t struct_size;
  uint32_t flags;
  void* context;
  mgt_status* (*set)(void* context, mgt_str key, const void* value, uint64_t size);
  /* Waits for the key; DEADLINE_EXCEEDED names it. The value is copied to `value`, up to capacity.
   */
  mgt_status* (*get)(void* context, mgt_str key, uint64_t timeout_ms, void* value,
                     uint64_t capacity, uint64_t* size);
} mgt_store;

typedef struct mgt_comm_context {
  uint32_t struct_size;
  uint32_t flags;
  uint32_t rank;
  uint32_t world_size;
  uint32_t local_rank;
  uint32_t local_size;
  const mgt_store* store; /* NULL when world_size is 1 */
} mgt_comm_context;

typedef struct mgt_collective {
  uint32_t struct_size;
  uint32_t flags; /* MGT_COMM_ORDERED */
  mgt_str name;
  uint64_t timeout_ms;
  const void* send; /* may equal recv where the collective allows it in place */
  void* recv;
  uint64_t count; /* elements that this rank sends (all_gather, send) or receives (others) */
  mgt_dtype dtype;
  mgt_reduce_op reduce;
  uint32_t peer; /* broadcast: root; send, recv: the other rank in the group */
  uint32_t reserved;
  const uint64_t* send_counts; /* all_to_all_v: elements per peer */
  const uint64_t* recv_counts;
} mgt_collective;

typedef struct mgt_comm {
  uint32_t struct_size;
  uint32_t flags;
  mgt_status* (*create)(const mgt_host* host, const mgt_config* config,
                        const mgt_comm_context* context, void** self);
  void (*destroy)(void* self);
  /* A sub-communicator over `ranks` (global ranks, this one among them), called by each of them in
   * the same order. */
  mgt_status* (*group)(void* self, mgt_str name, const uint32_t* ranks, uint32_t count,
                       void** group);
  void (*release_group)(void* self, void* group);
  /* Memory in which collectives work in place; NULL slot = any memory will do. */
  mgt_status* (*allocate)(void* self, uint64_t bytes, void** out);
  void (*free)(void* self, void* memory);
  /* Each starts the operation and sets *request; `wait` completes and frees it. */
  mgt_status* (*all_reduce)(void* group, const mgt_collective* args, void** request);
  mgt_status* (*reduce_scatter)(void* group, const mgt_collective* args, void** request);
  mgt_status* (*all_gather)(void* group, const mgt_collective* args, void** request);
  mgt_status* (*all_to_all)(void* group, const mgt_collective* args, void** request);
  mgt_status* (*all_to_all_v)(void* group, const mgt_collective* args, void** request);
  mgt_status* (*broadcast)(void* group, const mgt_collective* args, void** request);
  mgt_status* (*send)(void* group, const mgt_collective* args, void** request);
  mgt_status* (*recv)(void* group, const mgt_collective* args, void** request);
  mgt_status* (*barrier)(void* group, const mgt_collective* args, void** request);
  mgt_status* (*wait)(void* group, void* request);
} mgt_comm;

#ifdef __cplusplus
}
#endif
#endif
