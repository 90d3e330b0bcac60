#include "gpt2_tokenizer.hpp"

#include <algorithm>
#include <atomic>

#include "merge.hpp"
#include "pretokenizer.hpp"
#include "word_cache.hpp"

namespace megatron::gpt2 {
namespace {

uint64_t next_serial() {
  static std::atomic<uint64_t> serial{0};
  return ++serial;  // from 1: a fresh cache has no owner
}

}  // namespace

Gpt2Tokenizer::Gpt2Tokenizer(const Host&, const Config& config)
    : vocabulary_(value_or_throw(load_vocabulary(
          config.string("vocab_file"), config.string("merge_file"), config.string("eod_token")))),
      special_(config.boolean("allow_special_tokens") ? config.string("eod_token") : ""),
      serial_(next_serial()) {}

SpecialTokens Gpt2Tokenizer::special_tokens() const {
  return {.eod = vocabulary_.eod, .bos = vocabulary_.eod, .eos = vocabulary_.eod};
}

void Gpt2Tokenizer::encode(std::string_view text, std::vector<int32_t>& ids) const {
  while (!special_.empty()) {
    const auto at = text.find(special_);
    if (at == std::string_view::npos) break;
    encode_plain(text.substr(0, at), ids);
    ids.push_back(vocabulary_.eod);
    text.remove_prefix(at + special_.size());
  }
  encode_plain(text, ids);
}

void Gpt2Tokenizer::encode_plain(std::string_view text, std::vector<int32_t>& ids) const {
  WordCache& cache = WordCache::of_thread(serial_);
  size_t used = ids.size();
  while (!text.empty()) {
    const auto piece = text.substr(0, piece_length(text));
    const auto room = std::max(piece.size(), WordCache::kMaxIds);
    if (ids.size() < used + room) ids.resize(std::max(used + room, ids.size() * 2) + 256);
    int32_t* const out = ids.data() + used;
    if (piece.size() > WordCache::kMaxBytes) {
      used += merge_piece(vocabulary_, piece, out);
    } else {
      const auto key = WordCache::key(piece, text.size());
      if (const auto* slot = cache.find(key, piece.size())) {
        std::copy(slot->ids.begin(), slot->ids.end(), out);  // always all: no loop over a count
        used += slot->count;
      } else {
        const auto count = merge_piece(vocabulary_, piece, out);
        cache.store(key, piece.size(), {out, count});
        used += count;
      }
    }
    text.remove_prefix(piece.size());
  }
  ids.resize(used);
}

void Gpt2Tokenizer::decode(std::span<const int32_t> ids, std::string& out) const {
  for (const auto id : ids) {
    if (id < 0 || id >= vocab_size()) {
      throw StatusError(invalid_argument(text("tokenizer 'gpt2_bpe' cannot decode id ", id),
                                         text("its ids are 0 to ", vocab_size() - 1),
                                         "decode with the tokenizer that made it"));
    }
    out += vocabulary_.bytes[static_cast<size_t>(id)];
  }
}

}  // namespace megatron::gpt2
