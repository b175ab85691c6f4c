// The kernels of examples/lens in CUDA C, and accesses of 4, 8 and 16 bytes to shared memory, for a
// profiler to count what the lens predicts. Shared memory is volatile, so that the compiler keeps
// each access as it is written.
//
//   nvcc -arch=native -o kernels kernels.cu && ncu --csv --page raw --metrics ... ./kernels
#include <cstdio>

#define N 64
#define TILE 32
#define ROWS 8
#define M 32
#define PART 16

__global__ void copy(const float* source, float* target) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  target[i] = source[i];
}

__global__ void strided_copy(const float* source, float* target, int stride) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  target[i] = source[i * stride];
}

__global__ void shifted_copy(const float* source, float* target) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  target[i] = source[i + 1];
}

__global__ void naive(const float* source, float* target) {
  int x = blockIdx.x * TILE + threadIdx.x;
  for (int row = 0; row < TILE; row += ROWS) {
    int y = blockIdx.y * TILE + threadIdx.y + row;
    target[x * N + y] = source[y * N + x];
  }
}

template <int WIDTH>
__device__ void through_tile(const float* source, float* target) {
  __shared__ volatile float tile[TILE][WIDTH];
  int tx = threadIdx.x, ty = threadIdx.y;
  int x = blockIdx.x * TILE + tx, y = blockIdx.y * TILE + ty;
  for (int row = 0; row < TILE; row += ROWS) tile[ty + row][tx] = source[(y + row) * N + x];
  __syncthreads();
  x = blockIdx.y * TILE + tx;
  y = blockIdx.x * TILE + ty;
  for (int row = 0; row < TILE; row += ROWS) target[(y + row) * N + x] = tile[tx][ty + row];
}

__global__ void tiled(const float* source, float* target) { through_tile<TILE>(source, target); }
__global__ void padded(const float* source, float* target) {
  through_tile<TILE + 1>(source, target);
}

__global__ void straight(const float* a, const float* b, float* c) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  float total = 0;
#pragma unroll 1
  for (int k = 0; k < M; k++) total += a[y * M + k] * b[k * M + x];
  c[y * M + x] = total;
}

__global__ void product(const float* a, const float* b, float* c) {
  __shared__ volatile float a_tile[PART][PART], b_tile[PART][PART];
  int tx = threadIdx.x, ty = threadIdx.y;
  int x = blockIdx.x * PART + tx, y = blockIdx.y * PART + ty;
  float total = 0;
#pragma unroll 1
  for (int begin = 0; begin < M; begin += PART) {
    a_tile[ty][tx] = a[y * M + begin + tx];
    b_tile[ty][tx] = b[(begin + ty) * M + x];
    __syncthreads();
#pragma unroll 1
    for (int k = 0; k < PART; k++) total += a_tile[ty][k] * b_tile[k][tx];
    __syncthreads();
  }
  c[y * M + x] = total;
}

__global__ void by_lane(float* data) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  volatile float* out = data;
  if (i % 2 == 0) out[i] = 1; else out[i + 128] = 2;
}

// One load of `BYTES` by each lane from 16 KiB of shared memory at `start + step * lane` elements,
// where lanes from 16 on are `jump` elements further.
template <int WORDS>
__device__ unsigned load(unsigned address);
template <>
__device__ unsigned load<1>(unsigned address) {
  unsigned a;
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(a) : "r"(address));
  return a;
}
template <>
__device__ unsigned load<2>(unsigned address) {
  unsigned a, b;
  asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(a), "=r"(b) : "r"(address));
  return a + b;
}
template <>
__device__ unsigned load<4>(unsigned address) {
  unsigned a, b, c, d;
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(a), "=r"(b), "=r"(c), "=r"(d) : "r"(address));
  return a + b + c + d;
}

template <int WORDS, int STEP, int JUMP>
__global__ void shared_load(unsigned* out) {
  __shared__ unsigned words[4096];
  if (out == nullptr) words[threadIdx.x] = 1;
  unsigned base = (unsigned)__cvta_generic_to_shared(words);
  unsigned element = threadIdx.x * STEP + (threadIdx.x >= 16 ? JUMP : 0);
  out[threadIdx.x] = load<WORDS>(base + element * WORDS * 4);
}

int main() {
  float *a, *b, *c;
  cudaMalloc(&a, 1 << 20);
  cudaMalloc(&b, 1 << 20);
  cudaMalloc(&c, 1 << 20);
  cudaMemset(a, 0, 1 << 20);
  cudaMemset(b, 0, 1 << 20);
  dim3 grid(N / TILE, N / TILE), block(TILE, ROWS), parts(M / PART, M / PART), part(PART, PART);
  copy<<<8, 128>>>(a, c);
  strided_copy<<<8, 128>>>(a, c, 32);
  shifted_copy<<<8, 128>>>(a, c);
  naive<<<grid, block>>>(a, c);
  tiled<<<grid, block>>>(a, c);
  padded<<<grid, block>>>(a, c);
  straight<<<parts, part>>>(a, b, c);
  product<<<parts, part>>>(a, b, c);
  by_lane<<<2, 64>>>(c);
  unsigned* out = (unsigned*)c;
#define STEPS(W)                                                                              \
  shared_load<W, 0, 0><<<1, 32>>>(out); shared_load<W, 1, 0><<<1, 32>>>(out);                 \
  shared_load<W, 2, 0><<<1, 32>>>(out); shared_load<W, 3, 0><<<1, 32>>>(out);                 \
  shared_load<W, 4, 0><<<1, 32>>>(out); shared_load<W, 8, 0><<<1, 32>>>(out);                 \
  shared_load<W, 16, 0><<<1, 32>>>(out); shared_load<W, 17, 0><<<1, 32>>>(out);               \
  shared_load<W, 1, -16><<<1, 32>>>(out); shared_load<W, 1, 16><<<1, 32>>>(out);              \
  shared_load<W, 0, 1><<<1, 32>>>(out); shared_load<W, 0, 32><<<1, 32>>>(out);
  STEPS(1) STEPS(2) STEPS(4)
  shared_load<1, 32, 0><<<1, 32>>>(out);
  shared_load<1, 33, 0><<<1, 32>>>(out);
  shared_load<2, 32, 0><<<1, 32>>>(out);
  cudaError_t error = cudaDeviceSynchronize();
  if (error != cudaSuccess) printf("%s\n", cudaGetErrorString(error));
  return error != cudaSuccess;
}
