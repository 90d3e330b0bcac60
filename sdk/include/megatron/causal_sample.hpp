// The fields of a next-token sample, and how a run of token ids fills them. Datasets that train
// decoders share this, so that masks and labels mean the same everywhere.
//
//   tokens        i32 [sequence]  what the model reads
//   labels        i32 [sequence]  the id that follows each token
//   loss_mask     f32 [sequence]  1 where the label counts
//   position_ids  i32 [sequence]
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "megatron/dataset.hpp"

namespace megatron {

struct CausalRules {
  int64_t eod = -1;                 // -1: the two rules below are off
  bool eod_mask_loss = false;       // no loss where the model reads an end of document
  bool reset_position_ids = false;  // positions start at 0 after an end of document
};

class CausalFields {
 public:
  // Checks names, dtypes and shapes of what the model reads. `dataset` is named in errors.
  static Result<CausalFields> make(std::span<const FieldRequest> requests,
                                   std::string_view dataset) {
    CausalFields fields;
    if (requests.empty()) {
      return invalid_argument(text("dataset '", dataset, "' is asked for no field"),
                              "the model's program declares no input",
                              text("declare one of: ", offered()));
    }
    for (const auto& request : requests) {
      const Offer* offer = find(request.name);
      if (offer == nullptr) {
        return invalid_argument(text("the model reads field '", request.name, "', which dataset '",
                                     dataset, "' does not offer"),
                                text("it offers: ", offered()),
                                "choose a dataset that fits the model, or rename the input");
      }
      if (request.dtype != offer->dtype || request.dims.size() != 1 || request.dims[0] < 1) {
        return invalid_argument(
            text("the model reads field '", request.name, "' as ", describe(request)),
            text("dataset '", dataset, "' offers it as ", dtype_name(offer->dtype), " [sequence]"),
            "declare the input with that type and one dimension");
      }
      if (fields.sequence_length_ != 0 && request.dims[0] != fields.sequence_length_) {
        return invalid_argument(
            text("the model reads field '", request.name, "' with ", request.dims[0], " positions"),
            text("field '", requests[0].name, "' has ", fields.sequence_length_),
            "give all fields of a sample the same sequence length");
      }
      fields.sequence_length_ = request.dims[0];
      fields.kinds_.push_back(offer->kind);
    }
    return fields;
  }

  int64_t sequence_length() const { return sequence_length_; }

  // Fills the requested fields from `ids`, the real tokens: up to sequence_length() + 1 of them,
  // the last being only a label. What lies past them is padding: id 0, loss 0. The mask goes by
  // position, so an id that also serves as padding elsewhere still counts where it is real.
  void write(std::span<const int32_t> ids, const CausalRules& rules, void* const* buffers) const {
    const auto n = static_cast<size_t>(sequence_length_);
    for (size_t f = 0; f < kinds_.size(); ++f) {
      switch (kinds_[f]) {
        case Kind::tokens:
          shift(ids, 0, {static_cast<int32_t*>(buffers[f]), n});
          break;
        case Kind::labels:
          shift(ids, 1, {static_cast<int32_t*>(buffers[f]), n});
          break;
        case Kind::loss_mask:
          mask(ids, rules, {static_cast<float*>(buffers[f]), n});
          break;
        case Kind::position_ids:
          positions(ids, rules, {static_cast<int32_t*>(buffers[f]), n});
          break;
      }
    }
  }

 private:
  enum class Kind { tokens, labels, loss_mask, position_ids };
  struct Offer {
    std::string_view name;
    DType dtype;
    Kind kind;
  };
  static constexpr std::array<Offer, 4> kOffers{{{"tokens", DType::i32, Kind::tokens},
                                                 {"labels", DType::i32, Kind::labels},
                                                 {"loss_mask", DType::f32, Kind::loss_mask},
                                                 {"position_ids", DType::i32, Kind::position_ids}}};
  static const Offer* find(std::string_view name) {
    for (const auto& offer : kOffers)
      if (offer.name == name) return &offer;
    return nullptr;
  }
  static std::string offered() {
    std::string out;
    for (const auto& o : kOffers) out += text(out.empty() ? "" : ", ", o.name);
    return out;
  }
  static std::string describe(const FieldRequest& request) {
    std::string out = text(dtype_name(request.dtype), " [");
    for (size_t i = 0; i < request.dims.size(); ++i) out += text(i ? ", " : "", request.dims[i]);
    return out + "]";
  }

  static void shift(std::span<const int32_t> ids, size_t by, std::span<int32_t> out) {
    for (size_t i = 0; i < out.size(); ++i) out[i] = i + by < ids.size() ? ids[i + by] : 0;
  }
  static void mask(std::span<const int32_t> ids, const CausalRules& rules, std::span<float> out) {
    for (size_t i = 0; i < out.size(); ++i) {
      const bool real = i + 1 < ids.size();
      out[i] = real && !(rules.eod_mask_loss && ids[i] == rules.eod) ? 1.0f : 0.0f;
    }
  }
  static void positions(std::span<const int32_t> ids, const CausalRules& rules,
                        std::span<int32_t> out) {
    int32_t position = 0;
    for (size_t i = 0; i < out.size(); ++i) {
      out[i] = position++;
      if (rules.reset_position_ids && i < ids.size() && ids[i] == rules.eod) position = 0;
    }
  }

  int64_t sequence_length_ = 0;
  std::vector<Kind> kinds_;
};

}  // namespace megatron
