#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# NVIDIA's assembler accepts the test kernels. Skipped without ptxas.
set -u
ptxas=$(command -v ptxas || echo "$("$DIVVY_SOURCE/tests/toolkit/get" --check 2>/dev/null)/ptxas")
[ -x "$ptxas" ] || ptxas=/usr/local/cuda/bin/ptxas
if [ ! -x "$ptxas" ]; then
	echo "1..0 # SKIP no ptxas"
	exit 0
fi
out=$(mktemp)
trap 'rm -f "$out"' EXIT
n=0
failed=0
for arch in sm_80 sm_90; do
	n=$((n + 1))
	if text=$("$ptxas" -arch "$arch" -o "$out" "$DIVVY_SOURCE/src/simgpu/kernels.ptx" 2>&1); then
		echo "ok $n - $arch"
	else
		failed=1
		echo "$text" | sed 's/^/# /'
		echo "not ok $n - $arch"
	fi
done
echo "1..$n"
exit "$failed"
