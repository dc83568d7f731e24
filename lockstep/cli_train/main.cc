// SPDX-License-Identifier: Apache-2.0
#include "lockstep/cli_train/program.h"

// `lockstep` starts this program, and has checked the command line before. Remaining errors are reported in the same
// way.
int main(int argc, char** argv) { return lockstep::run_program(argc, argv, nullptr); }
