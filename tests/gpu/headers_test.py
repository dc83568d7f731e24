#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Which folders of CUDA's headers the build takes, and which libraries of ROCm, beside a PyTorch and toolkits that are made up.

Usage: headers_test.py CMAKE GENERATOR COMPILER SOURCE
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

CMAKE, GENERATOR, COMPILER, SOURCE = sys.argv[1:5]
VERSION = 99  # So that no toolkit of this machine is taken.
PROJECT = """cmake_minimum_required(VERSION 3.25)
project(headers LANGUAGES CXX)
add_library(lockstep::torch INTERFACE IMPORTED)
set_target_properties(lockstep::torch PROPERTIES INTERFACE_INCLUDE_DIRECTORIES "{torch}/include")
set(PROJECT_SOURCE_DIR "{source}")
include("{source}/cmake/LockstepGpu.cmake")
{calls}
message(STATUS "TAKEN:${{found}}:")
"""
WHEELS = {"cuda_runtime_api.h": f"#define CUDART_VERSION {VERSION}000\n#include <crt/host_defines.h>\nvoid CUDARTAPI f();\n",
          "cublas_v2.h": "#include <nv/target>\ninline int two() { NV_IF_ELSE_TARGET(NV_IS_DEVICE, (return 1;), (return 2;)) }\n",
          "cusparse.h": "", "cusolverDn.h": "", "nvtx3/nvToolsExt.h": ""}


def write(folder, files):
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


class Made(unittest.TestCase):
    """A project beside a PyTorch that is made up."""
    calls = ""

    def setUp(self):
        place = tempfile.TemporaryDirectory(prefix="lockstep test ")
        self.addCleanup(place.cleanup)
        self.folder = pathlib.Path(place.name)
        self.torch = self.folder / "torch"
        (self.torch / "lib").mkdir(parents=True)

    def configured(self, **variables):
        project = self.folder / "project"
        write(project, {"CMakeLists.txt": PROJECT.format(torch=self.torch, source=SOURCE, calls=self.calls.format(torch=self.torch))})
        env = {name: value for name, value in os.environ.items() if name not in ("CUDA_HOME", "CUDA_PATH", "ROCM_PATH", "CMAKE_PREFIX_PATH")}
        done = subprocess.run([CMAKE, "-G", GENERATOR, "-S", project, "-B", self.folder / "build", f"-DCMAKE_CXX_COMPILER={COMPILER}"], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=env | variables, check=False)
        self.assertEqual(done.returncode, 0, done.stdout)
        return done.stdout

    def taken(self, said):
        self.assertIn("TAKEN:", said)
        return [os.path.realpath(each) for each in said.split("TAKEN:")[1].split(":")[0].split(";") if each]


