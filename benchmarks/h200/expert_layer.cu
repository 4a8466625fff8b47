// The entry that benchmarks/h200/expert_layer.py launches.
#include "../../kernels/cuda/experts_fp8_row.cuh"

extern "C" __global__ void __launch_bounds__(ew::experts::THREADS, 1)
    experts_row(ew::experts::Weights weights, const float* x, const uint32_t* expert_ids, const float* expert_weights,
                const float* shared_weight, float* h, uint32_t* counter, float* y) {
    ew::experts::experts_row(weights, x, expert_ids, expert_weights, shared_weight, h, counter, y);
}
