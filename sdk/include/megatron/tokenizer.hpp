// Author's side of plugin kind `tokenizer`.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "megatron/abi/tokenizer.h"
#include "megatron/plugin.hpp"

namespace megatron {

MGT_KIND_OF(mgt_tokenizer, MGT_KIND_TOKENIZER);

struct SpecialTokens {  // -1 = none
  int64_t eod = -1, bos = -1, eos = -1, pad = -1, unk = -1, mask = -1, cls = -1, sep = -1;
};

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  virtual int64_t vocab_size() const = 0;
  virtual SpecialTokens special_tokens() const = 0;
  // [thread-safe] Appends the ids of `text`.
  virtual void encode(std::string_view text, std::vector<int32_t>& ids) const = 0;
  // [thread-safe] Appends the bytes of `ids`.
  virtual void decode(std::span<const int32_t> ids, std::string& text) const = 0;
};

// Table for `T : Tokenizer` with a constructor T(const Host&, const Config&).
template <class T>
const mgt_tokenizer* tokenizer_table() {
  static const mgt_tokenizer table{
      sizeof(mgt_tokenizer),
      0,
      [](const mgt_host* host, const mgt_config* config, void** self) {
        return guarded([&] { *self = new T(Host(host), Config(config)); });
      },
      [](void* self) { delete static_cast<T*>(self); },
      [](const void* self) { return static_cast<const T*>(self)->vocab_size(); },
      [](const void* self, mgt_special_tokens* out) {
        return guarded([&] {
          const auto s = static_cast<const T*>(self)->special_tokens();
          MGT_INIT(out);
          out->eod = s.eod;
          out->bos = s.bos;
          out->eos = s.eos;
          out->pad = s.pad;
          out->unk = s.unk;
          out->mask = s.mask;
          out->cls = s.cls;
          out->sep = s.sep;
        });
      },
      [](const void* self, mgt_str text, int32_t* ids, uint64_t capacity, uint64_t* count) {
        return guarded([&] {
          thread_local std::vector<int32_t> buffer;
          buffer.clear();
          static_cast<const T*>(self)->encode(from_abi(text), buffer);
          *count = buffer.size();
          const auto n = std::min<uint64_t>(capacity, buffer.size());
          if (n > 0) memcpy(ids, buffer.data(), n * sizeof(int32_t));
        });
      },
      [](const void* self, const int32_t* ids, uint64_t id_count, char* out, uint64_t capacity,
         uint64_t* size) {
        return guarded([&] {
          thread_local std::string buffer;
          buffer.clear();
          static_cast<const T*>(self)->decode({ids, id_count}, buffer);
          *size = buffer.size();
          const auto n = std::min<uint64_t>(capacity, buffer.size());
          if (n > 0) memcpy(out, buffer.data(), n);
        });
      }};
  return &table;
}

// A tokenizer that somebody else owns: what a dataset or the host calls.
class TokenizerView {
 public:
  TokenizerView(const mgt_tokenizer* table, const void* self) : table_(table), self_(self) {}
  int64_t vocab_size() const { return table_->vocab_size(self_); }
  SpecialTokens special_tokens() const {
    mgt_special_tokens s;
    MGT_INIT(&s);
    throw_if_error(from_abi(table_->special_tokens(self_, &s), "the tokenizer"));
    return {s.eod, s.bos, s.eos, s.pad, s.unk, s.mask, s.cls, s.sep};
  }
  // [thread-safe] Replaces the contents of `ids`.
  void encode(std::string_view text, std::vector<int32_t>& ids) const {
    uint64_t count = text.size() + 16;
    do {
      ids.resize(count);
      throw_if_error(from_abi(table_->encode(self_, to_abi(text), ids.data(), ids.size(), &count),
                              "the tokenizer"));
    } while (count > ids.size());
    ids.resize(count);
  }
  std::string decode(std::span<const int32_t> ids) const {
    std::string out(ids.size() * 4 + 16, '\0');
    for (;;) {
      uint64_t size = 0;
      throw_if_error(
          from_abi(table_->decode(self_, ids.data(), ids.size(), out.data(), out.size(), &size),
                   "the tokenizer"));
      const bool enough = size <= out.size();
      out.resize(size);
      if (enough) return out;
    }
  }

 private:
  const mgt_tokenizer* table_;
  const void* self_;
};

}  // namespace megatron
