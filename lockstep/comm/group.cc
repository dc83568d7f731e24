// SPDX-License-Identifier: Apache-2.0
#include "lockstep/comm/group.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cstring>
#include <typeinfo>

#include "lockstep/base/checksum.h"
#include "lockstep/base/text.h"
#include "lockstep/base/text_format.h"
#include "lockstep/comm/group_impl.h"
#include "lockstep/watch/page.h"

namespace lockstep {

bool is_of_transport(const std::exception& error) {
  if (dynamic_cast<const c10::DistError*>(&error) != nullptr) return true;
  // LibTorch installs no header with Gloo's exceptions. So they are recognized by their namespace in the type's mangled
  // name.
  return std::string_view(typeid(error).name()).starts_with("N4gloo");
}

std::string words(const std::exception& error) {
  const auto* torch = dynamic_cast<const c10::Error*>(&error);
  return torch != nullptr ? torch->what_without_backtrace() : error.what();
}

bool is_transport_failure(const std::exception& error) {
  if (is_of_transport(error)) return true;
  const auto text = words(error);
  for (const std::string_view sign : {"gloo", "Connection closed by peer", "Connection reset", "Broken pipe",
                                      "Timed out", "timed out", "Socket Timeout", "NCCL"}) {
    if (text.find(sign) != std::string::npos) return true;
  }
  return false;
}

bool is_timeout(const std::exception& error) {
  const auto text = words(error);
  return text.find("imed out") != std::string::npos || text.find("imeout") != std::string::npos;
}

void throw_peer_error(std::string_view action, const std::exception& error) {
  const std::string text(first_line(words(error)));
  if (is_timeout(error)) {
    throw Error(ErrorKind::kPeer, "a peer rank did not answer in time while ranks " + std::string(action) + ": " + text,
                "look for a rank that is frozen, waits for a file system or left a collective out; "
                "trainer.collective_timeout (JoinOptions::collective_timeout) is how long ranks wait");
  }
  throw Error(ErrorKind::kPeer, "a peer rank was lost while ranks " + std::string(action) + ": " + text,
              "the rank that failed first says why in its log; then start again with --resume auto");
}

Group::Group(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Group::~Group() = default;
Group::Group(Group&&) noexcept = default;
Group& Group::operator=(Group&&) noexcept = default;

const Placement& Group::placement() const { return impl_->placement; }
bool Group::is_connected() const { return impl_->process != nullptr || !impl_->left.empty(); }
const RankDevice& Group::device() const { return impl_->device; }

void Group::all_reduce_sum(at::Tensor& tensor) {
  if (!is_connected()) return;
  impl_->talk("added up a tensor", [&] {
    std::vector<at::Tensor> tensors{tensor};
    impl_->process->allreduce(tensors)->wait();
  });
}

void Group::broadcast(at::Tensor& tensor, int root) {
  if (!is_connected()) return;
  impl_->talk("shared a tensor", [&] {
    std::vector<at::Tensor> tensors{tensor};
    c10d::BroadcastOptions options;
    options.rootRank = root;
    impl_->process->broadcast(tensors, options)->wait();
  });
}

std::vector<std::int64_t> Group::all_gather(std::int64_t value) {
  if (!is_connected()) return {value};
  // Gathers by a sum: each rank's vector is zero except at the rank's own index. So one collective is enough for
  // everything, and the vectors are short.
  auto all = at::zeros({world()}, at::kLong);
  all.data_ptr<std::int64_t>()[rank()] = value;
  all_reduce_sum(all);
  const auto* data = all.const_data_ptr<std::int64_t>();
  return {data, data + world()};
}

std::string Group::broadcast_text(std::string text, int root) {
  if (!is_connected()) return text;
  auto size = at::full({1}, static_cast<std::int64_t>(text.size()), at::kLong);
  broadcast(size, root);
  text.resize(static_cast<std::size_t>(*size.const_data_ptr<std::int64_t>()));
  if (text.empty()) return text;
  auto bytes = at::from_blob(text.data(), {static_cast<std::int64_t>(text.size())}, at::kByte);
  broadcast(bytes, root);
  return text;
}

bool StopWatch::is_asked() const {
  constexpr double kSaveSeconds = 15;  // With twice that for a save, and half a minute: a minute before the end.
  return StopSignals::arrived() || clock.is_time_to_stop(std::chrono::system_clock::now(), kSaveSeconds, 0);
}

bool Group::stop_requested() {
  auto& stop = impl_->stop;
  if (is_connected() && !impl_->has_parallel) {
    throw Error(ErrorKind::kUsage, "stop_requested() is called, and no DistributedDataParallel was made over the group",
                "ranks agree on a stop with its gradients: make one before the loop");
  }
  if (!stop) {
    stop = std::make_unique<StopWatch>();
    stop->clock = JobClock(Environment::of_process());
  }
  return is_connected() ? stop->is_agreed : stop->is_asked();
}

void Group::barrier() {
  auto token = at::zeros({1}, at::kFloat);
  all_reduce_sum(token);
}

namespace {

// Calls `work` and encodes its exception as the digit of the kind, the fact, a null character and the hint. Returns
// empty text if `work` throws nothing.
std::string failure_of(const std::function<void()>& work) {
  const auto text = [](ErrorKind kind, std::string_view fact, std::string_view hint) {
    return std::to_string(static_cast<int>(kind)).append(fact).append(1, '\0').append(hint);
  };
  try {
    work();
  } catch (const Error& error) {
    return text(error.kind(), error.fact(), error.hint());
  } catch (const std::exception& error) {
    return text(ErrorKind::kBug, error.what(), {});
  }
  return {};
}

[[noreturn]] void throw_failure(const std::string& failure, const std::string& whose = {}) {
  const auto end = failure.rfind('\0');
  throw Error(static_cast<ErrorKind>(failure[0] - '0'), whose + failure.substr(1, end - 1), failure.substr(end + 1));
}

}  // namespace

void on_rank_zero(Group& group, const std::function<void()>& work) {
  const auto failure = group.broadcast_text(group.is_main() ? failure_of(work) : std::string());
  if (failure.empty()) return;
  if (!group.is_main()) Page::own().note_error_of(0);
  throw_failure(failure);
}

void on_every_rank(Group& group, const std::function<void()>& work) {
  const auto own = failure_of(work);
  const auto failed = group.all_gather(own.empty() ? 0 : 1);
  const auto first = std::ranges::find(failed, 1) - failed.begin();
  if (first == std::ssize(failed)) return;
  const auto theirs = group.broadcast_text(own, static_cast<int>(first));
  if (!own.empty()) throw_failure(own);
  Page::own().note_error_of(static_cast<int>(first));
  throw_failure(theirs, "rank " + std::to_string(first) + ": ");
}

void require_same_text(Group& group, ErrorKind kind, const std::string& what, const std::string& text,
                       const std::string& hint) {
  const auto digests = group.all_gather(static_cast<std::int64_t>(xxh3_64(text)));
  std::vector<std::string> different;
  for (std::size_t rank = 0; rank < digests.size(); ++rank) {
    if (digests[rank] != digests[0]) different.push_back(std::to_string(rank));
  }
  if (different.empty()) return;
  const int first = *parsed_int<int>(different.front());
  const auto lines_of = [](std::string lines) {
    if (lines.ends_with('\n')) lines.pop_back();
    return split(lines, '\n');
  };
  const auto ours = lines_of(group.broadcast_text(text, 0));
  const auto theirs = lines_of(group.broadcast_text(text, first));
  const auto [mine, other] = std::mismatch(ours.begin(), ours.end(), theirs.begin(), theirs.end());
  const auto quoted = [](auto it, const auto& lines) { return it == lines.end() ? "nothing" : "'" + *it + "'"; };
  if (different.size() > 16) {
    different.resize(16);
    different.push_back("…");
  }
  throw Error(kind,
              what + " differs between ranks: rank 0 has " + quoted(mine, ours) + ", rank " + std::to_string(first) +
                  " has " + quoted(other, theirs) + " (different from rank 0: " + joined(different, ", ") + ")",
              hint);
}

}  // namespace lockstep
