# UNTRIED: written by Spack's documentation; no Spack was at hand to run it.
#
#   spack repo create myrepo; cp -r packages/spack/emp myrepo/packages/; spack repo add myrepo
#   spack dev-build --source-path=/path/to/emp emp@main
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
        cargo("build", "--release", "--locked", "-p", "emp-cli", "-p", "emp-fi", "-p", "emp-mx", "-p", "emp-vipl", "-p", "emp-vmmc")
        make("install-built", "PREFIX={0}".format(prefix))

    def setup_run_environment(self, env):
        env.prepend_path("FI_PROVIDER_PATH", self.prefix.lib.libfabric)
