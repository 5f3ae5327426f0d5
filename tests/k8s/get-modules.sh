# SPDX-License-Identifier: Apache-2.0
# The newest Kubernetes from Go modules, for tests/k8s/get. The module in modules/ has tool lines alone: its go.mod and go.sum fix the
# version and the hash of each source. runc and busybox come from Debian 12's packages.
# shellcheck shell=bash disable=SC1091,SC2034,SC2154

. ./get-go.sh
name=k8s
version=$(sed -n 's|^\tk8s.io/kubernetes v\([0-9.]*\).*|\1|p' modules/go.mod)
what="Kubernetes $version"
how_long="7 to 12 minutes"
steps=(look_around install_tools fetch_packages fetch_sources build_visibly take_programs images)
module=modules
recipe=1                      # add 1 if the script makes something else
room_mib=6000                 # during the build; 561 stay
packages=(runc busybox-static)
programs=(kube-apiserver kube-controller-manager kube-scheduler kubelet kubectl)
plugins=(ipam/host-local main/bridge main/loopback)

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

# The types of a pod's spec and the features that kubelets declare, for the test that compares divvy's tables with them.
take_programs() {
	local api features
	mv "$new/keep/bin/server" "$new/keep/bin/etcd"
	cp "$new/root/usr/sbin/runc" "$new/keep/bin/"
	api=$(with_go list -m -f '{{.Dir}}' k8s.io/api)
	mkdir "$new/keep/api"
	cp "$api/core/v1/types.go" "$new/keep/api/core-v1.go"
	features=$(with_go list -m -f '{{.Dir}}' k8s.io/component-helpers)/nodedeclaredfeatures/features
	find "$features" -mindepth 2 -name '*.go' ! -name '*_test.go' -exec grep -hE '= +"[A-Z]' {} + >"$new/keep/api/declared-features.go"
}
