#!/usr/bin/env bash
# A real SLURM on one machine, for tests: munged, slurmctld, slurmd; no slurmdbd, no cgroups. Needs root.
#   slurm_up.sh DIR
set -euo pipefail
S=${1:?folder for keys, logs and state}
H=$(hostname -s)
mkdir -p "$S"/{state,spool,log,run} /etc/slurm
# nproc would obey OMP_NUM_THREADS
cpus=$(getconf _NPROCESSORS_ONLN)
mem=$(awk '/MemTotal/{print int($2/1024*0.9)}' /proc/meminfo)
[ -f "$S/munge.key" ] || dd if=/dev/urandom of="$S/munge.key" bs=128 count=1 status=none
chmod 600 "$S/munge.key"
chmod 755 "$S" "$S/run"
chmod 700 "$S/log" "$S/state"
cat > "$S/slurm.conf" <<EOF
ClusterName=ci
SlurmctldHost=$H(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$S/run/munge.socket
CryptoType=crypto/munge
SlurmctldPort=16817
SlurmdPort=16818
StateSaveLocation=$S/state
SlurmdSpoolDir=$S/spool
SlurmctldPidFile=$S/run/slurmctld.pid
SlurmdPidFile=$S/run/slurmd.pid
SlurmctldLogFile=$S/log/slurmctld.log
SlurmdLogFile=$S/log/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=1,bf_interval=1
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
ReturnToService=2
MinJobAge=600
MaxArraySize=1001
KillWait=2
NodeName=$H NodeAddr=127.0.0.1 CPUs=$cpus RealMemory=$mem State=UNKNOWN
PartitionName=main Nodes=$H Default=YES MaxTime=INFINITE State=UP OverSubscribe=NO
EOF
export SLURM_CONF="$S/slurm.conf"
# the job-step plugin strips SLURM_* from a job's environment, so the file must be found without it
ln -sfn "$S/slurm.conf" /etc/slurm/slurm.conf
munged --force --key-file "$S/munge.key" --socket "$S/run/munge.socket" \
  --pid-file "$S/run/munged.pid" --log-file "$S/log/munged.log" --seed-file "$S/run/munge.seed"
slurmctld -c
slurmd -N "$H"
for _ in $(seq 60); do
  sinfo -h -o %T 2>/dev/null | grep -qE "idle|mixed|alloc" && exit 0
  sleep 0.5
done
echo "SLURM did not come up; logs are in $S/log" >&2
exit 1
