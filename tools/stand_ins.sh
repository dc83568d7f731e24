# SPDX-License-Identifier: Apache-2.0
# Makes stand-ins for NVIDIA's libraries. PyPI has PyTorch for CUDA only, which does not load without these libraries, some 2 GB. Work on
# a CPU never calls most of them, so functions that fail take their place. A script sources this file after tools/common.sh.

# stand_in FOLDER NAME SYMBOLS: makes the library NAME with the symbols that it should have, by nm's output SYMBOLS. Each function
# returns an error. A symbol belongs to the library if its version is the library's name, or if it begins like that name. So ncclSend
# belongs to libnccl.so.2.
stand_in() {
  local stem=${2#lib} work
  stem=${stem%%[._]*}
  work=$(mktemp -d)
  awk -v name="$2" -v stem="${stem,,}" -v versions="$work/versions" '
    NF < 2 { next }
    { split($2, part, "@") }
    (part[2] == name) || (index(tolower(part[1]), stem) == 1 && !(part[1] in version_of)) {
      # One library names a symbol with its version, and another without.
      version_of[part[1]] = part[2] ? part[2] : name
    }
    END {
      for (symbol in version_of) {
        print "int " symbol "(void) { return 1; }"
        of[version_of[symbol]] = of[version_of[symbol]] symbol "; "
      }
      if (!(name in of)) of[name] = "lockstep_stand_in; "
      for (version in of) print version " { global: " of[version] "};" >versions
    }' <<<"$3" >"$work/functions.c"
  "${CC:-cc}" -shared -fPIC -o "$1/$2" -Wl,-soname,"$2" -Wl,--version-script,"$work/versions" "$work/functions.c"
  rm -r "$work"
}

# stand_in_for_missing FOLDER: makes a stand-in for each of NVIDIA's libraries that a shared object of FOLDER names and that pip did not
# install. The system's own library does not count, because it may have another version.
stand_in_for_missing() {
  local wanted name
  # Stand-ins made for an earlier PyTorch may lack symbols that this one needs.
  [[ ! -f $1/stand_ins ]] || (cd "$1" && xargs -r rm -f <stand_ins && rm stand_ins)
  wanted=$(nm -D --undefined-only "$1"/lib*.so)
  for name in $(readelf -d "$1"/lib*.so | sed -nE 's/.*\(NEEDED\).*\[(lib(cu|nv|nccl)[^]]*)\]/\1/p' | grep -vFx libcuda.so.1 | sort -u); do
    if [[ ! -e $1/$name ]] && ! compgen -G "$1/../../nvidia/*/lib/$name" >/dev/null; then
      stand_in "$1" "$name" "$wanted"
      echo "$name" >>"$1/stand_ins"
    fi
  done
}
