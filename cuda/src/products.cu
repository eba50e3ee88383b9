// Matrix products whose every number is one chain of fused multiply-adds over the depth, in order, begun at 0 or at what
// stands there: the sum that the engine computes on the processor, to the bit. So no tensor cores and no TF32, the depth is
// never split between threads, and no step is taken beyond its end (0 added to -0 is 0).
//
// The same text is compiled for the host by the tests, which run a block's threads one after another between barriers.

#include <stddef.h>

// A matrix of `left` rows or `right` columns, each as long as the depth. Neighbours in memory are neighbours along the depth
// where `along_depth` is set, and rows or columns next to each other where it is not.
struct Operand {
    const float* numbers;
    size_t stride;
    unsigned along_depth;
};

// Neighbours along the depth that are read together: two sectors of memory.
constexpr unsigned RUN = 16;

// Behind each row of a tile, so that threads that write down a column meet few of each other's banks.
constexpr unsigned PADDING = 4;

// What a block reads of one operand at a time: so many rows (or columns), and so much of the depth.
template <unsigned LINES, unsigned DEPTH, unsigned THREADS>
struct Tile {
    static constexpr unsigned PER_THREAD = LINES * DEPTH / THREADS;
    static constexpr unsigned WIDTH = LINES + PADDING;
    static_assert(LINES * DEPTH % THREADS == 0 && DEPTH % RUN == 0 && WIDTH % 4 == 0, "a tile is shared out evenly");

    // A thread's numbers of the tile that comes next.
    float next[PER_THREAD];

    static __device__ void place(const Operand& from, unsigned index, unsigned& line, unsigned& step) {
        if (from.along_depth) {
            line = index / RUN % LINES;
            step = index / RUN / LINES * RUN + index % RUN;
        } else {
            line = index % LINES;
            step = index / LINES;
        }
    }

    __device__ void read(const Operand& from, unsigned first_line, unsigned lines, unsigned first_step, unsigned depth) {
#pragma unroll
        for (unsigned part = 0; part < PER_THREAD; ++part) {
            unsigned line, step;
            place(from, threadIdx.x + part * THREADS, line, step);
            line += first_line;
            step += first_step;
            const size_t at = from.along_depth ? line * from.stride + step : step * from.stride + line;
            next[part] = line < lines && step < depth ? from.numbers[at] : 0.0f;
        }
    }

    __device__ void write(const Operand& from, float (*tile)[WIDTH]) const {
#pragma unroll
        for (unsigned part = 0; part < PER_THREAD; ++part) {
            unsigned line, step;
            place(from, threadIdx.x + part * THREADS, line, step);
            tile[step][line] = next[part];
        }
    }
};

// A block computes `ROWS` x `COLUMNS` numbers of the product, and each of its threads `OWN` x `OWN` of them, in quads
// of neighbours, which are read from the tiles in one go.
template <unsigned ROWS, unsigned COLUMNS, unsigned DEPTH, unsigned OWN>
struct Block {
    static constexpr unsigned THREADS = ROWS / OWN * (COLUMNS / OWN);
    static constexpr unsigned QUADS = OWN / 4;
    using Left = Tile<ROWS, DEPTH, THREADS>;
    using Right = Tile<COLUMNS, DEPTH, THREADS>;

