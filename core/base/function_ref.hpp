// A borrowed callable: two words, no allocation, no ownership. For parameters that are only called
// before the callee returns; std::function would allocate on the hot path.
#pragma once

#include <concepts>
#include <memory>
#include <type_traits>
#include <utility>

namespace megatron {

template <class Signature>
class FunctionRef;

template <class R, class... Args>
class FunctionRef<R(Args...)> {
 public:
  // The callable must outlive this object.
  template <class Body>
  requires(!std::same_as<std::remove_cvref_t<Body>, FunctionRef> &&
           std::is_invocable_r_v<R, Body&, Args...>)
      FunctionRef(
          Body&&
              body)  // NOLINT(google-explicit-constructor,bugprone-forwarding-reference-overload)
      : target_(const_cast<void*>(static_cast<const void*>(std::addressof(body)))),
        call_([](void* target, Args... args) -> R {
          return (*static_cast<std::remove_reference_t<Body>*>(target))(
              std::forward<Args>(args)...);
        }) {}

  R operator()(Args... args) const { return call_(target_, std::forward<Args>(args)...); }

 private:
  void* target_;
  R (*call_)(void*, Args...);
};

}  // namespace megatron
