# SPDX-License-Identifier: Apache-2.0
# Kubernetes 1.20.2 from Debian 12's packages alone, for tests/k8s/get: API server, controller manager, scheduler and kubelet are
# built from Debian's source package. The other programs come from its binary packages.
# shellcheck shell=bash disable=SC2034,SC2154

name=k8s
version=1.20.2
what="Kubernetes $version"
how_long="7 to 12 minutes"
steps=(look_around install_tools fetch_packages fetch_sources build_visibly take_programs images)
debian=1.20.5+really$version- # begins Debian's version; the script takes the last one
go=1.19                       # Debian 12's
recipe=1                      # add 1 if the script makes something else
room_mib=4000                 # during the build; 361 stay
programs=(kube-apiserver kube-controller-manager kube-scheduler kubelet)
packages=(etcd-server containerd runc kubernetes-client containernetworking-plugins busybox-static)
# For the build only: unpacked, not installed. Kubernetes' own copy of reflect2, built by this Go, panics when a custom resource
# is defined. Debian's copy does not.
tools=("golang-$go-go" "golang-$go-src" golang-github-modern-go-reflect2-dev)

fetch_sources() {
	local deb
	debian=$(own_apt_cache showsrc --only-source kubernetes | sed -n 's/^Version: //p' |
		grep -F "$debian" | sort -V | tail -n 1) || true
	[ -n "$debian" ] || cannot "Debian 12 here has no source package of Kubernetes $version"
	say "fetching the sources of Kubernetes $debian, and Go $go"
	(cd "$new/src" && fetched "$new/fetch-src.log" own_apt source --download-only "kubernetes=$debian")
	mkdir "$new/deb/tools" "$new/tools"
	(cd "$new/deb/tools" && fetched "$new/fetch-tools.log" own_apt download "${tools[@]}")
	for deb in "$new"/deb/tools/*.deb; do
		dpkg -x "$deb" "$new/tools"
	done
	(cd "$new/src" && quietly "$new/unpack.log" dpkg-source -x kubernetes_*.dsc kubernetes)
	rm -r "$new/src/kubernetes/vendor/github.com/modern-go/reflect2"
	cp -r "$new/tools/usr/share/gocode/src/github.com/modern-go/reflect2" \
		"$new/src/kubernetes/vendor/github.com/modern-go/"
}

# Runs in a shell of its own, for the environment.
build() {
	local source=$new/src/kubernetes
	cat >"$new/version" <<-END
		KUBE_GIT_COMMIT=0000000000000000000000000000000000000000
		KUBE_GIT_TREE_STATE=archive
		KUBE_GIT_VERSION=v$version
		KUBE_GIT_MAJOR=1
		KUBE_GIT_MINOR=20
	END
	mkdir -p "$source/.go/src/k8s.io"
	ln -sfn ../../.. "$source/.go/src/k8s.io/kubernetes"
	cd "$source" || return
	# `env -i` drops the user's settings for Go and for Kubernetes' own build.
	exec env -i LC_ALL=C PATH="$new/tools/usr/lib/go-$go/bin:$PATH" GOROOT="$new/tools/usr/lib/go-$go" \
		HOME="$new/src" TMPDIR="$new/src" GOPATH="$source/.go" GOCACHE="$new/src/gocache" \
		GOPROXY=off GOSUMDB=off GOTOOLCHAIN=local GOFLAGS="-v -tags=providerless,dockerless" \
		CGO_ENABLED=0 KUBE_VERBOSE=1 KUBE_GIT_VERSION_FILE="$new/version" \
		make WHAT="${programs[*]/#/cmd/}"
}

take_programs() {
	local name
	cp -L "$new"/root/usr/bin/{etcd,containerd,ctr,containerd-shim-runc-v2,kubectl} \
		"$new/root/usr/sbin/runc" "$new/keep/bin/"
	cp -L "$new"/root/usr/lib/cni/{bridge,host-local,loopback} "$new/keep/cni/"
	for name in "${programs[@]}"; do
		cp "$new/src/kubernetes/_output/bin/$name" "$new/keep/bin/"
	done
}
