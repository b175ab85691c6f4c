// Small kernels that each show one effect of how warps, memory and multiprocessors work.
// Compiled by NVRTC in warp_effects.py; BRANCHES and the like are given there.
extern "C" {

// Each thread reads one float, `stride` floats after its neighbour's, `offset` floats shifted.
__global__ void strided(const float* in, float* out, long n, long stride, long offset) {
  long i = blockIdx.x * (long)blockDim.x + threadIdx.x;
  if (i < n) out[i] = in[i * stride + offset];
}

// One warp reads shared memory; the next address depends on the last value (which is 0).
__global__ void banks(int* out, int stride, int hops) {
  __shared__ int s[4096];
  for (int i = threadIdx.x; i < 4096; i += 32) s[i] = 0;
  __syncwarp();
  int at = (threadIdx.x * stride) & 4095;
  for (int i = 0; i < 64; i++) at += s[at];
  long long begin = clock64();
#pragma unroll 16
  for (int i = 0; i < hops; i++) at += ((volatile int*)s)[at];
  long long end = clock64();
  if (threadIdx.x == 0) out[0] = (int)((end - begin) / 1);
  if (at == -1) out[1] = at;
}

#define WORK(b) for (int i = 0; i < hops; i++) asm volatile("fma.rn.f32 %0, %0, 0f3F80000" #b ", 0f3A00000" #b ";" : "+f"(x));
#define CASE(c, b) case c: WORK(b) break;
// Lanes take `branches` different ways through equal amounts of work.
__global__ void divergent(float* out, int branches, int hops) {
  float x = threadIdx.x;
  switch ((threadIdx.x & 31) % branches) {
    CASE(0, 0) CASE(1, 1) CASE(2, 2) CASE(3, 3) CASE(4, 4) CASE(5, 5) CASE(6, 6) CASE(7, 7)
    CASE(8, 8) CASE(9, 9) CASE(10, A) CASE(11, B) CASE(12, C) CASE(13, D) CASE(14, E) CASE(15, F)
#undef WORK
#define WORK(b) for (int i = 0; i < hops; i++) asm volatile("fma.rn.f32 %0, %0, 0f3F80001" #b ", 0f3A00001" #b ";" : "+f"(x));
    CASE(16, 0) CASE(17, 1) CASE(18, 2) CASE(19, 3) CASE(20, 4) CASE(21, 5) CASE(22, 6) CASE(23, 7)
    CASE(24, 8) CASE(25, 9) CASE(26, A) CASE(27, B) CASE(28, C) CASE(29, D) CASE(30, E) CASE(31, F)
  }
  out[blockIdx.x * blockDim.x + threadIdx.x] = x;
}

// A copy by a fixed number of resident blocks: how many threads hide the latency?
__global__ void copy4(const float* in, float* out, long n) {
  long step = (long)gridDim.x * blockDim.x;
  for (long i = blockIdx.x * (long)blockDim.x + threadIdx.x; i < n; i += step) out[i] = in[i];
}
__global__ void copy16(const float4* in, float4* out, long n) {
  long step = (long)gridDim.x * blockDim.x;
  for (long i = blockIdx.x * (long)blockDim.x + threadIdx.x; i < n; i += step) out[i] = in[i];
}
__global__ void copy16x4(const float4* in, float4* out, long n) {
  long step = (long)gridDim.x * blockDim.x;
  for (long i = blockIdx.x * (long)blockDim.x + threadIdx.x; i + 3 * step < n; i += 4 * step) {
    float4 a = in[i], b = in[i + step], c = in[i + 2 * step], d = in[i + 3 * step];
    out[i] = a; out[i + step] = b; out[i + 2 * step] = c; out[i + 3 * step] = d;
  }
}

__global__ void atomics(int* counters, int mask, long n) {
  long i = blockIdx.x * (long)blockDim.x + threadIdx.x;
  if (i < n) atomicAdd(&counters[((int)(i * 2654435761u)) & mask], 1);
}
__global__ void atomics_float(float* counters, int mask, long n) {
  long i = blockIdx.x * (long)blockDim.x + threadIdx.x;
  if (i < n) atomicAdd(&counters[((int)(i * 2654435761u)) & mask], 1.0f);
}

// One thread follows pointers: the time of one load that nothing hides.
__global__ void chase(const int* next, int* out, int hops) {
  int at = 0;
  for (int i = 0; i < hops; i++) at = next[at];
  out[0] = at;
}
__global__ void chase_shared(int* out, int hops) {
  __shared__ int s[1024];
  if (threadIdx.x == 0) {
    for (int i = 0; i < 1024; i++) s[i] = (i * 17 + 1) & 1023;
    int at = 0;
    for (int i = 0; i < hops; i++) at = ((volatile int*)s)[at];
    out[0] = at;
  }
}

__global__ void transpose_naive(const float* in, float* out, int n) {
  int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
  for (int j = 0; j < 32; j += 8) out[(long)x * n + y + j] = in[(long)(y + j) * n + x];
}
__global__ void transpose_shared(const float* in, float* out, int n) {
  __shared__ float tile[32][32];
  int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
  for (int j = 0; j < 32; j += 8) tile[threadIdx.y + j][threadIdx.x] = in[(long)(y + j) * n + x];
  __syncthreads();
  x = blockIdx.y * 32 + threadIdx.x; y = blockIdx.x * 32 + threadIdx.y;
  for (int j = 0; j < 32; j += 8) out[(long)(y + j) * n + x] = tile[threadIdx.x][threadIdx.y + j];
}
__global__ void transpose_padded(const float* in, float* out, int n) {
  __shared__ float tile[32][33];
  int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
  for (int j = 0; j < 32; j += 8) tile[threadIdx.y + j][threadIdx.x] = in[(long)(y + j) * n + x];
  __syncthreads();
  x = blockIdx.y * 32 + threadIdx.x; y = blockIdx.x * 32 + threadIdx.y;
  for (int j = 0; j < 32; j += 8) out[(long)(y + j) * n + x] = tile[threadIdx.x][threadIdx.y + j];
}

__global__ void matmul_naive(const float* a, const float* b, float* c, int n) {
  int col = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
  float sum = 0;
  for (int k = 0; k < n; k++) sum += a[(long)row * n + k] * b[(long)k * n + col];
  c[(long)row * n + col] = sum;
}
__global__ void matmul_tiled(const float* a, const float* b, float* c, int n) {
  __shared__ float sa[32][32], sb[32][32];
  int col = blockIdx.x * 32 + threadIdx.x, row = blockIdx.y * 32 + threadIdx.y;
  float sum = 0;
  for (int t = 0; t < n; t += 32) {
    sa[threadIdx.y][threadIdx.x] = a[(long)row * n + t + threadIdx.x];
    sb[threadIdx.y][threadIdx.x] = b[(long)(t + threadIdx.y) * n + col];
    __syncthreads();
#pragma unroll
    for (int k = 0; k < 32; k++) sum += sa[threadIdx.y][k] * sb[k][threadIdx.x];
    __syncthreads();
  }
  c[(long)row * n + col] = sum;
}

// Equal blocks: the time is the number of waves.
__global__ void spin(float* out, int hops) {
  float x = threadIdx.x;
  for (int i = 0; i < hops; i++) asm volatile("fma.rn.f32 %0, %0, 0f3F800001, 0f3A000001;" : "+f"(x));
  if (x == -1.0f) out[0] = x;
}

// Blocks that each hold their place for a fixed time, whatever else runs beside them.
__global__ void hold(float* out, int cycles) {
  long long begin = clock64();
  while (clock64() - begin < cycles) { }
  if (cycles == -1) out[0] = 0;
}

// Eight independent chains of one instruction: its rate on a full machine.
#define RATE(name, type, reg, text)                                                          \
  __global__ void name(float* out, int hops) {                                               \
    type x[8];                                                                               \
    for (int j = 0; j < 8; j++) x[j] = (type)(threadIdx.x + j);                              \
    for (int i = 0; i < hops; i++) {                                                         \
      _Pragma("unroll") for (int j = 0; j < 8; j++) asm volatile(text : "+" reg(x[j]));      \
    }                                                                                        \
    type sum = 0;                                                                            \
    for (int j = 0; j < 8; j++) sum += x[j];                                                 \
    if (sum == (type)-12345) out[0] = 1;                                                     \
  }
RATE(rate_fma_f32, float, "f", "fma.rn.f32 %0, %0, %0, %0;")
RATE(rate_fma_f64, double, "d", "fma.rn.f64 %0, %0, %0, %0;")
RATE(rate_fma_f16x2, unsigned, "r", "fma.rn.f16x2 %0, %0, %0, %0;")
RATE(rate_mad_s32, int, "r", "mad.lo.s32 %0, %0, %0, %0;")
RATE(rate_add_s32, int, "r", "add.s32 %0, %0, %0;")
RATE(rate_exp2_f32, float, "f", "ex2.approx.f32 %0, %0;")

// Three ways to add up an array.
__global__ void sum_atomic(const float* in, float* out, long n) {
  long step = (long)gridDim.x * blockDim.x;
  for (long i = blockIdx.x * (long)blockDim.x + threadIdx.x; i < n; i += step) atomicAdd(out, in[i]);
}
__global__ void sum_thread(const float* in, float* out, long n) {
  long step = (long)gridDim.x * blockDim.x;
  float x = 0;
  for (long i = blockIdx.x * (long)blockDim.x + threadIdx.x; i < n; i += step) x += in[i];
  atomicAdd(out, x);
}
__global__ void sum_warp(const float* in, float* out, long n) {
  long step = (long)gridDim.x * blockDim.x;
  float x = 0;
  for (long i = blockIdx.x * (long)blockDim.x + threadIdx.x; i < n; i += step) x += in[i];
  for (int d = 16; d; d /= 2) x += __shfl_down_sync(0xffffffffu, x, d);
  if ((threadIdx.x & 31) == 0) atomicAdd(out, x);
}
}
