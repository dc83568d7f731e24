// SPDX-License-Identifier: Apache-2.0
#include "lockstep/observe/requests.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <random>
#include <system_error>
#include <thread>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/json_text.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

constexpr auto kLookEvery = std::chrono::milliseconds(50);

fs::path request_path(const fs::path& run_dir, const Request& request) {
  return requests_folder(run_dir) / (request.id + "." + request.kind);
}

fs::path answer_path(const fs::path& run_dir, const Request& request) {
  return requests_folder(run_dir) / (request.id + ".json");
}

// Names begin with the time, so that they sort by it. A random part distinguishes two requests of the same moment.
std::string new_id() {
  const auto now =
      std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::system_clock::now().time_since_epoch());
  return std::to_string(now.count()) + "-" + std::to_string(::getpid()) + "-" +
         std::to_string(std::random_device{}() % 100000);
}

bool is_ours(const fs::path& path) {
  struct stat status {};
  // A link does not count as this user's file, since somebody else could make a link to such a file.
  if (::lstat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return false;
  return status.st_uid == ::geteuid() || status.st_uid == 0;
}

}  // namespace

fs::path requests_folder(const fs::path& run_dir) { return run_dir / "requests"; }

Request leave_request(const fs::path& run_dir, const std::string& kind) {
  make_folder(requests_folder(run_dir));
  Request request{.id = new_id(), .kind = kind};
  write_whole(request_path(run_dir, request), "", false);
  return request;
}

void withdraw_request(const fs::path& run_dir, const Request& request) {
  std::error_code ignored;
  fs::remove(request_path(run_dir, request), ignored);
}

std::vector<Request> open_requests(const fs::path& run_dir, const std::vector<std::string>& kinds) {
  std::vector<Request> requests;
  std::error_code error;
  for (fs::directory_iterator it(requests_folder(run_dir), error); !error && it != fs::directory_iterator();
       it.increment(error)) {
    const auto ending = it->path().extension().string();
    const auto kind = ending.empty() ? ending : ending.substr(1);
    if (std::ranges::find(kinds, kind) == kinds.end() || !is_ours(it->path())) continue;
    requests.push_back({.id = it->path().stem().string(), .kind = kind});
  }
  std::ranges::sort(requests, {}, &Request::id);
  return requests;
}

void answer_request(const fs::path& run_dir, const Request& request, nlohmann::json answer) {
  answer["schema"] = 1;
  answer["id"] = request.id;
  answer["request"] = request.kind;
  write_whole(answer_path(run_dir, request), json_text(answer) + "\n", false);
  if (answer.value("state", "") != "seen") withdraw_request(run_dir, request);
}

std::optional<nlohmann::json> answer_to(const fs::path& run_dir, const Request& request) {
  std::error_code ignored;
  const auto path = answer_path(run_dir, request);
  if (!fs::exists(path, ignored)) return std::nullopt;
  auto answer = nlohmann::json::parse(text_of_file(path), nullptr, false);
  if (!answer.is_object()) return std::nullopt;
  return answer;
}

std::optional<nlohmann::json> await_answer(const fs::path& run_dir, const Request& request, bool is_final,
                                           std::chrono::milliseconds patience) {
  const auto end = std::chrono::steady_clock::now() + patience;
  while (true) {
    auto answer = answer_to(run_dir, request);
    if (answer && (!is_final || answer->value("state", "") != "seen")) return answer;
    if (std::chrono::steady_clock::now() >= end) return std::nullopt;
    std::this_thread::sleep_for(kLookEvery);
  }
}

}  // namespace lockstep
