// Author's side of plugin kind `dataset`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "megatron/abi/dataset.h"
#include "megatron/dtype.hpp"
#include "megatron/plugin.hpp"
#include "megatron/tokenizer.hpp"

namespace megatron {

MGT_KIND_OF(mgt_dataset, MGT_KIND_DATASET);

// One tensor of a sample that the model reads.
struct FieldRequest {
  std::string name;
  DType dtype;
  std::vector<int64_t> dims;
};

struct DatasetRequest {
  Host host;
  std::string split;    // "train", "valid", "test"
  int64_t num_samples;  // 0 = one pass
  uint64_t seed;
  std::string cache_dir;  // empty = beside the data
  std::optional<TokenizerView> tokenizer;
  std::vector<FieldRequest> fields;
};

class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual int64_t size() const = 0;
  // [thread-safe] Writes field f of sample `index` to buffers[f], in the order of request.fields.
  virtual void read(int64_t index, void* const* buffers) const = 0;
};

// Table for `T : Dataset` with a constructor T(const Config&, const DatasetRequest&).
template <class T>
const mgt_dataset* dataset_table() {
  static const mgt_dataset table{
      sizeof(mgt_dataset),
      0,
      [](const mgt_host* host, const mgt_config* config, const mgt_dataset_request* r,
         void** self) {
        return guarded([&] {
          DatasetRequest request{Host(host), std::string(from_abi(r->split)),     r->num_samples,
                                 r->seed,    std::string(from_abi(r->cache_dir)), std::nullopt,
                                 {}};
          if (r->tokenizer != nullptr)
            request.tokenizer.emplace(r->tokenizer->table, r->tokenizer->self);
          const auto* field = reinterpret_cast<const char*>(r->fields);
          for (uint64_t i = 0; i < r->field_count; ++i) {
            const auto* f = reinterpret_cast<const mgt_field*>(field);
            FieldRequest out{std::string(from_abi(f->name)), static_cast<DType>(f->dtype), {}};
            for (uint32_t d = 0; d < f->rank; ++d) out.dims.push_back(f->dims[d].size);
            request.fields.push_back(std::move(out));
            field += f->struct_size;
          }
          *self = new T(Config(config), request);
        });
      },
      [](void* self) { delete static_cast<T*>(self); },
      [](const void* self) { return static_cast<const T*>(self)->size(); },
      [](const void* self, int64_t index, void* const* buffers) {
        return guarded([&] { static_cast<const T*>(self)->read(index, buffers); });
      }};
  return &table;
}

}  // namespace megatron
