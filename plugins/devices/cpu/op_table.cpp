// Which implementations each op has, in order of preference.
#include "implementation.hpp"
#include "reference/reference.hpp"
#include "vectorised/vectorised.hpp"

namespace megatron::cpu {
namespace {

constexpr Implementation kElementwise[] = {{"vectorised", vectorised::elementwise},
                                           {"reference", reference::elementwise}};
constexpr Implementation kMovement[] = {{"vectorised", vectorised::movement},
                                        {"reference", reference::movement}};

constexpr Implementation kPack[] = {{"reference", reference::pack}};

// The ops with a list of their own.
#define MGT_OP(name)                                                       \
  constexpr Implementation k_##name[] = {{"vectorised", vectorised::name}, \
                                         {"reference", reference::name}}
MGT_OP(linear);
MGT_OP(linear_dgrad);
MGT_OP(linear_wgrad);
MGT_OP(embedding);
MGT_OP(embedding_grad);
MGT_OP(layer_norm);
MGT_OP(layer_norm_grad);
MGT_OP(layer_norm_param_grad);
MGT_OP(attention);
MGT_OP(attention_grad);
MGT_OP(attention_merge);
MGT_OP(linear_cross_entropy);
MGT_OP(linear_cross_entropy_grad);
MGT_OP(linear_cross_entropy_train);
MGT_OP(sum);
MGT_OP(sum_squares);
MGT_OP(expand);
#undef MGT_OP

constexpr OpRow kRows[] = {
    {"linear", k_linear, {"MK,NK->MN", 'K', "contract"}},
    {"linear_dgrad", k_linear_dgrad, {"MN,NK->MK", 'N', "contract"}},
    {"linear_wgrad", k_linear_wgrad, {"MN,MK->NK", 'M', "contract"}},
    {"embedding", k_embedding, {"M,vK->MK"}},
    {"embedding_grad", k_embedding_grad, {"M,MK->vK"}},
    {"layer_norm", k_layer_norm, {"Mk,k,k->Mk,M,M"}},
    {"layer_norm_grad", k_layer_norm_grad, {"Mk,Mk,M,M,k->Mk"}},
    {"layer_norm_param_grad", k_layer_norm_param_grad, {"Mk,Mk,M,M->k,k"}},
    {"attention", k_attention, {"bsnd,btgd,btgd->bsnd,bns"}},
    {"attention_grad", k_attention_grad, {"bsnd,bsnd,btgd,btgd,bsnd,bns->bsnd,btgd,btgd"}},
    {"attention_merge", k_attention_merge, {"bsnd,bns,bsnd,bns->bsnd,bns"}},
    {"linear_cross_entropy", k_linear_cross_entropy, {"Mk,vk,M->M,M"}},
    {"linear_cross_entropy_grad", k_linear_cross_entropy_grad, {"Mk,vk,M,M,M,M->Mk,vk"}},
    {"linear_cross_entropy_train", k_linear_cross_entropy_train, {"Mk,vk,M,M,M->M,M,Mk,vk"}},
    {"sum", k_sum, {"MN->N", 'N', "keep"}},
    {"sum_squares", k_sum_squares, {"M->"}},
    {"expand", k_expand, {",M->M"}},
    {"pack", kPack},
    {"slice", kMovement},
    {"stack", kMovement},
    {"unstack", kMovement},
    {"flatten", kMovement},
    {"unflatten", kMovement},
    {"flat_slice", kMovement},
    {"copy", kMovement},
    {"zeros_like", kMovement},
    {"fused", kElementwise},
    {"add", kElementwise},
    {"sub", kElementwise},
    {"mul", kElementwise},
    {"div", kElementwise},
    {"pow", kElementwise},
    {"maximum", kElementwise},
    {"minimum", kElementwise},
    {"greater", kElementwise},
    {"neg", kElementwise},
    {"square", kElementwise},
    {"sqrt", kElementwise},
    {"rsqrt", kElementwise},
    {"exp", kElementwise},
    {"log", kElementwise},
    {"tanh", kElementwise},
    {"gelu", kElementwise},
    {"gelu_grad", kElementwise},
    {"dropout", kElementwise},
};

}  // namespace

std::span<const OpRow> op_rows() { return kRows; }

}  // namespace megatron::cpu
