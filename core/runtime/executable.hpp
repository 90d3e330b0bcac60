// A program bound to a device: kernels prepared, memory planned, pointers resolved. It may be bound
// to several sets of memory (the micro-batches that a pipeline stage has in flight); kernels are
// shared. Running one allocates nothing.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "graph/ir.hpp"
#include "megatron/device/device_view.hpp"
#include "runtime/collectives.hpp"
#include "runtime/memory_plan.hpp"

namespace megatron::runtime {

// Memory of parameters and states by name: they outlive programs and are shared by them.
using Homes = std::map<std::string, void*, std::less<>>;

// Time and work of one op over the runs of an executable.
struct OpProfile {
  std::string op;
  std::string implementation;
  int64_t calls = 0;
  double seconds = 0;
  double flops = 0;
};

class Executable {
 public:
  // Prepares every kernel; errors name the op and why each implementation declined.
  static Result<std::unique_ptr<Executable>> compile(graph::Program program,
                                                     const DeviceView& device,
                                                     Collectives* collectives = nullptr);

  const graph::Program& program() const { return program_; }
  const MemoryPlan& plan() const { return plan_; }

  // Resolves every pointer: `scratch` has plan().scratch_bytes, `homes` every parameter and state.
  // A program with communication needs collectives from here on.
  // Returns the number of the binding, 0 for the first.
  Result<size_t> bind(void* scratch, const Homes& homes);

  // Before a run: the scalar's value; CHECKs that the program reads it. `has_scalar` asks first.
  void set_scalar(std::string_view name, double value);
  bool has_scalar(std::string_view name) const;
  Status feed(graph::ValueId input, const void* host, size_t binding = 0);
  Status run(const mgt_rng_key& rng, size_t binding = 0);
  // After a run: the value of an output, a loss sum or count. Bytes of its type.
  Status fetch(graph::ValueId value, void* host, size_t binding = 0) const;
  Result<double> fetch_number(graph::ValueId value, size_t binding = 0) const;
  // Waits until the messages that the last run of a binding sent have left its memory; the next run
  // of the binding does so itself.
  Status complete_sends(size_t binding = 0);

  void enable_profile() { profiling_ = true; }
  std::vector<OpProfile> profile() const;
  // Floating-point operations of one run.
  double flops() const { return flops_; }

 private:
  struct Step {
    graph::NodeId node = 0;
    KernelHandle kernel;
    std::vector<graph::ValueId> tensor_inputs;
    std::vector<graph::ValueId> scalar_inputs;
    std::vector<double> scalars;
    bool communicates = false;
    Collective collective;
    double flops = 0;
    double seconds = 0;
    int64_t calls = 0;
  };

  // Pointers of one step.
  struct Operands {
    std::vector<void*> inputs;
    std::vector<void*> outputs;
    void* workspace = nullptr;
  };
  struct Binding {
    std::vector<void*> addresses;    // of each value
    std::vector<Operands> operands;  // of each step
  };

  Status prepare(graph::NodeId node, const DeviceView& device);
  Status launch(Step& step, const Operands& operands, const mgt_rng_key& rng);
  Status failure(const Step& step, Status status) const;

  graph::Program program_;
  DeviceView device_;
  Collectives* collectives_ = nullptr;
  std::vector<Step> steps_;
  std::vector<graph::NodeId> scalar_nodes_;
  std::vector<double> scalar_values_;  // of each value
  std::map<std::string, graph::ValueId, std::less<>> scalars_;
  MemoryPlan plan_;
  std::vector<Binding> bindings_;
  bool profiling_ = false;
  double flops_ = 0;
};

}  // namespace megatron::runtime
