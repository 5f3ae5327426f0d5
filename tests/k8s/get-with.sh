# SPDX-License-Identifier: Apache-2.0
# A program of another system, which tests run on either Kubernetes, for tests/k8s/get with-NAME. modules/with/NAME is a Go module:
# its tool lines name the programs, the first tool's module gives the version, and the optional file `keep` names folders of
# sources, such as manifests: each line is MODULE FOLDER. A module with a file main.go is a program itself, named after its folder,
# and the first module that it requires gives the version. The cache has the programs in bin/ and the folders in source/MODULE/FOLDER.
# A file `ldflags`, if there is one, has further options for the linker.
# shellcheck shell=bash disable=SC1091,SC2034,SC2154

. ./get-go.sh
name=$which
module=modules/with/${which#with-}
mapfile -t programs < <(sed -n 's/^tool \([^(]\)/\1/p; /^tool ($/,/^)$/s/^\t//p' "$module/go.mod")
[ ! -e "$module/main.go" ] || programs+=(.)
version=$(awk -v tool="${programs[0]}/" '$1 == "require" { sub("require ", "\t") }
	$2 ~ /^v[0-9]/ && (tool == "./" || index(tool, $1 "/") == 1) { print substr($2, 2); exit }' "$module/go.mod")
what="${which#with-} $version"
how_long="3 to 10 minutes"
steps=(look_for_room fetch_sources build_visibly keep_sources)
# Other sources give another cache. Add 1 if the script makes something else of the same sources.
recipe=1-$(cat "$module"/* | sha256sum | cut -c 1-16)
room_mib=5000 # during the build; 100 or so stay

build() {
	local ldflags="-s -w"
	[ ! -e "$new/src/module/ldflags" ] || ldflags+=" $(cat "$new/src/module/ldflags")"
	with_go build -v -trimpath -o "$new/keep/bin/" -ldflags "$ldflags" "${programs[@]}"
}

keep_sources() {
	local from folder
	[ -e "$new/src/module/keep" ] || return 0
	while read -r from folder; do
		mkdir -p "$new/keep/source/$from/$(dirname "$folder")"
		cp -r "$(with_go list -m -f '{{.Dir}}' "$from")/$folder" "$new/keep/source/$from/$folder"
	done <"$new/src/module/keep"
}
