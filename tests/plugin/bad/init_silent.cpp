#include "pieces.hpp"

BAD_NOTE();
BAD_ENTRY { return megatron::to_abi(megatron::Status(megatron::Code::internal, "")); }
