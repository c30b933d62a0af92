# shellcheck shell=bash
# What the scripts beside this one share; they set `built`, where `emp` and libemp_fi.so are, before they read it.

# Kept between runs: MPICH and the suite.
kept=${EMP_MPI_DIR:-$(dirname "$built")/mpi}
venv=$kept/venv
# Gone at the end. Everybody may read it, for ranks of other users.
work=$(mktemp -d)
chmod 755 "$work"
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
cp "$built/emp" "$work/emp"
# The service is looked for beside it.
[ ! -e "$built/empd" ] || cp "$built/empd" "$work/empd"
cp "$built/libemp_fi.so" "$work/libemp-fi.so"
emp=$work/emp
export EMP_MPI_PATH=$venv
unset FI_PROVIDER FI_PROVIDER_PATH EMP_LAB

SUITE_VERSION=4.1.2
# What decision 20 was found with: newer ones may fail elsewhere, and that is to be looked at first.
OPENMPI5_VERSION=5.0.11
INTEL_VERSION=2021.18.1

# MPICH and mpi4py from the registry of Python packages, once.
install_mpich() {
    [ -f "$kept/ready-$SUITE_VERSION" ] && return
    mkdir -p "$kept" && rm -rf "$venv" && /usr/bin/python3 -m venv "$venv" &&
        "$venv/bin/pip" install -q 'mpich>=5,<6' mpi4py==$SUITE_VERSION numpy &&
        "$venv/bin/pip" download -q --no-deps --no-binary mpi4py -d "$kept" mpi4py==$SUITE_VERSION &&
        tar -C "$kept" -xzf "$kept/mpi4py-$SUITE_VERSION.tar.gz" && touch "$kept/ready-$SUITE_VERSION"
}

# install_wheels NAME package…: another MPI from that registry, once, in a place of its own.
install_wheels() {
    local place=$kept/$1
    shift
    [ "$(cat "$place/ready" 2>/dev/null)" = "$*" ] && return
    mkdir -p "$kept" && rm -rf "$place" && /usr/bin/python3 -m venv "$place" &&
        "$place/bin/pip" install -q "$@" && echo "$*" >"$place/ready"
}

# NetPIPE for MPICH: the distribution's program on the MPICH above, which has the same binary interface. Its package is
# unpacked and not installed, as it would bring the distribution's MPICH along.
install_netpipe() {
    [ -x "$kept/netpipe/usr/bin/NPmpich2" ] && return
    local package=netpipe-mpich2
    rm -rf "$kept/netpipe" && mkdir -p "$kept/netpipe" && ln -sf libmpi.so.12 "$venv/lib/libmpich.so.12" &&
        (cd "$kept/netpipe" && { apt-get -q download $package || { apt-get -q update && apt-get -q download $package; }; }) &&
        dpkg -x "$kept/netpipe/$package"_*.deb "$kept/netpipe"
}