    static __device__ void multiply(Operand left, Operand right, float* product, unsigned rows, unsigned depth,
                                    unsigned columns, unsigned add) {
        __shared__ __align__(16) float left_tiles[2][DEPTH][Left::WIDTH];
        __shared__ __align__(16) float right_tiles[2][DEPTH][Right::WIDTH];
        const unsigned first_row = blockIdx.y * ROWS, first_column = blockIdx.x * COLUMNS;
        const unsigned own_row = threadIdx.x / (COLUMNS / OWN) * 4, own_column = threadIdx.x % (COLUMNS / OWN) * 4;
        float sums[OWN][OWN];
#pragma unroll
        for (unsigned r = 0; r < OWN; ++r) {
#pragma unroll
            for (unsigned c = 0; c < OWN; ++c) {
                const unsigned row = first_row + line<ROWS>(own_row, r);
                const unsigned column = first_column + line<COLUMNS>(own_column, c);
                sums[r][c] = add && row < rows && column < columns ? product[size_t(row) * columns + column] : 0.0f;
            }
        }

        Left next_left;
        Right next_right;
        next_left.read(left, first_row, rows, 0, depth);
        next_right.read(right, first_column, columns, 0, depth);
        next_left.write(left, left_tiles[0]);
        next_right.write(right, right_tiles[0]);
        __syncthreads();
        unsigned current = 0;
        for (unsigned start = 0; start < depth; start += DEPTH) {
            const bool more = depth - start > DEPTH;
            if (more) {
                next_left.read(left, first_row, rows, start + DEPTH, depth);
                next_right.read(right, first_column, columns, start + DEPTH, depth);
            }
            const unsigned steps = more ? DEPTH : depth - start;
            sum(left_tiles[current], right_tiles[current], own_row, own_column, steps, sums);
            current = 1 - current;
            if (more) {
                next_left.write(left, left_tiles[current]);
                next_right.write(right, right_tiles[current]);
            }
            __syncthreads();
        }

#pragma unroll
        for (unsigned r = 0; r < OWN; ++r) {
#pragma unroll
            for (unsigned c = 0; c < OWN; ++c) {
                const unsigned row = first_row + line<ROWS>(own_row, r);
                const unsigned column = first_column + line<COLUMNS>(own_column, c);
                if (row < rows && column < columns) product[size_t(row) * columns + column] = sums[r][c];
            }
        }
    }

    // Where the `index`th of a thread's rows (or columns) is among the `LINES` of the block: the thread's quads are as far
    // apart as all threads' quads are wide.
    template <unsigned LINES>
    static __device__ unsigned line(unsigned first, unsigned index) {
        return index / 4 * (LINES / QUADS) + first + index % 4;
    }

    static __device__ void sum(const float (*left)[Left::WIDTH], const float (*right)[Right::WIDTH], unsigned own_row,
                               unsigned own_column, unsigned steps, float (&sums)[OWN][OWN]) {
#pragma unroll 4
        for (unsigned step = 0; step < steps; ++step) {
            float4 rows[QUADS], columns[QUADS];
#pragma unroll
            for (unsigned quad = 0; quad < QUADS; ++quad) {
                rows[quad] = *reinterpret_cast<const float4*>(&left[step][line<ROWS>(own_row, quad * 4)]);
                columns[quad] = *reinterpret_cast<const float4*>(&right[step][line<COLUMNS>(own_column, quad * 4)]);
            }
#pragma unroll
            for (unsigned row = 0; row < QUADS; ++row) {
#pragma unroll
                for (unsigned column = 0; column < QUADS; ++column) {
                    multiply_add(rows[row].x, columns[column], &sums[row * 4][column * 4]);
                    multiply_add(rows[row].y, columns[column], &sums[row * 4 + 1][column * 4]);
                    multiply_add(rows[row].z, columns[column], &sums[row * 4 + 2][column * 4]);
                    multiply_add(rows[row].w, columns[column], &sums[row * 4 + 3][column * 4]);
                }
            }
        }
    }

    static __device__ void multiply_add(float row, float4 columns, float* sums) {
        sums[0] = __fmaf_rn(row, columns.x, sums[0]);
        sums[1] = __fmaf_rn(row, columns.y, sums[1]);
        sums[2] = __fmaf_rn(row, columns.z, sums[2]);
        sums[3] = __fmaf_rn(row, columns.w, sums[3]);
    }
};

// For many rows, and for few, where the right matrix is read about once. `kernel.rs` knows their sizes.
using Large = Block<128, 128, 16, 8>;
using Flat = Block<16, 64, 32, 4>;

extern "C" __global__ void __launch_bounds__(Large::THREADS, 2)
    multiply_large(Operand left, Operand right, float* product, unsigned rows, unsigned depth, unsigned columns, unsigned add) {
    Large::multiply(left, right, product, rows, depth, columns, add);
}

extern "C" __global__ void __launch_bounds__(Flat::THREADS)
    multiply_flat(Operand left, Operand right, float* product, unsigned rows, unsigned depth, unsigned columns, unsigned add) {
    Flat::multiply(left, right, product, rows, depth, columns, add);
}
