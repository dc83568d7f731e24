#SBATCH --nodes=1
module load python
python -u a.py
# cluster: generic
# expect: script-no-interpreter 1
# expect: script-no-time 0
