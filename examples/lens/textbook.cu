// Kernels that people learn with, in CUDA C: one element a thread, tiles in shared memory, a tree of
// sums, a histogram.
//
//   gpuscope lens examples/lens/textbook.cu:vecAdd --grid 8 --block 128 --arg n=1000
#include <cstdio>

#define TILE 16
#define SIDE 32
#define ROWS 8
#define N 64

__global__ void vecAdd(const float* a, const float* b, float* c, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) c[i] = a[i] + b[i];
}

__global__ void matmul(const float* __restrict__ a, const float* __restrict__ b, float* c, int n) {
  __shared__ float a_tile[TILE][TILE], b_tile[TILE][TILE];
  int tx = threadIdx.x, ty = threadIdx.y;
  int x = blockIdx.x * TILE + tx, y = blockIdx.y * TILE + ty;
  float total = 0.0f;
  for (int begin = 0; begin < n; begin += TILE) {
    a_tile[ty][tx] = a[y * n + begin + tx];
    b_tile[ty][tx] = b[(begin + ty) * n + x];
    __syncthreads();
    for (int k = 0; k < TILE; ++k) {
      total += a_tile[ty][k] * b_tile[k][tx];
    }
    __syncthreads();
  }
  c[y * n + x] = total;
}

__global__ void transposeNaive(const float* source, float* target) {
  int x = blockIdx.x * SIDE + threadIdx.x;
  for (int row = 0; row < SIDE; row += ROWS) {
    int y = blockIdx.y * SIDE + threadIdx.y + row;
    target[x * N + y] = source[y * N + x];
  }
}

__global__ void transposePadded(const float* source, float* target) {
  __shared__ float tile[SIDE][SIDE + 1];
  int tx = threadIdx.x, ty = threadIdx.y;
  int x = blockIdx.x * SIDE + tx, y = blockIdx.y * SIDE + ty;
  for (int row = 0; row < SIDE; row += ROWS) tile[ty + row][tx] = source[(y + row) * N + x];
  __syncthreads();
  x = blockIdx.y * SIDE + tx;
  y = blockIdx.x * SIDE + ty;
  for (int row = 0; row < SIDE; row += ROWS) target[(y + row) * N + x] = tile[tx][ty + row];
}

__global__ void reduceSum(const float* input, float* output, unsigned int n) {
  extern __shared__ float part[];
  unsigned int t = threadIdx.x;
  unsigned int i = blockIdx.x * blockDim.x + t;
  part[t] = i < n ? input[i] : 0.0f;
  __syncthreads();
  for (unsigned int s = blockDim.x / 2; s > 0; s >>= 1) {
    if (t < s) {
      part[t] += part[t + s];
    }
    __syncthreads();
  }
  if (t == 0) output[blockIdx.x] = part[0];
}

__global__ void histogram(const int* keys, int* bins, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  int step = blockDim.x * gridDim.x;
  while (i < n) {
    atomicAdd(&bins[keys[i] % 16], 1);
    i += step;
  }
}

int main() {
  printf("gpuscope lens runs the kernels without this.\n");
  return 0;
}
