// SPDX-License-Identifier: Apache-2.0
// Keys, waits and generations. Generation 0 has the keys of the whole run. Every other generation has its own keys, and
// only the present one exists. kRaise begins the next generation. It drops all keys of the present one and answers its
// waits with kOver, so that no rank waits for keys of a group that has ended. A raise to the generation that has begun
// already changes nothing, so every rank may send it.
//
// A kGet or kWait whose keys are not all there is filed under its first missing key. A new key wakes only the requests
// that are filed under it. Each either completes or is filed under its next missing key. A client has at most one
// waiting request.
//
// The store is bounded. A request that would exceed kMostStoredBytes is refused, and changes no key beyond those
// already set. Only the server's thread calls this, so there are no locks.
#include "lockstep/store/generations.h"

#include <algorithm>
#include <cstdlib>

#include "lockstep/base/text.h"

namespace lockstep {
namespace {

// The limit is far above what ranks exchange. It keeps a faulty rank from using up the memory of the process that
// serves the store.
constexpr std::size_t kMostStoredBytes = 1U << 30U;

StoreReply refused(std::string why) { return {StoreStatus::kRefused, {std::move(why)}}; }

StoreReply yes_or_no(bool is_so) { return {StoreStatus::kDone, {is_so ? "1" : "0"}}; }

StoreReply full() {
  return refused("the store would hold more than " + std::to_string(kMostStoredBytes >> 20U) + " MiB");
}

bool has_right_fields(const StoreRequest& request) {
  const auto count = request.fields.size();
  switch (request.operation) {
    case StoreOperation::kSet:
      return count > 0 && count % 2 == 0;
    case StoreOperation::kOnLoss:
      return count % 2 == 0;
    case StoreOperation::kGet:
    case StoreOperation::kWait:
    case StoreOperation::kCheck:
      return true;
    case StoreOperation::kAdd:
    case StoreOperation::kAppend:
      return count == 2;
    case StoreOperation::kErase:
      return count == 1;
    case StoreOperation::kCompareSet:
      return count == 3;
    case StoreOperation::kCount:
    case StoreOperation::kGeneration:
    case StoreOperation::kRaise:
      return count == 0;
  }
  return false;
}

std::string waiting_place(std::uint32_t generation, const std::string& key) {
  return (generation == 0 ? "*" : ".") + key;
}

}  // namespace

std::optional<StoreReply> Generations::apply(ClientId client, const StoreRequest& request) {
  const auto& [operation, generation, fields] = request;
  if (!has_right_fields(request)) return refused("the request has " + std::to_string(fields.size()) + " fields");
  if (operation == StoreOperation::kGeneration) return StoreReply{StoreStatus::kDone, {std::to_string(current_)}};
  if (operation == StoreOperation::kRaise) return raise(generation);
  if (operation == StoreOperation::kOnLoss) {
    on_loss_.erase(client);
    if (!fields.empty()) on_loss_.emplace(client, fields);
    return StoreReply{};
  }
  if (generation != 0 && generation < current_) return StoreReply{StoreStatus::kOver, {}};
  if (generation > current_) {
    return refused("generation " + std::to_string(generation) + " has not begun, this is " + std::to_string(current_));
  }
  Keys& keys = keys_of(request);
  switch (operation) {
    case StoreOperation::kSet:
      return set(keys, fields, generation);
    case StoreOperation::kGet:
    case StoreOperation::kWait:
      return await(client, {.request = request});
    case StoreOperation::kAdd:
      return add(keys, fields, generation);
    case StoreOperation::kCheck:
      return yes_or_no(std::ranges::all_of(fields, [&](const auto& key) { return keys.contains(key); }));
    case StoreOperation::kErase: {
      const auto found = keys.find(fields[0]);
      if (found == keys.end()) return yes_or_no(false);
      bytes_ -= found->first.size() + found->second.size();
      keys.erase(found);
      return yes_or_no(true);
    }
    case StoreOperation::kCompareSet:
      return compare_set(keys, fields, generation);
    case StoreOperation::kAppend: {
      const auto found = keys.find(fields[0]);
      const auto before = found == keys.end() ? std::string() : found->second;
      return put(keys, fields[0], before + fields[1], generation) ? StoreReply{} : full();
    }
    default:
      return StoreReply{StoreStatus::kDone, {std::to_string(keys.size())}};
  }
}

StoreReply Generations::set(Keys& keys, const Fields& fields, std::uint32_t generation) {
  for (std::size_t i = 0; i < fields.size(); i += 2) {
    if (!put(keys, fields[i], fields[i + 1], generation)) return full();
  }
  return {};
}

StoreReply Generations::add(Keys& keys, const Fields& fields, std::uint32_t generation) {
  const auto found = keys.find(fields[0]);
  const auto before = found == keys.end() ? std::int64_t{0} : parsed_int<std::int64_t>(found->second);
  const auto more = parsed_int<std::int64_t>(fields[1]);
  std::int64_t sum = 0;
  if (!before || !more || __builtin_add_overflow(*before, *more, &sum)) {
    return refused("'" + fields[0] + "' holds no number that this can be added to");
  }
  if (!put(keys, fields[0], std::to_string(sum), generation)) return full();
  return {StoreStatus::kDone, {std::to_string(sum)}};
}

// As in c10d's own stores, an empty expected value means that the key does not exist.
StoreReply Generations::compare_set(Keys& keys, const Fields& fields, std::uint32_t generation) {
  const auto found = keys.find(fields[0]);
  const bool matches = found == keys.end() ? fields[1].empty() : found->second == fields[1];
  if (matches && !put(keys, fields[0], fields[2], generation)) return full();
  if (matches) return {StoreStatus::kDone, {fields[2]}};
  return {StoreStatus::kDone, {found == keys.end() ? fields[1] : found->second}};
}

StoreReply Generations::raise(std::uint32_t wanted) {
  if (wanted == current_ + 1) {
    current_ = wanted;
    for (const auto& [key, value] : keys_) bytes_ -= key.size() + value.size();
    keys_.clear();
    for (auto it = waits_.begin(); it != waits_.end();) {
      if (it->second.request.generation == 0) {
        ++it;
        continue;
      }
      answers_.emplace_back(it->first, StoreReply{StoreStatus::kOver, {}});
      it = waits_.erase(it);
    }
    std::erase_if(waiting_for_, [](const auto& entry) { return entry.first.front() == '.'; });
  }
  return {StoreStatus::kDone, {std::to_string(current_)}};
}

bool Generations::put(Keys& keys, const std::string& key, std::string value, std::uint32_t generation) {
  const auto found = keys.find(key);
  const auto before = found == keys.end() ? 0 : key.size() + found->second.size();
  const auto after = key.size() + value.size();
  if (bytes_ - before + after > kMostStoredBytes) return false;
  bytes_ = bytes_ - before + after;
  if (found != keys.end()) {
    found->second = std::move(value);
    return true;
  }
  keys.emplace(key, std::move(value));
  wake(key, generation);
  return true;
}

// A wait is filed under the first key that is missing, so a new key wakes only those that it may complete.
std::optional<StoreReply> Generations::await(ClientId client, Wait wait) {
  const auto& keys = keys_of(wait.request);
  const auto& fields = wait.request.fields;
  while (wait.met < fields.size() && keys.contains(fields[wait.met])) ++wait.met;
  const bool is_met = wait.met == fields.size();
  const auto gone = is_met ? std::ranges::find_if(fields, [&](const auto& key) { return !keys.contains(key); })
                           : fields.begin() + static_cast<std::ptrdiff_t>(wait.met);
  if (gone != fields.end()) {
    waiting_for_[waiting_place(wait.request.generation, *gone)].push_back(client);
    wait.met = static_cast<std::size_t>(gone - fields.begin());
    waits_.insert_or_assign(client, std::move(wait));
    return std::nullopt;
  }
  StoreReply reply;
  if (wait.request.operation == StoreOperation::kWait) return reply;
  std::size_t bytes = 0;
  for (const auto& key : fields) {
    const auto& value = keys.at(key);
    bytes += value.size() + 4;
    if (bytes >= kMostFrameBytes) return refused("the values are longer than one message, ask for fewer");
    reply.fields.push_back(value);
  }
  return reply;
}

void Generations::wake(const std::string& key, std::uint32_t generation) {
  auto entry = waiting_for_.extract(waiting_place(generation, key));
  if (!entry) return;
  for (const auto client : entry.mapped()) {
    auto found = waits_.extract(client);
    if (!found) continue;
    if (auto reply = await(client, std::move(found.mapped()))) answers_.emplace_back(client, std::move(*reply));
  }
}

void Generations::forget(ClientId client) {
  forget_wait(client);
  const auto lost = on_loss_.extract(client);
  if (!lost) return;
  set(lasting_, lost.mapped(), 0);  // A full store refuses this, and there is nobody to tell.
  raise(current_ + 1);
}

void Generations::forget_wait(ClientId client) {
  const auto found = waits_.find(client);
  if (found == waits_.end()) return;
  const auto& request = found->second.request;
  const auto filed = waiting_for_.find(waiting_place(request.generation, request.fields[found->second.met]));
  std::erase(filed->second, client);
  if (filed->second.empty()) waiting_for_.erase(filed);
  waits_.erase(found);
}

}  // namespace lockstep
