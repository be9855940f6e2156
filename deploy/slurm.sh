#!/usr/bin/env bash
# A sweep on whole nodes of a Slurm cluster; a requeued job, or another with the same NAME, goes on with what is left.
#
#   sbatch --nodes 4 --time 24:00:00 deploy/slurm.sh NAME STORAGE --space SPACE [more flags] -- --max-hours 23
#
# Submit it from the project's folder, which the nodes must share, or have at the same path, with its .venv.
#SBATCH --job-name=sweep
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --gpus-per-node=1
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append

set -euo pipefail
cd "${SLURM_SUBMIT_DIR}"
. .venv/bin/activate

# One token for this job's Ray, which srun passes on by the environment.
RAY_AUTH_TOKEN=$(python -c 'import secrets; print(secrets.token_hex(32))')
export RAY_AUTH_MODE=token RAY_AUTH_TOKEN
# Seconds for all nodes to start Ray from a shared disk.
export RAY_SYMMETRIC_RUN_CLUSTER_WAIT_TIMEOUT=600

read -r head < <(scontrol show hostnames "${SLURM_JOB_NODELIST}")
# `--exclusive` above is for `ray symmetric-run`, which ends every Ray of this user on its node. A step has no more CPUs
# than it asks for.
srun --cpus-per-task="${SLURM_CPUS_ON_NODE}" \
    ray symmetric-run --address "${head}:6379" --min-nodes "${SLURM_JOB_NUM_NODES}" --num-cpus "${SLURM_CPUS_ON_NODE}" \
    -- deploy/run_or_resume.sh "$@"
