// Status and Result<T>: expected failures as values, on both sides of the plugin boundary.
// A message that a user may see is one line of fact, one of cause, one of action; `Status::error`
// takes the three apart so that none is forgotten.
#pragma once

#include <charconv>
#include <concepts>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "megatron/abi/status.h"

namespace megatron {

enum class Code : uint32_t {
  ok = MGT_OK,
  cancelled = MGT_CANCELLED,
  unknown = MGT_UNKNOWN,
  invalid_argument = MGT_INVALID_ARGUMENT,
  deadline_exceeded = MGT_DEADLINE_EXCEEDED,
  not_found = MGT_NOT_FOUND,
  already_exists = MGT_ALREADY_EXISTS,
  permission_denied = MGT_PERMISSION_DENIED,
  resource_exhausted = MGT_RESOURCE_EXHAUSTED,
  failed_precondition = MGT_FAILED_PRECONDITION,
  aborted = MGT_ABORTED,
  out_of_range = MGT_OUT_OF_RANGE,
  unimplemented = MGT_UNIMPLEMENTED,
  internal = MGT_INTERNAL,
  unavailable = MGT_UNAVAILABLE,
  data_loss = MGT_DATA_LOSS,
};

inline std::string_view code_name(Code code) {
  constexpr std::string_view kNames[] = {"OK",
                                         "CANCELLED",
                                         "UNKNOWN",
                                         "INVALID_ARGUMENT",
                                         "DEADLINE_EXCEEDED",
                                         "NOT_FOUND",
                                         "ALREADY_EXISTS",
                                         "PERMISSION_DENIED",
                                         "RESOURCE_EXHAUSTED",
                                         "FAILED_PRECONDITION",
                                         "ABORTED",
                                         "OUT_OF_RANGE",
                                         "UNIMPLEMENTED",
                                         "INTERNAL",
                                         "UNAVAILABLE",
                                         "DATA_LOSS"};
  const auto index = static_cast<uint32_t>(code);
  return index < std::size(kNames) ? kNames[index] : "UNKNOWN";
}

namespace detail {
inline void append(std::string& out, std::string_view s) { out.append(s); }
template <class T>
requires std::is_arithmetic_v<T>
void append(std::string& out, T value) {
  if constexpr (std::is_same_v<T, bool>) {
    out.append(value ? "true" : "false");
    return;
  } else if constexpr (std::is_same_v<T, char>) {
    out.push_back(value);
    return;
  } else {
    char buffer[64];
    const auto end = std::to_chars(buffer, buffer + sizeof buffer, value).ptr;
    out.append(buffer, end);
  }
}
}  // namespace detail

// Concatenates strings and numbers (shortest round-trip form): text("layer ", 3).
template <class... Args>
std::string text(const Args&... args) {
  std::string out;
  (detail::append(out, args), ...);
  return out;
}

class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Code code, std::string message)
      : rep_(code == Code::ok ? nullptr : std::make_unique<Rep>(Rep{code, std::move(message)})) {}

  // fact: what is wrong, with the name of the thing. cause: why. action: what the reader can do.
  static Status error(Code code, std::string_view fact, std::string_view cause = {},
                      std::string_view action = {}) {
    std::string message(fact);
    if (!cause.empty()) message += text("\n  ", cause);
    if (!action.empty()) message += text(kAdvice, action);
    return {code, std::move(message)};
  }

  Status(Status&&) noexcept = default;
  Status& operator=(Status&&) noexcept = default;
  Status(const Status& other) : rep_(other.rep_ ? std::make_unique<Rep>(*other.rep_) : nullptr) {}
  Status& operator=(const Status& other) {
    if (this != &other) rep_ = other.rep_ ? std::make_unique<Rep>(*other.rep_) : nullptr;
    return *this;
  }

  bool ok() const { return rep_ == nullptr; }
  Code code() const { return rep_ ? rep_->code : Code::ok; }
  std::string_view message() const { return rep_ ? std::string_view(rep_->message) : ""; }
  // The message without the advice, for an error that has its own: fact and cause.
  std::string_view diagnosis() const { return message().substr(0, message().find(kAdvice)); }

  // Adds a line that says what was being done: "while applying pass 'partition'".
  Status context(std::string_view what) && {
    if (rep_) rep_->message += text("\n  while ", what);
    return std::move(*this);
  }

 private:
  static constexpr std::string_view kAdvice = "\n  fix: ";

  struct Rep {
    Code code;
    std::string message;
  };
  std::unique_ptr<Rep> rep_;
};

inline Status invalid_argument(std::string_view fact, std::string_view cause = {},
                               std::string_view action = {}) {
  return Status::error(Code::invalid_argument, fact, cause, action);
}
inline Status internal_error(std::string_view fact) { return Status::error(Code::internal, fact); }

