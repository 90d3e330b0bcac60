// Element-wise sums and maxima over several buffers, with a fixed association: what every rank
// computes from the same inputs has the same bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "megatron/abi/comm.h"

namespace megatron::comm {

struct Reduction {
  mgt_dtype from;    // of the sources
  mgt_dtype to;      // of the targets; differs from `from` only between f32 and a 16-bit type
  mgt_reduce_op op;  // sums of 16-bit types are taken in f32 and rounded once
  bool tree;         // a balanced tree over the sources instead of one after the other
};

// False: reduce() has no code for it.
bool can_reduce(const Reduction& reduction);

// targets[t][i] = op over r of sources[r][i]. A target may be one of the sources.
void reduce(const Reduction& reduction, std::span<const std::byte* const> sources,
            std::span<std::byte* const> targets, uint64_t count);

// memcpy without its slow case: glibc copies by `rep movsb`, which runs at a twentieth of the rate
// on some processors when the target lies a few bytes behind the source modulo 4096.
void copy_bytes(void* target, const void* source, size_t bytes);

}  // namespace megatron::comm
