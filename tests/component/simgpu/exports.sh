#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The simulated libraries export exactly the names of the .def lists, need libc only, have the
# drivers' file names, and load into a shell.
set -u
sim=$DIVVY_BUILD/src/simgpu
n=0
failed=0
check() {
	n=$((n + 1))
	if [ "$2" = "$3" ]; then
		echo "ok $n - $1"
	else
		failed=1
		echo "not ok $n - $1"
		printf '%s\n' "$2" >"$sim/exports.a"
		printf '%s\n' "$3" >"$sim/exports.b"
		diff "$sim/exports.a" "$sim/exports.b" | head -20 | sed 's/^/# /'
		rm -f "$sim/exports.a" "$sim/exports.b"
	fi
}
exports() {
	nm -D --defined-only "$1" | awk '{print $3}' | sed 's/@.*//' | LC_ALL=C sort
}
listed() {
	sed -n 's/^'"$1"'(\([A-Za-z0-9_]*\),.*/\1/p' "$DIVVY_SOURCE/src/cuda/$2"
}
check "libcuda.so.1 exports cuda.def" "$(exports "$sim/libcuda.so.1")" \
	"$(listed CU cuda.def | LC_ALL=C sort)"
check "libnvidia-ml.so.1 exports nvml.def" "$(exports "$sim/libnvidia-ml.so.1")" \
	"$( (listed NVML nvml.def; echo nvmlErrorString) | LC_ALL=C sort)"
for name in libcuda.so.1 libnvidia-ml.so.1; do
	soname=$(readelf -d "$sim/$name" | sed -n 's/.*soname: \[\(.*\)\]/\1/p')
	check "$name carries its name" "$soname" "$name"
	needed=$(readelf -d "$sim/$name" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' |
		grep -v -E '^(libc|libdl|libpthread|ld-linux.*)\.so')
	check "$name needs libc only" "$needed" ""
	check "$name loads into a shell" \
		"$(LD_PRELOAD=$sim/$name sh -c 'echo loaded' 2>&1)" "loaded"
done
echo "1..$n"
exit "$failed"
