#!/usr/bin/env bash
# Runs a sweep, or what is left of it if its folder is in the storage: the command of a job that may be started again.
#
#   deploy/run_or_resume.sh NAME STORAGE --space SPACE [more flags of a new sweep]
#
# Flags of a new sweep are ignored where it is resumed: it continues as it began.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
name=$1 storage=$2
shift 2
if python sweeps/status.py "$name" --storage "$storage" >/dev/null 2>&1; then
    exec python sweeps/run.py --resume "$name" --storage "$storage" --address auto
fi
exec python sweeps/run.py --name "$name" --storage "$storage" --address auto "$@"
