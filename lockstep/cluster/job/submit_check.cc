// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cluster/job/submit_check.h"

#include <algorithm>
#include <string>

#include "lockstep/base/error.h"
#include "lockstep/cluster/flag/limit_signal.h"

namespace lockstep {
namespace {

[[noreturn]] void refuse(const std::string& fact, const std::string& hint) {
  throw Error(ErrorKind::kUsage, fact, hint);
}

void check_going_on(const SubmitRequest& request) {
  const bool goes_on = may_requeue(request.requeue);
  if (request.chain < 0) {
    refuse("--chain is " + std::to_string(request.chain) + ", want 1 or more",
           "it is the number of jobs that the run may take, one after the other");
  }
  if (request.chain > 1 && !goes_on) {
    refuse("--chain is " + std::to_string(request.chain) + ", but with --requeue no the run takes one job",
           "leave out one of them");
  }
  const bool is_packed_program = request.is.pack && request.flags.recipe.empty();
  if (is_packed_program && request.chain > 1) {
    refuse("--chain is " + std::to_string(request.chain) + ", but packed trials of a program are not warned",
           "leave out --pack or --chain; a trial that ends with 75 is started again without");
  }
  if (request.restarts < 0) {
    refuse("--restarts is " + std::to_string(request.restarts) + ", want 0 or more",
           "it is how often the program may be started again within a job");
  }
  if (request.spares < 0) {
    refuse("--spares is " + std::to_string(request.spares) + ", want 0 or more",
           "it is how many nodes of the job wait for another one to be lost");
  }
  if ((request.restarts > 0 || request.spares > 0) && request.is.pack) {
    refuse(std::string(request.restarts > 0 ? "--restarts" : "--spares") + " is " +
               std::to_string(std::max(request.restarts, request.spares)) + ", but packed trials have one node",
           "leave out --pack or the other");
  }
  if (request.signal.empty()) return;
  limit_signal(request.signal);
  if (!request.flags.recipe.empty()) {
    refuse("--signal tells a program that its time is nearly up, but a recipe was given",
           "leave it out: a recipe goes by the clock, saves in time and goes on in the next job");
  }
  if (is_packed_program) {
    refuse("--signal is " + request.signal + ", but packed trials of a program are not warned",
           "leave out --pack or --signal");
  }
}

}  // namespace

void check_request(const SubmitRequest& request) {
  const bool has_recipe = !request.flags.recipe.empty();
  const bool has_program = !request.flags.program.empty();
  if (has_recipe && has_program) {
    refuse("both a recipe and a program were given, want one",
           "lockstep submit RECIPE --nodes N, or lockstep submit --nodes N -- python train.py");
  }
  if (request.is.interactive) {
    if (has_recipe || !request.sweeps.empty() || request.chain > 0 || !request.signal.empty() || request.restarts > 0 ||
        request.spares > 0) {
      refuse("--interactive takes no recipe, sweep, chain, signal, restarts or spares: it gives a shell",
             "lockstep submit --interactive, and `srun lockstep train RECIPE` in it");
    }
    return;
  }
  if (!has_recipe && !has_program) {
    refuse("neither a recipe nor a program was given",
           "lockstep submit RECIPE --nodes N, or lockstep submit --nodes N -- python train.py");
  }
  check_going_on(request);
  if (request.is.pack && request.sweeps.empty()) {
    refuse("--pack places the trials of a sweep, but there is no --sweep", "--sweep optimizer.lr=0.1,0.01 --pack");
  }
  if (request.per_device && *request.per_device < 1) {
    refuse("--per-device is " + std::to_string(*request.per_device) + ", want 1 or more",
           "it counts the trials that share a device");
  }
  if (request.per_device && !request.is.pack) {
    refuse("--per-device says how many trials share a device, but without --pack each trial has a job of its own",
           "--sweep optimizer.lr=0.1,0.01 --pack --per-device " + std::to_string(*request.per_device));
  }
  if (request.at_most && *request.at_most < 1) {
    refuse("--at-most is " + std::to_string(*request.at_most) + ", want 1 or more", "it counts jobs that run at once");
  }
  if (request.at_most && request.sweeps.empty()) {
    refuse("--at-most bounds the jobs of a sweep, but there is no --sweep",
           "--sweep optimizer.lr=0.1,0.01 --at-most 1");
  }
  if (request.stage == "lockstep" && !has_recipe) {
    refuse("--stage lockstep takes the training half along, but a program was given",
           "name the program's conda environment or venv: --stage DIR");
  }
}

}  // namespace lockstep
