// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cli_train/program.h"

// Started by `lockstep`, which has checked the command line before; what is left to say here is said the same way.
int main(int argc, char** argv) { return lockstep::run_program(argc, argv, nullptr); }
