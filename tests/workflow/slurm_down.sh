#!/usr/bin/env bash
# Stops what slurm_up.sh started in DIR, and nothing else.
set -uo pipefail
S=${1:?folder given to slurm_up.sh}
for daemon in slurmd slurmctld munged; do
  [ -f "$S/run/$daemon.pid" ] && kill "$(cat "$S/run/$daemon.pid")" 2>/dev/null
done
# where init does not reap, a stopped daemon stays listed: wait for the pid files, not for the processes
for _ in $(seq 40); do
  ls "$S"/run/*.pid > /dev/null 2>&1 || break
  sleep 0.25
done
[ "$(readlink /etc/slurm/slurm.conf)" = "$S/slurm.conf" ] && rm -f /etc/slurm/slurm.conf
exit 0
