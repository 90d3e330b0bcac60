#include "network.hpp"

#include <ucp/api/ucp.h>

#include <algorithm>
#include <chrono>
#include <cstring>

namespace megatron::ucx {
namespace {

constexpr unsigned kData = 1, kControl = 2;
constexpr auto kFarewell = std::chrono::milliseconds(2000);  // to bring sent data to its end

struct DataHeader {
  uint32_t group, source, stream, text_size;
  uint64_t tag, number, size, signature;
};
struct ControlHeader {
  uint32_t kind, group, source, code;
  uint64_t sequence;
};

Status ucx_error(std::string_view what, ucs_status_t status) {
  return Status::error(Code::unavailable, what, text("UCX says: ", ucs_status_string(status)),
                       "check the options `transports` and `devices`, and that the hosts reach "
                       "each other");
}

}  // namespace

struct Network::Library {
  ucp_context_h context = nullptr;
  ucp_worker_h worker = nullptr;
};

struct Network::Peer {
  uint32_t rank = 0;
  Network* network = nullptr;
  std::string address;
  ucp_ep_h endpoint = nullptr;
  bool closed = false;    // by an error, or by us
  bool left = false;      // said goodbye
  bool reported = false;  // on_gone was called
};

struct Network::Sending {
  Network* network;
  Message* message;  // null: nobody waits for it
  uint32_t group, peer;
  std::string header;
  std::list<std::unique_ptr<Sending>>::iterator at;
};

struct Network::Receiving {
  Network* network;
  Message* message;
  uint32_t group, peer;
  std::list<std::unique_ptr<Receiving>>::iterator at;
};

Result<std::unique_ptr<Network>> Network::create(uint32_t rank, const Options& options) {
  std::unique_ptr<Network> out(new Network(rank));
  out->library_ = std::make_unique<Library>();
  auto& l = *out->library_;
  ucp_config_t* config = nullptr;
  ucs_status_t status = ucp_config_read(nullptr, nullptr, &config);
  if (status != UCS_OK) return ucx_error("cannot read UCX's configuration", status);
  if (!options.transports.empty()) {
    status = ucp_config_modify(config, "TLS", options.transports.c_str());
  }
  if (status == UCS_OK && !options.devices.empty()) {
    status = ucp_config_modify(config, "NET_DEVICES", options.devices.c_str());
  }
  ucp_params_t params{};
  params.field_mask = UCP_PARAM_FIELD_FEATURES;
  params.features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
  if (status == UCS_OK) status = ucp_init(&params, config, &l.context);
  ucp_config_release(config);
  if (status != UCS_OK) return ucx_error("cannot start UCX", status);
  ucp_worker_params_t worker{};
  worker.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  worker.thread_mode = UCS_THREAD_MODE_SERIALIZED;
  status = ucp_worker_create(l.context, &worker, &l.worker);
  if (status != UCS_OK) return ucx_error("cannot create a UCX worker", status);

  const auto handle = [&](unsigned id, ucp_am_recv_callback_t callback) {
    ucp_am_handler_param_t p{};
    p.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB |
                   UCP_AM_HANDLER_PARAM_FIELD_ARG | UCP_AM_HANDLER_PARAM_FIELD_FLAGS;
    p.id = id;
    p.cb = callback;
    p.arg = out.get();
    p.flags = UCP_AM_FLAG_WHOLE_MSG;
    return ucp_worker_set_am_recv_handler(l.worker, &p);
  };
  status = handle(kData, [](void* self, const void* header, size_t header_size, void* data,
                            size_t size, const ucp_am_recv_param_t* p) {
    return static_cast<ucs_status_t>(static_cast<Network*>(self)->incoming_data(
        header, header_size, data, size, (p->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0));
  });
  if (status == UCS_OK) {
    status = handle(kControl, [](void* self, const void* header, size_t header_size, void*, size_t,
                                 const ucp_am_recv_param_t*) {
      return static_cast<ucs_status_t>(
          static_cast<Network*>(self)->incoming_control(header, header_size));
    });
  }
  if (status == UCS_OK) status = ucp_worker_get_efd(l.worker, &out->event_fd_);
  ucp_address_t* address = nullptr;
  size_t size = 0;
  if (status == UCS_OK) status = ucp_worker_get_address(l.worker, &address, &size);
  if (status != UCS_OK) return ucx_error("cannot set up a UCX worker", status);
  out->address_.assign(reinterpret_cast<const char*>(address), size);
  ucp_worker_release_address(l.worker, address);
  return out;
}

Network::Network(uint32_t rank) : rank_(rank) {}

Network::~Network() {
  if (library_->worker != nullptr) {
    for (auto& [rank, peer] : peers_) close(peer);
    for (int i = 0; i < 100; ++i) ucp_worker_progress(library_->worker);
    ucp_worker_destroy(library_->worker);
  }
  if (library_->context != nullptr) ucp_cleanup(library_->context);
}

void Network::add_peer(uint32_t rank, std::string address) {
  auto& peer = peers_[rank];
  peer.rank = rank;
  peer.network = this;
  peer.address = std::move(address);
}

// Connects on first use; the hello lets the other side hear of this process's end.
Status Network::endpoint(uint32_t rank, Peer*& out) {
  Peer& peer = peers_.at(rank);
  out = &peer;
  if (peer.closed) {
    return Status::error(Code::unavailable, text("rank ", rank, " is gone"),
                         "the connection with it was lost",
                         text("look at the output of rank ", rank, " and at the network"));
  }
  if (peer.endpoint != nullptr) return {};
  ucp_ep_params_t params{};
  params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                      UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.address = reinterpret_cast<const ucp_address_t*>(peer.address.data());
  params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  params.err_handler.cb = [](void* arg, ucp_ep_h, ucs_status_t) {
    auto* lost = static_cast<Peer*>(arg);
    lost->network->gone(*lost);
  };
  params.err_handler.arg = &peer;
  const ucs_status_t status = ucp_ep_create(library_->worker, &params, &peer.endpoint);
  if (status != UCS_OK) {
    peer.endpoint = nullptr;
    return ucx_error(text("cannot connect with rank ", rank), status);
  }
  control(rank, {.kind = Control::hello});
  return {};
}

void Network::close(Peer& peer) {
  if (peer.endpoint == nullptr) return;
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
  param.flags = UCP_EP_CLOSE_FLAG_FORCE;
  void* request = ucp_ep_close_nbx(peer.endpoint, &param);
  if (UCS_PTR_IS_PTR(request)) ucp_request_free(request);
  peer.endpoint = nullptr;
  peer.closed = true;
}

void Network::gone(Peer& peer) {
  moved_ = true;
  peer.closed = true;
  if (peer.reported) return;
  peer.reported = true;
  lost_.emplace_back(peer.rank, peer.left);
}

void Network::send(uint32_t group, uint32_t to, Message* message) {
  Peer* peer = nullptr;
  if (Status s = endpoint(to, peer); !s.ok()) {
    message->error = std::move(s);
    return;
  }
  const Flow flow{group, to, message->key};
  // Inside collectives every message has its own tag.
  const uint64_t number = message->key.stream == MessageKey::kUser ? sent_[flow]++ : 0;
  const bool collective = message->key.stream == MessageKey::kCollective;
  const std::string description =
      collective ? comm::signature_text(*message->operation).substr(0, 200) : std::string();
  DataHeader header{group,
                    rank_,
                    message->key.stream,
                    static_cast<uint32_t>(description.size()),
                    message->key.tag,
                    number,
                    message->bytes,
                    collective ? comm::signature_hash(*message->operation) : 0};
  auto sending = std::make_unique<Sending>();
  sending->message = message;
  sending->group = group;
  sending->peer = to;
  sending->header.assign(reinterpret_cast<const char*>(&header), sizeof header);
  sending->header += description;
  start(std::move(sending), *peer);
}

void Network::control(uint32_t to, Control control) {
  Peer* peer = nullptr;
  if (!endpoint(to, peer).ok()) return;
  const ControlHeader header{control.kind, control.group, rank_, control.code, control.sequence};
  auto sending = std::make_unique<Sending>();
  sending->message = nullptr;
  sending->group = control.group;
  sending->peer = to;
  sending->header.assign(reinterpret_cast<const char*>(&header), sizeof header);
  sending->header += control.text.substr(0, 1500);
  start(std::move(sending), *peer);
}

void Network::start(std::unique_ptr<Sending> sending, Peer& peer) {
  sending->network = this;
  Message* message = sending->message;
  Sending* raw = sending.get();
  sending_.push_front(std::move(sending));
  raw->at = sending_.begin();
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  param.user_data = raw;
  param.cb.send = [](void* request, ucs_status_t status, void* user) {
    auto* s = static_cast<Sending*>(user);
    Network& network = *s->network;
    network.moved_ = true;
    if (s->message != nullptr) {
      if (status == UCS_OK) {
        s->message->done = true;
      } else {
        s->message->error = ucx_error(text("a message to rank ", s->peer, " was lost"), status);
      }
    }
    network.sending_.erase(s->at);
    ucp_request_free(request);
  };
  const void* data = message == nullptr ? nullptr : message->send;
  void* request =
      ucp_am_send_nbx(peer.endpoint, message == nullptr ? kControl : kData, raw->header.data(),
                      raw->header.size(), data, message == nullptr ? 0 : message->bytes, &param);
  if (UCS_PTR_IS_PTR(request)) return;  // the callback ends it
  if (message != nullptr) {
    if (request == nullptr) {
      message->done = true;
    } else {
      message->error =
          ucx_error(text("a message to rank ", peer.rank, " was lost"), UCS_PTR_STATUS(request));
    }
  }
  sending_.erase(raw->at);
}

void Network::recv(uint32_t group, uint32_t from, Message* message) {
  const Flow flow{group, from, message->key};
  const Slot slot{flow, message->key.stream == MessageKey::kUser ? wanted_[flow]++ : 0};
  if (const auto at = early_.find(slot); at != early_.end()) {
    Early early = std::move(at->second);
    early_.erase(at);
    if (!accept(*message, from, early.size, early.signature, early.signature_text)) return;
    if (early.rendezvous != nullptr) {
      fetch(early.rendezvous, slot, message);
    } else {
      early.bytes.copy(reinterpret_cast<char*>(message->recv), early.bytes.size());
      message->done = true;
    }
    return;
  }
  Peer* peer = nullptr;
  if (Status s = endpoint(from, peer); !s.ok()) {
    message->error = std::move(s);
    return;
  }
  posted_[slot] = message;
}

// Does what came fit the recv? If not, the error is the message's.
bool Network::accept(Message& message, uint32_t peer, uint64_t size, uint64_t signature,
                     const std::string& signature_text) {
  if (message.key.stream == MessageKey::kCollective &&
      signature != comm::signature_hash(*message.operation)) {
    message.error = comm::mismatch_report(rank_, comm::signature_text(*message.operation), peer,
                                          signature_text);
  } else if (size != message.bytes) {
    message.error = size_mismatch(message, rank_, size, peer);
  }
  return message.error.ok();
}

int Network::incoming_data(const void* header, size_t header_size, void* data, size_t size,
                           bool rendezvous) {
  moved_ = true;
  DataHeader h;
  if (header_size < sizeof h) return UCS_OK;  // not ours
  std::memcpy(&h, header, sizeof h);
  if (h.text_size + sizeof h > header_size) return UCS_OK;
  const std::string description(static_cast<const char*>(header) + sizeof h, h.text_size);
  const Slot slot{{h.group, h.source, {h.stream, h.tag}}, h.number};
  if (const auto at = posted_.find(slot); at != posted_.end()) {
    Message* message = at->second;
    posted_.erase(at);
    if (!accept(*message, h.source, h.size, h.signature, description)) return UCS_OK;
    if (rendezvous) {
      fetch(data, slot, message);
      return UCS_INPROGRESS;
    }
    if (size > 0) std::memcpy(message->recv, data, size);
    message->done = true;
    return UCS_OK;
  }
  Early& early = early_[slot];
  early.size = h.size;
  early.signature = h.signature;
  early.signature_text = description;
  if (rendezvous) {
    early.rendezvous = data;
    return UCS_INPROGRESS;
  }
  early.bytes.assign(static_cast<const char*>(data), size);
  return UCS_OK;
}

void Network::fetch(void* descriptor, const Slot& slot, Message* message) {
  receiving_.push_front(std::make_unique<Receiving>());
  Receiving* raw = receiving_.front().get();
  *raw = {this, message, slot.flow.group, slot.flow.peer, receiving_.begin()};
  ucp_request_param_t param{};
  param.op_attr_mask =
      UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
  param.user_data = raw;
  param.cb.recv_am = [](void* request, ucs_status_t status, size_t, void* user) {
    auto* r = static_cast<Receiving*>(user);
    Network& network = *r->network;
    network.moved_ = true;
    if (r->message != nullptr) {
      if (status == UCS_OK) {
        r->message->done = true;
      } else {
        r->message->error = ucx_error(text("a message from rank ", r->peer, " was lost"), status);
      }
    }
    network.receiving_.erase(r->at);
    if (request != nullptr) ucp_request_free(request);
  };
  void* request =
      ucp_am_recv_data_nbx(library_->worker, descriptor, message->recv, message->bytes, &param);
  if (!UCS_PTR_IS_ERR(request)) return;
  message->error =
      ucx_error(text("a message from rank ", slot.flow.peer, " was lost"), UCS_PTR_STATUS(request));
  receiving_.erase(raw->at);
}

int Network::incoming_control(const void* header, size_t header_size) {
  moved_ = true;
  ControlHeader h;
  if (header_size < sizeof h) return UCS_OK;
  std::memcpy(&h, header, sizeof h);
  const auto* text_at = static_cast<const char*>(header) + sizeof h;
  news_.push_back({h.kind, h.group, h.source, h.code, h.sequence,
                   std::string(text_at, header_size - sizeof h)});
  return UCS_OK;
}

bool Network::progress() {
  moved_ = false;
  while (ucp_worker_progress(library_->worker) != 0) {
    if (moved_) break;
  }
  const bool moved = moved_;
  for (const auto& news : std::exchange(news_, {})) {
    const auto at = peers_.find(news.source);
    if (at == peers_.end()) continue;
    Peer* peer = nullptr;
    if (news.kind == Control::hello) static_cast<void>(endpoint(news.source, peer));
    if (news.kind == Control::goodbye) {
      at->second.left = true;
      if (!at->second.reported) {
        at->second.reported = true;
        lost_.emplace_back(news.source, true);
      }
    }
    on_control(news);
  }
  for (const auto& [rank, orderly] : std::exchange(lost_, {})) on_gone(rank, orderly);
  return moved;
}

bool Network::arm() { return ucp_worker_arm(library_->worker) == UCS_OK; }

void Network::forget(uint32_t group) {
  std::erase_if(posted_, [&](const auto& p) { return p.first.flow.group == group; });
  std::erase_if(early_, [&](const auto& e) {
    if (e.first.flow.group != group) return false;
    if (e.second.rendezvous != nullptr) ucp_am_data_release(library_->worker, e.second.rendezvous);
    return true;
  });
  std::vector<uint32_t> busy;
  for (const auto& s : sending_) {
    if (s->group != group || s->message == nullptr) continue;
    s->message = nullptr;
    busy.push_back(s->peer);
  }
  for (const auto& r : receiving_) {
    if (r->group != group) continue;
    r->message = nullptr;
    busy.push_back(r->peer);
  }
  if (busy.empty()) return;
  // Bad news that is on its way goes first.
  for (int i = 0; i < 200; ++i) ucp_worker_progress(library_->worker);
  for (const uint32_t rank : busy) close(peers_.at(rank));
  for (int i = 0; i < 200; ++i) ucp_worker_progress(library_->worker);
}

void Network::say_goodbye() {
  for (auto& [rank, peer] : peers_) {
    if (peer.endpoint != nullptr && !peer.closed) control(rank, {.kind = Control::goodbye});
  }
  ucp_request_param_t param{};
  void* flush = ucp_worker_flush_nbx(library_->worker, &param);
  const auto end = std::chrono::steady_clock::now() + kFarewell;
  while (UCS_PTR_IS_PTR(flush) && ucp_request_check_status(flush) == UCS_INPROGRESS &&
         std::chrono::steady_clock::now() < end) {
    ucp_worker_progress(library_->worker);
  }
  if (UCS_PTR_IS_PTR(flush)) ucp_request_free(flush);
}

}  // namespace megatron::ucx
