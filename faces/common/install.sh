# What the faces' `install` scripts share; each sources it with its own arguments and says what it has.
#
#   BUILT PREFIX [DESTDIR]
#
# BUILT    holds the library; the tools are built there
# PREFIX   is where it will be; DESTDIR comes before it
#
# LIBDIR is where libraries go instead of PREFIX/lib: the loader's own directory, so tools get no run path. CFLAGS and LDFLAGS are the
# compiler's. EMP_MANIFEST is a file that is told of each file, for `make uninstall`.
# shellcheck shell=sh

[ $# -ge 2 ] || { sed -n '2,7s/^# \{0,1\}//p' "$0"; exit 2; }
built=$1 prefix=$2 destdir=${3-}
libdir=${LIBDIR:-$prefix/lib}
runpath=
# Beside the library: in the build, and in the place that it is installed at.
[ -n "${LIBDIR-}" ] || runpath='-Wl,-rpath,$ORIGIN:$ORIGIN/../lib'

noted() {
    [ -z "${EMP_MANIFEST-}" ] || echo "$1" >>"$EMP_MANIFEST"
}

# put MODE FILE PLACE
put() {
    install -Dm"$1" "$2" "$destdir$3"
    noted "$3"
}

# library NAME: libNAME.so.0, and libNAME.so for who links
library() {
    library=$1
    put 755 "$built/lib$1.so" "$libdir/lib$1.so.0"
    also "lib$1.so"
}

# also NAME: another name of the library
also() {
    ln -sf "lib$library.so.0" "$destdir$libdir/$1"
    noted "$libdir/$1"
}

# tools NAME...: programs of one file, and their pages
tools() {
    for tool in "$@"; do
        # shellcheck disable=SC2086
        ${CC:-cc} -std=gnu11 -O2 -Wall -Wextra ${CPPFLAGS-} ${CFLAGS-} ${LDFLAGS-} -I"$here/include" -o "$built/$tool" "$here/tools/$tool.c" \
            -L"$built" "-l$library" $runpath
        put 755 "$built/$tool" "$prefix/bin/$tool"
        put 644 "$here/man/$tool.1" "$prefix/share/man/man1/$tool.1"
    done
}

# headers FILE...: with the library's page and pkg-config file
headers() {
    for header in "$@"; do
        put 644 "$here/include/$header" "$prefix/include/$header"
    done
    put 644 "$here/man/$library.3" "$prefix/share/man/man3/$library.3"
    pc=$libdir/pkgconfig/$library.pc
    mkdir -p "$destdir$libdir/pkgconfig"
    sed "s|@PREFIX@|$prefix|; s|@LIBDIR@|$libdir|" "$here/$library.pc.in" >"$destdir$pc"
    chmod 644 "$destdir$pc"
    noted "$pc"
}
