// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {

/// What a person asks of a run that trains, from any machine that sees the run's folder: the file
/// `RUN/requests/ID.KIND`. The run answers with `RUN/requests/ID.json` and removes the request. See docs/run-folder.md.
struct Request {
  std::string id{};    ///< Unique in the folder; letters, digits and '-'.
  std::string kind{};  ///< "stop" or "save".
};

/// The folder of a run's requests. It need not exist.
std::filesystem::path requests_folder(const std::filesystem::path& run_dir);

/// Leaves a request of this kind. Throws: Error(kIo).
Request leave_request(const std::filesystem::path& run_dir, const std::string& kind);

/// Takes a request back that nobody has answered.
void withdraw_request(const std::filesystem::path& run_dir, const Request& request);

/// Returns the requests of this folder that are not answered, oldest first. Only those that the user of this process,
/// or root, has left: a folder may be open to others.
std::vector<Request> open_requests(const std::filesystem::path& run_dir);

/// Answers a request: `answer` with "schema", "id" and "request" added. An answer with "state" "seen" leaves the
/// request open, any other removes it. Throws: Error(kIo).
void answer_request(const std::filesystem::path& run_dir, const Request& request, nlohmann::json answer);

/// Returns the answer so far; nothing if there is none.
std::optional<nlohmann::json> answer_to(const std::filesystem::path& run_dir, const Request& request);

/// Waits until a request has an answer, or one other than "seen" if `is_final`. Returns nothing if the time is over.
/// Blocks: for at most `patience`.
std::optional<nlohmann::json> await_answer(const std::filesystem::path& run_dir, const Request& request, bool is_final,
                                           std::chrono::milliseconds patience);

}  // namespace lockstep
