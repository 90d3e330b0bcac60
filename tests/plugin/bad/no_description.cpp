#include "pieces.hpp"

BAD_NOTE();
BAD_ENTRY { return nullptr; }
