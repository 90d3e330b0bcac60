#include "pieces.hpp"

namespace absent {
int function_of_no_library(int);
}

BAD_NOTE();
BAD_ENTRY { return absent::function_of_no_library(1) == 0 ? nullptr : nullptr; }
