// What the executor asks of communication: one blocking call per communication node. Back ends:
// comm plugins over processes, and threads of one process in tests.
#pragma once

#include <cstdint>
#include <string_view>

#include "graph/op.hpp"
#include "megatron/dtype.hpp"
#include "megatron/status.hpp"

namespace megatron::runtime {

struct Collective {
  std::string_view op;    // a row of graph/ops/communication.cpp
  std::string_view axis;  // mesh axis whose ranks take part
  std::string_view name;  // for reports: the value that is made or sent
  graph::Reduce reduce = graph::Reduce::sum;
  int64_t peer = -1;   // send, recv: coordinate on the axis
  int64_t offset = 0;  // ring_shift
  DType dtype = DType::f32;
  int64_t send_elements = 0;
  int64_t recv_elements = 0;
};

class Collectives {
 public:
  virtual ~Collectives() = default;
  virtual Status run(const Collective& what, const void* send, void* recv) = 0;
};

}  // namespace megatron::runtime
