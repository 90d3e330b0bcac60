// What a rank asks of communication: one call per communication node of its programs, and small
// exchanges between hosts. Back ends: comm plugins over processes, and threads of one process in
// tests.
#pragma once

#include <cstdint>
#include <span>
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
  // Returns when `recv` holds the result; a send returns at once and reads its memory until
  // complete_send has returned.
  virtual Status run(const Collective& what, const void* send, void* recv) = 0;
  // Nothing is under way from this memory: returns at once.
  virtual Status complete_send(const void* send) = 0;
  // Host memory of every rank on the axis, `values` of each, in the order of coordinates.
  virtual Status gather(std::string_view axis, std::string_view name,
                        std::span<const double> values, std::span<double> all) = 0;
};

}  // namespace megatron::runtime
