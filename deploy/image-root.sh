#!/bin/sh
# image-root.sh BINARY DIRECTORY: lays out everything that the image holds, and nothing else: the binary, the libraries
# that it names, certificates of public authorities, one user without rights. The Dockerfile runs it in its build
# stage; tests/deploy/image.rs runs it too, and starts the service in what it made.
set -eu
binary=$1 root=$2

install -D -m 0755 "$binary" "$root/usr/local/bin/sluicegate"
# Line tables are for debuggers; a panic names its place without them.
if command -v strip >/dev/null; then strip --strip-debug "$root/usr/local/bin/sluicegate"; fi

# A library that nobody thought of must stop the build, not the first start.
libraries=$(ldd "$binary" | awk '$2 == "=>" { print $3 } $1 ~ /^\// { print $1 }')
for library in $libraries; do
    case ${library##*/} in
        libc.so.6 | libm.so.6 | libgcc_s.so.1 | ld-linux*.so.*) install -D -m 0755 "$library" "$root$library" ;;
        *) echo "the binary needs $library, which the image does not have" >&2 && exit 1 ;;
    esac
done

install -D -m 0644 /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/ca-certificates.crt"
install -D -m 0644 /etc/os-release "$root/etc/os-release"
echo 'sluicegate:x:65532:65532:sluicegate:/nonexistent:/nonexistent' >"$root/etc/passwd"
echo 'sluicegate:x:65532:' >"$root/etc/group"
echo 'hosts: files dns' >"$root/etc/nsswitch.conf"
mkdir -p "$root/etc/sluicegate"

# So that scanners know which packages the libraries are of.
if command -v dpkg-query >/dev/null; then
    mkdir -p "$root/var/lib/dpkg/status.d"
    for package in libc6 libgcc-s1 ca-certificates; do
        dpkg-query -s "$package" >"$root/var/lib/dpkg/status.d/$package"
    done
fi
