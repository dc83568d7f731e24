// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {

/// A user's request to a running training, from any machine that sees the run's folder. It is the file
/// `RUN/requests/ID.KIND`. The run answers with `RUN/requests/ID.json` and removes the request. See
/// docs/formats/run-folder.md.
struct Request {
  std::string id{};    ///< Unique in the folder. Letters, digits and '-'.
  std::string kind{};  ///< "stop", "save" or "why".
};

/// Returns the folder of a run's requests. It need not exist.
std::filesystem::path requests_folder(const std::filesystem::path& run_dir);

/// Writes a request of this kind. Throws: Error(kIo) if the file cannot be written.
Request leave_request(const std::filesystem::path& run_dir, const std::string& kind);

/// Withdraws a request that nobody has answered.
void withdraw_request(const std::filesystem::path& run_dir, const Request& request);

/// Returns the unanswered requests of these kinds, oldest first. Only requests by this process's user or by root count,
/// since others may be able to write into the folder.
std::vector<Request> open_requests(const std::filesystem::path& run_dir, const std::vector<std::string>& kinds);

/// Answers a request with `answer`, to which "schema", "id" and "request" are added. An answer with "state" "seen"
/// leaves the request open, any other removes it. Throws: Error(kIo) if the file cannot be written.
void answer_request(const std::filesystem::path& run_dir, const Request& request, nlohmann::json answer);

/// Returns the answer so far. Nothing if there is no answer.
std::optional<nlohmann::json> answer_to(const std::filesystem::path& run_dir, const Request& request);

/// Waits until a request has an answer, or one other than "seen" if `is_final`. Returns nothing if the time is over.
/// Blocks: for at most `patience`.
std::optional<nlohmann::json> await_answer(const std::filesystem::path& run_dir, const Request& request, bool is_final,
                                           std::chrono::milliseconds patience);

}  // namespace lockstep