// Broken invariants: always on, never reachable from user input.
[[noreturn]] inline void check_failed(const char* expression, const char* file, int line,
                                      std::string_view detail = {}) {
  std::cerr << file << ":" << line << ": CHECK failed: " << expression
            << (detail.empty() ? "" : ": ") << detail << std::endl;
  std::abort();
}
#define MGT_CHECK(expression, ...) \
  ((expression)                    \
       ? static_cast<void>(0)      \
       : ::megatron::check_failed(#expression, __FILE__, __LINE__ __VA_OPT__(, ) __VA_ARGS__))

// A T or the Status that says why there is none.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}         // NOLINT(google-explicit-constructor)
  Result(Status status) : status_(std::move(status)) {  // NOLINT(google-explicit-constructor)
    MGT_CHECK(!status_.ok(), "a Result needs a value or an error");
  }
  bool ok() const { return value_.has_value(); }
  const Status& status() const& { return status_; }
  Status status() && { return std::move(status_); }
  T& value() & { return check(), *value_; }
  const T& value() const& { return check(), *value_; }
  T value() && { return check(), std::move(*value_); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

 private:
  void check() const { MGT_CHECK(value_.has_value(), status_.message()); }
  std::optional<T> value_;
  Status status_;
};

// Inside a plugin errors may be thrown; the trampolines turn them into a status.
class StatusError : public std::exception {
 public:
  explicit StatusError(Status status) : status_(std::move(status)), what_(status_.message()) {}
  const Status& status() const { return status_; }
  const char* what() const noexcept override { return what_.c_str(); }

 private:
  Status status_;
  std::string what_;
};

inline void throw_if_error(Status status) {
  if (!status.ok()) throw StatusError(std::move(status));
}
template <class T>
T value_or_throw(Result<T> result) {
  if (!result.ok()) throw StatusError(std::move(result).status());
  return std::move(result).value();
}

#define MGT_CONCAT_(a, b) a##b
#define MGT_CONCAT(a, b) MGT_CONCAT_(a, b)
// Names are numbered by __COUNTER__: the macros may stand inside a lambda that is itself an
// argument.
#define MGT_RETURN_IF_ERROR(expression) \
  MGT_RETURN_IF_ERROR_(MGT_CONCAT(mgt_status_, __COUNTER__), expression)
#define MGT_RETURN_IF_ERROR_(status, expression)                               \
  do {                                                                         \
    if (::megatron::Status status = (expression); !status.ok()) return status; \
  } while (false)
#define MGT_ASSIGN_OR_RETURN(declaration, expression) \
  MGT_ASSIGN_OR_RETURN_(MGT_CONCAT(mgt_result_, __COUNTER__), declaration, expression)
#define MGT_ASSIGN_OR_RETURN_(result, declaration, expression) \
  auto result = (expression);                                  \
  if (!result.ok()) return std::move(result).status();         \
  declaration = std::move(result).value()

// ---- the same across the boundary
// -----------------------------------------------------------------

constexpr mgt_str to_abi(std::string_view s) { return {s.data(), s.size()}; }
inline std::string_view from_abi(mgt_str s) {
  return s.size == 0 ? std::string_view() : std::string_view(s.data, s.size);
}

// Ownership of the returned object passes to the receiver, who calls release.
inline mgt_status* to_abi(Status status) noexcept {
  if (status.ok()) return nullptr;
  struct Owned {
    mgt_status base;
    Status status;
  };
  auto* owned = new Owned{{}, std::move(status)};
  owned->base.struct_size = sizeof(mgt_status);
  owned->base.code = static_cast<mgt_code>(owned->status.code());
  owned->base.message = to_abi(owned->status.message());
  owned->base.release = [](mgt_status* self) { delete reinterpret_cast<Owned*>(self); };
  return &owned->base;
}

// Takes the object over; `who` is blamed when it carries no text.
inline Status from_abi(mgt_status* status, std::string_view who = "the callee") {
  if (status == nullptr) return {};
  const auto code = status->code == MGT_OK ? Code::unknown : static_cast<Code>(status->code);
  std::string message(from_abi(status->message));
  if (message.empty()) {
    message = text(who, " returned ", code_name(code), " without a message (a bug in ", who, ")");
  }
  if (status->release != nullptr) status->release(status);
  return {code, std::move(message)};
}

// Runs `body` and turns whatever it throws into a status: the body of every trampoline.
template <class Body>
mgt_status* guarded(Body&& body) noexcept {
  try {
    if constexpr (std::is_same_v<std::invoke_result_t<Body>, Status>) {
      return to_abi(body());
    } else {
      body();
      return nullptr;
    }
  } catch (const StatusError& e) {
    return to_abi(e.status());
  } catch (const std::bad_alloc&) {
    return to_abi(Status(Code::resource_exhausted, "out of host memory"));
  } catch (const std::exception& e) {
    return to_abi(Status(Code::internal, text("unexpected exception: ", e.what())));
  } catch (...) {
    return to_abi(Status(Code::internal, "unexpected exception of an unknown type"));
  }
}

}  // namespace megatron
