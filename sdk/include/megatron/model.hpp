// Author's side of plugin kind `model`: derive from Model, end the file with MEGATRON_PLUGIN.
#pragma once

#include <memory>
#include <string_view>

#include "megatron/abi/model.h"
#include "megatron/graph.hpp"
#include "megatron/plugin.hpp"

namespace megatron {

MGT_KIND_OF(mgt_model, MGT_KIND_MODEL);

struct ProgramRequest {
  std::string_view program;
  int64_t batch_size;
  int64_t seq_length;  // 0 = the model's own
};

class Model {
 public:
  virtual ~Model() = default;
  // Writes the named program; see mgt_model::build.
  virtual void build(const ProgramRequest& request, const Builder& builder) = 0;
};

// Table for `T : Model` with a constructor T(const Config&, int64_t vocab_size).
template <class T>
const mgt_model* model_table() {
  static const mgt_model table{
      sizeof(mgt_model), 0,
      [](const mgt_host*, const mgt_config* config, const mgt_model_context* context, void** self) {
        return guarded([&] { *self = new T(Config(config), context->vocab_size); });
      },
      [](void* self) { delete static_cast<T*>(self); },
      [](void* self, const mgt_program_request* request, const mgt_builder* builder) {
        return guarded([&] {
          static_cast<T*>(self)->build(
              {from_abi(request->program), request->batch_size, request->seq_length},
              Builder(builder));
        });
      }};
  return &table;
}

[[noreturn]] inline void throw_unknown_program(std::string_view model, std::string_view program) {
  throw StatusError(
      Status(Code::unimplemented, text("model '", model, "' has no program '", program, "'")));
}

}  // namespace megatron
