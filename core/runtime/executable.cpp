#include "runtime/executable.hpp"

#include <algorithm>
#include <array>
#include <chrono>

#include "graph/op.hpp"
#include "runtime/scalars.hpp"

namespace megatron::runtime {
namespace {

using namespace graph;  // NOLINT(google-build-using-namespace)

constexpr size_t kMaxScalarOperands = 4;

TensorDesc describe(const Value& value) {
  std::vector<int64_t> sizes;
  for (const auto& d : value.type.dims) sizes.push_back(d.size);
  TensorDesc desc(value.type.dtype, std::move(sizes));
  if (!value.maps.empty()) desc.maps = value.maps;
  return desc;
}

Collective make_collective(const Program& program, const Node& node) {
  Collective c;
  c.op = node.op->name;
  c.axis = std::get<std::string>(node.attrs.at("axis"));
  c.reduce = parse_reduce(string_attr(node.attrs, "reduce")).value_or(Reduce::sum);
  c.peer = int_attr(node.attrs, "peer", -1);
  c.offset = int_attr(node.attrs, "offset");
  const ValueId named = node.outputs.empty() ? node.inputs[0] : node.outputs[0];
  // Both ends of a message use the tag.
  c.name = node.attrs.contains("tag")
               ? std::string_view(std::get<std::string>(node.attrs.at("tag")))
               : std::string_view(program.values[named].name);
  c.dtype = program.type(named).dtype;
  if (!node.inputs.empty()) c.send_elements = program.type(node.inputs[0]).elements();
  if (!node.outputs.empty()) c.recv_elements = program.type(node.outputs[0]).elements();
  return c;
}

}  // namespace

Result<std::unique_ptr<Executable>> Executable::compile(Program program, const DeviceView& device,
                                                        Collectives* collectives) {
  auto out = std::make_unique<Executable>();
  out->program_ = std::move(program);
  out->device_ = device;
  out->collectives_ = collectives;
  const Program& p = out->program_;
  out->scalar_values_.assign(p.values.size(), 0.0);
  for (ValueId v = 0; v < p.values.size(); ++v) {
    if (p.values[v].kind == ValueKind::scalar) out->scalars_[p.values[v].name] = v;
    if (p.values[v].kind == ValueKind::constant) out->scalar_values_[v] = p.values[v].constant;
  }
  std::vector<int64_t> workspace(p.nodes.size(), 0);
  for (NodeId n = 0; n < p.nodes.size(); ++n) {
    if (p.yields_scalar(p.nodes[n])) {
      MGT_CHECK(p.nodes[n].inputs.size() <= kMaxScalarOperands, p.nodes[n].op->name);
      const std::array<double, kMaxScalarOperands> ones{1, 1, 1, 1};
      MGT_RETURN_IF_ERROR(evaluate_scalar(p.nodes[n].op->name, ones).status());
      out->scalar_nodes_.push_back(n);
      continue;
    }
    MGT_RETURN_IF_ERROR(out->prepare(n, device).context(text("compiling program '", p.name, "'")));
    workspace[n] = static_cast<int64_t>(out->steps_.back().kernel.workspace_bytes());
  }
  out->plan_ = plan_memory(p, workspace);
  return out;
}

Status Executable::prepare(NodeId id, const DeviceView& device) {
  const Node& node = program_.nodes[id];
  Step step;
  step.node = id;
  for (const ValueId v : node.inputs) {
    (program_.type(v).is_scalar() ? step.scalar_inputs : step.tensor_inputs).push_back(v);
  }
  step.scalars.resize(step.scalar_inputs.size());
  step.communicates = node.op->communicates;
  if (step.communicates) {
    step.collective = make_collective(program_, node);
  } else {
    step.flops = flops_of(program_, node);
    flops_ += step.flops;
    KernelDesc desc;
    desc.op = node.op->name;
    desc.attrs = KernelAttrs(node.attrs.begin(), node.attrs.end());
    for (const ValueId v : step.tensor_inputs) desc.inputs.push_back(describe(program_.values[v]));
    for (const ValueId v : node.outputs) desc.outputs.push_back(describe(program_.values[v]));
    desc.scalar_count = step.scalar_inputs.size();
    desc.accumulate_mask = node.accumulate_mask;
    auto kernel = device.prepare(desc);
    if (!kernel.ok()) {
      return std::move(kernel).status().context(
          text("preparing op '", node.op->name, "' of ",
               node.scope.empty() ? "the program" : node.scope));
    }
    step.kernel = std::move(kernel).value();
  }
  steps_.push_back(std::move(step));
  return {};
}

Result<size_t> Executable::bind(void* scratch, const Homes& homes) {
  Binding binding;
  binding.addresses.assign(program_.values.size(), nullptr);
  for (ValueId v = 0; v < program_.values.size(); ++v) {
    const Value& value = program_.values[v];
    const Value& home = value.into != kNone ? program_.values[value.into] : value;
    if (home.kind == ValueKind::parameter || home.kind == ValueKind::state) {
      const auto it = homes.find(home.name);
      if (it == homes.end()) return internal_error(text("'", home.name, "' has no memory"));
      binding.addresses[v] = it->second;
    } else if (plan_.offsets[v] >= 0) {
      binding.addresses[v] = static_cast<char*>(scratch) + plan_.offsets[v];
    }
  }
  for (const auto& step : steps_) {
    if (step.communicates && collectives_ == nullptr) {
      return Status::error(Code::failed_precondition,
                           text("op '", step.collective.op, "' over mesh axis '",
                                step.collective.axis, "' cannot run"),
                           "this run has no communication back end",
                           "start it on all ranks of the mesh, or give the axis the size 1");
    }
    Operands operands;
    for (const ValueId v : step.tensor_inputs) operands.inputs.push_back(binding.addresses[v]);
    for (const ValueId v : program_.nodes[step.node].outputs)
      operands.outputs.push_back(binding.addresses[v]);
    const int64_t offset = plan_.workspace_offsets[step.node];
    if (offset >= 0) operands.workspace = static_cast<char*>(scratch) + offset;
    binding.operands.push_back(std::move(operands));
  }
  bindings_.push_back(std::move(binding));
  return bindings_.size() - 1;
}

bool Executable::has_scalar(std::string_view name) const {
  return scalars_.find(name) != scalars_.end();
}

void Executable::set_scalar(std::string_view name, double value) {
  const auto it = scalars_.find(name);
  MGT_CHECK(it != scalars_.end(), name);
  scalar_values_[it->second] = value;
}

Status Executable::feed(ValueId input, const void* host, size_t binding) {
  return device_.upload(bindings_[binding].addresses[input], host,
                        static_cast<uint64_t>(program_.type(input).bytes()));
}

Status Executable::run(const mgt_rng_key& rng, size_t binding) {
  MGT_RETURN_IF_ERROR(complete_sends(binding));
  for (const NodeId n : scalar_nodes_) {
    const Node& node = program_.nodes[n];
    std::array<double, kMaxScalarOperands> operands{};
    for (size_t i = 0; i < node.inputs.size(); ++i) operands[i] = scalar_values_[node.inputs[i]];
    const auto result =
        evaluate_scalar(node.op->name, std::span(operands).first(node.inputs.size()));
    if (!result.ok()) return result.status();
    scalar_values_[node.outputs[0]] = *result;
  }
  for (size_t i = 0; i < steps_.size(); ++i) {
    Step& step = steps_[i];
    const Operands& operands = bindings_[binding].operands[i];
    if (!profiling_) {
      MGT_RETURN_IF_ERROR(launch(step, operands, rng));
      continue;
    }
    const auto start = std::chrono::steady_clock::now();
    MGT_RETURN_IF_ERROR(launch(step, operands, rng));
    MGT_RETURN_IF_ERROR(device_.synchronize());
    step.seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    ++step.calls;
  }
  return device_.synchronize();
}

Status Executable::complete_sends(size_t binding) {
  for (size_t i = 0; i < steps_.size(); ++i) {
    if (!steps_[i].communicates || steps_[i].collective.op != "send") continue;
    auto status = collectives_->complete_send(bindings_[binding].operands[i].inputs[0]);
    if (!status.ok()) return failure(steps_[i], std::move(status));
  }
  return {};
}

Status Executable::launch(Step& step, const Operands& operands, const mgt_rng_key& rng) {
  if (step.communicates) {
    MGT_RETURN_IF_ERROR(device_.synchronize());
    auto status =
        collectives_->run(step.collective, operands.inputs.empty() ? nullptr : operands.inputs[0],
                          operands.outputs.empty() ? nullptr : operands.outputs[0]);
    return status.ok() ? Status() : failure(step, std::move(status));
  }
  for (size_t i = 0; i < step.scalars.size(); ++i)
    step.scalars[i] = scalar_values_[step.scalar_inputs[i]];
  auto status =
      step.kernel.launch(operands.inputs, operands.outputs, step.scalars, operands.workspace, &rng);
  return status.ok() ? Status() : failure(step, std::move(status));
}

Status Executable::failure(const Step& step, Status status) const {
  const Node& node = program_.nodes[step.node];
  return std::move(status).context(text("running op '", node.op->name,
                                        node.scope.empty() ? "'" : text("' of ", node.scope),
                                        " in program '", program_.name, "'"));
}

Status Executable::fetch(ValueId value, void* host, size_t binding) const {
  return device_.download(host, bindings_[binding].addresses[value],
                          static_cast<uint64_t>(program_.type(value).bytes()));
}

Result<double> Executable::fetch_number(ValueId value, size_t binding) const {
  float number = 0;
  MGT_CHECK(program_.type(value).rank() == 0 && program_.type(value).dtype == DType::f32,
            program_.values[value].name);
  MGT_RETURN_IF_ERROR(fetch(value, &number, binding));
  return static_cast<double>(number);
}

std::vector<OpProfile> Executable::profile() const {
  std::vector<OpProfile> rows;
  for (const auto& step : steps_) {
    const auto name = program_.nodes[step.node].op->name;
    const auto implementation =
        step.communicates ? std::string_view("communication") : step.kernel.implementation();
    auto it = std::find_if(rows.begin(), rows.end(), [&](const OpProfile& r) {
      return r.op == name && r.implementation == implementation;
    });
    if (it == rows.end())
      it = rows.insert(rows.end(), OpProfile{std::string(name), std::string(implementation)});
    it->calls += step.calls;
    it->seconds += step.seconds;
    it->flops += step.flops * static_cast<double>(step.calls);
  }
  std::sort(rows.begin(), rows.end(),
            [](const OpProfile& a, const OpProfile& b) { return a.seconds > b.seconds; });
  return rows;
}

}  // namespace megatron::runtime
