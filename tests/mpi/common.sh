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
cp "$built/libemp_fi.so" "$work/libemp-fi.so"
emp=$work/emp
export EMP_MPI_PATH=$venv
unset FI_PROVIDER FI_PROVIDER_PATH EMP_LAB

SUITE_VERSION=4.1.2

# MPICH and mpi4py from the registry of Python packages, once.
install_mpich() {
    [ -f "$kept/ready-$SUITE_VERSION" ] && return
    mkdir -p "$kept" && rm -rf "$venv" && /usr/bin/python3 -m venv "$venv" &&
        "$venv/bin/pip" install -q 'mpich>=5,<6' mpi4py==$SUITE_VERSION numpy &&
        "$venv/bin/pip" download -q --no-deps --no-binary mpi4py -d "$kept" mpi4py==$SUITE_VERSION &&
        tar -C "$kept" -xzf "$kept/mpi4py-$SUITE_VERSION.tar.gz" && touch "$kept/ready-$SUITE_VERSION"
}
