#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/math.h>
#include <gloo/reduce_scatter.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

#include "comm/contestants.hpp"

namespace megatron::bench {

Contestant gloo_contestant(uint32_t rank, uint32_t ranks, const std::string& folder,
                           uint64_t max_elements) {
  gloo::transport::tcp::attr where;
  where.hostname = "127.0.0.1";
  auto device = gloo::transport::tcp::CreateDevice(where);
  gloo::rendezvous::FileStore store(folder);
  auto context =
      std::make_shared<gloo::rendezvous::Context>(static_cast<int>(rank), static_cast<int>(ranks));
  context->connectFullMesh(store, device);
  auto x = std::make_shared<std::vector<float>>(max_elements);
  return {"Gloo", [=](Kind kind, uint64_t elements) -> std::function<void()> {
            const uint64_t block = elements / ranks;
            if (kind == Kind::all_reduce) {
              return [=] {
                gloo::AllreduceOptions o(context);
                o.setOutput(x->data(), elements);
                o.setAlgorithm(gloo::AllreduceOptions::Algorithm::RING);
                o.setReduceFunction(static_cast<void (*)(void*, const void*, const void*, size_t)>(
                    &gloo::sum<float>));
                gloo::allreduce(o);
              };
            }
            if (kind == Kind::all_gather) {
              return [=] {
                gloo::AllgatherOptions o(context);
                o.setInput(x->data() + rank * block, block);
                o.setOutput(x->data(), elements);
                gloo::allgather(o);
              };
            }
            // Gloo's is an object with its own connections, made once a size.
            auto algorithm = std::make_shared<gloo::ReduceScatterHalvingDoubling<float>>(
                context, std::vector<float*>{x->data()}, static_cast<int>(elements),
                std::vector<int>(ranks, static_cast<int>(block)));
            return [=] { algorithm->run(); };
          }};
}

}  // namespace megatron::bench
