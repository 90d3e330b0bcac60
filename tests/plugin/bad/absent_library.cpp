extern "C" __attribute__((visibility("default"))) void megatron_test_absent() {}
