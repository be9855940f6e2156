#!/usr/bin/env bash
# Runs a sweep, or what is left of it if it is in the storage: the command of a job that may be started again.
#
#   deploy/run_or_resume.sh NAME STORAGE --space SPACE [more flags of a new sweep] [-- flags of every run]
#
# Flags of a new sweep are ignored where it is resumed: it continues as it began. Those after `--`, such as --max-hours
# and --data, are used by every run.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
if [[ $# -lt 2 ]]; then
    echo "usage: $0 NAME STORAGE [flags of a new sweep] [-- flags of every run]" >&2
    exit 2
fi
name=$1 storage=$2
shift 2
begin=()
while [[ $# -gt 0 && $1 != -- ]]; do
    begin+=("$1")
    shift
done
[[ $# -gt 0 ]] && shift
code=0
python - "$storage" "$name" <<'END' || code=$?
import sys

from mtlib.runtime.storage import is_file, join_location, open_folder

try:
    sys.exit(0 if is_file(open_folder(join_location(*sys.argv[1:])), "sweep.json") else 3)
except ValueError as error:
    print(f"error: {error}", file=sys.stderr)
    sys.exit(2)
END
case $code in
    0) exec python sweeps/run.py --resume "$name" --storage "$storage" --address auto "$@" ;;
    3) exec python sweeps/run.py --name "$name" --storage "$storage" --address auto "${begin[@]}" "$@" ;;
    *) exit "$code" ;; # the storage cannot be read, as was printed
esac
