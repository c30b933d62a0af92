# UNTRIED: written by Spack's documentation; no Spack was at hand to run it.
#
#   spack repo create myrepo; cp -r packages/spack/emp myrepo/packages/; spack repo add myrepo     (as `spack repo create` says)
#   spack dev-build --source-path=/path/to/emp emp@main
#
# For Spack 1.0 and newer, whose build systems are in its repository of packages.
from spack_repo.builtin.build_systems.generic import Package

from spack.package import *


class Emp(Package):
    """Ethernet Message Passing: reliable, low-latency messages over plain Ethernet, with a libfabric provider for MPI."""

    # The sources come from a checkout: `spack dev-build`.
    has_code = True

    license("MIT OR Apache-2.0")

    version("main")

    depends_on("c", type="build")
    depends_on("rust@1.95:", type="build")
    depends_on("libfabric@1.17:", type=("build", "run"))

    def install(self, spec, prefix):
        cargo = which("cargo")
        parts = ("cli", "empd", "fi", "mx", "vipl", "vmmc")
        cargo("build", "--release", "--locked", *(word for part in parts for word in ("-p", "emp-" + part)))
        make("install-built", f"PREFIX={prefix}", f"PROVIDER_DIR={prefix.lib.libfabric}")

    def setup_run_environment(self, env):
        env.prepend_path("FI_PROVIDER_PATH", self.prefix.lib.libfabric)
