// A collective under way.
#pragma once

#include <cstdint>

#include "megatron/status.hpp"

namespace megatron::ucx {

class CollectiveRun {
 public:
  virtual ~CollectiveRun() = default;
  // Tells the others that this rank is here; false: not yet possible, or done before.
  virtual bool post() = 0;
  // True when something moved. Only the oldest unfinished collective of a group is stepped.
  virtual Result<bool> step() = 0;
  virtual bool finished() const = 0;
  // This rank (of the world) has still something to do for it.
  virtual bool needs(uint32_t rank) const = 0;
};

}  // namespace megatron::ucx
