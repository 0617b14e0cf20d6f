#!/bin/bash
# Llama 3 70B on 64 nodes with Megatron-LM, to be read: fleetcube explain example:pretrain-llama-3-70b
#SBATCH --nodes=64 --ntasks-per-node=8
NODES=${SLURM_NNODES:-64}
GPUS_PER_NODE=8

MODEL=(
    --num-layers 80
    --hidden-size 8192
    --ffn-hidden-size 28672
    --num-attention-heads 64
    --group-query-attention --num-query-groups 8
    --swiglu
    --normalization RMSNorm
    --position-embedding-type rope
    --untie-embeddings-and-output-weights
    --vocab-size 128256
    --seq-length 8192
    --max-position-embeddings 8192
)
TRAINING=(
    --bf16
    --micro-batch-size 1
    --global-batch-size 1024
    --train-samples 183105469 # 1.5e12 tokens
    --lr 1.5e-4
)
PARALLEL=(
    --tensor-model-parallel-size 8 --sequence-parallel
    --pipeline-model-parallel-size 8
    --use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather
    --recompute-granularity full --recompute-method uniform --recompute-num-layers 1
)

torchrun --nnodes "$NODES" --nproc-per-node "$GPUS_PER_NODE" pretrain_gpt.py \
    "${MODEL[@]}" "${TRAINING[@]}" "${PARALLEL[@]}" --data-path "$1"
