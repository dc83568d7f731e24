# SPDX-License-Identifier: Apache-2.0
from spack.package import *


class Lockstep(CMakePackage):
    """Data-parallel training on one device or a thousand nodes, in C++ on LibTorch, and the batch jobs around any program:
    submit, exec, doctor."""

    homepage = "https://example.org/lockstep"
    # The bundle that `make dist` makes: `spack install --source` of a mirror, or `spack dev-build` in its folder.
    manual_download = True

    maintainers("lockstep")
    license("Apache-2.0")

    version("0.1.0")

    variant("train", default=True, description="Build the training half, which needs PyTorch")
    variant("hdf5", default=True, description="Read data sets in HDF5")

    depends_on("cxx", type="build")
    depends_on("cmake@3.25:", type="build")
    depends_on("ninja", type="build")
    depends_on("python@3.6:", type="build")

    depends_on("cli11@2.1:", type="build")
    depends_on("tomlplusplus@3.3:", type="build")
    depends_on("nlohmann-json@3.11:", type="build")
    depends_on("xxhash@0.8:")
    depends_on("zlib-api")
    depends_on("jpeg")
    depends_on("libpng@1.6:")
    depends_on("hdf5@1.10.5:~mpi", when="+hdf5")
    depends_on("py-torch@2.7:", when="+train")

    conflicts("%gcc@:11", msg="Lockstep is C++20: GCC 12 or newer")

    generator("ninja")

    def cmake_args(self):
        args = [
            self.define_from_variant("LOCKSTEP_TRAIN", "train"),
            self.define("BUILD_TESTING", False),
        ]
        if self.spec.satisfies("+train"):
            torch = self.spec["py-torch"].package.module.python_platlib
            args.append(self.define("LOCKSTEP_TORCH", join_path(torch, "torch")))
        return args

    @run_after("install")
    @on_package_attributes(run_tests=True)
    def says_its_version(self):
        Executable(join_path(self.prefix.bin, "lockstep"))("--version")
