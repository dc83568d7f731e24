#!/bin/sh
#SBATCH --time=10 --ntasks=4 --mem=16G
# A comment with srun python in it, and "quotes.
module load python
cat <<'END' > config.txt
srun python bad.py
export MASTER_PORT=1
END
srun python -u work.py
# cluster: generic