class Headers(Made):
    calls = 'lockstep_cuda_includes("{torch}" found)'

    def setUp(self):
        super().setUp()
        self.wheels = self.folder / f"nvidia/cu{VERSION}/include"
        write(self.wheels, WHEELS)
        write(self.folder / "nvidia/nccl/include", {"nccl.h": ""})
        write(self.torch / "include", {"ATen/cuda/CUDAContextLight.h": "#include <cublas_v2.h>\n", "c10/cuda/CUDAException.h": ""})
        self.need(f"libcudart.so.{VERSION}")

    def need(self, soname):
        """Makes LibTorch need CUDA's runtime by this name."""
        empty, runtime = self.folder / "empty.cc", self.folder / "libcudart.so"
        empty.write_text("")
        for library, more in ((runtime, [f"-Wl,-soname,{soname}"]), (self.torch / "lib/libc10_cuda.so", ["-Wl,--no-as-needed", runtime])):
            subprocess.run([COMPILER, "-shared", "-fPIC", "-o", library, empty, *more], check=True)

    def toolkit(self, name, version, **more):
        folder = self.folder / name / "include"
        files = {"crt/host_defines.h": "#define CUDARTAPI\n", "crt/host_config.h": "",
                 "cccl/nv/target": "#define NV_IF_ELSE_TARGET(condition, yes, no) return 2;\n"}
        write(folder, {"cuda_runtime_api.h": f"#define CUDART_VERSION {version}000\n"} | (files | more))
        return folder

    def test_what_the_wheels_lack_is_carried(self):
        taken = self.taken(self.configured())
        self.assertEqual(taken[-1], os.path.realpath(f"{SOURCE}/third_party/cuda_headers"))
        self.assertIn(os.path.realpath(self.wheels), taken)

    def test_a_toolkit_comes_after_the_wheels_with_its_second_folder(self):
        toolkit = self.toolkit("toolkit", VERSION)
        taken = self.taken(self.configured(CUDA_HOME=str(toolkit.parent)))
        self.assertEqual(taken[-2:], [os.path.realpath(toolkit), os.path.realpath(toolkit / "cccl")])
        self.assertLess(taken.index(os.path.realpath(self.wheels)), taken.index(os.path.realpath(toolkit)))

    def test_a_toolkit_of_another_version_is_left_out(self):
        toolkit = self.toolkit("toolkit", VERSION - 1)
        self.assertNotIn(os.path.realpath(toolkit), self.taken(self.configured(CUDA_HOME=str(toolkit.parent))))

    def test_a_toolkit_is_taken_whatever_the_name_that_libtorchs_zip_gives_the_runtime(self):
        self.need(f"libcudart-1b2f43d0.so.{VERSION}")
        toolkit = self.toolkit("toolkit", VERSION)
        self.assertIn(os.path.realpath(toolkit), self.taken(self.configured(CUDA_HOME=str(toolkit.parent))))

    def test_headers_that_do_not_compile_leave_the_library_out_and_are_named(self):
        write(self.wheels, {"cusparse.h": "first wrong line;\nsecond wrong line;\n"})
        write(self.torch / "include", {"ATen/cuda/CUDAContextLight.h": "#include <cusparse.h>\n"})
        said = self.configured()
        self.assertEqual(self.taken(said), [])
        self.assertRegex(said, r"Building without GPUs: CUDA's headers do not compile: \S.*cusparse.h:1:\d+: error: ")
        self.assertNotIn("cusparse.h:2:", said)

    def test_a_header_that_is_missing_is_named(self):
        (self.wheels / "cusolverDn.h").unlink()
        said = self.configured()
        self.assertEqual(self.taken(said), [])
        self.assertIn(f"cusolverDn.h of CUDA {VERSION} was not found", said)


class RocmParts(Made):
    calls = 'lockstep_rocm_parts("{torch}" "USE_ROCM;__HIP_PLATFORM_AMD__" includes found)'

    def setUp(self):
        super().setUp()
        self.rocm = self.folder / "rocm"
        for library in ("libamdhip64.so", "libroctx64.so"):
            write(self.rocm / "lib", {library: ""})
        for folder in ("hip", "roctracer"):
            shutil.copytree(f"{SOURCE}/tests/gpu/rocm_stubs/{folder}", self.rocm / "include" / folder)
        allocators = "namespace c10::cuda::CUDACachingAllocator {}\nnamespace c10::hip::HIPCachingAllocator {}\n"
        write(self.torch / "include", {"ATen/hip/HIPGraph.h": "", "c10/hip/HIPCachingAllocator.h": allocators,
                                       "torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp": ""})

    def test_what_rocm_has_is_taken(self):
        self.assertEqual(self.taken(self.configured(ROCM_PATH=str(self.rocm))),
                         [os.path.realpath(self.rocm / f"lib/{name}") for name in ("libamdhip64.so", "libroctx64.so")])

    def test_the_runtime_beside_libtorch_comes_before_that_of_a_module(self):
        write(self.torch / "lib", {"libamdhip64.so": ""})
        taken = self.taken(self.configured(CMAKE_PREFIX_PATH=str(self.rocm)))
        self.assertEqual(taken, [os.path.realpath(each) for each in (self.torch / "lib/libamdhip64.so", self.rocm / "lib/libroctx64.so")])

    def test_without_roctracers_header_the_library_is_left_out_and_the_header_named(self):
        (self.rocm / "include/roctracer/roctx.h").unlink()
        said = self.configured(ROCM_PATH=str(self.rocm))
        self.assertEqual(self.taken(said), [])
        self.assertRegex(said, r"Building without GPUs: ROCm's headers do not compile: \S.*names.h:\d+:\d+: fatal error: '?roctracer/roctx.h")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
