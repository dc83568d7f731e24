#!/bin/bash
#SBATCH --ntask-per-node=4
# SBATCH --time=1:00:00
#SBATCH --output=$HOME/log.txt
#SBATCH --time=one --mem=16Q
echo start
#SBATCH --nodes=4
# cluster: generic
# expect: script-unknown-option 2
# expect: script-missed-option 3
# expect: script-variable-in-option 4
# expect: script-late-option 7
# expect: script-bad-value 5
# expect: script-bad-value 5
# expect: script-no-launch 0
