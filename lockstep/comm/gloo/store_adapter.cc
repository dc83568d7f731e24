// SPDX-License-Identifier: Apache-2.0
#include "lockstep/comm/gloo/store_adapter.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <cstdlib>

#include "lockstep/base/text.h"
#include "lockstep/comm/gloo/store_bytes.h"

namespace lockstep {
namespace {

// A message to the store is limited to 16 MiB, and c10d asks for the keys of many ranks at once. So such a request is
// split.
constexpr std::size_t kKeysAtOnce = 128;

[[noreturn]] void throw_as_c10d(const StoreError& error) {
  const std::string text(error.fact());
  switch (error.fault()) {
    case StoreFault::kLate:
      C10_THROW_ERROR(DistStoreError, text + " (timed out)");
    case StoreFault::kLost:
    case StoreFault::kSilent:
      C10_THROW_ERROR(DistNetworkError, text);
    default:
      C10_THROW_ERROR(DistStoreError, text);
  }
}

}  // namespace

StoreAdapter::StoreAdapter(std::shared_ptr<StoreConnections> connections, std::chrono::milliseconds timeout,
                           std::uint32_t generation)
    : Store(timeout), connections_(std::move(connections)), generation_(generation) {}

#if LOCKSTEP_TORCH_VERSION >= 208
c10::intrusive_ptr<c10d::Store> StoreAdapter::clone() {
  auto twin = c10::make_intrusive<StoreAdapter>(connections_, getTimeout(), generation_);
  twin->keep(server_);
  return twin;
}
#endif

void StoreAdapter::set(const std::string& key, const Bytes& value) {
  ask(StoreOperation::kSet, {key, to_text(value)}, getTimeout());
}

StoreAdapter::Bytes StoreAdapter::compareSet(const std::string& key, const Bytes& expected, const Bytes& wanted) {
  return to_bytes(ask(StoreOperation::kCompareSet, {key, to_text(expected), to_text(wanted)}, getTimeout()).at(0));
}

StoreAdapter::Bytes StoreAdapter::get(const std::string& key) {
  return to_bytes(ask(StoreOperation::kGet, {key}, getTimeout()).at(0));
}

std::int64_t StoreAdapter::add(const std::string& key, std::int64_t value) {
  const auto sum = ask(StoreOperation::kAdd, {key, std::to_string(value)}, getTimeout()).at(0);
  return parsed_int<std::int64_t>(sum).value();
}

bool StoreAdapter::deleteKey(const std::string& key) {
  return ask(StoreOperation::kErase, {key}, getTimeout()).at(0) == "1";
}

bool StoreAdapter::check(const std::vector<std::string>& keys) {
  return ask(StoreOperation::kCheck, keys, getTimeout()).at(0) == "1";
}

std::int64_t StoreAdapter::getNumKeys() {
  return parsed_int<std::int64_t>(ask(StoreOperation::kCount, {}, getTimeout()).at(0)).value();
}

void StoreAdapter::wait(const std::vector<std::string>& keys) { wait(keys, getTimeout()); }

void StoreAdapter::wait(const std::vector<std::string>& keys, const std::chrono::milliseconds& timeout) {
  ask(StoreOperation::kWait, keys, timeout);
}

void StoreAdapter::append(const std::string& key, const Bytes& value) {
  ask(StoreOperation::kAppend, {key, to_text(value)}, getTimeout());
}

std::vector<StoreAdapter::Bytes> StoreAdapter::multiGet(const std::vector<std::string>& keys) {
  std::vector<Bytes> values;
  for (std::size_t at = 0; at < keys.size(); at += kKeysAtOnce) {
    const auto end = std::min(at + kKeysAtOnce, keys.size());
    const auto begin = keys.begin();
    std::vector<std::string> some(begin + static_cast<std::ptrdiff_t>(at), begin + static_cast<std::ptrdiff_t>(end));
    for (const auto& value : ask(StoreOperation::kGet, std::move(some), getTimeout()))
      values.push_back(to_bytes(value));
  }
  return values;
}

void StoreAdapter::multiSet(const std::vector<std::string>& keys, const std::vector<Bytes>& values) {
  TORCH_CHECK(keys.size() == values.size(), "multiSet: ", keys.size(), " keys, ", values.size(), " values");
  std::vector<std::string> fields;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    fields.push_back(keys[i]);
    fields.push_back(to_text(values[i]));
  }
  if (!fields.empty()) ask(StoreOperation::kSet, std::move(fields), getTimeout());
}

std::vector<std::string> StoreAdapter::ask(StoreOperation operation, std::vector<std::string> fields,
                                           std::chrono::milliseconds timeout) {
  try {
    return connections_->ask({operation, generation_, std::move(fields)}, Clock::now() + timeout);
  } catch (const StoreError& error) {
    throw_as_c10d(error);
  }
}

void use_batched_gloo_keys() {
  ::setenv("GLOO_ENABLE_STORE_V2_API", "1", /*overwrite=*/0);
  ::setenv("GLOO_ENABLE_RANK_AS_SEQUENCE_NUMBER", "1", /*overwrite=*/0);
}

}  // namespace lockstep
