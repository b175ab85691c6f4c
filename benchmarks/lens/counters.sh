#!/bin/bash
# Counts on a real GPU what the lens predicts: `bash benchmarks/lens/counters.sh FOLDER` writes
# FOLDER/kernels.csv and FOLDER/triton.csv. Needs nvcc, Nsight Compute, PyTorch and Triton.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
out=$1
mkdir -p "$out"
metrics=l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum,l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum
metrics+=,l1tex__t_requests_pipe_lsu_mem_global_op_st.sum,l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum
metrics+=,smsp__inst_executed_op_shared_ld.sum,smsp__inst_executed_op_shared_st.sum
metrics+=,l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum,l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum
metrics+=,smsp__thread_inst_executed_per_inst_executed.ratio
nvcc -arch=native -o "$out/kernels.bin" "$here/kernels.cu"
ncu --csv --page raw --metrics "$metrics" "$out/kernels.bin" > "$out/kernels.csv"
rm "$out/kernels.bin"
cat > "$out/run.py" <<'PYTHON'
import sys

import torch

torch.set_default_device("cuda")
sys.path.insert(0, sys.argv[1])
import triton_copies

triton_copies.launch()
PYTHON
ncu --csv --page raw --metrics "$metrics" --kernel-name "regex:^(add|strided|transpose)$" \
  python3 "$out/run.py" "$here/../../examples/lens" > "$out/triton.csv"
rm "$out/run.py"
