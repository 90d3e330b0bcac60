// Author's side of plugin kind `optimizer`: the rule as math on one logical tensor.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "megatron/abi/optimizer.h"
#include "megatron/graph.hpp"
#include "megatron/plugin.hpp"

namespace megatron {

MGT_KIND_OF(mgt_optimizer, MGT_KIND_OPTIMIZER);

struct ParameterInfo {
  std::string_view name;
  uint32_t rank;
};

// A state tensor shaped like the parameter; `name` has static storage.
struct StateSpec {
  std::string_view name;
  double initial = 0;
};

// Inputs of one update and, after the call, its results.
struct Update {
  ParameterInfo info;
  Value parameter;
  Value gradient;  // mean over the global batch, clipped
  Value lr;        // scalars of this step
  Value weight_decay;
  Value step;  // 1 at the first update
  std::span<const Value> states;
  Value new_parameter;
  std::vector<Value> new_states;
};

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  virtual std::vector<StateSpec> states(const ParameterInfo& info) const = 0;
  virtual void update(const Builder& builder, Update& update) const = 0;
};

// Table for `T : Optimizer` with a constructor T(const Config&).
template <class T>
const mgt_optimizer* optimizer_table() {
  static const mgt_optimizer table{
      sizeof(mgt_optimizer),
      0,
      [](const mgt_host*, const mgt_config* config, void** self) {
        return guarded([&] { *self = new T(Config(config)); });
      },
      [](void* self) { delete static_cast<T*>(self); },
      [](void* self, const mgt_parameter_info* info, mgt_state_desc* out, uint32_t* count) {
        return guarded([&] {
          const auto specs = static_cast<T*>(self)->states({from_abi(info->name), info->rank});
          if (specs.size() > MGT_MAX_OPTIMIZER_STATES) {
            throw StatusError(Status(
                Code::out_of_range, text("an optimizer may keep ", MGT_MAX_OPTIMIZER_STATES,
                                         " states a parameter, this one asks for ", specs.size())));
          }
          *count = static_cast<uint32_t>(specs.size());
          for (size_t i = 0; i < specs.size(); ++i) {
            MGT_INIT(&out[i]);
            out[i].dtype = MGT_DTYPE_F32;
            out[i].name = to_abi(specs[i].name);
            out[i].initial = specs[i].initial;
          }
        });
      },
      [](void* self, const mgt_builder* builder, mgt_update* u) {
        return guarded([&] {
          const auto wrap = [&](mgt_value id) { return Value{builder, id}; };
          std::vector<Value> states;
          for (uint32_t i = 0; i < u->state_count; ++i) states.push_back(wrap(u->states[i]));
          Update update{{from_abi(u->info->name), u->info->rank},
                        wrap(u->parameter),
                        wrap(u->gradient),
                        wrap(u->lr),
                        wrap(u->weight_decay),
                        wrap(u->step),
                        states,
                        {},
                        {}};
          static_cast<T*>(self)->update(Builder(builder), update);
          if (update.new_states.size() != states.size() ||
              update.new_parameter.builder == nullptr) {
            throw StatusError(Status(
                Code::internal, "the rule must set new_parameter and one new state per state"));
          }
          u->new_parameter = update.new_parameter.id;
          for (size_t i = 0; i < states.size(); ++i) u->new_states[i] = update.new_states[i].id;
        });
      }};
  return &table;
}

}  // namespace megatron
