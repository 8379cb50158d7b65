#!/bin/sh
# Checks every #include "layer/file.h" below src/ against LAYERS, and that only misc/params.cc reads
# the environment. Usage: check_layers.sh LAYERS src
table=$1 src=$2

includes() { (cd "$src" && grep -rn --include='*.h' --include='*.cc' '^#include "' . | grep -v '^./include/') | sed 's|^\./||'; }

includes | awk -F: -v table="$table" '
  BEGIN {
    while ((getline line < table) > 0) {
      sub(/#.*/, "", line)
      n = split(line, word, /[: ]+/)
      for (i = 1; i <= n; i++) if (word[i] != "") allowed[word[1], word[i]] = 1
    }
  }
  {
    split($1, path, "/"); split($3, quoted, "\""); split(quoted[2], header, "/")
    if (quoted[2] !~ "/") complaint = "name the layer: \"" path[1] "/" quoted[2] "\""
    else if (!((path[1], header[1]) in allowed)) complaint = path[1] " may not include " header[1]
    else next
    print $1 ":" $2 ": " complaint
    bad = 1
  }
  END { exit bad }' || exit 1

if grep -rn --include='*.h' --include='*.cc' 'getenv(' "$src" | grep -v "^$src/misc/params.cc:"; then
  echo "only misc/params.cc reads the environment"
  exit 1
fi

# Plugins see the installed ABI headers and themselves, nothing else of src/.
! grep -rn '^#include "' plugins | grep -v -e '"include/nccl.h"' -e '"include/plugin/' -e '"plugins/' -e '"hwy/'
