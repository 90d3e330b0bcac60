#include "pieces.hpp"

BAD_NOTE();
BAD_ENTRY {
  return megatron::to_abi(megatron::Status(megatron::Code::resource_exhausted,
                                           "no licence is left\n  12 of 12 are in use"));
}
