#!/bin/sh
# Installs the Debian packages that are missing: those named, or those that the build and the tests need.
packages="$*"
[ -n "$packages" ] || packages="g++ make pkg-config libfabric-dev libhwloc-dev libpugixml-dev libgtest-dev libgmock-dev
  libhwy-dev libssl-dev libcli11-dev nlohmann-json3-dev libopenmpi-dev openmpi-bin"

missing=""
for package in $packages; do
  dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing="$missing $package"
done
[ -z "$missing" ] && exit 0

echo "installing:$missing"
root=""
[ "$(id -u)" = 0 ] || root="sudo"
export DEBIAN_FRONTEND=noninteractive
$root apt-get update -q >/dev/null && $root apt-get install -q -y --no-install-recommends $missing >/dev/null && exit 0
echo "could not install:$missing" >&2
exit 1
